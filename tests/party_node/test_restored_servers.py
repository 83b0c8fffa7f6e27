"""An office or a hub that was restored from an older backup: a hospital tells them what they have forgotten, and no more."""

import pytest

from dprelease.errors import Conflict, NotFound, PeerUnavailable
from dprelease.release.accounting import guarantee
from dprelease.release.charges import Charge, charge
from dprelease.wire.news import News
from dprelease.wire.v1 import coordination_pb2 as pb
from party_node.outgoing.joining import hear_witness
from tests.party_node.test_daemon import running, until
from tests.party_node.test_notifications import look_seldom, settle
from tests.party_node.world import World, full_for


def tell(world: World, *charges: Charge) -> None:
    """What the office has seen, from now on."""
    told = world.authority.statement("north", *charges)
    world.coordinator.charges = lambda party: told


def reminded(world: World) -> list[pb.ApproveRequest]:
    """Every approval that the office is shown on a new connection."""
    before = len(world.coordinator.heard("Approve"))
    with world.north.dialled() as coordinator:
        assert hear_witness(world.north.hospital_state(), coordinator) is None
    return [pb.ApproveRequest.FromString(data) for data in world.coordinator.heard("Approve")[before:]]


def test_a_full_disk_delays_what_the_office_tells(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    tell(world)
    monkeypatch.setattr("dprelease.files.durable.os.open", full_for("charges.json"))
    with world.north.dialled() as coordinator, pytest.raises(PeerUnavailable, match="takes no more: No space left"):
        hear_witness(world.north.hospital_state(), coordinator)
    monkeypatch.undo()
    assert reminded(world) == []


def test_a_hold_of_a_forgotten_release_is_given_back(world: World) -> None:
    """Nobody would ever have said that it is over."""
    tell(world)
    release = world.approved()
    record = world.north.record(release)
    world.coordinator.records.clear()
    world.north.cycle()
    assert world.north.ledger_kinds(release) == ["reserve"]
    (shown,) = reminded(world)
    assert shown == pb.ApproveRequest(signed_consent=record.consent, proposal=record.spec.to_bytes())
    world.north.cycle()
    assert world.north.status(release) == "ended"
    assert world.north.ledger_kinds(release) == ["reserve", "refund"]
    assert reminded(world) == []


def test_what_others_have_put_down_as_over_is_shown_before_it_ends_here(world: World) -> None:
    """Another hospital showed its own approval first: the office lists the release as failed in the round after."""
    tell(world)
    release = world.approved()
    world.north.cycle()
    own = world.north.record(release).consent
    record = world.coordinator.records[release]
    record.consents.remove(own)
    world.coordinator.move(release, "FAILED")
    before = len(world.coordinator.heard("Approve"))
    world.north.cycle(2)
    shown = [pb.ApproveRequest.FromString(data) for data in world.coordinator.heard("Approve")[before:]]
    assert shown == [pb.ApproveRequest(signed_consent=own, proposal=record.proposal)]
    assert world.north.status(release) == "ended"


def test_a_release_ends_here_though_the_office_refuses_its_approval(world: World) -> None:
    release = world.approved()
    del world.coordinator.records[release].consents[:]
    world.coordinator.move(release, "FAILED")
    world.coordinator.raises["Approve"] = Conflict("the release is FAILED")
    world.north.cycle()
    assert world.north.status(release) == "ended"


def test_an_office_that_is_started_again_at_once_is_reminded_at_once(world: World) -> None:
    """The connection is never found broken: only its news say that it is another office."""
    tell(world)
    look_seldom(world)
    release = world.approved()
    with running(world.north):
        until(lambda: world.north.status(release) == "delivered")
        settle(world, world.north)
        reported, before = len(world.coordinator.heard("ReportCatalogue")), world.coordinator.news
        assert before is not None
        world.coordinator.records.clear()
        world.coordinator.news = News()
        before.stop()
        until(lambda: release in world.coordinator.records)
        until(lambda: len(world.coordinator.heard("ReportCatalogue")) > reported)


def test_what_was_charged_stays_charged_and_is_shown_though_it_is_over(world: World) -> None:
    tell(world)
    release = world.approved()
    world.north.cycle()
    assert world.north.status(release) == "delivered"
    world.coordinator.records.clear()
    (shown,) = reminded(world)
    assert shown.proposal == world.north.record(release).spec.to_bytes()
    world.north.cycle()
    assert world.north.status(release) == "ended"
    assert world.north.ledger_kinds(release) == ["reserve", "charge", "send"]
    assert world.north.hospital_state().ledger.balance("cohort").charged == guarantee(world.spec()).party("north").mu2
    world.coordinator.records.clear()  # as after another restore, or 30 days
    assert [each.proposal for each in reminded(world)] == [shown.proposal]


def test_an_office_that_knows_is_shown_nothing(world: World) -> None:
    """Neither what waits for others, nor what is listed with our approval, nor what is in the statement."""
    tell(world)
    waiting = world.propose("waits for the south", columns=("age",))
    release = world.approved()
    world.north.cycle()
    assert world.north.status(waiting) == "approved"
    assert reminded(world) == []
    tell(world, charge(world.north.record(release).spec, "north", published=False))
    del world.coordinator.records[release]
    assert reminded(world) == []


def test_an_office_that_refuses_holds_up_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    tell(world)
    release = world.approved()
    del world.coordinator.records[release]
    world.coordinator.raises["Approve"] = NotFound("no such release")
    assert len(reminded(world)) == 1
    assert f"the office does not know release {release[:12]}, which was approved here" in caplog.text
    assert world.north.ledger_kinds(release) == ["reserve"]


def test_a_hub_that_has_forgotten_a_block_is_sent_the_same_bytes(world: World) -> None:
    release = world.approved()
    world.north.cycle()
    block, draws = world.block(release, "north"), len(world.north.noise.draws)
    world.hub.blocks.clear()
    world.north.cycle(3)  # a daemon that has just started asks once
    assert world.block(release, "north") == block
    assert len(world.north.noise.draws) == draws
    assert len(world.hub.offsets) == 2
    assert world.north.ledger_kinds(release) == ["reserve", "charge", "send"]
    announced = len(world.hub.sealed)
    world.coordinator.move(release, "PUBLISHED")
    world.hub.blocks.clear()
    world.north.cycle(2)
    assert len(world.hub.sealed) == announced
