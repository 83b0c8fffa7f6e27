"""A relay and a coordinator in memory, which keep order as the real ones do and a record of every byte; a test may make
them hostile.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from dprelease.errors import AccessDenied, Conflict, IntegrityError, PeerUnavailable
from dprelease.intersection.ring import Ring
from dprelease.mpc.exchange import seal_answer, seal_deals
from dprelease.mpc.messages import Message, MessageHeader, session_digest
from dprelease.mpc.schedule import COORDINATOR, DealtSeeds, Schedule, deal
from party_node.state.session import Outgoing

PIECE = 600
"""Bytes that are fetched at once."""

Alters = Callable[[Message, bytes], tuple[Message, bytes]]


@dataclass
class Post:
    """A relay's memory.

    Attributes:
        schedule: of the release, or the ring of an alignment run.
        messages: complete messages that are listed, in their order.
        bodies: header digest to body.
        given: whoever put a message there, its header and its body, in order; also what was put there again.
        handed: whoever fetched a body, its header and the body.
        strict: keeps order as the hub does; a hostile one does not.
        lists: what a hostile relay lists for a party instead.
        serves: what a hostile relay hands out instead.
        away: every call fails.
        altered: digest of a header to that of what was sent in its place.
    """

    schedule: Schedule | Ring
    messages: dict[str, Message] = field(default_factory=dict)
    bodies: dict[str, bytes] = field(default_factory=dict)
    given: list[tuple[str, Message, bytes]] = field(default_factory=list)
    handed: list[tuple[str, MessageHeader, bytes]] = field(default_factory=list)
    strict: bool = True
    lists: Callable[[str, tuple[Message, ...]], tuple[Message, ...]] = lambda _, messages: messages
    serves: Callable[[str, MessageHeader, bytes], bytes] = lambda _, __, body: body
    away: bool = False
    altered: dict[str, str] = field(default_factory=dict)

    def take(self, party: str, message: Message, body: bytes) -> None:
        header = message.header
        self.given.append((party, message, body))
        if header.digest() in self.messages:
            return
        self.check(party, header)
        self.messages[header.digest()], self.bodies[header.digest()] = message, body
        for digest in [each for each, kept in self.messages.items() if kept.header.round < self.newest()]:
            if self.strict:
                del self.messages[digest], self.bodies[digest]

    def newest(self) -> int:
        """The highest round of which every offer is here."""
        rounds = {kept.header.round for kept in self.messages.values()}
        return max((number for number in rounds if self.session(number)), default=0)

    def check(self, party: str, header: MessageHeader) -> None:
        """Refuse what is out of order."""
        if not self.strict:
            return
        if header.sender != party:
            raise AccessDenied("it is somebody else's")
        if any(kept.header.place == header.place for kept in self.messages.values()):
            raise Conflict("another message is in its place")
        if header.kind != "hello" and header.session != self.session(header.round):
            raise Conflict("it belongs to another session")
        if header.round < self.newest():
            raise Conflict("its round was abandoned")
        rounds = [kept.header.round for kept in self.messages.values() if kept.header.kind == "hello"]
        if header.round > max(rounds, default=0) + 1:
            raise Conflict("nobody has begun the round before")

    def offers(self, number: int) -> dict[str, MessageHeader]:
        headers = [kept.header for kept in self.messages.values()]
        return {header.sender: header for header in headers if (header.kind, header.round) == ("hello", number)}

    def session(self, number: int) -> str | None:
        """Digest of a round's session, None before it has one."""
        there = self.offers(number)
        complete = set(there) == set(self.schedule.parties)
        return session_digest(there[name] for name in self.schedule.parties) if complete else None

    def fetch(self, party: str, header: MessageHeader) -> bytes:
        if self.strict and party not in header.receivers:
            raise AccessDenied("it is for somebody else")
        body = self.serves(party, header, self.bodies[header.digest()])
        self.handed.append((party, header, body))
        return body

    def find(self, kind: str, sender: str, receiver: str = "", dealer: str = "") -> Message:
        return next(
            message
            for message in self.messages.values()
            if (message.header.kind, message.header.sender, message.header.dealer) == (kind, sender, dealer)
            and (not receiver or receiver in message.header.receivers)
        )

    def record(self) -> list[bytes]:
        """Every byte that the relay ever saw or said."""
        given = [data for _, message, body in self.given for data in (message.to_bytes(), body)]
        return [*given, *(body for _, _, body in self.handed)]


class MemoryRelay:
    """One party's calls to the relay; the interface of `party_node.outgoing.relay.RelayCalls`.

    Args:
        post: the relay's memory.
        party: who calls.
        tick: told before each call.
        alters: what a hostile party sends instead of its messages.
    """

    def __init__(self, post: Post, party: str, tick: Callable[[str], None], alters: Alters) -> None:
        self._post, self._party, self._tick, self._alters = post, party, tick, alters

    def _call(self, what: str) -> None:
        self._tick(what)
        if self._post.away:
            raise PeerUnavailable("the relay is away")

    def messages(self) -> tuple[Message, ...]:
        self._call("list")
        return self._post.lists(self._party, tuple(self._post.messages.values()))

    def put(self, outgoing: Iterable[Outgoing], there: Iterable[Message]) -> bool:
        known = {message.header.digest() for message in there}
        known |= {digest for digest, other in self._post.altered.items() if other in known}
        lacking = [each for each in outgoing if each.message.header.digest() not in known]
        for each in lacking:
            self.send(each)
        return bool(lacking)

    def send(self, outgoing: Outgoing) -> None:
        self._call(f"send {outgoing.message.header.kind}")
        message = outgoing.message
        body = outgoing.read()
        assert (len(body), hashlib.sha256(body).hexdigest()) == (message.header.size, message.header.sha256)
        sent, body = self._alters(message, body)
        self._post.altered[message.header.digest()] = sent.header.digest()
        self._post.take(self._party, sent, body)

    def fetch_short(self, party: str, wanted: MessageHeader, known: object) -> dict[MessageHeader, bytes]:
        return {}  # as at a hub of the version before: each step fetches what it needs

    def fetch(self, header: MessageHeader) -> Iterator[bytes]:
        self._call(f"fetch {header.kind}")
        body = self._post.fetch(self._party, header)
        for start in range(0, len(body), PIECE):
            self._call("fetch on")
            yield body[start : start + PIECE]
        if len(body) != header.size or hashlib.sha256(body).hexdigest() != header.sha256:
            raise IntegrityError(f"the hub's relay handed out a {header.kind} of {header.sender} that it did not sign")


@dataclass
class Office:
    """The coordinator as a dealer.

    Attributes:
        schedule: of the release.
        received: everything that it was sent.
        dealt: session to party to its sealed deal.
        held: session to its offers, and the seeds of proofs that were not answered yet; a restart loses them.
        answers: digest of a third challenge to its answer.
        deals: makes the plain deals; a hostile one makes others.
    """

    schedule: Schedule
    received: list[bytes] = field(default_factory=list)
    dealt: dict[str, dict[str, bytes]] = field(default_factory=dict)
    held: dict[str, tuple[list[MessageHeader], DealtSeeds]] = field(default_factory=dict)
    answers: dict[str, bytes] = field(default_factory=dict)
    deals: Callable[..., Any] = deal

    def request(self, party: str, offers: list[bytes]) -> bytes:
        """What it deals to a party; the same bytes again for the same session."""
        self.received += offers
        headers = [Message.from_bytes(data).header for data in offers]
        session = session_digest(headers)
        if session not in self.dealt:
            seeds = DealtSeeds()
            made = self.deals(self.schedule, COORDINATOR, kept=seeds)
            self.dealt[session], self.held[session] = seal_deals(self.schedule, headers, made), (headers, seeds)
        return self.dealt[session][party]

    def answer(self, asked: Message, body: bytes) -> bytes:
        """Its answer about a proof; the same bytes again for the same challenge."""
        self.received += [asked.to_bytes(), body]
        header = asked.header
        if header.digest() not in self.answers:
            if header.session not in self.held:
                raise Conflict("the coordinator holds nothing of this session any more")
            offers, seeds = self.held[header.session]
            made = seeds.answer(header.session, header.dealer, header.sender, body)
            self.answers[header.digest()] = seal_answer(self.schedule, offers, header, made)
        return self.answers[header.digest()]
