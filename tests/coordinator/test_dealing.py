"""The coordinator as a dealer: what every party gets, once for a round, and until the release ends.

Dealing takes time: callers ask again, it is done once, and what fails or is cut off leaves nothing.
"""

import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from coordinator.lifecycle import Cancelled, Declined, IntakeReported, PublicationAuthorized, PublicationReported, Tick
from coordinator.service import dealer as dealing
from coordinator.store.agreements import Agreement
from coordinator.store.store import Store
from dprelease.errors import Conflict, IntegrityError, PeerUnavailable
from dprelease.mpc.encryption import new_session_key, public_bytes, unseal
from dprelease.mpc.messages import MOST_ROUNDS, sign_message
from dprelease.mpc.schedule import DealtSeeds, Schedule, deal
from tests.coordinator.office import NOW, RUN_TIME, catalogue, two_hospitals
from tests.coordinator.sessions import Desk, Offers, Slow, approved, offer, over_the_wire, world_offers
from tests.coordinator.test_moments_proposals import BMI, SMOKER
from tests.coordinator.world import SECONDS, Stub, World, ask, listed, report, until

LATER = NOW + timedelta(hours=1)


def test_every_party_gets_its_half_of_exact_correlations_over_the_wire(world: World, two: tuple[Stub, Stub]) -> None:
    stubs = {"north": two[0], "south": two[1]}
    offers = world_offers(world, stubs)
    sealed = over_the_wire(stubs, offers)
    offers.check_correlations(sealed)
    for party, stub in stubs.items():
        assert ask(stub.RequestDeal, offers.request()).sealed == sealed[party]
    world.stop()
    world.start()
    assert ask(world.as_party("south").RequestDeal, offers.request()).sealed == sealed["south"]


def test_three_of_whom_two_may_be_curious(world: World, two: tuple[Stub, Stub]) -> None:
    stubs = {"north": two[0], "south": two[1], "west": world.join("west")}
    report(stubs["west"], "west", columns=(SMOKER, BMI))
    offers = world_offers(world, stubs, collusion_threshold=2)
    sealed = over_the_wire(stubs, offers)
    offers.check_correlations(sealed)
    for party, data in sealed.items():
        for other in stubs.keys() - {party}:
            for context in (offers.context(party), offers.context(other)):
                with pytest.raises(IntegrityError, match="the coordinator sent does not open"):
                    unseal(offers.keys[other], data, context)


@pytest.mark.parametrize("collusion_threshold", [1, 2])
def test_the_specs_order_is_what_counts(store: Store, collusion_threshold: int) -> None:
    office = two_hospitals(store)
    office.enrol("west")
    office.report(catalogue("west", columns=(SMOKER, BMI)))
    parties = dict.fromkeys(("west", "north", "south"), "*")
    release = approved(office, parties=parties, collusion_threshold=collusion_threshold, dealer="coordinator")
    desk, offers = Desk(office), Offers.of(release.read_spec(), office.keys)
    sealed = desk.get(offers)
    assert tuple(sealed) == ("west", "north", "south")
    offers.check_correlations(sealed)
    assert desk.rows() == [(offers.session, party, 1) for party in ("north", "south", "west")]


def test_a_running_release_is_still_dealt_for(desk: Desk, release: Agreement, offers: Offers) -> None:
    advance(desk.office.store, release.digest, IntakeReported(frozenset({"south"})))
    offers.check_correlations(desk.get(offers))


def test_two_sessions_have_nothing_in_common(desk: Desk, offers: Offers) -> None:
    other = Offers.of(offers.spec, desk.office.keys, number=2)
    first, second = (unseal(one.keys["north"], desk.get(one)["north"], one.context("north")) for one in (offers, other))
    assert len(first) == len(second) == 96  # a mask's seed, a seed of proofs and the seed r of the one pair
    assert not {first[:32], first[32:64], first[64:]} & {second[:32], second[32:64], second[64:]}


def test_nothing_that_was_dealt_is_ever_on_disk_in_the_clear(
    desk: Desk, offers: Offers, slow: Slow, tmp_path: Path
) -> None:
    slow.go.set()
    sealed = desk.get(offers)
    (made,) = slow.made
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for party, message in made.items():
        assert sealed[party] in stored
        for start in range(0, len(message), 32):
            assert message[start : start + 32] not in stored


def test_a_round_has_one_session_and_rounds_do_not_go_back(desk: Desk, offers: Offers) -> None:
    spec, keys = offers.spec, desk.office.keys
    first = desk.get(offers)
    with pytest.raises(Conflict, match=r"another session of release .* was dealt for in round 1 already"):
        desk.ask(Offers.of(spec, keys), "north")
    third = Offers.of(spec, keys, number=3)
    desk.get(third)
    for number in (2, 3):
        with pytest.raises(Conflict, match="in round 3 already"):
            desk.ask(Offers.of(spec, keys, number), "south")
    assert desk.get(offers) == first
    desk.get(Offers.of(spec, keys, MOST_ROUNDS))
    assert {number for _, _, number in desk.rows()} == {1, 3, MOST_ROUNDS}


def test_one_partys_second_offer_makes_no_second_deal(desk: Desk, offers: Offers) -> None:
    """Whoever signs two offers for a round makes two sessions; the coordinator deals for one of them."""
    desk.get(offers)
    header = offer(offers.spec, "south", public_bytes(new_session_key()).hex())
    again = sign_message(desk.office.keys["south"], header)
    with pytest.raises(Conflict):
        desk.ask(Offers(offers.spec, [offers.parcels[0], again], offers.keys), "north")
    assert {session for session, _, _ in desk.rows()} == {offers.session}


def advance(store: Store, digest: str, *events: Any) -> None:
    with store.writing() as tx:
        for event in events:
            tx.releases.advance(digest, event, LATER)


ENDS: dict[str, Callable[[Store, str], object]] = {
    "declined": lambda store, digest: advance(store, digest, Declined("north")),
    "cancelled": lambda store, digest: advance(store, digest, Cancelled("no")),
    "published": lambda store, digest: advance(store, digest, PublicationAuthorized(), PublicationReported("cd" * 32)),
    "revoked": lambda store, digest: store.revoke("north", LATER),
    "overdue": lambda store, digest: store.tick(NOW + RUN_TIME),
}


@pytest.mark.parametrize("end", ENDS)
def test_when_a_release_ends_its_deals_are_gone(desk: Desk, release: Agreement, offers: Offers, end: str) -> None:
    desk.get(offers)
    desk.get(Offers.of(offers.spec, desk.office.keys, number=2))
    assert len(desk.rows()) == 4
    ENDS[end](desk.office.store, release.digest)
    assert desk.rows() == []
    with pytest.raises(Conflict, match="nothing is dealt now"):
        desk.ask(offers, "south")


def test_another_releases_deals_stay(desk: Desk, release: Agreement, offers: Offers) -> None:
    other = Offers.of(approved(desk.office, title="another").read_spec(), desk.office.keys)
    desk.get(offers)
    desk.get(other)
    advance(desk.office.store, release.digest, Cancelled("no"))
    assert {session for session, _, _ in desk.rows()} == {other.session}


def test_deals_are_kept_by_session_and_party_until_the_release_ends(any_store: Store) -> None:
    office = two_hospitals(any_store)
    first, second = approved(office), approved(office, title="another")
    with any_store.writing() as tx:
        tx.deals.add(first.digest, 2, "5" * 64, {"north": b"n", "south": b"s"})
        tx.deals.add(second.digest, 1, "6" * 64, {"north": b"other", "south": b""})
    with any_store.reading() as tx:
        assert tx.deals.find("5" * 64, "north") == b"n"
        assert tx.deals.find("5" * 64, "south") == b"s"
        assert tx.deals.find("6" * 64, "south") == b""
        assert tx.deals.find("7" * 64, "south") is None
        assert tx.deals.find("5" * 64, "west") is None
        tx.deals.check_turn(first.digest, 3)
        for number in (1, 2):
            with pytest.raises(Conflict):
                tx.deals.check_turn(first.digest, number)
    for number, session in ((1, "8" * 64), (2, "8" * 64), (2, "5" * 64)):
        with pytest.raises(Conflict), any_store.writing() as tx:
            tx.deals.add(first.digest, number, session, {"north": b"x", "south": b"y"})
    with any_store.writing() as tx:
        tx.releases.advance(first.digest, Tick(), NOW + RUN_TIME)
    with any_store.reading() as tx:
        assert tx.deals.find("5" * 64, "north") is None
        assert tx.deals.find("6" * 64, "north") == b"other"


def test_the_office_answers_others_while_it_is_making_a_deal(world: World, two: tuple[Stub, Stub], slow: Slow) -> None:
    stubs = {"north": two[0], "south": two[1]}
    offers = world_offers(world, stubs)
    for _ in range(20):  # more calls than there are threads
        for stub in two:
            with pytest.raises(PeerUnavailable):
                ask(stub.RequestDeal, offers.request())
    assert [found for found, _ in listed(two[0])] == [bytes.fromhex(offers.spec.digest())]
    slow.go.set()
    offers.check_correlations(over_the_wire(stubs, offers))
    assert len(slow.begun) == 1


def test_however_many_ask_a_deal_is_made_once(desk: Desk, offers: Offers, slow: Slow) -> None:
    answers: list[object] = []

    def call(party: str) -> None:
        try:
            answers.append(desk.ask(offers, party))
        except PeerUnavailable as error:
            answers.append(error.message)

    callers = [threading.Thread(target=call, args=(party,)) for party in ("north", "south") * 6]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(SECONDS)
    assert len(answers) == 12
    assert all("is being made; ask again" in str(answer) for answer in answers)
    assert desk.rows() == []
    slow.go.set()
    offers.check_correlations(desk.get(offers))
    assert len(slow.begun) == 1


def test_a_second_session_does_not_start_beside_the_first(desk: Desk, offers: Offers, slow: Slow) -> None:
    other = Offers.of(offers.spec, desk.office.keys)
    for one in (offers, other, other):
        with pytest.raises(PeerUnavailable):
            desk.ask(one, "north")
    slow.go.set()
    desk.get(offers)
    with pytest.raises(Conflict):
        desk.ask(other, "north")
    assert len(slow.begun) == 1


def test_one_deal_is_made_at_a_time(desk: Desk, offers: Offers, slow: Slow) -> None:
    other = Offers.of(approved(desk.office, title="another").read_spec(), desk.office.keys)
    for one in (offers, other):
        with pytest.raises(PeerUnavailable):
            desk.ask(one, "north")
    until(lambda: bool(slow.begun))
    slow.go.set()
    desk.get(offers)
    desk.get(other)
    assert (len(slow.begun), slow.most) == (2, 1)


def test_two_coordinators_on_one_database_agree_on_one_deal(desk: Desk, offers: Offers, slow: Slow) -> None:
    """Both make one; the first that is kept counts, the other is dropped."""
    second = Desk(desk.office)
    for one in (desk, second):
        with pytest.raises(PeerUnavailable):
            one.ask(offers, "north")
    until(lambda: len(slow.begun) == 2)
    slow.go.set()
    until(lambda: desk.idle and second.idle)
    assert len(slow.made) == 2
    sealed = desk.get(offers)
    assert second.get(offers) == sealed
    offers.check_correlations(sealed)
    assert len(desk.rows()) == 2


def test_work_that_fails_leaves_nothing_and_is_begun_anew(
    desk: Desk, offers: Offers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [MemoryError(), IntegrityError("something that was foreseen")]

    def failing(schedule: Schedule, dealer: str, kept: DealtSeeds) -> Mapping[str, bytes]:
        if failures:
            raise failures.pop(0)
        return deal(schedule, dealer, kept=kept)

    monkeypatch.setattr(dealing, "deal", failing)
    for word in ("MemoryError", "something that was foreseen"):
        with pytest.raises(PeerUnavailable):
            desk.ask(offers, "north")
        until(lambda: desk.idle)
        assert desk.rows() == []
        assert word in caplog.text
    offers.check_correlations(desk.get(offers))


def test_a_deal_is_kept_for_all_parties_or_for_none(
    desk: Desk, offers: Offers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: object, *arguments: object, **named: object) -> None:
        raise PeerUnavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("coordinator.store.agreements.History.note", full)  # in the same transaction, after the deals
        with pytest.raises(PeerUnavailable, match="being made"):
            desk.ask(offers, "north")
        until(lambda: desk.idle)
    assert desk.rows() == []
    offers.check_correlations(desk.get(offers))


def test_a_release_that_ends_while_its_deal_is_made_keeps_nothing(
    desk: Desk, release: Agreement, offers: Offers, slow: Slow
) -> None:
    with pytest.raises(PeerUnavailable):
        desk.ask(offers, "north")
    with desk.office.store.writing() as tx:
        tx.releases.advance(release.digest, Cancelled("no"), NOW)
    slow.go.set()
    until(lambda: desk.idle)
    assert len(slow.made) == 1
    assert desk.rows() == []


def test_a_server_that_stops_does_not_wait_for_a_deal_and_the_next_begins_anew(
    world: World, two: tuple[Stub, Stub], slow: Slow
) -> None:
    offers = world_offers(world, {"north": two[0], "south": two[1]})
    with pytest.raises(PeerUnavailable):
        ask(two[0].RequestDeal, offers.request())
    assert world.server is not None
    dealer = world.server._dealer
    world.stop()
    slow.go.set()
    until(lambda: not dealer._under_way)
    assert len(slow.made) == 1
    with world.store().reading() as tx:
        assert tx.deals.find(offers.session, "north") is None
    world.start()
    stubs = {party: world.as_party(party) for party in ("north", "south")}
    offers.check_correlations(over_the_wire(stubs, offers))
    assert len(slow.made) == 2
