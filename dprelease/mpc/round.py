"""The transcript of a session's round as one party sees it: messages, who is still missing, and what all must agree on.

A round begins with a hello of every party; their digest is the session. A party that has lost its state begins the next
round, and whoever has not yet made its block follows. A party that has made one never makes another: it only resumes.

Source: docs/protocol.md, steps 2, 5 and 8.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Generic, Protocol, TypeVar

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dprelease.canonical import canonical_bytes, sha256
from dprelease.errors import IntegrityError, Irreparable
from dprelease.identity.signing import PrivateKey, PublicKey
from dprelease.mpc.encryption import Context, Draw, public_bytes, shared_seed
from dprelease.mpc.messages import (
    MOST_ROUNDS,
    NOTHING,
    SHOWN,
    Kind,
    Message,
    MessageHeader,
    session_digest,
    sign_message,
)
from dprelease.mpc.schedule import Schedule
from dprelease.mpc.storage import SessionState, SessionStorage

_log = logging.getLogger(__name__)


class Parties(Protocol):
    """Parties of a round and its task: the digest of the task and the parties' names in their order."""

    @property
    def task(self) -> str:
        """Digest of what the session is for."""

    @property
    def parties(self) -> tuple[str, ...]:
        """Names, in their order."""


Public = TypeVar("Public", bound=Parties)
Result = TypeVar("Result")


def session_key(state: SessionState) -> X25519PrivateKey:
    """The session key in a party's storage."""
    return X25519PrivateKey.from_private_bytes(bytes.fromhex(state.key))


def latest_round(messages: Iterable[Message]) -> int:
    """The highest round that anybody has offered a key for; 0 when nobody has."""
    return max((message.header.round for message in messages if message.header.kind == "hello"), default=0)


@dataclass(frozen=True)
class Round(Generic[Public]):
    """The checked messages of one round."""

    schedule: Public
    number: int
    headers: tuple[MessageHeader, ...]

    @classmethod
    def of(cls, schedule: Public, number: int, messages: Iterable[Message]) -> Round[Public]:
        """The round's messages out of all messages of a release; one that is listed twice counts once.

        Raises:
            IntegrityError: two messages stand in one place, or one belongs to another session than the round's.
        """
        headers = tuple(dict.fromkeys(message.header for message in messages if message.header.round == number))
        times = Counter(header.place for header in headers)
        for header in headers:
            if times[header.place] > 1:
                words = f"{header.sender} sent two different messages of kind {header.kind} in one round"
                raise Irreparable(words, signer=header.sender)
        found = cls(schedule, number, headers)
        stale = [header for header in headers if header.session and header.session != found.session]
        if stale:
            raise IntegrityError(f"{stale[0].sender} sent a {stale[0].kind} of another session")
        return found

    def find(self, kind: Kind, sender: str, receiver: str = "", dealer: str = "") -> MessageHeader | None:
        """The message of a kind from a sender, to a receiver where the kind has one; None if it is not there."""
        return next(
            (
                header
                for header in self._found.get((kind, sender, dealer), ())
                if not receiver or receiver in header.receivers
            ),
            None,
        )

    @cached_property
    def _found(self) -> Mapping[tuple[str, str, str], list[MessageHeader]]:
        found: dict[tuple[str, str, str], list[MessageHeader]] = {}
        for header in self.headers:
            found.setdefault((header.kind, header.sender, header.dealer), []).append(header)
        return found

    def missing(self, kind: Kind) -> tuple[str, ...]:
        """Parties without their hello or transcript, in the parties' order."""
        return tuple(party for party in self.schedule.parties if self.find(kind, party) is None)

    @cached_property
    def hellos(self) -> tuple[MessageHeader, ...]:
        """All hellos that are there, in the parties' order."""
        found = (self.find("hello", party) for party in self.schedule.parties)
        return tuple(header for header in found if header is not None)

    @cached_property
    def session(self) -> str:
        """Digest of the session; empty while a hello is missing."""
        return "" if self.missing("hello") else session_digest(self.hellos)

    def session_key(self, party: str) -> bytes:
        """Public bytes of a party's session key; its hello must be there."""
        header = self.find("hello", party)
        assert header is not None  # noqa: S101 - callers wait for all hellos
        return bytes.fromhex(header.payload)

    def context(self, purpose: str, sender: str, receiver: str = "", dealer: str = "") -> Context:
        """Context that a ciphertext of this session is bound to."""
        return Context(purpose, self.schedule.task, self.session, sender, receiver, dealer)

    def message(
        self,
        identity: PrivateKey,
        sender: str,
        kind: Kind,
        receivers: tuple[str, ...] = (),
        dealer: str = "",
        payload: str = "",
        body: tuple[int, str] = (0, NOTHING),
    ) -> Message:
        """A sender's signed message of this session, with size and SHA-256 of its body."""
        header = MessageHeader(
            task=self.schedule.task,
            round=self.number,
            session=self.session,
            kind=kind,
            sender=sender,
            receivers=receivers,
            dealer=dealer,
            payload=payload,
            size=body[0],
            sha256=body[1],
        )
        return sign_message(identity, header)

    def shared_seeds(self, party: str, key: X25519PrivateKey, purpose: str) -> Mapping[str, bytes]:
        """The seed that a party shares with each peer for one purpose, by which what they add for one another cancels.

        Raises:
            IntegrityError: a peer's session key is not one; it is named.
        """
        order, seeds = self.schedule.parties, {}
        for peer in order:
            if peer != party:
                first, second = sorted((party, peer), key=order.index)
                try:
                    seeds[peer] = shared_seed(key, self.session_key(peer), self.context(purpose, first, second))
                except IntegrityError as error:
                    words = f"{peer} offered something that is not a session key"
                    raise Irreparable(words, signer=peer) from error
        return seeds

    def columns(self: Round[Schedule]) -> tuple[MessageHeader, ...]:
        """Headers of all masked columns that are there, and of their bits."""
        return tuple(header for header in self.headers if header.kind in SHOWN)

    def missing_columns(self: Round[Schedule]) -> tuple[str, ...]:
        """Parties whose masked columns are not all there, in the parties' order."""
        there = {(header.kind, header.sender, header.dealer) for header in self.columns()}
        lacking = {sender for _, sender, _ in columns_expected(self.schedule) - there}
        return tuple(party for party in self.schedule.parties if party in lacking)

    def transcript(self: Round[Schedule], commitments: Iterable[str]) -> str:
        """The digest that every party signs once all masked columns are there; commitments are in the parties' order."""
        return transcript_digest(self.schedule.task, self.session, commitments, self.columns())

    def check_transcripts(self, expected: str) -> None:
        """Check that every party has seen the same session, and checked the proofs of this one.

        Raises:
            IntegrityError: a party signed something else; it is named.
        """
        for party in self.schedule.parties:
            for kind in ("transcript", "checked"):
                header = self.find(kind, party)
                if header is not None and header.payload != expected:
                    raise Irreparable(f"{party} has seen another session than we have; nothing is computed")


def transcript_digest(task: str, session: str, commitments: Iterable[str], columns: Iterable[MessageHeader]) -> str:
    """Statement that every party signs before it multiplies: the session, t, the dealer, commitments and all that was shown.

    Args:
        task: digest of what the products are for; it fixes t and the dealer.
        session: digest of the session, which fixes all session keys.
        commitments: to the parties' columns, from their approvals, in the parties' order.
        columns: headers of all masked columns of the session, and of their bits, in any order.
    """
    digests = sorted(header.digest() for header in columns)
    said = {"task": task, "session": session, "commitments": list(commitments), "columns": digests}
    return sha256(b"dprelease/moments/transcript/v1" + canonical_bytes(said))


def columns_expected(schedule: Schedule) -> frozenset[tuple[Kind, str, str]]:
    """(kind, sender, dealer) of every file of masked columns, or of their bits, in a session."""
    parties = [(party, dealer) for party in schedule.parties for dealer in schedule.dealers_of(party)]
    proofs = [each for each in parties if schedule.verifiers(*each)]
    shown: dict[Kind, list[tuple[str, str]]] = {"columns": parties, "bits": proofs}
    return frozenset((kind, *each) for kind, senders in shown.items() for each in senders)


def names(parties: Iterable[str]) -> str:
    """Parties in a sentence."""
    return ", ".join(parties)


class Participant(ABC, Generic[Public, Result]):
    """One party's side of a session of any kind, round after round, as a state machine: messages in, messages out.

    Nothing here reads a disk or calls anybody. A storage keeps what must survive a restart, and nothing else is remembered between
    steps but what follows from it: a restart goes on at the first step that is not done.

    Args:
        schedule: the public parameters.
        party: our name.
        identity: our identity key, which signs.
        keys: party to the identity key that signs its messages, ours too.
        storage: of this session alone.
        draw: secret randomness, so many bytes.
        checked: messages that were found to be of this schedule and signed with these keys before; more are noted there.
    """

    final: ClassVar[frozenset[Kind]]
    """The kinds of messages after which whoever has lost one begins no round anew."""
    lost: ClassVar[str]
    """Error if such a message of ours is listed, and the storage does not know it."""

    def __init__(
        self,
        schedule: Public,
        party: str,
        identity: PrivateKey,
        keys: Mapping[str, PublicKey],
        storage: SessionStorage,
        draw: Draw,
        checked: set[Message] | None = None,
    ) -> None:
        self._schedule, self._party, self._identity, self._keys = schedule, party, identity, keys
        self._storage, self._draw = storage, draw
        self._checked = set[Message]() if checked is None else checked
        self._at: tuple[SessionState, Round[Public]] | None = None
        self._listed: tuple[Message, ...] | None = None

    def receive(self, listed: tuple[Message, ...]) -> tuple[Message, ...]:
        """Check all messages that are listed, of all rounds and parties, and join their latest round.

        Returns:
            Our messages that may be sent now; those that are listed already need not be sent again.

        Raises:
            IntegrityError: a message does not belong to this session; its sender is named. Or our state is older than what
                we have sent, or rounds were begun without end.
        """
        for message in listed if listed is not self._listed else ():
            if message not in self._checked:
                self._check(message)
                self._checked.add(message)
        return self._join(listed)

    def advance(self) -> str | Result | None:
        """Do the first step that is not done; call it when all that `receive` gave is listed.

        Returns:
            None if a step was done: there is more to send. For whom we wait, in words. Or what the session leaves.

        Raises:
            IntegrityError: a peer sent something that does not belong to this session; it is named.
            PeerUnavailable: a body cannot be fetched now; try again.
        """
        assert self._at is not None  # noqa: S101 - `receive` comes first
        state, at = self._at
        if at.find("hello", self._party) is None:
            self._storage.freeze([self._hello(state)])
            return None
        if missing := at.missing("hello"):
            return f"waits for {names(missing)} to join {self._called(at)}"
        return self._proceed(state, at)

    @abstractmethod
    def _check(self, message: Message) -> None:
        """Refuse a message that is none of this session, or not signed by its sender."""

    @abstractmethod
    def _called(self, at: Round[Public]) -> str:
        """The round in words, for whoever waits for parties to join it."""

    @abstractmethod
    def _proceed(self, state: SessionState, at: Round[Public]) -> str | Result | None:
        """As `advance`, once every hello is there."""

    def _confirm(self, at: Round[Public], transcript: str) -> str | None:
        """Say what we have seen: None if we have just done so, else for whom we wait; empty once all have seen the same.

        Raises:
            IntegrityError: a party has seen something else; it is named.
        """
        at.check_transcripts(transcript)
        if at.find("transcript", self._party) is None:
            self._storage.freeze([at.message(self._identity, self._party, "transcript", payload=transcript)])
            return None
        missing = at.missing("transcript")
        return f"waits for {names(missing)} to confirm what it has seen" if missing else ""

    def _join(self, listed: tuple[Message, ...]) -> tuple[Message, ...]:
        """Join the round in our storage, unless others have begun a later one, or it is not the one they know."""
        unknown, state = self._unknown(listed), self._storage.state()
        since = state.round if state is not None else 1
        if any(header.kind in self.final and header.round >= since for header in unknown):
            raise IntegrityError(self.lost)
        number = max(latest_round(listed), since)
        estranged = any((header.kind, header.round) == ("hello", number) for header in unknown)
        if state is None or state.round != number or estranged:
            # a hello of ours may be there whose key we no longer hold
            state = self._begin(number + estranged, 0 if state is None else state.refused)
        at = self._at[1] if self._at else None
        if at is None or listed is not self._listed or at.number != state.round:
            at = Round.of(self._schedule, state.round, listed)
        self._at, self._listed = (state, at), listed
        # A relay that has lost everything takes nothing of a session before all hellos are back.
        return tuple(each for each in self._storage.messages() if at.session or each.header.kind == "hello")

    def _begin(self, number: int, refused: int) -> SessionState:
        """Begin a round in our storage.

        Raises:
            IntegrityError: rounds were begun without end.
        """
        if number > MOST_ROUNDS:
            raise IntegrityError(
                f"the session was begun {MOST_ROUNDS} times without an end; tell the consortium's office"
            )
        _log.info("%s: joins round %d of the computation", self._schedule.task[:12], number)
        return self._storage.begin(number, self._draw, refused)

    def _unknown(self, listed: Iterable[Message]) -> list[MessageHeader]:
        """Messages of ours that are listed and that our storage does not know."""
        known = {each.header for each in self._storage.messages()}
        ours = [message.header for message in listed if message.header.sender == self._party]
        return [header for header in ours if header not in known]

    def _hello(self, state: SessionState) -> Message:
        """Our signed offer of our session key."""
        at = Round(self._schedule, state.round, ())
        return at.message(self._identity, self._party, "hello", payload=public_bytes(session_key(state)).hex())

    def _frozen(self, kind: Kind, dealer: str = "") -> bool:
        return any((each.header.kind, each.header.dealer) == (kind, dealer) for each in self._storage.messages())
