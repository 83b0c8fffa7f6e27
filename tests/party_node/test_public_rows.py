"""Public cells where a patient has several rows: no private cell, and no order of the rows, decides which they are."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprelease.data.columns import Column
from dprelease.errors import InvalidInput
from party_node.settings import PartySettings
from party_node.source.public_columns import PublicDeclaration, covered
from party_node.source.scan import BoundedTable, scan
from tests.party_node.tables import GRID_BITS, KEY, csv, settings
from tests.party_node.test_public_columns import acts, declare
from tests.party_node.test_source_sql import settings as anywhere
from tests.party_node.world import World
from tests.support.databases import sqlite_table

NUMBER: dict[str, Any] = {"kind": "numeric", "lower": 0, "upper": 100}
COLUMNS: dict[str, dict[str, Any]] = {
    "came": {"kind": "date"},
    "day": {"derived": {"days": ["2020-01-01", "came"]}, "lower": 0, "upper": 1000},
    "outcome": NUMBER,
    "stage": {"kind": "categorical", "levels": ["u", "v"]},
    "early": NUMBER | {"from": "outcome", "aggregate": "first"},
    "worst": NUMBER | {"from": "outcome", "aggregate": "max"},
    "age": NUMBER,
    "sex": {"kind": "categorical", "levels": ["f"]},
}
HEADER = ["id", "came", "outcome", "stage", "age", "sex"]
PUBLIC = {"day", "outcome", "stage", "early", "worst"}


def public_in(described: PartySettings, *names: str) -> tuple[Column, ...]:
    """Declarations, some of them public."""
    return tuple(each.model_copy(update={"public": each.name in names}) for each in described.declarations())


def table_of(folder: Path, rows: np.ndarray, kind: str, side: str) -> BoundedTable:
    """The table of some rows, in a file or a database."""
    if kind == "csv":
        source: dict[str, Any] = {"path": csv(folder, "\n".join(map(",".join, [HEADER, *rows])) + "\n")}
    else:
        (folder / "rows.sqlite").unlink(missing_ok=True)
        source = {"url": sqlite_table(folder / "rows.sqlite", "t", ", ".join(HEADER), rows.tolist()), "table": "t"}
    described = anywhere(folder, COLUMNS, rows=side, by="came", **source)
    return scan(described, KEY, public_in(described, *PUBLIC), GRID_BITS).table()


@pytest.mark.parametrize("side", ["first", "last"])
@pytest.mark.parametrize("kind", ["csv", "sqlite"])
def test_public_cells_are_equal_in_neighbours_that_differ_in_private_ones(tmp_path: Path, kind: str, side: str) -> None:
    random = np.random.default_rng(5)
    moved = 0
    for _ in range(10):
        n = 90
        rows = np.column_stack(
            [
                random.integers(0, 9, n).astype(str),
                random.choice(["2020-02-01", "2020-02-02", "", "soon"], n),  # most rows of a patient are of one day
                random.choice(["", "x", "10", "90", "50"], n),
                random.choice(["u", "v", "w", ""], n),
                random.integers(0, 99, n).astype(str),
                random.choice(["f", "m"], n),
            ]
        )
        others = rows.copy()
        of_one = rows[:, 0] == rows[0, 0]
        others[of_one, 4] = random.integers(0, 99, of_one.sum())
        others[of_one, 5] = random.choice(["f", "m", ""], of_one.sum())
        others = random.permutation(others)  # an export may be sorted by a private column
        one, other = (table_of(tmp_path, each, kind, side).bounded for each in (rows, others))
        assert np.array_equal(one.public, other.public)
        moved += not np.array_equal(one.codes, other.codes)
    assert moved > 8  # the private ones are not equal


def act(described: PartySettings, name: str) -> PublicDeclaration:
    (column,) = (each for each in described.declarations() if each.name == name)
    public = column.model_copy(update={"public": True})
    return PublicDeclaration(public, described.declared[name].origin, "2026-01-01T00:00:00Z", 1)


def described(columns: dict[str, dict[str, Any]] | None = None, **source: Any) -> PartySettings:
    return settings(Path("rows.csv"), columns or COLUMNS, **({"rows": "last", "by": "came"} | source))


def test_an_order_has_to_be_public_before_or_with_the_column_that_follows_it() -> None:
    alone = described()
    for name in ("outcome", "stage", "early"):
        with pytest.raises(
            InvalidInput, match=r"came says which of a patient's rows .* name a column derived from came"
        ):
            covered(alone, (), (name,))
        assert covered(alone, (), ("day", name)).keys() == {"day", name}
        assert covered(alone, (act(alone, "day"),), (name,)).keys() == {name}
    assert covered(alone, (), ("worst",)).keys() == {"worst"}  # needs no order
    by_number = described(by="age")
    with pytest.raises(InvalidInput, match=r"name age in the same .* declare, or give outcome aggregate = min or max"):
        covered(by_number, (), ("outcome",))
    assert covered(by_number, (), ("outcome", "age")).keys() == {"outcome", "age"}
    assert covered(by_number, (), ("age",)).keys() == {"age"}
    with pytest.raises(InvalidInput, match=r"the order of the file says which .* name a public column with by"):
        covered(described(by=None), (), ("outcome",))
    squared = described(COLUMNS | {"squared": {"derived": {"square": "outcome"}}})
    with pytest.raises(
        InvalidInput, match="came says which of a patient's rows"
    ):  # also what is derived from such a cell
        covered(squared, (), ("squared",))


@pytest.mark.parametrize(
    ("columns", "source"),
    [
        ({}, {"rows": "first"}),
        ({}, {"by": "age"}),
        ({}, {"by": None}),
        ({"came": {"kind": "date", "from": "left"}}, {}),
        ({"came": {"kind": "date", "format": "%d.%m.%Y"}}, {}),
        ({"came": {"kind": "date", "aggregate": "max"}}, {}),
    ],
)
def test_an_act_does_not_cover_another_choice_of_the_row(
    columns: dict[str, dict[str, Any]], source: dict[str, Any]
) -> None:
    before, after = described(), described(COLUMNS | columns, **source)
    for name in ("outcome", "early", "day"):
        made = act(before, name)
        assert made.covers(before, made.column)
        assert not made.covers(after, made.column)
    assert act(before, "outcome").source_names == act(before, "early").source_names == ("outcome",)
    assert act(before, "day").source_names == ("came",)
    assert act(before, "worst").covers(after, act(before, "worst").column)
    assert act(described(rows="one", by=None, columns={"age": NUMBER}), "age").source == "age"


def test_a_change_of_rows_asks_for_another_act(world: World) -> None:
    world.north.edit(r'^subject = "patient"', 'subject = "patient"\nrows = "last"\nby = "age"')
    refused = world.north.run("public", "declare", "sex", "--irrevocable")
    assert refused.exit_code != 0
    assert "name age in the same party-node public declare" in refused.output
    declare(world.north, "age", "sex")
    assert [column.public for column in world.north.desk().columns()] == [True, True]
    world.north.edit(r'^rows = "last"', 'rows = "first"')
    assert "party-node public declare age" in world.north.run("check", "--offline", "--json").stdout
    declare(world.north, "age", "sex")
    assert acts(world.north) == ["column age is public", "column sex is public"] * 2
