"""When the hospital says no: to a proposal that does not check out, to data that changed, and in the middle of things."""

from collections.abc import Callable

import pytest

from dprelease.errors import Conflict, DataRefused, PeerUnavailable
from dprelease.wire.v1 import coordination_pb2
from party_node.hospital import HospitalState
from party_node.state.journal import Status
from tests.party_node.world import Hospital, World
from tests.support.specs import with_terms


def reasons(world: World) -> list[str]:
    """What the coordinator was told."""
    return [coordination_pb2.DeclineRequest.FromString(data).reason for data in world.coordinator.heard("Decline")]


def test_a_release_that_the_budget_does_not_allow_is_declined(world: World) -> None:
    world.north.hospital_state().ledger.reserve(
        "cohort", "f" * 64, world.north.hospital_state().ledger.balance("cohort").remaining, {}
    )
    release = world.propose()
    world.north.cycle()
    assert reasons(world) == ["The privacy budget does not allow this."]
    assert world.north.ledger_kinds(release) == []


def one_cell(hospital: Hospital) -> None:
    lines = hospital.source.read_text().splitlines()
    subject, _, sex = lines[7].split(",")
    lines[7] = f"{subject},99.5,{sex}"
    hospital.source.write_text("\n".join(lines) + "\n")


def test_a_coordinator_that_is_away_hears_the_refusal_later(world: World) -> None:
    release = world.approved()
    one_cell(world.north)
    world.north.hospital_state().frozen(release).erase()
    world.coordinator.raises["Decline"] = PeerUnavailable("x")
    world.north.cycle()
    assert world.coordinator.state(release) == "APPROVED"
    del world.coordinator.raises["Decline"]
    world.north.cycle()
    assert world.north.ledger_kinds(release) == ["reserve", "refund"]
    assert world.coordinator.state(release) == "FAILED"


def test_a_persons_reason_survives_trouble_on_the_way(careful: World) -> None:
    release, north = careful.propose(), careful.north
    north.cycle()
    north.hospital_state().decline(north.record(release), "the ethics board first")
    careful.coordinator.raises["Decline"] = PeerUnavailable("x")
    north.cycle(2)
    assert north.record(release).note == "the ethics board first"
    del careful.coordinator.raises["Decline"]
    north.cycle(2)
    assert reasons(careful) == ["the ethics board first"] * 3
    assert careful.coordinator.state(release) == "REJECTED"


def interleave(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, act: Callable[[], None]) -> None:
    """Let somebody act, once, just before the daemon does something."""
    original, done = getattr(owner, name), []

    def first(*arguments: object) -> object:
        if not done:
            done.append(1)
            act()
        return original(*arguments)

    monkeypatch.setattr(owner, name, first)


def test_a_person_who_declines_while_the_daemon_reads_the_table_is_obeyed(
    careful: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, north = careful.propose(), careful.north
    north.cycle()
    north.hospital_state().accept(north.record(release))
    interleave(monkeypatch, HospitalState, "table", lambda: north.hospital_state().decline(north.record(release), "no"))
    north.cycle()
    assert careful.coordinator.heard("Approve") == []
    north.cycle()
    assert north.ledger_kinds(release) == ["reserve", "refund"]
    assert reasons(careful) == ["no"]
    assert north.status(release) == "declined"


def test_what_a_person_declined_while_everybody_else_approved_is_withdrawn(careful: World) -> None:
    release, north = careful.propose(), careful.north
    north.cycle()
    north.hospital_state().decline(north.record(release), "no")
    careful.coordinator.move(release, "APPROVED")
    north.cycle()
    assert careful.coordinator.state(release) == "FAILED"


@pytest.mark.parametrize("status", [Status.APPROVED, Status.SEALED, Status.DELIVERED, Status.DECLINED, Status.ENDED])
def test_a_person_can_decline_only_what_is_not_signed(world: World, status: Status) -> None:
    release = world.propose()
    world.north.cycle()
    journal = world.north.hospital_state().journal
    journal.move(release, set(Status), status, "as it is")
    with pytest.raises(Conflict, match=f"is {status.value} here"):
        world.north.hospital_state().decline(world.north.record(release), "too late")
    assert world.north.record(release).note == "as it is"
    assert world.north.ledger_kinds(release) == ["reserve"]


def test_a_release_given_up_here_is_never_approved_again(careful: World) -> None:
    release, north = careful.propose(), careful.north
    north.cycle()
    hospital_state = north.hospital_state()
    hospital_state.accept(north.record(release))
    hospital_state.ledger.reserve("cohort", release, hospital_state.assess(careful.spec()).cost, {})
    hospital_state.ledger.refund("cohort", release)  # as after a power cut between freeing and the journal's note
    north.cycle(2)
    assert careful.coordinator.heard("Approve") == []
    assert "given up here" in north.record(release).note


def test_giving_up_twice_changes_nothing(world: World) -> None:
    release = world.propose()
    world.north.cycle()
    hospital_state = world.north.hospital_state()
    for _ in range(2):
        hospital_state.give_up(hospital_state.journal.find(release), Status.ENDED, "over")
    assert world.north.ledger_kinds(release) == ["reserve", "refund"]


def test_a_spec_without_our_columns_is_refused_in_every_way(world: World) -> None:
    spec = world.spec()
    stranger = with_terms(spec, noise=spec.terms.noise[1:]).model_copy(update={"parties": spec.parties[1:]})
    with pytest.raises(DataRefused, match="no columns of ours"):
        world.north.hospital_state().table(stranger)
    release = world.coordinator.propose(stranger)
    world.north.cycle()
    assert world.north.status(release) == "declined"
