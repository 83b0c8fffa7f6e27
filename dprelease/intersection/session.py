"""One party's side of an alignment run as a state machine: messages in, messages out, until it knows the common elements.

    our session key -> our elements, others' passed on -> our table -> transcript -> keys of the tables -> the same result at all

Nothing here reads a disk or calls anybody. A `RoundStorage` keeps what must survive a restart, a `RunEnvironment` does what needs
somebody else: whoever drives the session hands both in, lists messages to it and sends what it gives.
Nothing is remembered between steps but what is in the storage: a restart goes on at the first step that is not done. A round
may be abandoned for the next until we have sent the keys of our table: before that, nobody can open anything. Afterwards the run
can only be resumed, for a second round would test other elements against the same announced size.

Source: docs/protocol.md, "Aligning".
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dprelease.errors import Irreparable
from dprelease.identity.signing import PrivateKey, PublicKey
from dprelease.intersection.key_value_store import Bytes
from dprelease.intersection.messages import check_message, transcript_digest
from dprelease.intersection.parallel import cores
from dprelease.intersection.ring import Ring
from dprelease.intersection.ring_pass import RingPass
from dprelease.intersection.tables import Tables
from dprelease.mpc.encryption import Draw
from dprelease.mpc.messages import Kind, Message, MessageHeader
from dprelease.mpc.round import Participant, Round, latest_round, session_key
from dprelease.mpc.storage import RoundStorage

_log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class RunEnvironment:
    """Environment that a session needs.

    Attributes:
        fetch: the body of a message for us, in pieces; it is what its sender signed, or the last piece raises.
        begin: called before our first points leave, again after a restart: no entry in the ledger, no bytes.
        elements: (n, 32) keyed identifiers of our patients, distinct, the same in the same order at every call.
    """

    fetch: Callable[[MessageHeader], Iterator[bytes]]
    begin: Callable[[], None]
    elements: Callable[[], Bytes]


@dataclass(frozen=True, repr=False)
class Common:
    """Result that a finished run leaves at a party.

    Attributes:
        positions: (k,) rows of its elements that all parties have, ascending.
        secret: 32 bytes that the parties of the run know and nobody else, the same at all of them.
    """

    positions: npt.NDArray[np.intp]
    secret: bytes


class _OurSide(RingPass, Tables):
    """All that a session asks for."""


class AlignmentSession(Participant[Ring]):
    """A run at one party.

    Args:
        ring: the public parameters.
        party, identity, keys, storage, draw: as of `Participant`.
        outside: what it needs of others.
        workers: processes to multiply in, if there is much to do; None for as many as there are cores.
    """

    final = frozenset[Kind](("key",))
    lost = "our state is older than what we have sent: this run may have ended already; begin another run"
    _storage: RoundStorage

    def __init__(
        self,
        ring: Ring,
        party: str,
        identity: PrivateKey,
        keys: Mapping[str, PublicKey],
        storage: RoundStorage,
        outside: RunEnvironment,
        draw: Draw = secrets.token_bytes,
        workers: int | None = None,
    ) -> None:
        super().__init__(ring, party, identity, keys, storage, draw)
        self._outside, self._workers = outside, workers or cores()

    def receive(self, listed: tuple[Message, ...]) -> tuple[Message, ...]:
        """Check all messages that are listed, of all rounds and parties, and join their latest round.

        Returns:
            Our messages that may be sent now; those that are listed already need not be sent again.

        Raises:
            IntegrityError: a message does not belong to this run; its sender is named. Or our state is older than what we
                have sent, or somebody begins anew after tables were opened.
        """
        for message in listed:
            check_message(message, self._schedule, self._keys)
        state = self._storage.state()
        if state is not None and self._frozen("key") and latest_round(listed) > state.round:
            raise Irreparable(
                "another hospital has lost its state of a run that can only be resumed; begin another run"
            )
        return self._join(listed)

    def advance(self) -> str | Common | None:
        """Do the first step that is not done; call it when all that `receive` gave is listed.

        Returns:
            None if a step was done: there is more to send. For whom we wait, in words. Or what the run leaves.

        Raises:
            IntegrityError: a party sent something that does not belong to this run; it is named.
            InvalidInput: our elements are not as many as announced, not distinct, or not those that the run began with.
            PeerUnavailable: a body cannot be fetched now; try again.
        """
        assert self._at is not None  # noqa: S101 - `receive` comes first
        state, at = self._at
        if at.find("hello", self._party) is None:
            self._storage.freeze([self._hello(state)])
            return None
        if missing := at.missing("hello"):
            return f"waits for {_names(missing)} to join the run"
        if self._frozen("result"):
            return self._compare(at)
        at.shared_seeds(
            self._party, session_key(state), "check"
        )  # a key that is none is found before anything is sealed to it
        exchange = _OurSide(
            at, self._party, self._identity, state, self._storage, self._outside.fetch, self._draw, self._workers
        )
        if self._pass_points(exchange, at):
            return None
        if missing := _holding_points(at):
            return f"waits for {_names(missing)} to pass the patients on"
        if missing := at.missing("table"):
            return f"waits for the table of {_names(missing)}"
        transcript = transcript_digest(
            self._schedule, at.session, [header for header in at.headers if header.kind in ("points", "table")]
        )
        at.check_transcripts(transcript)
        if at.find("transcript", self._party) is None:
            self._storage.freeze([at.message(self._identity, self._party, "transcript", payload=transcript)])
            return None
        if missing := at.missing("transcript"):
            return f"waits for {_names(missing)} to confirm what it has seen"
        if not self._frozen("key"):
            exchange.send_keys()
            return None
        others = self._schedule.others(self._party)
        if missing := tuple(other for other in others if at.find("key", other, self._party) is None):
            return f"waits for {_names(missing)} to open its table"
        result = exchange.open_tables(self._outside.elements())
        self._storage.freeze([at.message(self._identity, self._party, "result", payload=result)])
        return None

    def _pass_points(self, exchange: _OurSide, at: Round[Ring]) -> bool:
        """Do one thing with points that are here, or make our table of them; whether there was one."""
        before = self._schedule.before(self._party)
        if not self._frozen("points", self._party):
            elements = self._outside.elements()
            self._outside.begin()
            exchange.send_own(elements)
            return True
        for origin in self._schedule.others(self._party):
            if not self._frozen("points", origin) and at.find("points", before, self._party, origin):
                exchange.pass_on(origin)
                _log.info("run %s: passed the patients of %s on", self._schedule.task[:12], origin)
                return True
        if self._frozen("table") or not at.find("points", before, self._party, self._party):
            return False
        if self._storage.read_private("evaluations") is None:
            exchange.evaluate()
        exchange.send_table()
        return True

    def _compare(self, at: Round[Ring]) -> str | Common:
        """The common elements, once everybody has found the same ones."""
        if missing := at.missing("result"):
            return f"waits for {_names(missing)} to find the common patients"
        results = {header.payload for header in at.headers if header.kind == "result"}
        common, secret = self._storage.read_private("common"), self._storage.read_private("secret")
        if len(results) > 1 or common is None or secret is None:
            raise Irreparable("the hospitals did not find the same common patients; nothing is aligned")
        return Common(np.frombuffer(common, "<u8").astype(np.intp), bytes(secret))


def _holding_points(at: Round[Ring]) -> tuple[str, ...]:
    """Parties that points wait at, in the ring's order: of each origin the first that has not passed them on."""
    ring, holding = at.schedule, set()
    for place, origin in enumerate(ring.parties):
        way = (*ring.parties[place:], *ring.parties[:place])
        holding.update([party for party in way if at.find("points", party, "", origin) is None][:1])
    return tuple(party for party in ring.parties if party in holding)


def _names(parties: tuple[str, ...]) -> str:
    return ", ".join(parties)
