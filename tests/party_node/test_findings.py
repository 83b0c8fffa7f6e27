"""A column of which most cells cannot be used is not declared, not approved, and told on the local screen alone."""

import json
import re
import stat
import threading
from pathlib import Path

import pytest

from dprelease.data.columns import CategoricalColumn
from dprelease.errors import Conflict, DataRefused
from dprelease.wire.boundary import exit_code
from party_node.declarations.declarations import Declaration
from party_node.source.findings import Findings, read_findings, write_findings
from tests.party_node.world import ROWS, World
from tests.support.specs import numeric

UNREADABLE = f"column age: 0 missing, {ROWS} unreadable, 0 outside bounds or levels; mend the file"


def decimal_commas(world: World, rows: int = ROWS) -> None:
    """A table exported in another country: the north's ages are no numbers."""
    header, *lines = world.north.source.read_text().splitlines()
    cells = [line.split(",") for line in lines]
    mended = [f'{subject},"{age.replace(".", ",")}",{sex}' for subject, age, sex in cells[:rows]]
    world.north.source.write_text("\n".join([header, *mended, *lines[rows:]]) + "\n")


YES, TWO, AGE = (
    CategoricalColumn(name="x", levels=("yes",)),
    CategoricalColumn(name="x", levels=("a", "b")),
    numeric("x"),
)


@pytest.mark.parametrize(
    ("column", "found", "expected"),
    [
        (AGE, Findings(missing=20), (False, False)),
        (AGE, Findings(missing=7, unreadable=7, outside=7), (True, False)),
        (AGE, Findings(missing=39), (True, False)),
        (AGE, Findings(unreadable=40), (True, True)),
        (TWO, Findings(outside=21), (True, False)),
        (YES, Findings(outside=39), (False, False)),
        (YES, Findings(outside=40), (True, True)),
        (YES, Findings(outside=10, missing=21), (True, False)),
    ],
)
def test_more_than_half_replaced_is_implausible_and_all_is_whatever_the_owner_says(
    column: CategoricalColumn, found: Findings, expected: tuple[bool, bool]
) -> None:
    declared = (Declaration(column, "x", mostly_replaced=known) for known in (False, True))
    assert expected == tuple(found.implausible(each, 40) for each in declared)


def test_counts_are_kept_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "findings.json"
    assert read_findings(path) == ({}, frozenset())
    kept = {"age": Findings(1, 2, 3), "sex": Findings()}
    write_findings(path, kept, frozenset({"age"}))
    assert read_findings(path) == (kept, frozenset({"age"}))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_daemon_does_not_start_on_a_column_that_cannot_be_read(world: World) -> None:
    decimal_commas(world)
    before = (world.north.folder / "state" / "catalogue.json").read_bytes()
    with pytest.raises(DataRefused) as caught:
        world.north.daemon().run(threading.Event())
    assert UNREADABLE in caught.value.message
    assert "column sex" not in caught.value.message
    assert world.coordinator.received == []
    assert (world.north.folder / "state" / "catalogue.json").read_bytes() == before
    done = world.north.run("check", "--offline")
    assert (done.exit_code, "PROBLEM column age" in done.stdout) == (exit_code(DataRefused("")), True)


def test_a_table_that_turned_unreadable_is_not_reported(world: World, caplog: pytest.LogCaptureFixture) -> None:
    decimal_commas(world, ROWS // 2 + 1)
    world.north.cycle()
    assert f"the table was not reported: not declared: column age: 0 missing, {ROWS // 2 + 1} unreadable" in caplog.text
    assert world.coordinator.heard("ReportCatalogue") == []
    assert "70000" not in caplog.text


def test_policy_approves_no_column_that_turned_unreadable_and_a_person_cannot(world: World) -> None:
    release = world.propose()
    decimal_commas(world)
    world.north.cycle(2)
    assert (world.north.status(release), world.coordinator.heard("Approve")) == ("waiting", [])
    assert UNREADABLE in world.north.record(release).note
    shown = json.loads(world.north.run("review", "show", release, "--json").stdout)
    assert UNREADABLE in shown["to_do_here_first"][0]
    assert shown["own_cells_seen_here_only"] == [
        f"age: 0 missing, {ROWS} unreadable, 0 outside bounds or levels",
        "sex: 0 missing, 0 unreadable, 0 outside bounds or levels",
    ]
    card = world.north.run("review", "show", release).stdout
    assert re.search(rf"own cells seen here only +age: 0 missing, {ROWS} unreadable", card)
    assert world.north.run("review", "approve", release, "--yes").exit_code == exit_code(Conflict(""))
    assert not any(str(message).count("unreadable") for message in world.coordinator.received)


def test_nothing_is_signed_over_a_table_that_changed_after_a_persons_word(careful: World) -> None:
    release = careful.propose()
    careful.north.cycle()
    assert careful.north.run("review", "approve", release, "--yes").exit_code == 0
    decimal_commas(careful)
    careful.north.cycle()
    assert (careful.north.status(release), careful.north.ledger_kinds(release)) == ("accepted", [])
    assert "first: column age" in careful.north.record(release).note


def test_an_owner_may_know_that_a_column_is_mostly_missing(world: World) -> None:
    decimal_commas(world, ROWS - 1)
    world.north.edit(r"\[columns.age\]", "[columns.age]\nmostly_replaced = true")
    world.north.cycle()
    assert len(world.coordinator.heard("ReportCatalogue")) == 1
    world.north.edit("mostly_replaced = true", "mostly_replaced = 1")
    assert "mostly_replaced is true or false" in world.north.run("check").stderr
