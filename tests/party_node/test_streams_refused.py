"""What is no honest continuation of a stream: nothing is charged, drawn or sent for it, and one sentence says why."""

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dprelease.errors import DataRefused, IntegrityError, InvalidInput
from dprelease.release.spec import ReleaseSpec
from party_node.state.books import check as check_books
from party_node.state.books import mismatches
from tests.party_node.conftest import MakeWorld
from tests.party_node.streams import POLICY, first, following, grow, lines_of, publish
from tests.party_node.world import World
from tests.support.specs import with_terms

DRAWS_OF_ONE_CHECKPOINT = 2
NORTH = ("north",)


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    """The north alone has published the first checkpoint of a stream, and has new rows."""
    made = make_world(POLICY)
    grow(made, 1)
    return made


@pytest.fixture
def begun(world: World) -> tuple[World, ReleaseSpec]:
    spec = first(world, *NORTH, checkpoints=4)
    publish(world, spec)
    grow(world, 2)
    return world, spec


def refused(world: World, spec: ReleaseSpec) -> None:
    """The north takes no part, and its books, its noise and the hub are as before."""
    ledger, draws = world.north.hospital_state().ledger.verify(), len(world.north.noise.draws)
    sent, left = len(world.hub.sealed), world.north.hospital_state().ledger.balance("cohort").remaining
    release = world.coordinator.propose(spec)
    world.north.cycle(3)
    assert world.north.status(release) == "declined"
    hospital_state = world.north.hospital_state()
    kinds = world.north.ledger_kinds(release)
    assert kinds in ([], ["reserve", "refund"])
    assert (hospital_state.ledger.verify() == ledger) == (kinds == [])
    assert hospital_state.ledger.balance("cohort").remaining == left
    assert (len(world.north.noise.draws), len(world.hub.sealed)) == (draws, sent)
    assert mismatches(hospital_state.books) == []


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    return lambda: caplog.text


def other_scale(spec: ReleaseSpec) -> ReleaseSpec:
    terms: Any = spec.terms
    return with_terms(spec, of=terms.of.model_copy(update={"scale": terms.of.scale / 2}))


def other_past(spec: ReleaseSpec) -> ReleaseSpec:
    terms: Any = spec.terms
    return with_terms(spec, history=tuple(each.model_copy(update={"rows": 11}) for each in terms.history))


FORGED: dict[str, tuple[Callable[[ReleaseSpec], ReleaseSpec], str]] = {
    "smaller noise": (other_scale, "changes what the stream's first one fixed: of"),
    "more checkpoints": (lambda spec: with_terms(spec, checkpoints=9), "changes what the stream's first one fixed"),
    "room for more": (lambda spec: with_terms(spec, most_rows=10**6), "changes what the stream's first one fixed"),
    "another previous": (
        lambda spec: with_terms(spec, previous="0" * 64),
        "of which no block was sealed and charged here",
    ),
    "another stream": (lambda spec: with_terms(spec, first="0" * 64), "another stream's first"),
    "another title": (lambda spec: spec.model_copy(update={"title": "cheaper"}), "fixed: title"),
    "other rows in the past": (other_past, "has another history"),
    "other new rows": (
        lambda spec: spec.model_copy(update={"rows": 9}),
        "the release says rows = 9, and here it is 20",
    ),
    "other patients": (lambda spec: spec.model_copy(update={"alignment": "0" * 64}), "the release says alignment"),
}


@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_continuation(begun: tuple[World, ReleaseSpec], logged: Callable[[], str], forged: str) -> None:
    world, spec = begun
    forge, words = FORGED[forged]
    refused(world, forge(following(world, spec, 2)))
    assert words in logged()
    publish(world, following(world, spec, 2, expires="2099-01-01T00:00:00Z"))


def test_a_number_twice_or_out_of_order(begun: tuple[World, ReleaseSpec], logged: Callable[[], str]) -> None:
    world, spec = begun
    grow(world, 3)
    publish(world, following(world, spec, 3))
    for number in (2, 3):
        refused(world, following(world, spec, number, expires="2099-01-01T00:00:00Z"))
    assert logged().count("checkpoint 3 of this stream was sealed here: none up to it is made, or made again") == 2


def test_after_the_last_checkpoint(world: World) -> None:
    spec = first(world, *NORTH, checkpoints=1)
    publish(world, spec)
    grow(world, 2)
    with pytest.raises(InvalidInput, match="the stream has 1 checkpoints, so there is no checkpoint 2"):
        following(world, spec, 2)


def test_of_two_proposals_of_one_checkpoint_one_is_made(
    begun: tuple[World, ReleaseSpec], logged: Callable[[], str]
) -> None:
    world, spec = begun
    both = [world.coordinator.propose(following(world, spec, 2, expires=f"2099-01-0{day}T00:00:00Z")) for day in (1, 2)]
    draws = len(world.north.noise.draws)
    for _ in range(5):
        world.north.cycle()
    assert sorted(world.north.status(release) for release in both) == ["declined", "delivered"]
    assert len(world.north.noise.draws) == draws + DRAWS_OF_ONE_CHECKPOINT
    assert "checkpoint 2 of this stream was sealed here" in logged()
    assert mismatches(world.north.hospital_state().books) == []


def test_a_stream_that_nobody_approved_here(world: World, logged: Callable[[], str]) -> None:
    spec = first(world, *NORTH)
    grow(world, 2)
    refused(world, following(world, spec, 2))
    assert "of which no block was sealed and charged here" in logged()


def test_a_first_checkpoint_is_of_the_first_batch(world: World, logged: Callable[[], str]) -> None:
    grow(world, 2)
    batch = world.north.hospital_state().catalogue().of_batch(2)
    spec = first(world, *NORTH).model_copy(update={"rows": batch.rows, "alignment": batch.alignment})
    refused(world, spec)
    assert "the release says alignment" in logged()


@pytest.mark.parametrize("how", ["changed", "removed", "late", "twice"])
def test_rows_that_are_not_what_they_were(
    begun: tuple[World, ReleaseSpec], logged: Callable[[], str], how: str
) -> None:
    world, spec = begun
    header, *lines = lines_of(world.north, 2)
    old = next(line for line in lines if line.endswith(",1"))
    new = next(line for line in lines if line.endswith(",2"))
    cells = old.split(",")
    table = {
        "changed": [",".join([cells[0], "99.5", *cells[2:]]) if line == old else line for line in lines],
        "removed": [line for line in lines if line != old],
        "late": [*lines, "subject-9999,50,male,1"],
        "twice": [",".join([cells[0], *new.split(",")[1:]]) if line == new else line for line in lines],
    }[how]
    world.north.source.write_text("\n".join([header, *table]) + "\n")
    refused(world, following(world, spec, 2))
    assert ("repeat an identifier" if how == "twice" else "rows of batch 1 changed, were removed or added") in logged()
    assert old.split(",")[0] not in logged()
    grow(world, 2)
    publish(world, following(world, spec, 2, expires="2099-01-01T00:00:00Z"))


def test_new_rows_that_change_after_the_approval_and_are_lost(
    begun: tuple[World, ReleaseSpec], logged: Callable[[], str]
) -> None:
    world, spec = begun
    release = world.coordinator.propose(following(world, spec, 2))
    world.north.cycle()
    world.north.source.write_text(world.north.source.read_text().replace(",male,2", ",female,2"))
    world.north.hospital_state().frozen(release).erase()
    draws = len(world.north.noise.draws)
    world.north.cycle(2)
    assert world.north.status(release) == "declined"
    assert "the columns changed after they were approved" in logged()
    assert len(world.north.noise.draws) == draws
    assert world.north.hospital_state().streams.folder.kept() == [spec.digest()]  # another checkpoint 2 may come


def test_a_stream_that_was_ended(begun: tuple[World, ReleaseSpec], logged: Callable[[], str]) -> None:
    world, spec = begun
    assert world.north.hospital_state().streams.folder.kept() == [spec.digest()]
    result = world.north.run("review", "decline", spec.digest()[:12], "--reason", "the study is over")
    assert result.exit_code == 0
    assert world.north.hospital_state().streams.folder.kept() == []
    check_books(world.north.hospital_state().books)
    refused(world, following(world, spec, 2))
    assert f"stream {spec.digest()[:12]} was ended here" in logged()


def test_a_stream_whose_first_checkpoint_failed_is_ended_by_a_person(world: World) -> None:
    release = world.coordinator.propose(first(world, *NORTH))
    world.north.cycle(3)
    assert world.north.status(release) == "delivered"
    world.coordinator.move(release, "FAILED")
    world.north.cycle()
    kept = world.north.hospital_state().streams.folder
    assert kept.kept() == [release]  # the office may find that it was published
    assert world.north.run("review", "decline", release[:12], "--reason", "it failed").exit_code == 0
    assert kept.kept() == []
    check_books(world.north.hospital_state().books)


def test_nothing_is_kept_of_a_stream_that_was_given_up_before_any_block(world: World) -> None:
    release = world.coordinator.propose(first(world, "north", "south"))
    world.north.cycle()
    assert world.north.status(release) == "approved"
    world.north.hospital_state().streams.folder.keep(release, 1, release, np.zeros((1, 1), np.int64))
    world.coordinator.move(release, "CANCELLED")
    world.north.cycle()
    assert world.north.ledger_kinds(release) == ["reserve", "refund"]
    assert world.north.hospital_state().streams.folder.kept() == []


def lose(world: World) -> None:
    shutil.rmtree(world.north.folder / "state" / "streams")


def age(world: World) -> None:
    for path in (world.north.folder / "state" / "streams").rglob("*.increment"):
        path.write_bytes(path.read_bytes()[:-1] + b"\1")


@pytest.mark.parametrize(("harm", "words"), [(lose, "is gone"), (age, "is older")])
def test_what_is_kept_is_lost_or_older(
    begun: tuple[World, ReleaseSpec], harm: Callable[[World], None], words: str
) -> None:
    world, spec = begun
    before = world.north.folder.parent / "backup"
    shutil.copytree(world.north.folder / "state" / "streams", before)
    harm(world)
    with pytest.raises(
        IntegrityError, match=rf"the books disagree.* add to {words}.*1\.increment of checkpoint 1; restore"
    ):
        check_books(world.north.hospital_state().books)
    release = world.coordinator.propose(following(world, spec, 2))
    draws = len(world.north.noise.draws)
    world.north.cycle(2)
    assert world.north.status(release) == "waiting"  # until it is restored
    assert words in world.north.record(release).note
    assert len(world.north.noise.draws) == draws
    shutil.rmtree(world.north.folder / "state" / "streams", ignore_errors=True)
    shutil.copytree(before, world.north.folder / "state" / "streams")
    world.north.cycle(4)
    assert world.north.status(release) == "delivered"


def test_a_stream_that_was_reconciled_is_over(begun: tuple[World, ReleaseSpec], logged: Callable[[], str]) -> None:
    world, spec = begun
    lose(world)
    charged = world.north.hospital_state().ledger.balance("cohort").charged
    assert world.north.run("ledger", "reconcile", "--yes").exit_code == 0
    check_books(world.north.hospital_state().books)
    assert world.north.hospital_state().ledger.balance("cohort").charged == charged
    refused(world, following(world, spec, 2))
    assert "of which no block was sealed and charged here" in logged()


def test_a_stream_of_the_same_columns_is_for_a_person(begun: tuple[World, ReleaseSpec]) -> None:
    world, spec = begun
    again = spec.model_copy(update={"title": "again"})
    release = world.coordinator.propose(again)
    world.north.cycle()
    assert world.north.status(release) == "waiting"
    assert (
        f"you would pay again for what release {spec.digest()[:12]} published already"
        in world.north.record(release).note
    )


def test_a_batch_that_is_not_there_waits(begun: tuple[World, ReleaseSpec]) -> None:
    world, spec = begun
    grow(world, 3)
    proposal = following(world, spec, 3)
    grow(world, 2)
    release = world.coordinator.propose(proposal)
    world.north.cycle(2)
    assert world.north.status(release) == "waiting"
    assert "the table of north has no batch 3; its last one is 2" in world.north.record(release).note
    grow(world, 3)
    world.north.cycle(4)
    assert world.north.status(release) == "delivered"


def test_rows_above_q_keep_the_table_from_being_reported(begun: tuple[World, ReleaseSpec]) -> None:
    world, _ = begun
    lines = lines_of(world.north, 2)
    world.north.source.write_text("\n".join([*lines, lines[1].rsplit(",", 1)[0] + ",3"]) + "\n")
    with pytest.raises(DataRefused, match="1 rows repeat an identifier"):
        world.north.hospital_state().make_catalogue()
