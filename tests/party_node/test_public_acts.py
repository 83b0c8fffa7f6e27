"""The owner's acts against declarations that changed, identifiers, power cuts, and releases that are under way."""

import json
import sqlite3
from contextlib import closing

import pytest

from dprelease.errors import DataRefused, SpecRefused
from tests.party_node.conftest import MakeWorld
from tests.party_node.joint_release import approved, kinds
from tests.party_node.test_public_columns import LEDGER, WITH_PUBLIC, acts, declare
from tests.party_node.world import Hospital, World

CHANGES = {
    "bounds": ("age", r"^upper = 120", "upper = 130"),
    "levels": ("sex", r'^levels = \["female", "male"\]', 'levels = ["male", "female"]'),
}


@pytest.fixture
def open_north(make_world: MakeWorld) -> World:
    """Hospitals whose policy names feature-DP, and the north's columns are public."""
    world = make_world(WITH_PUBLIC)
    declare(world.north, "age", "sex")
    return world


def redeclare(hospital: Hospital, change: str) -> str:
    """Change a declaration and declare it public anew; which column it was."""
    column, pattern, text = CHANGES[change]
    hospital.edit(pattern, text)
    declare(hospital, column)
    return column


@pytest.mark.parametrize("change", CHANGES)
def test_a_stale_declaration_is_not_published(open_north: World, change: str) -> None:
    """A release over bounds or levels that another act has superseded."""
    stale = open_north.spec()
    assert open_north.north.desk().table(stale).bounded.digest()
    column = redeclare(open_north.north, change)
    desk = open_north.north.desk()  # the catalogue on its disk is of before
    with pytest.raises(SpecRefused, match=f"{column} was never declared public here"):
        desk.assess(stale)
    with pytest.raises(DataRefused, match=f"{column} was not declared public as the release says"):
        desk.table(stale)


def test_a_stale_declaration_that_was_approved_is_withdrawn_before_any_charge(open_north: World) -> None:
    release = open_north.propose()
    open_north.north.cycle()
    open_north.south_approves(release)
    assert open_north.north.status(release) == "approved"
    redeclare(open_north.north, "bounds")
    open_north.north.cycle()
    assert open_north.north.status(release) == "declined"
    assert open_north.north.ledger_kinds(release) == ["reserve", "refund"]


def test_a_catalogue_on_disk_outlives_a_column(world: World) -> None:
    declare(world.north, "age")
    world.north.edit(r"^\[columns.age\]", "[columns.years]")
    assert [column.public for column in world.north.desk().catalogue().columns] == [False, False]


def test_a_column_that_becomes_public_between_two_looks_ends_a_joint_release(world: World) -> None:
    """Approved rows are on disk from then on; what became public is seen all the same, before the charge."""
    release = approved(world)
    daemon = world.north.daemon()
    with world.north.dialled() as coordinator:
        daemon.cycle(coordinator)
        assert kinds(world, release) == ["hello"]
        declare(world.north, "sex")
        for _ in range(4):
            world.south.cycle()
            daemon.cycle(coordinator)
    assert world.north.status(release) == "declined"
    assert world.north.ledger_kinds(release) == ["reserve", "refund"]
    assert kinds(world, release) == ["hello"]
    assert world.north.noise.draws == []


def test_several_columns_are_declared_at_once_or_not_at_all(world: World) -> None:
    with closing(sqlite3.connect(world.north.folder / LEDGER)) as db:
        db.execute(
            "CREATE TRIGGER full BEFORE INSERT ON entries WHEN NEW.detail LIKE '%column sex%' "
            "BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
        )
        db.commit()
    assert world.north.run("public", "declare", "age", "sex", "--irrevocable").exit_code != 0
    assert acts(world.north) == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^\[columns.age\]", '[columns.age]\nfrom = "patient"'),
        (r'^subject = "patient"', 'subject = "patient"\nrecord = "age"'),
    ],
    ids=["subject", "record"],
)
def test_an_identifier_cannot_be_public(world: World, pattern: str, text: str) -> None:
    world.north.edit(pattern, text)
    result = world.north.run("public", "declare", "age", "--irrevocable")
    assert result.exit_code != 0
    assert "identifies patients or their rows; it cannot be public" in result.output
    assert acts(world.north) == []


def test_every_act_is_listed_and_superseded_ones_are_marked(open_north: World) -> None:
    redeclare(open_north.north, "bounds")
    lines = json.loads(open_north.north.run("public", "list", "--json").stdout)
    assert [(line["column"], line["superseded"]) for line in lines] == [("age", True), ("sex", False), ("age", False)]
    text = open_north.north.run("public", "list").output.splitlines()
    assert [("superseded" in line, "0 to 120" in line, "0 to 130" in line) for line in text] == [
        (True, True, False),
        (False, False, False),
        (False, False, True),
    ]
