"""Parcels as honest hospitals make them, with random bytes for bodies: the relay cannot tell."""

from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dprelease.canonical import sha256
from dprelease.errors import NotFound
from dprelease.identity.certificates import Identity
from dprelease.mechanisms.moments.privatize import schedule_of
from dprelease.mpc.messages import NOTHING, Message, MessageHeader, session_digest, sign_message
from dprelease.mpc.schedule import SEAL_BYTES, SEED_BYTES, Schedule
from dprelease.wire.v1 import relay_pb2, release_pb2
from learner.hub.approved import ApprovedRelease
from learner.hub.relay import Relay
from learner.hub.storage import Storage
from tests.learner.world import Sealed, World, pieces
from tests.support.certificates import Member
from tests.support.specs import TWO_PARTIES, categorical

THREE_PARTIES = {**TWO_PARTIES, "west": (categorical("smoker", "yes"),)}
"""With a rotating dealer each deals for the pair of the two others."""


class Hospitals:
    """All hospitals of a release, as far as the relay sees them.

    Attributes:
        bodies: digest of a header to the body.
    """

    def __init__(self, world: World, sealed: Sealed) -> None:
        self.world, self.spec, self.release = world, sealed.spec, sealed.digest
        self.bodies: dict[str, bytes] = {}

    @cached_property
    def schedule(self) -> Schedule:
        return schedule_of(self.spec)

    def signed(self, header: MessageHeader) -> Message:
        return sign_message(self.world.parties[header.sender].key, header)

    def offer(self, party: str, number: int = 1, key: str = "key") -> Message:
        return self._signed("hello", party, number, payload=sha256(f"{key} of {party} in {number}".encode()))

    def session(self, number: int = 1) -> str:
        return session_digest(self.offer(party, number).header for party in self.schedule.parties)

    def transcript(self, party: str, number: int = 1, **changes: Any) -> Message:
        return self._signed("transcript", party, number, payload=sha256(b"transcript"), **changes)

    def columns(self, party: str, dealer: str, number: int = 1, **changes: Any) -> Message:
        return self._signed(
            "columns",
            party,
            number,
            self.schedule.columns_size(party),
            receivers=self.schedule.partners(party, dealer),
            dealer=dealer,
            payload=sha256(b"commitment"),
            **changes,
        )

    def key(self, party: str, dealer: str, receiver: str, number: int = 1, **changes: Any) -> Message:
        receivers = (receiver,)
        return self._signed(
            "key", party, number, SEED_BYTES + SEAL_BYTES, receivers=receivers, dealer=dealer, **changes
        )

    def deal(self, dealer: str, receiver: str, number: int = 1, **changes: Any) -> Message:
        size = self.schedule.deal_size(receiver, dealer) + SEAL_BYTES
        return self._signed("deal", dealer, number, size, receivers=(receiver,), **changes)

    def everything(self, number: int = 1) -> Iterator[Message]:
        """Every parcel of a round, in an order that the protocol allows."""
        schedule = self.schedule
        for party in schedule.parties:
            yield self.offer(party, number)
        for pair in schedule.pairs:
            if pair.dealer:
                yield from (self.deal(pair.dealer, receiver, number) for receiver in (pair.first, pair.second))
        for party in schedule.parties:
            for dealer in schedule.dealers_of(party):
                yield self.columns(party, dealer, number)
                yield from (self.key(party, dealer, each, number) for each in schedule.partners(party, dealer))
        for party in schedule.parties:
            yield self.transcript(party, number)

    def concerning(self, party: str, parcels: Iterable[Message]) -> list[Message]:
        """Which of them a party is told of: what all must agree on, what it sent, and what was sealed to it."""
        public = ("hello", "columns", "transcript")
        headers = ((parcel, parcel.header) for parcel in parcels)
        return [
            each for each, header in headers if header.kind in public or party in (header.sender, *header.receivers)
        ]

    def body(self, parcel: Message) -> bytes:
        return self.bodies[parcel.header.digest()]

    def _signed(self, kind: str, sender: str, number: int, size: int = 0, **fields: Any) -> Message:
        named = f"{kind} {sender} {number} {fields.get('dealer')} {fields.get('receivers')}"
        body = np.random.default_rng(list(named.encode())).bytes(size)
        header = {
            "task": self.release,
            "round": number,
            "session": "" if kind == "hello" else fields.pop("session", None) or self.session(number),
            "kind": kind,
            "sender": sender,
            "size": size,
            "sha256": sha256(body) if size else NOTHING,
            **fields,
        }
        made = MessageHeader.model_validate(header)
        self.bodies[made.digest()] = body
        return self.signed(made)


def messages(parcel: Message, chunks: list[release_pb2.Chunk]) -> Iterator[relay_pb2.SendParcelRequest]:
    named = {"header_digest": bytes.fromhex(parcel.header.digest()), "spec_digest": bytes.fromhex(parcel.header.task)}
    for chunk in chunks:
        yield relay_pb2.SendParcelRequest(**named, chunk=chunk)
        named = {}


class Office:
    """A relay on a storage of its own, and the hospitals that use it."""

    def __init__(self, storage: Storage, world: World, sealed: Sealed) -> None:
        self.storage, self.world, self.sealed = storage, world, sealed
        self.hospitals = Hospitals(world, sealed)
        self.looks = 0
        self.asked: list[str] = []
        self.relay = Relay(storage, self.find_record, self.look)

    def restart(self) -> None:
        """As after a restart of the hub: nothing is remembered but what is on the disk."""
        self.relay = Relay(self.storage, self.find_record, self.look)

    def find_record(self, digest: str, party: str) -> ApprovedRelease:
        self.asked.append(digest)
        known = self.storage.record(digest)
        if known is None:
            known = self.world.record(self.sealed)
            if known.spec.digest() != digest:
                raise NotFound("no such release")
            self.storage.keep_record(known)
        return known

    def look(self, _: Identity) -> None:
        self.looks += 1

    def caller(self, party: str) -> Identity:
        return self.world.parties[party].identity

    def open(self, parcel: Message, member: Member | None = None) -> int:
        caller = member.identity if member else self.caller(parcel.header.sender)
        return self.relay.open_parcels(caller, [(parcel.to_bytes(), b"")])[0]

    def send(self, parcel: Message, chunks: Iterable[release_pb2.Chunk], by: str = "") -> str:
        header = parcel.header
        upload = self.relay.begin(self.caller(by or header.sender), header.task, header.digest())
        for chunk in chunks:
            upload.take(chunk)
        return upload.finish()

    def bring(self, *parcels: Message) -> None:
        for parcel in parcels:
            held = self.open(parcel)
            if held < parcel.header.size:
                body = self.hospitals.body(parcel)
                assert self.send(parcel, pieces(body, start=held)) == parcel.header.sha256

    def begin(self, number: int = 1) -> None:
        """Offers of all hospitals."""
        self.bring(*(self.hospitals.offer(party, number) for party in self.hospitals.schedule.parties))

    def listed(self, after: int = 0) -> list[Message]:
        """What anybody sees, in its order."""
        seen = set[bytes]()
        for party in self.hospitals.schedule.parties:
            seen |= {*self.relay.listed(self.caller(party), self.sealed.digest, after)[0]}
        whole, _ = self.relay._stores[self.sealed.digest].listed(after)
        assert seen == {*whole}
        return [Message.from_bytes(data) for data in whole]

    def fetch(self, parcel: Message, party: str, offset: int = 0) -> bytes:
        path = self.relay.body(self.caller(party), parcel.header.task, parcel.header.digest(), offset)
        return path.read_bytes()[offset:]

    def files(self, ending: str) -> list[Path]:
        return sorted(self.storage.parcels(self.sealed.digest).rglob(f"*.{ending}"))
