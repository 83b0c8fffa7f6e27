"""Noisy rows and public columns of one roster come in one order: the second kind of release is for a person to decide."""

import json

import pytest

from tests.party_node.conftest import MakeWorld
from tests.party_node.test_public_columns import WITH_PUBLIC, declare
from tests.party_node.world import World
from tests.support.specs import build_spec

ROWS_LATER = "its noisy rows come in the same order as the roster's public columns"
PUBLIC_LATER = "its public columns come in the same order as noisy rows of an earlier release"


@pytest.fixture
def open_world(make_world: MakeWorld) -> World:
    """Hospitals whose policy names feature-DP and every mechanism."""
    return make_world(WITH_PUBLIC)


def propose(world: World, mechanism: str, *names: str) -> str:
    """Offer a cheap release of some columns, as they are declared now; the north looks at it."""
    base = world.spec()
    columns = {part.party: tuple(each for each in part.columns if each.name in names) for part in base.parties}
    columns = {party: some for party, some in columns.items() if some}
    keys = {part.party: part.key for part in base.parties}
    title = f"{mechanism} of {names}"
    cheap = build_spec(columns, mechanism=mechanism, rows=base.rows, epsilon=0.2, keys=keys, title=title)
    facts = {name: getattr(base, name) for name in ("roster", "alignment", "created", "expires")}
    release = world.coordinator.propose(cheap.model_copy(update=facts))
    world.north.cycle()
    return release


def waits(world: World, release: str) -> list[str]:
    """Why it waits for a person at the north; nothing if policy approved it."""
    if world.north.status(release) != "waiting":
        return []
    shown = json.loads(world.north.run("review", "show", release, "--json").stdout)
    return list(shown["needs_a_person_because"])


def deliver(world: World, release: str) -> None:
    if "glucose" in world.coordinator.records[release].proposal.decode():
        world.south_approves(release)
    world.north.cycle(2)
    assert world.north.ledger_kinds(release) == ["reserve", "charge", "send"]


def test_rows_are_for_a_person_once_a_column_is_public(open_world: World) -> None:
    assert waits(open_world, propose(open_world, "rows", "age")) == []
    declare(open_world.north, "sex")
    (reason,) = waits(open_world, propose(open_world, "rows", "age", "glucose"))
    assert reason.startswith(ROWS_LATER)
    assert waits(open_world, propose(open_world, "mixed", "age", "glucose")) == []


def test_rows_are_for_a_person_once_another_hospitals_column_was_shown(open_world: World) -> None:
    declare(open_world.south, "glucose")
    deliver(open_world, propose(open_world, "mixed", "age", "glucose"))
    (reason,) = waits(open_world, propose(open_world, "rows", "age"))
    assert reason.startswith(ROWS_LATER)


@pytest.mark.parametrize("given_up", [False, True])
def test_the_first_public_columns_after_rows_are_for_a_person(open_world: World, given_up: bool) -> None:
    rows = propose(open_world, "rows", "age")
    if given_up:
        open_world.coordinator.move(rows, "CANCELLED")
        open_world.north.cycle()
    else:
        deliver(open_world, rows)
    declare(open_world.north, "sex")
    first = propose(open_world, "mixed", "age", "sex", "glucose")
    if given_up:
        assert waits(open_world, first) == []
        return
    (reason,) = waits(open_world, first)
    assert reason.startswith(PUBLIC_LATER)
    open_world.north.run("review", "approve", first, "--yes")
    open_world.north.cycle()
    deliver(open_world, first)
    assert waits(open_world, propose(open_world, "mixed", "sex", "glucose")) == []
