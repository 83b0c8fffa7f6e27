"""Sessions of joint moments for tests: signed offers, a coordinator that deals, and what it dealt."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from sqlalchemy import select

from coordinator.lifecycle import Approved
from coordinator.service.dealer import Dealer, read_session
from coordinator.store.agreements import Agreement
from coordinator.store.database import Database
from coordinator.store.tables import deals
from dprelease.errors import PeerUnavailable
from dprelease.identity.signing import PrivateKey
from dprelease.mechanisms.moments.privatize import schedule_of
from dprelease.mpc.encryption import Context, new_session_key, public_bytes, unseal
from dprelease.mpc.messages import Message, MessageHeader, session_digest, sign_message
from dprelease.mpc.schedule import COORDINATOR, DealtSeeds, Schedule, deal, read_randomness
from dprelease.release.spec import ReleaseSpec
from dprelease.wire.v1 import coordination_pb2 as pb
from tests.coordinator.office import NOW, Clock, Office
from tests.coordinator.world import SECONDS, Stub, World, ask, until


@dataclass
class Offers:
    """One round's offers of all parties.

    Attributes:
        spec: of the release.
        parcels: one of each party, in the spec's order.
        keys: party to session key.
    """

    spec: ReleaseSpec
    parcels: list[Message]
    keys: dict[str, X25519PrivateKey]

    @classmethod
    def of(cls, spec: ReleaseSpec, signers: Mapping[str, PrivateKey], number: int = 1) -> Offers:
        keys = {part.party: new_session_key() for part in spec.parties}
        parcels = [
            sign_message(signers[party], offer(spec, party, public_bytes(key).hex(), number))
            for party, key in keys.items()
        ]
        return cls(spec, parcels, keys)

    @property
    def session(self) -> str:
        return session_digest(parcel.header for parcel in self.parcels)

    def request(self) -> pb.RequestDealRequest:
        return pb.RequestDealRequest(offers=[parcel.to_bytes() for parcel in self.parcels])

    def context(self, party: str) -> Context:
        return Context(
            purpose="deal", task=self.spec.digest(), session=self.session, sender="", receiver=party, dealer=""
        )

    def check_correlations(self, sealed: Mapping[str, bytes]) -> None:
        """C - PRG(r) at one and PRG(r) at the other sum to A_j^T A_k, for every pair."""
        schedule = schedule_of(self.spec)
        opened = {name: unseal(self.keys[name], data, self.context(name)) for name, data in sealed.items()}
        dealt = {name: read_randomness(data, schedule, name, COORDINATOR) for name, data in opened.items()}
        rows, widths, modulus = self.spec.rows, schedule.widths, schedule.modulus
        masks = {name: modulus.read(one.mask, 0, rows, widths[name]) for name, one in dealt.items()}
        assert schedule.pairs
        for pair in schedule.pairs:
            sums = modulus.add(dealt[pair.first].shares[pair], dealt[pair.second].shares[pair])
            assert np.array_equal(sums, modulus.product(masks[pair.first], masks[pair.second]))


def offer(spec: ReleaseSpec, party: str, key: str, number: int = 1, **changed: object) -> MessageHeader:
    fields = {"task": spec.digest(), "round": number, "kind": "hello", "sender": party, "payload": key}
    return MessageHeader.model_validate({**fields, **changed})


def approved(office: Office, now: datetime = NOW, **changed: object) -> Agreement:
    """A release of joint moments that everybody in it approved."""
    release = office.propose(now, **{"mechanism": "moments", **changed})
    spec = release.read_spec()
    with office.store.writing() as tx:
        for part in spec.parties:
            signed = office.approval(spec, part.party, now).to_bytes()
            tx.releases.advance(release.digest, Approved(part.party), now, signed)
    return office.release(release.digest)


@dataclass
class Desk:
    """An office whose coordinator deals, in one process.

    Attributes:
        office: the store and everybody's keys.
        clock: the dealer's.
        dealer: one of its own; a second desk at the same office is a second coordinator on one database.
    """

    office: Office
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.dealer = Dealer(self.office.store, self.clock)

    def send(self, request: pb.RequestDealRequest, party: str) -> bytes:
        root = self.office.authority.root_pem
        return self.dealer.fetch(read_session(request.offers, self.office.store, party, root), party)

    def ask(self, offers: Offers, party: str) -> bytes:
        return self.send(offers.request(), party)

    def get(self, offers: Offers) -> dict[str, bytes]:
        """Every party's deal, by as many calls as it takes."""
        return {party: fetched(partial(self.ask, offers, party)) for party in offers.keys}

    def rows(self) -> list[tuple[str, str, int]]:
        """(session, party, round) of everything that is held."""
        url = self.office.store._database.url.render_as_string(hide_password=False)
        with closing(Database(url)) as database, database.reading() as connection:
            chosen = select(deals.c.session, deals.c.party, deals.c.round).order_by(deals.c.round, deals.c.party)
            return [(row.session, row.party, row.round) for row in connection.execute(chosen)]

    @property
    def idle(self) -> bool:
        """Whether no deal is being made."""
        return not self.dealer._under_way


@dataclass
class Slow:
    """The work of dealing, held up until the test lets it go.

    Attributes:
        go: set it to let everything be made.
        begun: schedule of every deal that was begun.
        made: every deal that was made, in the clear.
        most: most that were under way together.
    """

    go: threading.Event = field(default_factory=threading.Event)
    begun: list[Schedule] = field(default_factory=list)
    made: list[Mapping[str, bytes]] = field(default_factory=list)
    most: int = 0

    def __call__(self, schedule: Schedule, dealer: str, kept: DealtSeeds) -> Mapping[str, bytes]:
        self.begun.append(schedule)
        self.most = max(self.most, len(self.begun) - len(self.made))
        assert self.go.wait(SECONDS)
        dealt = deal(schedule, dealer, kept=kept)
        self.made.append(dealt)
        return dealt


def fetched(call: Callable[[], bytes]) -> bytes:
    """What a call gives, after as many as it takes while the deal is being made."""
    found: list[bytes] = []

    def there() -> bool:
        try:
            found.append(call())
        except PeerUnavailable:
            return False
        return True

    until(there)
    return found[0]


def world_offers(world: World, stubs: dict[str, Stub], **changed: object) -> Offers:
    """A release that all of them approved over the wire, and the offers of its first round."""
    digest = world.propose(mechanism="moments", parties=dict.fromkeys(stubs, "*"), **changed)
    for party, stub in stubs.items():
        ask(stub.Approve, pb.ApproveRequest(signed_consent=world.signed(digest, party)))
    return Offers.of(world.spec(digest), world.keys)


def over_the_wire(stubs: dict[str, Stub], offers: Offers) -> dict[str, bytes]:
    """Every party's deal, by as many calls as it takes."""

    def call(party: str) -> bytes:
        sealed: bytes = ask(stubs[party].RequestDeal, offers.request()).sealed
        return sealed

    return {party: fetched(partial(call, party)) for party in stubs}
