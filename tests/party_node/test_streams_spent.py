"""Streams that an office or an operator bends: spent patients, foreign chains, lost blocks, unnamed mechanisms, delta."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dprelease.errors import SpecRefused
from dprelease.release.charges import charge
from dprelease.release.spec import ReleaseSpec
from party_node.state.books import check, reconcile
from tests.party_node.conftest import MakeWorld
from tests.party_node.streams import POLICY, first, following, grow, publish
from tests.party_node.world import Hospital, World
from tests.support.specs import with_terms
from tests.support.streams import first_spec

Logged = Callable[[], str]


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Logged:
    return lambda: "\n".join(record.getMessage() for record in caplog.records)


@pytest.fixture
def begun(make_world: MakeWorld) -> tuple[World, ReleaseSpec]:
    """A stream of mixed rows whose first checkpoint was published."""
    world = make_world(POLICY)
    grow(world, 1)
    spec = first(world, of="mixed", checkpoints=4)
    publish(world, spec)
    return world, spec


def _offered(world: World, spec: ReleaseSpec) -> str:
    """A proposal after a few looks of both hospitals."""
    release = world.coordinator.propose(spec)
    for _ in range(4):
        for hospital in (world.north, world.south):
            hospital.cycle()
    return release


def _file(hospital: Hospital, release: str, end: str) -> Path:
    return hospital.folder / "state" / "sealed" / f"{release}.{end}"


def test_patients_of_a_failed_checkpoint_are_in_no_later_one(begun: tuple[World, ReleaseSpec], logged: Logged) -> None:
    world, spec = begun
    grow(world, 2)
    failed = _offered(world, following(world, spec, 2))
    assert world.north.status(failed) == "delivered"
    world.coordinator.move(failed, "FAILED")
    grow(world, 3)
    for hospital in (world.north, world.south):
        lines = hospital.source.read_text().splitlines()
        moved = [line.removesuffix(",2") + ",3" if line.endswith(",2") else line for line in lines]
        hospital.source.write_text("\n".join(moved) + "\n")
        hospital.hospital_state().make_catalogue()
    drawn = len(world.north.noise.draws)
    again = _offered(world, following(world, spec, 3))
    assert world.north.status(again) == "declined"
    assert "rows of batch 2 changed, were removed or added after checkpoint 2 was sealed with them" in logged()
    assert not world.north.made(again)
    assert len(world.north.noise.draws) == drawn


def test_a_stream_goes_on_after_a_failed_checkpoint_whose_rows_stay(begun: tuple[World, ReleaseSpec]) -> None:
    world, spec = begun
    grow(world, 2)
    world.coordinator.move(_offered(world, following(world, spec, 2)), "FAILED")
    grow(world, 3)
    third = following(world, spec, 3)
    publish(world, third)
    grow(world, 4)
    publish(world, following(world, third, 4))


@pytest.mark.parametrize("approved", [False, True])
def test_a_checkpoint_that_was_closed_is_not_made_under_another_name(
    begun: tuple[World, ReleaseSpec], approved: bool
) -> None:
    world, spec = begun
    grow(world, 2)
    second = following(world, spec, 2)
    state, backup = world.north.folder / "state", world.north.folder / "backup"
    if approved:
        world.coordinator.propose(second)
        world.north.cycle()
    shutil.copytree(state, backup)
    publish(world, second)
    shutil.rmtree(state)
    backup.rename(state)
    seen = (charge(spec, "north", published=True), charge(second, "north", published=True))
    (closed,) = reconcile(replace(world.north.hospital_state().books, seen=seen))
    assert closed.release == second.digest()
    words = "checkpoint 2 of this stream was sealed here" if approved else "was closed when the books disagreed"
    with pytest.raises(SpecRefused, match=words):
        world.north.hospital_state().assess(second.model_copy(update={"created": "2026-01-01T00:00:00Z"}))


def test_nothing_is_kept_after_the_last_checkpoint_failed(make_world: MakeWorld) -> None:
    world = make_world(POLICY)
    grow(world, 1)
    spec = first(world, of="mixed", checkpoints=2)
    publish(world, spec)
    grow(world, 2)
    last = _offered(world, following(world, spec, 2))
    assert world.north.hospital_state().streams.folder.kept() == [spec.digest()]
    world.coordinator.move(last, "FAILED")
    world.north.cycle()
    assert not world.north.hospital_state().streams.folder.kept()
    check(world.north.hospital_state().books)


def test_a_checkpoint_on_a_release_of_no_stream_is_declined(begun: tuple[World, ReleaseSpec], logged: Logged) -> None:
    world, spec = begun
    single = world.spec("alone", rows=spec.rows)
    alone = world.coordinator.propose(single)
    for hospital in (world.north, world.south):  # it is paid for in part already, and policy leaves that to a person
        hospital.cycle()
        hospital.hospital_state().accept(hospital.record(alone))
    publish(world, single)
    grow(world, 2)
    release = _offered(world, with_terms(following(world, spec, 2), previous=alone))
    assert f"it adds to checkpoint {alone[:12]}, of which no block was sealed and charged here" in logged()
    assert world.coordinator.state(release) == "REJECTED"
    assert not world.north.ledger_kinds(release)


@pytest.mark.parametrize("altered", [False, True])
def test_a_checkpoint_begins_with_nothing_but_the_block_that_was_made(
    begun: tuple[World, ReleaseSpec], logged: Logged, altered: bool
) -> None:
    world, spec = begun
    block = _file(world.north, spec.digest(), "0.block")
    _file(world.north, spec.digest(), "seal").unlink()
    if altered:
        data = block.read_bytes()
        block.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    else:
        block.unlink()
    grow(world, 2)
    release = _offered(world, following(world, spec, 2))
    wrong = "not the one that was made" if altered else "gone"
    assert f"which this one begins with, is {wrong}; restore sealed/ from the latest backup" in logged()
    assert not world.north.ledger_kinds(release)


def test_delta_is_that_of_all_patients_for_whom_there_is_room(make_world: MakeWorld, logged: Logged) -> None:
    world = make_world(POLICY.replace("max_delta = 1e-4", "max_delta = 0.1"))
    grow(world, 1)
    small = first(world, of="mixed")
    target = small.target.model_copy(update={"delta": 0.5 / small.rows})
    large = first_spec(small.model_copy(update={"target": target}), of="mixed", checkpoints=3, k=4, most_rows=1000)
    assert world.coordinator.state(_offered(world, large)) == "REJECTED"
    assert "is not below 1/n = 0.001" in logged()


def test_a_policy_names_the_mechanism_of_a_stream_too(make_world: MakeWorld) -> None:
    world = make_world(POLICY.replace('"moments", ', ""))
    grow(world, 1)
    release = _offered(world, first(world, of="moments"))
    assert world.north.status(release) == "waiting"
    assert "mechanism moments is not among those allowed" in world.north.record(release).note
    assert world.coordinator.state(_offered(world, first(world, of="mixed"))) == "APPROVED"
