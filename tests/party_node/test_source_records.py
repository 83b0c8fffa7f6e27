"""One row of several a patient: what plain Python makes of the same records, whatever the batches.

Public cells where a patient has several rows: no private cell, and no order of the rows, decides which they are.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from dprelease.data.columns import Column
from dprelease.errors import DataRefused, InvalidInput
from party_node.settings import PartySettings
from party_node.source.cells import read_cells
from party_node.source.findings import Findings
from party_node.source.public_columns import PublicDeclaration, covered
from party_node.source.records import Records
from party_node.source.scan import BoundedTable, scan
from tests.party_node.tables import GRID_BITS, KEY, LEVEL, UNIT, codes_by_subject, csv, read, settings
from tests.party_node.tables import settings as settings_of
from tests.party_node.test_public_columns import acts, declare
from tests.party_node.test_source_sql import settings as anywhere
from tests.party_node.world import World
from tests.support.databases import sqlite_table

Record = tuple[str, float | str | None, str | None, str | None]
"""Patient, number (or a text that is none), category, date."""

DATES = ["2020-01-05", "2020-01-06", "2021-03-01", "1999-12-31"]
records = st.lists(
    st.tuples(
        st.sampled_from("abcde"),
        st.one_of(st.none(), st.just("oops"), st.integers(-9, 9).map(lambda whole: whole / 8)),
        st.sampled_from([None, "u", "v", "w"]),
        st.sampled_from([None, *DATES]),
    ),
    min_size=1,
    max_size=30,
)


def total(values: Sequence[float]) -> float:
    return math.fsum(sorted(values))


AGGREGATES: dict[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "max": max,
    "sum": total,
    "mean": lambda values: total(values) / len(values),
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
}


def in_order(rows: Sequence[Record], side: str, by: str | None) -> list[Record]:
    """A patient's rows in their order; those without a date are beyond the end that is looked for."""
    if by is None:
        return list(rows)
    none = "0" if side == "last" else "9"
    return sorted(rows, key=lambda row: row[3] or none)


def by_hand(rows: Sequence[Record], how: str | None, side: str, by: str | None) -> float | str:
    """The number of one patient's row."""
    ordered = in_order(rows, side if how not in ("first", "last") else how, by)
    if how is None:
        value = ordered[-1 if side == "last" else 0][1]
        return "missing" if value is None else "unreadable" if isinstance(value, str) else value
    if how == "count":
        return float(sum(value is not None for _, value, _, _ in ordered))
    values = [value for _, value, _, _ in ordered if isinstance(value, float)]
    if not values:
        return "unreadable" if any(value == "oops" for _, value, _, _ in ordered) else "missing"
    return AGGREGATES[how](values)


@cache
def described_by(how: str | None, side: str, by: str | None) -> PartySettings:
    x: dict[str, Any] = {"kind": "numeric", "lower": -100, "upper": 100} | ({"aggregate": how} if how else {})
    columns = {"x": x, "d": {"kind": "date"}}
    return settings_of(Path("rows.csv"), columns, rows=side, by=by)


def merged(rows: list[Record], how: str | None, side: str, by: str | None, width: int) -> dict[str, float | str]:
    """Each patient's number, as `Records` has it from batches of some width."""
    described = described_by(how, side, by)
    made, place = Records(described.source, described.declared), {"x": 1, "d": 3}
    for start in range(0, len(rows), width):
        part = rows[start : start + width]
        raw = {
            name: read_cells(
                pa.array([None if row[at] is None else str(row[at]) for row in part], pa.string()),
                described.declared[name],
                described.source,
            )
            for name, at in place.items()
        }
        made.add([row[0] for row in part], raw)
    found: dict[str, float | str] = {}
    for patients, raw in made.merged():
        cells = raw["x"]
        for at, patient in enumerate(patients):
            word = "missing" if cells.missing[at] else "unreadable" if cells.unreadable[at] else ""
            found[patient] = word or float(np.asarray(cells.values)[at])
    return found


@pytest.mark.parametrize("how", [None, "count", *AGGREGATES])
@pytest.mark.parametrize("by", [None, "d"])
@pytest.mark.parametrize("side", ["first", "last"])
@examples(max_examples=10)
@given(rows=records, width=st.integers(1, 31))
def test_each_patients_number_is_what_plain_python_makes_of_its_records(
    rows: list[Record], how: str | None, side: str, by: str | None, width: int
) -> None:
    patients = dict.fromkeys(row[0] for row in rows)
    expected = {patient: by_hand([row for row in rows if row[0] == patient], how, side, by) for patient in patients}
    assert merged(rows, how, side, by, width) == expected


@examples(max_examples=8)
@given(rows=records, seed=st.randoms(use_true_random=False))
def test_a_patients_row_depends_on_that_patients_records_alone(rows: list[Record], seed: Any) -> None:
    for how in (None, "mean"):
        whole = merged(rows, how, "last", "d", 7)
        for patient in whole:
            alone = merged([row for row in rows if row[0] == patient], how, "last", "d", 3)
            assert alone == {patient: whole[patient]}
        mixed = sorted(rows, key=lambda row: row[0])  # stable: each patient's records stay in their order
        assert merged(mixed, how, "last", "d", 5) == whole
    shuffled = seed.sample(rows, len(rows))
    for how in ("sum", "mean", "min", "max", "count"):
        assert merged(shuffled, how, "last", "d", 5) == merged(rows, how, "last", "d", 7)


VISITS = """id,x,c,d,y
b,0.5,u,2020-02-01,1
a,-1,v,2020-03-01,2
 a ,1,w,2020-01-01,
b,,,2020-03-01,5
a,oops,u,,1
"""
COLUMNS: dict[str, dict[str, Any]] = {
    "x": {"kind": "numeric", "lower": -1, "upper": 1, "fill": 0.5, "aggregate": "mean"},
    "c": {"kind": "categorical", "levels": ["u", "v"], "fill": "v"},
    "d": {"kind": "date"},
    "y": {"kind": "numeric", "lower": 0, "upper": 8, "aggregate": "sum"},
    "visits": {"kind": "numeric", "lower": 0, "upper": 4, "from": "id", "aggregate": "count"},
    "days": {"derived": {"days": ["2020-01-01", "d"]}, "lower": 0, "upper": 120},
}


def codes(table: BoundedTable) -> dict[str, list[int]]:
    return codes_by_subject(table, ["a", "b"])


def test_a_table_of_visits(tmp_path: Path) -> None:
    path = csv(tmp_path, VISITS)
    last = read(path, COLUMNS, rows="last", by="d")
    assert last.alignment.digest == read(csv(tmp_path, "id,x,c\na,0,u\nb,0,u\n", "two.csv")).alignment.digest
    # Columns: x, the three values of c, y, visits, days. Bounds of y are 0 to 8, of visits 0 to 4, of days 0 to 120.
    assert codes(last) == {
        "a": [0, *LEVEL["v"], -UNIT // 4, UNIT // 2, 0],
        "b": [UNIT // 2, *LEVEL["v"], UNIT // 2, 0, 0],
    }
    assert last.findings["x"] == Findings()
    assert last.findings["c"] == Findings(missing=1)
    first = read(path, COLUMNS, rows="first", by="d")
    assert {subject: row[1:4] for subject, row in codes(first).items()} == {"a": LEVEL["other"], "b": LEVEL["u"]}
    of_file = read(path, COLUMNS | {"c": COLUMNS["c"] | {"aggregate": "last"}}, rows="first")
    assert {subject: row[1:4] for subject, row in codes(of_file).items()} == {"a": LEVEL["u"], "b": LEVEL["u"]}


def test_without_a_rule_a_second_row_is_refused_and_the_rule_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataRefused, match='rows = "first" or "last"'):
        read(csv(tmp_path, "id,x,c\na,0,u\na,0,u\n"))
    with pytest.raises(DataRefused, match="has no rows"):
        read(csv(tmp_path, "id,x,c\n"), rows="last")
    with pytest.raises(DataRefused, match="1 rows have no identifier in id"):
        read(csv(tmp_path, "id,x,c\na,0,u\n,0,u\n"), rows="last")


def test_an_act_on_a_public_column_covers_its_aggregate(tmp_path: Path) -> None:
    def described(**aggregate: str) -> PartySettings:
        x = {"kind": "numeric", "lower": -1, "upper": 1, "from": "X", **aggregate}
        return settings_of(tmp_path / "rows.csv", {"x": x, "y": {"derived": {"square": "x"}}}, rows="last")

    (x, y), mean = described(aggregate="mean").declarations(), described(aggregate="mean")
    for column in (x, y):
        public = column.model_copy(update={"public": True})
        act = PublicDeclaration(public, mean.declared[column.name].origin, "2026-01-01T00:00:00Z", 1)
        assert act.source_names == ("X",)
        assert act.covers(mean, column)
        assert not act.covers(described(aggregate="sum"), column)
        assert not act.covers(described(), column)


NUMBER: dict[str, Any] = {"kind": "numeric", "lower": 0, "upper": 100}
PUBLIC_COLUMNS: dict[str, dict[str, Any]] = {
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
    described = anywhere(folder, PUBLIC_COLUMNS, rows=side, by="came", **source)
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
    return settings(Path("rows.csv"), columns or PUBLIC_COLUMNS, **({"rows": "last", "by": "came"} | source))


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
    squared = described(PUBLIC_COLUMNS | {"squared": {"derived": {"square": "outcome"}}})
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
    before, after = described(), described(PUBLIC_COLUMNS | columns, **source)
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
    assert [column.public for column in world.north.hospital_state().columns()] == [True, True]
    world.north.edit(r'^rows = "last"', 'rows = "first"')
    assert "party-node public declare age" in world.north.run("check", "--offline", "--json").stdout
    declare(world.north, "age", "sex")
    assert acts(world.north) == ["column age is public", "column sex is public"] * 2
