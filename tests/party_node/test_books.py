"""Stores that were restored from backups of different moments are recognised, and never lead to a second block."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.accounting import guarantee
from dprelease.errors import Conflict, IntegrityError
from party_node.books import check, mismatches, reconcile
from tests.party_node.joint_release import approved as approved_moments
from tests.party_node.joint_release import deliver
from tests.party_node.test_restart import approved
from tests.party_node.world import CAP, World

STORES = ("ledger.sqlite", "journal.sqlite", "sealed")


def back_up(world: World) -> Path:
    state = world.north.folder / "state"
    copy = world.north.folder / "backup"
    copy.mkdir()
    for name in STORES:
        if (state / name).is_dir():
            shutil.copytree(state / name, copy / name)
        elif (state / name).exists():
            shutil.copy(state / name, copy / name)
    return copy


def restore(world: World, copy: Path, *names: str) -> None:
    """Bring stores back as they were; what was not there then is gone."""
    state = world.north.folder / "state"
    for name in names:
        if (state / name).is_dir():
            shutil.rmtree(state / name)
        else:
            (state / name).unlink()
        if (copy / name).is_dir():
            shutil.copytree(copy / name, state / name)
        elif (copy / name).exists():
            shutil.copy(copy / name, state / name)


def north(world: World) -> tuple[object, object, object, str]:
    desk = world.north.desk()
    return desk.ledger, desk.journal, desk.vault, "north"


def mixed(world: World) -> tuple[str, Path]:
    """A delivered release, and a backup from before its block was made."""
    release = approved(world)
    copy = back_up(world)
    world.north.cycle(2)
    assert world.north.status(release) == "delivered"
    return release, copy


def moments(world: World) -> tuple[str, Path]:
    release = approved_moments(world)
    copy = back_up(world)
    deliver(world)
    assert world.north.status(release) == "delivered"
    return release, copy


@pytest.mark.parametrize("make", [mixed, moments])
@pytest.mark.parametrize(
    "names", [("journal.sqlite", "sealed"), ("sealed",), ("ledger.sqlite",), ("ledger.sqlite", "sealed")]
)
def test_no_second_block_after_any_partial_restore(
    world: World, make: Callable[[World], tuple[str, Path]], names: tuple[str, ...]
) -> None:
    release, copy = make(world)
    before, draws = world.block(release, "north"), len(world.north.noise.draws)
    restore(world, copy, *names)
    with pytest.raises(
        IntegrityError, match=r"the books disagree.*restore ledger.sqlite, journal.sqlite and sealed/"
    ) as told:
        check(*north(world))
    assert release[:12] in told.value.message
    with pytest.raises(IntegrityError, match="the books disagree"):
        world.north.daemon().run(threading.Event())
    world.hub.blocks.clear()
    world.hub.sealed.clear()
    deliver(world)  # even where nothing looked at the books first
    assert len(world.north.noise.draws) == draws
    assert world.hub.blocks.get((release, "north"), before) == before


@pytest.mark.parametrize("make", [mixed, moments])
def test_with_an_older_journal_alone_the_same_block_is_sent_again(
    world: World, make: Callable[[World], tuple[str, Path]]
) -> None:
    release, copy = make(world)
    before, draws = world.block(release, "north"), len(world.north.noise.draws)
    restore(world, copy, "journal.sqlite")
    check(*north(world))
    world.hub.blocks.clear()
    world.hub.sealed.clear()
    deliver(world)
    assert len(world.north.noise.draws) == draws
    assert world.block(release, "north") == before
    assert world.north.status(release) == "delivered"


def test_books_of_one_moment_agree_also_when_they_are_old(world: World) -> None:
    """That is what the office is a witness against."""
    _, copy = mixed(world)
    assert mismatches(*north(world)) == []
    restore(world, copy, *STORES)
    assert mismatches(*north(world)) == []


def test_what_disagrees_can_be_closed_at_its_full_price(world: World) -> None:
    release, copy = mixed(world)
    price = guarantee(world.north.record(release).spec).party("north").mu2
    restore(world, copy, "ledger.sqlite", "sealed")
    shown = world.north.run("ledger", "reconcile", stdin="n\n")
    assert shown.exit_code == 1
    assert release[:12] in shown.output
    assert world.north.desk().ledger.balance("cohort").charged == 0
    assert world.north.run("ledger", "reconcile", "--yes").exit_code == 0
    assert world.north.desk().ledger.balance("cohort").charged == price
    assert world.north.status(release) == "ended"
    assert "agree; nothing to close" in world.north.run("ledger", "reconcile").output
    check(*north(world))
    draws = len(world.north.noise.draws)
    world.north.cycle(2)
    assert len(world.north.noise.draws) == draws
    assert reconcile(*north(world)) == []


def test_a_release_that_only_the_ledger_knows_is_closed_at_what_was_reserved(world: World) -> None:
    ledger, *_ = north(world)
    ledger.reserve("cohort", "ab" * 32, Fraction(1, 100), {"title": "lost"})
    (found,) = mismatches(*north(world))
    assert "the journal says nothing, the ledger reserve" in found.words
    reconcile(*north(world))
    assert world.north.desk().ledger.balance("cohort").charged == Fraction(1, 100)
    with pytest.raises(Conflict, match="was given up here"):
        ledger.reserve("cohort", "ab" * 32, Fraction(1, 100), {})


def test_a_closed_release_may_exceed_the_cap_and_then_nothing_is_left(world: World) -> None:
    ledger, *_ = north(world)
    ledger.close("cohort", "ab" * 32, 2 * CAP, "found at the office")
    assert ledger.balance("cohort").remaining == -CAP


def test_a_block_that_was_altered_stops_the_node(world: World) -> None:
    release, _ = mixed(world)
    path = world.north.desk().vault.path(release)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(IntegrityError, match="altered on disk"):
        check(*north(world))


def test_the_ledger_takes_one_block_for_a_release(world: World) -> None:
    ledger, *_ = north(world)
    with pytest.raises(Conflict, match="holds no budget for a block"):
        ledger.make("cohort", "ab" * 32, "11" * 32)
    ledger.reserve("cohort", "ab" * 32, Fraction(1, 100), {})
    ledger.make("cohort", "ab" * 32, "11" * 32)
    ledger.make("cohort", "ab" * 32, "11" * 32)
    with pytest.raises(IntegrityError, match="another block"):
        ledger.make("cohort", "ab" * 32, "22" * 32)
    assert ledger.made("cohort") == {"ab" * 32: "11" * 32}
    assert ledger.stage("cohort", "ab" * 32) == "reserve"


def test_check_says_whether_the_books_agree(world: World) -> None:
    assert "books: ledger, journal and sealed blocks agree" in world.north.run("check", "--offline").output
    _, copy = mixed(world)
    restore(world, copy, "sealed")
    assert "PROBLEM books: the books disagree" in world.north.run("check", "--offline").output
