"""Contract of what the daemon takes step by step: how each kind of agreement is computed once all parties consented, and ends."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from datetime import datetime, timedelta
from typing import ClassVar, Protocol, TypeVar

from dprelease.errors import Conflict, DpReleaseError, PeerUnavailable
from dprelease.files.durable import remove_folder
from dprelease.mpc.messages import Message
from dprelease.spec_base import moment
from dprelease.wire.boundary import LOCAL
from party_node.hospital import HospitalState
from party_node.outgoing.hub import HubConnection
from party_node.outgoing.office import Coordinator, Pending
from party_node.outgoing.relay import RelayCalls
from party_node.state.journal import FINAL, Proposed, Record
from party_node.state.session import SessionFolder

log = logging.getLogger(__name__)

FORGOTTEN = timedelta(days=90)
"""How long after the last day of decision on a release or run its session is kept: the coordinator tells of an end for 30 days."""


class Work(ABC):
    """All agreements of one kind at one party.

    Attributes:
        kind: of the proposals.
        folders: of the party's state, which have what is kept as long as one of this kind is under way.
        declines: errors after which we take no part any more, and say so.
    """

    kind: ClassVar[type[Proposed]]
    folders: ClassVar[tuple[str, ...]]
    declines: ClassVar[frozenset[type[DpReleaseError]]] = LOCAL

    def __init__(self, hospital: HospitalState, hub: HubConnection) -> None:
        self._hospital = hospital
        self._hub = hub

    @abstractmethod
    def advance(self, coordinator: Coordinator, record: Record, pending: Pending) -> str | None:
        """Compute what all parties consented to, which is checked first, as far as it goes now; for whom we wait, in words."""

    @abstractmethod
    def end(self, coordinator: Coordinator, record: Record, pending: Pending) -> None:
        """Take over that it is over at the office."""

    def sweep(self, now: datetime) -> None:
        """Erase what is kept of what is over here, or whose end nobody can have told us any more."""
        for name in self.folders:
            for path in sorted((self._hospital.settings.state / name).glob("*")):
                if self._is_over(path.name, now):
                    log.warning("%s %s: its session is removed", self.kind.noun, path.name[:12])
                    remove_folder(path)

    def _is_over(self, digest: str, now: datetime) -> bool:
        record = self._hospital.journal.get(digest)
        return record is None or record.status in FINAL or moment(record.proposal.expires) + FORGOTTEN < now

    def _relay(self, record: Record) -> RelayCalls:
        return RelayCalls(self._hub.channel(), record.digest, self._hospital.settings.daemon.stall_seconds)


Result = TypeVar("Result", covariant=True)


class Resumable(Protocol[Result]):
    """A session whose memory is its storage."""

    def receive(self, listed: tuple[Message, ...], /) -> tuple[Message, ...]:
        """Check all messages that are listed; ours that may be sent now."""

    def advance(self) -> str | Result | None:
        """Do a step: None; or say for whom we wait; or give the result."""


def take_turns(session: Resumable[Result], folder: SessionFolder, relay: RelayCalls) -> str | Result:
    """Go as far as it goes.

    Returns:
        For whom we wait, in words; or the session's result.

    Raises:
        IntegrityError: a peer sent something that does not belong to this session; it is named.
        PeerUnavailable: the relay is away, or forgets what it takes; try again.
    """
    put, messages = False, relay.messages()
    while True:
        ready = set(session.receive(messages))
        outgoing = [each for each in folder.outgoing() if each.message in ready]
        before, put = put, relay.put(outgoing, messages)
        if before and put:
            raise PeerUnavailable("the hub's relay does not list messages that it has just taken; try again")
        if put:
            messages = relay.messages()
        else:
            done = session.advance()
            if done is not None:
                return done


def put_back(record: Record, folder: SessionFolder, relay: RelayCalls) -> None:
    """Ours is done: give the relay what it has lost of our session, for peers that are not as far.

    Raises:
        PeerUnavailable: the relay is away; try again.
    """
    try:
        if relay.put(folder.outgoing(), relay.messages()):
            log.info("%s: the relay had lost messages of ours; they are there again", record.name)
    except Conflict as error:
        # All is over by now, or the offers of others are not back yet: nothing to mend here, and nothing happened.
        log.debug("%s: the relay takes no messages: %s", record.name, error.message)
