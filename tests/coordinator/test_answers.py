"""The coordinator's answers about range proofs: one each, from memory alone, gone with the release, the round or the process."""

import hashlib
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from coordinator.lifecycle import Cancelled
from coordinator.service import coordination
from coordinator.service import dealer as dealing
from coordinator.service.dealer import request_answer
from coordinator.store.agreements import Agreement
from dprelease.errors import AccessDenied, Conflict, DpReleaseError, IntegrityError, PeerUnavailable
from dprelease.mechanisms.moments import mechanism
from dprelease.mechanisms.moments.privatize import schedule_of
from dprelease.mpc.encryption import unseal
from dprelease.mpc.messages import Message, MessageHeader, sign_message
from dprelease.mpc.proof.claim import Claim, GridInterval
from dprelease.mpc.proof.parts import encoded_answer
from dprelease.mpc.schedule import COORDINATOR, CorrelatedRandomness, DealtSeeds, Schedule, read_randomness
from dprelease.spec_base import SpecBase
from dprelease.wire.v1 import coordination_pb2 as pb
from party_node.outgoing.office import Coordinator
from tests.coordinator.sessions import Desk, Offers, Slow, approved, fetched, over_the_wire, world_offers
from tests.coordinator.test_dealing import ENDS
from tests.coordinator.world import SECONDS, Stub, World, until

CHALLENGES = bytes(range(96))
OTHER = bytes(reversed(CHALLENGES))


def proved(spec: SpecBase) -> Schedule:
    """The schedule of a release in which every number is proved to be on its grid."""
    schedule = schedule_of(spec)
    number = GridInterval(-(1 << schedule.bits), 1 << schedule.bits)
    return replace(schedule, claims={name: Claim((number,) * width) for name, width in schedule.widths.items()})


@pytest.fixture(autouse=True)
def proving(monkeypatch: pytest.MonkeyPatch) -> None:
    """All joint moments have proofs."""
    monkeypatch.setattr(mechanism, "schedule_of", proved)


def challenge(
    offers: Offers, keys: Mapping[str, Any], receiver: str = "north", body: bytes = CHALLENGES, **changed: object
) -> Message:
    """A receiver's third challenge about the other one of north and south."""
    fields: dict[str, object] = {
        "task": offers.spec.digest(),
        "round": offers.parcels[0].header.round,
        "session": offers.session,
        "kind": "challenge-3",
        "sender": receiver,
        "dealer": "south" if receiver == "north" else "north",
        "payload": "ab" * 32,
        "size": len(body),
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    header = MessageHeader.model_validate({**fields, **changed})
    return sign_message(keys[header.sender], header)


def dealt(offers: Offers, sealed: Mapping[str, bytes]) -> dict[str, CorrelatedRandomness]:
    """What was dealt to each party."""
    opened = {name: unseal(offers.keys[name], data, offers.context(name)) for name, data in sealed.items()}
    return {name: read_randomness(data, proved(offers.spec), name, COORDINATOR) for name, data in opened.items()}


def opened(offers: Offers, asked: Message, sealed: bytes) -> bytes:
    header = asked.header
    context = replace(offers.context(header.sender), purpose="answer", dealer=header.dealer)
    return unseal(offers.keys[header.sender], sealed, context)


def due(offers: Offers, asked: Message, body: bytes, given: CorrelatedRandomness) -> bytes:
    """The one right answer, from what was dealt to the prover."""
    schedule, prover = proved(offers.spec), asked.header.dealer
    plan = schedule.proof_plan(prover, asked.header.sender, offers.session)
    width = schedule.widths[prover]
    rows = partial(schedule.modulus.read, given.mask, width=width)
    return encoded_answer(plan, rows, given.proof, (body[:32], body[32:64], body[64:]))


def ask(desk: Desk, asked: Message, body: bytes = CHALLENGES, party: str | None = None) -> bytes:
    request = pb.RequestAnswerRequest(challenge=asked.to_bytes(), body=body)
    root = desk.office.authority.root_pem
    return request_answer(request, desk.office.store, desk.dealer, party or asked.header.sender, root)


def test_answers_over_the_wire_once_each_and_no_more_after_a_restart(
    world: World, two: tuple[Stub, Stub], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordination, "CHUNK_BYTES", 50)
    offers = world_offers(world, {"north": two[0], "south": two[1]})

    def office(party: str) -> Coordinator:
        return Coordinator(world.channel(world.credentials(party)))

    def answers(offers: Offers) -> None:
        given = dealt(offers, over_the_wire({name: office(name).stub for name in offers.keys}, offers))
        for receiver in offers.keys:
            asked, calls = challenge(offers, world.keys, receiver), office(receiver)
            size = proved(offers.spec).message_size("answer", asked.header.dealer)
            assert size > 150  # pieces
            sealed = fetched(partial(calls.request_answer, asked, CHALLENGES, size))
            assert opened(offers, asked, sealed) == due(offers, asked, CHALLENGES, given[asked.header.dealer])
            assert calls.request_answer(asked, CHALLENGES, size) == sealed
            with pytest.raises(Conflict):
                calls.request_answer(challenge(offers, world.keys, receiver, OTHER), OTHER, size)
            with pytest.raises(AccessDenied):
                office(asked.header.dealer).request_answer(asked, CHALLENGES, size)
            for wrong in (size - 1, size + 1):
                with pytest.raises(IntegrityError):
                    calls.request_answer(asked, CHALLENGES, wrong)

    answers(offers)
    world.stop()
    world.start()
    for receiver in offers.keys:
        with pytest.raises(Conflict):
            office(receiver).request_answer(challenge(offers, world.keys, receiver), CHALLENGES, 1000)
    answers(Offers.of(offers.spec, world.keys, 2))


def test_who_waits_for_an_answer_is_told_when_it_is_there(world: World, two: tuple[Stub, Stub]) -> None:
    offers = world_offers(world, {"north": two[0], "south": two[1]})
    over_the_wire({"north": two[0], "south": two[1]}, offers)
    assert world.server is not None
    told: list[str] = []
    world.server._announcer.tell = lambda *names: told.extend(names)  # type: ignore[method-assign]
    size, asked = proved(offers.spec).message_size("answer", "south"), challenge(offers, world.keys)
    calls = Coordinator(world.channel(world.credentials("north")))
    fetched(partial(calls.request_answer, asked, CHALLENGES, size))
    until(lambda: "party north" in told)
    assert "party south" not in told


Refused = Callable[[Desk, Offers], bytes]


def changed(**fields: object) -> Refused:
    return lambda desk, offers: ask(desk, challenge(offers, desk.office.keys, **fields))  # type: ignore[arg-type]


def by_a_stranger(desk: Desk, offers: Offers) -> bytes:
    desk.office.enrol("west")
    return ask(desk, challenge(offers, desk.office.keys), party="west")


def forged(desk: Desk, offers: Offers) -> bytes:
    signed = challenge(offers, desk.office.keys)
    return ask(desk, sign_message(desk.office.keys["south"], signed.header))


def of_another_kind(desk: Desk, offers: Offers) -> bytes:
    """South challenges north for the first time; it is no message to a dealer."""
    first = {"kind": "challenge-1", "receivers": ("north",), "dealer": "", "body": CHALLENGES[:32]}
    return ask(desk, challenge(offers, desk.office.keys, "south", **first), CHALLENGES[:32])  # type: ignore[arg-type]


REFUSED: dict[str, tuple[type[DpReleaseError], Refused]] = {
    "a stranger": (AccessDenied, by_a_stranger),
    "the prover": (AccessDenied, lambda desk, offers: ask(desk, challenge(offers, desk.office.keys), party="south")),
    "the prover in its own name": (IntegrityError, changed(receiver="south", dealer="south")),
    "a signature of the prover": (IntegrityError, forged),
    "another body": (IntegrityError, lambda desk, offers: ask(desk, challenge(offers, desk.office.keys), OTHER)),
    "a shorter body": (IntegrityError, changed(body=CHALLENGES[:64])),
    "a receiver": (IntegrityError, changed(receivers=("south",))),
    "another kind": (IntegrityError, of_another_kind),
    "another session": (Conflict, changed(session="5e" * 32)),
    "another round": (Conflict, changed(round=2)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_challenge_of_its_receiver_uses_nothing_up(desk: Desk, offers: Offers, what: str) -> None:
    given = dealt(offers, desk.get(offers))
    error, asks = REFUSED[what]
    with pytest.raises(DpReleaseError) as refused:
        asks(desk, offers)
    assert type(refused.value) is error
    asked = challenge(offers, desk.office.keys)
    sealed = fetched(partial(ask, desk, asked))
    assert opened(offers, asked, sealed) == due(offers, asked, CHALLENGES, given["south"])


def test_where_nothing_is_proved_nothing_is_answered(
    desk: Desk, offers: Offers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mechanism, "schedule_of", lambda spec: replace(schedule_of(spec), claims={}))
    desk.get(offers)
    assert desk.dealer._sessions == {}
    with pytest.raises(IntegrityError, match="the schedule of this release does not have"):
        ask(desk, challenge(offers, desk.office.keys))


@pytest.mark.parametrize("end", ENDS)
def test_when_a_release_ends_seeds_and_answers_are_forgotten(
    desk: Desk, release: Agreement, offers: Offers, end: str
) -> None:
    desk.get(offers)
    asked = challenge(offers, desk.office.keys)
    fetched(partial(ask, desk, asked))
    held = desk.dealer._sessions[release.digest]
    desk.dealer.sweep()
    assert ("north", "south") in held.seeds._open
    assert ("south", "north") not in held.seeds._open  # it was answered
    ENDS[end](desk.office.store, release.digest)
    with pytest.raises(Conflict):
        ask(desk, asked)
    desk.dealer.sweep()
    assert desk.dealer._sessions == {}
    assert ("north", "south") not in held.seeds._open


def test_the_next_round_takes_the_place_of_the_last(desk: Desk, offers: Offers) -> None:
    desk.get(offers)
    second = Offers.of(offers.spec, desk.office.keys, 2)
    given = dealt(second, desk.get(second))
    for receiver in offers.keys:
        with pytest.raises(Conflict, match="holds nothing of this session"):
            ask(desk, challenge(offers, desk.office.keys, receiver))
    asked = challenge(second, desk.office.keys)
    sealed = fetched(partial(ask, desk, asked))
    assert opened(second, asked, sealed) == due(second, asked, CHALLENGES, given["south"])


def test_a_round_that_another_coordinator_dealt_ends_ours(desk: Desk, offers: Offers) -> None:
    """Two on one database: who dealt answers, and forgets once the other has dealt for the next round."""
    desk.get(offers)
    other = Desk(desk.office)
    with pytest.raises(Conflict):
        ask(other, challenge(offers, desk.office.keys))
    other.get(Offers.of(offers.spec, desk.office.keys, 2))
    desk.dealer.sweep()
    assert desk.dealer._sessions == {}


def test_another_releases_seeds_stay(desk: Desk, release: Agreement, offers: Offers) -> None:
    other = Offers.of(approved(desk.office, title="another").read_spec(), desk.office.keys)
    for one in (offers, other):
        desk.get(one)
    with desk.office.store.writing() as tx:
        tx.releases.advance(release.digest, Cancelled("no"), desk.clock())
    desk.dealer.sweep()
    fetched(partial(ask, desk, challenge(other, desk.office.keys)))


class Gate:
    """Holds up the making of answers, and notes how often one is begun."""

    def __init__(self) -> None:
        self.go, self.begun, self.errors = threading.Event(), 0, list[Exception]()
        self._answer = DealtSeeds.answer

    def __call__(self, seeds: DealtSeeds, *about: Any) -> bytes:
        self.begun += 1
        assert self.go.wait(SECONDS)
        made = self._answer(seeds, *about)
        if self.errors:
            raise self.errors.pop()
        return made


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """The gate that all answers pass."""
    gate = Gate()
    monkeypatch.setattr(DealtSeeds, "answer", lambda *about: gate(*about))
    return gate


def test_however_often_it_is_asked_an_answer_is_made_once_and_one_at_a_time(
    desk: Desk, offers: Offers, gate: Gate
) -> None:
    desk.get(offers)
    for receiver in ("north", "south") * 5:
        with pytest.raises(PeerUnavailable, match=r"an answer for release .* is being made; ask again"):
            ask(desk, challenge(offers, desk.office.keys, receiver))
        with pytest.raises(Conflict, match="has challenged the dealer about"):
            ask(desk, challenge(offers, desk.office.keys, receiver, OTHER), OTHER)
    until(lambda: gate.begun == 1)
    gate.go.set()
    for receiver in ("north", "south"):
        fetched(partial(ask, desk, challenge(offers, desk.office.keys, receiver)))
    assert gate.begun == 2


def test_beyond_their_room_answers_that_were_fetched_are_dropped(
    desk: Desk, offers: Offers, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.get(offers)
    monkeypatch.setattr(dealing, "MOST_ANSWER_BYTES", 1)
    first, second = (challenge(offers, desk.office.keys, receiver) for receiver in ("north", "south"))
    assert fetched(partial(ask, desk, first)) == ask(desk, first)  # nothing else needs the room
    fetched(partial(ask, desk, second))
    with pytest.raises(Conflict, match="the answer about south was fetched, and is kept no longer"):
        ask(desk, first)
    assert ask(desk, second)


@pytest.mark.parametrize("error", [MemoryError(), IntegrityError("something that was foreseen")])
def test_an_answer_that_cannot_be_made_ends_the_round(
    desk: Desk, offers: Offers, gate: Gate, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    desk.get(offers)
    gate.errors.append(error)
    gate.go.set()
    with pytest.raises(Conflict, match="holds nothing of this session"):
        fetched(partial(ask, desk, challenge(offers, desk.office.keys)))
    assert "nothing was answered for release" in caplog.text
    second = Offers.of(offers.spec, desk.office.keys, 2)
    desk.get(second)
    fetched(partial(ask, desk, challenge(second, desk.office.keys)))


def test_a_dealer_that_stops_holds_nothing(desk: Desk, offers: Offers, gate: Gate) -> None:
    desk.get(offers)
    with pytest.raises(PeerUnavailable):
        ask(desk, challenge(offers, desk.office.keys))
    desk.dealer.stop()
    gate.go.set()
    with pytest.raises(Conflict):
        ask(desk, challenge(offers, desk.office.keys, "south"))


def test_no_seed_and_no_answer_is_ever_on_disk_or_in_a_log(
    desk: Desk, offers: Offers, slow: Slow, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    slow.go.set()
    given = dealt(offers, desk.get(offers))
    secrets = [secret for each in given.values() for secret in (each.mask, each.proof)]
    for receiver in offers.keys:
        asked = challenge(offers, desk.office.keys, receiver)
        sealed = fetched(partial(ask, desk, asked))
        secrets += [sealed[:32], sealed[-32:], opened(offers, asked, sealed)[:32]]
        with pytest.raises(Conflict):
            ask(desk, challenge(offers, desk.office.keys, receiver, OTHER), OTHER)
    assert len({*secrets}) == 10
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    stored += caplog.text.encode()
    assert offers.session.encode() in stored  # of the database it is the right one
    for secret in secrets:
        assert len(secret) == 32
        for form in (secret, secret.hex().encode(), repr(secret).encode()):
            assert form not in stored
