"""Dealing takes time: callers ask again, it is done once, and what fails or is cut off leaves nothing."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from coordinator.lifecycle import Cancelled
from coordinator.service import dealer as dealing
from coordinator.store.agreements import Agreement
from dprelease.errors import Conflict, IntegrityError, PeerUnavailable
from dprelease.mpc.correlated_randomness import deal
from dprelease.mpc.schedule import Schedule
from tests.coordinator.office import NOW
from tests.coordinator.sessions import Desk, Offers, Slow, approved, over_the_wire, world_offers
from tests.coordinator.world import SECONDS, Stub, World, ask, listed, until


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

    def failing(schedule: Schedule, dealer: str) -> Mapping[str, bytes]:
        if failures:
            raise failures.pop(0)
        return deal(schedule, dealer)

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
