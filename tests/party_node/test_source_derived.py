"""Cells of derived columns: functions of the clipped cells of the same row, missing where a source is."""

import datetime
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dprelease.data.bounding import bound
from dprelease.errors import DataRefused
from party_node.source.findings import Findings
from party_node.source.first_look import look_at
from party_node.source.scan import BoundedTable, scan
from tests.party_node.tables import GRID_BITS, KEY, UNIT, codes_by_subject, csv, parquet, read, settings

AGE: dict[str, Any] = {"kind": "numeric", "lower": 0, "upper": 100, "fill": 40}
Z: dict[str, Any] = {"kind": "numeric", "lower": -2, "upper": 2}
BINARY: dict[str, Any] = {"kind": "categorical", "levels": ["yes"]}
STAGE: dict[str, Any] = {"kind": "categorical", "levels": ["I", "II"]}
WHOLE: dict[str, Any] = STAGE | {"exhaustive": True, "fill": "II"}
IN_ORDER, MISSING, UNREADABLE, OUTSIDE = Findings(), Findings(missing=1), Findings(unreadable=1), Findings(outside=1)

FORMULAS: list[tuple[dict[str, Any], dict[str, Any], str, float | None, Findings]] = [
    ({"age": AGE}, {"square": "age"}, "30", 900, IN_ORDER),
    ({"age": AGE}, {"square": "age"}, "1e3", 10000, IN_ORDER),
    ({"z": Z}, {"square": "z"}, "-1.5", 2.25, IN_ORDER),
    ({"z": Z}, {"square": "z"}, "-7", 4, IN_ORDER),
    ({"z": Z}, {"square": "z", "plus": 2}, "-7", 0, IN_ORDER),
    ({"z": Z}, {"square": "z", "plus": 1}, "-1.5", 0.25, IN_ORDER),
    ({"z": Z}, {"square": "z"}, "NA", None, MISSING),
    ({"z": Z}, {"square": "z"}, "twelve", None, UNREADABLE),
    ({"z": Z}, {"square": "z"}, "inf", None, UNREADABLE),
    ({"age": AGE}, {"log": "age", "plus": 1}, "30", math.log(31), IN_ORDER),
    ({"age": AGE}, {"log": "age", "plus": 1}, "-30", 0, IN_ORDER),
    ({"age": AGE}, {"log": "age", "plus": 1}, "", None, MISSING),
    ({"z": Z, "y": Z}, {"product": ["z", "y"]}, "1.5,-0.5", -0.75, IN_ORDER),
    ({"z": Z, "y": Z}, {"product": ["z", "y"]}, "9,0.5", 1, IN_ORDER),
    ({"z": Z, "y": Z}, {"product": ["z", "y"]}, "1,", None, MISSING),
    ({"z": Z, "y": Z}, {"product": ["z", "y"]}, "x,", None, MISSING),
    ({"z": Z, "y": Z}, {"product": ["z", "y"]}, "1,x", None, UNREADABLE),
    ({"z": Z, "b": BINARY}, {"product": ["z", "b"]}, "1.5,yes", 1.5, IN_ORDER),
    ({"z": Z, "b": BINARY}, {"product": ["z", "b"]}, "1.5,no", 0, IN_ORDER),
    ({"z": Z, "b": BINARY}, {"product": ["z", "b"]}, "1.5,NA", None, MISSING),
]


@pytest.mark.parametrize(("sources", "derived", "cells", "value", "found"), FORMULAS)
def test_a_derived_number(
    tmp_path: Path, sources: dict[str, Any], derived: dict[str, Any], cells: str, value: float | None, found: Findings
) -> None:
    columns: dict[str, dict[str, Any]] = {name: each | {"source_only": True} for name, each in sources.items()} | {
        "x": {"derived": derived}
    }
    table = read(csv(tmp_path, f"id,{','.join(sources)}\n1,{cells}\n"), columns)
    (column,) = table.bounded.columns
    expected = bound({"x": np.array([math.nan if value is None else value])}, (column,), GRID_BITS)
    assert table.bounded.codes.tolist() == expected.tolist()
    assert table.findings["x"] == found
    assert set(table.findings) == {"x", *sources}


@pytest.mark.parametrize(
    ("source", "derived", "cell", "so", "found"),
    [
        (AGE, {"from": 65}, "65", True, IN_ORDER),
        (AGE, {"from": 65}, "64.999", False, OUTSIDE),
        (AGE, {"to": 65}, "65", False, OUTSIDE),
        (AGE, {"to": 65}, "-5", True, IN_ORDER),
        (AGE, {"from": 30, "to": 65}, "30", True, IN_ORDER),
        (AGE, {"from": 30, "to": 65}, "", False, MISSING),  # as declared, whatever the source's fill is
        (AGE, {"from": 65}, "", False, MISSING),
        (AGE, {"from": 65}, "old", False, UNREADABLE),
        (STAGE, {"level": "I"}, "I", True, IN_ORDER),
        (STAGE, {"level": "I"}, " II ", False, OUTSIDE),
        (STAGE, {"level": "I"}, "III", False, OUTSIDE),
        (STAGE, {"level": "I"}, "NA", False, MISSING),
        (STAGE, {"level": "other"}, "III", True, IN_ORDER),
        (STAGE, {"level": "other"}, "II", False, OUTSIDE),
        (WHOLE, {"level": "I"}, "I", True, IN_ORDER),
        (WHOLE, {"level": "II"}, "III", True, UNREADABLE),  # no level, and the source's fill is II
        (WHOLE, {"level": "I"}, "III", False, UNREADABLE),
    ],
)
def test_an_indicator(
    tmp_path: Path, source: dict[str, Any], derived: dict[str, Any], cell: str, so: bool, found: Findings
) -> None:
    columns: dict[str, dict[str, Any]] = {
        "s": source | {"source_only": True},
        "x": {"derived": {"indicator": "s", **derived}} | ({"fill": "other"} if source is AGE else {}),
    }
    table = read(csv(tmp_path, f"id,s\n1,{cell}\n"), columns)
    assert table.bounded.codes.tolist() == [[UNIT, 0] if so else [0, UNIT]]
    assert table.findings["x"] == found


YEARS: dict[str, Any] = {"kind": "numeric", "lower": 0, "upper": 20}
CAUSE: dict[str, Any] = {"kind": "categorical", "levels": ["death", "transplant"]}
DAY: dict[str, Any] = {"kind": "date"}
CODE: dict[str, Any] = {"kind": "code"}
HEAD = {"category": "d", "prefix": 3, "levels": ["E10", "i21"]}
BANDS = {"bands": "age", "at": [30, 40.5]}
EXIT: dict[str, Any] = {"exit": ["t", "b"], "at": [1, 5]}
CAUSES: dict[str, Any] = {"exit": ["t", "c"], "at": [1, 5], "events": ["transplant", "death"]}
STAY = {"exit": ["in", "out", "b"], "at": [365, 730], "unit": "days"}


@pytest.mark.parametrize(
    ("sources", "derived", "cells", "level", "found"),
    [
        ({"age": AGE}, BANDS, "29.999", "< 30", IN_ORDER),
        ({"age": AGE}, BANDS, "30", "30 to 40.5", IN_ORDER),
        ({"age": AGE}, BANDS, "40.5", ">= 40.5", IN_ORDER),
        ({"age": AGE}, BANDS, "500", ">= 40.5", IN_ORDER),
        ({"age": AGE}, BANDS, "old", "missing", UNREADABLE),
        ({"age": AGE}, BANDS, "", "missing", MISSING),
        ({"t": YEARS, "b": BINARY}, EXIT, "0,yes", "event 0 to 1", IN_ORDER),
        ({"t": YEARS, "b": BINARY}, EXIT, "1,yes", "event 0 to 1", IN_ORDER),
        ({"t": YEARS, "b": BINARY}, EXIT, "1.001,yes", "event 1 to 5", IN_ORDER),
        ({"t": YEARS, "b": BINARY}, EXIT, "5,yes", "event 1 to 5", IN_ORDER),
        ({"t": YEARS, "b": BINARY}, EXIT, "5.5,yes", "followed to 5", IN_ORDER),
        ({"t": YEARS, "b": BINARY}, EXIT, "-2,yes", "event 0 to 1", IN_ORDER),  # clipped to 0
        ({"t": YEARS, "b": BINARY}, EXIT, "0.999,no", "left 0 to 1", IN_ORDER),
        ({"t": YEARS, "b": BINARY}, EXIT, "1,no", "left 1 to 5", IN_ORDER),
        ({"t": YEARS, "b": BINARY}, EXIT, "5,no", "followed to 5", IN_ORDER),
        # The second year, told as 1 in completed years, as docs/analyses.md says.
        ({"t": YEARS, "b": BINARY}, EXIT | {"at": [0.5, 1.5]}, "1,yes", "event 0.5 to 1.5", IN_ORDER),
        ({"t": YEARS, "b": BINARY}, EXIT | {"at": [0.5, 1.5]}, "1,no", "left 0.5 to 1.5", IN_ORDER),
        ({"t": YEARS, "b": BINARY}, EXIT, ",yes", "missing", MISSING),
        ({"t": YEARS, "b": BINARY}, EXIT, "3,NA", "missing", MISSING),
        ({"t": YEARS, "b": BINARY}, EXIT, "soon,no", "missing", UNREADABLE),
        ({"t": YEARS, "c": CAUSE}, CAUSES, "0.5,transplant", "transplant 0 to 1", IN_ORDER),
        ({"t": YEARS, "c": CAUSE}, CAUSES, "5,death", "death 1 to 5", IN_ORDER),
        ({"t": YEARS, "c": CAUSE}, CAUSES, "2,moved", "left 1 to 5", IN_ORDER),
        ({"in": DAY, "out": DAY, "b": BINARY}, STAY, "2023-01-01,2024-01-01,yes", "event 0 to 365", IN_ORDER),
        ({"in": DAY, "out": DAY, "b": BINARY}, STAY, "2023-01-01,2024-01-01,no", "left 365 to 730", IN_ORDER),
        ({"in": DAY, "out": DAY, "b": BINARY}, STAY, "2023-01-02,2023-01-01,yes", "missing", UNREADABLE),
        (
            {"in": DAY, "out": DAY, "b": BINARY},
            STAY | {"unit": "years"},
            "2000-01-01,2300-01-01,no",
            "left 0 to 365",
            IN_ORDER,
        ),
    ],
)
def test_a_category_of_cuts(
    tmp_path: Path, sources: dict[str, Any], derived: dict[str, Any], cells: str, level: str, found: Findings
) -> None:
    columns: dict[str, dict[str, Any]] = {name: each | {"source_only": True} for name, each in sources.items()}
    table = read(
        csv(tmp_path, f"id,{','.join(sources)}\n1,{cells}\n"), columns | {"x": {"derived": derived | {"missing": True}}}
    )
    (column,) = table.bounded.columns
    assert [value for value, code in zip(column.values, table.bounded.codes[0], strict=True) if code == UNIT] == [level]
    assert table.findings["x"] == found


@pytest.mark.parametrize(
    ("derived", "cell", "level", "found"),
    [
        (HEAD, " e10.9 ", "E10", IN_ORDER),
        (HEAD, "I21", "i21", IN_ORDER),
        (HEAD, "I2", "other", OUTSIDE),
        (HEAD, "J45.1", "other", OUTSIDE),
        (HEAD, "", "E10", MISSING),
        (HEAD, "E10-9", "E10", UNREADABLE),
        (HEAD, "E1012345678", "E10", UNREADABLE),  # longer than any code
        ({"indicator": "d", "codes": ["E10", "E11.9"]}, "E119", "yes", IN_ORDER),
        ({"indicator": "d", "codes": ["E10", "E11.9"]}, "E11.8", "other", OUTSIDE),
        ({"category": "d", "map": "icd.csv"}, "E10.9", "type 1", IN_ORDER),  # the longest start counts
        ({"category": "d", "map": "icd.csv"}, "E13", "diabetes", IN_ORDER),
        ({"category": "d", "map": "icd.csv"}, "E", "other", OUTSIDE),
    ],
)
@pytest.mark.parametrize("rows", ["one", "last"])
def test_a_category_of_codes(
    tmp_path: Path, derived: dict[str, Any], cell: str, level: str, found: Findings, rows: str
) -> None:
    (tmp_path / "icd.csv").write_text("code,level\nE1,diabetes\nE10,type 1\n")
    made = derived | ({"map": str(tmp_path / "icd.csv")} if "map" in derived else {})
    fill = {"fill": "E10"} if derived is HEAD else {}
    columns: dict[str, dict[str, Any]] = {"d": CODE, "x": {"derived": made} | fill}
    table = read(csv(tmp_path, f"id,d\n1,{cell}\n"), columns, rows=rows)
    (column,) = table.bounded.columns
    assert [value for value, code in zip(column.values, table.bounded.codes[0], strict=True) if code == UNIT] == [level]
    assert table.findings["x"] == found


def days(folder: Path, admitted: str, discharged: str, **admission: str) -> BoundedTable:
    columns: dict[str, dict[str, Any]] = {
        "a": {"kind": "date", **admission},
        "d": {"kind": "date"},
        "x": {"derived": {"days": ["a", "d"]}, "lower": -1024, "upper": 1024, "fill": -1000},
    }
    return read(csv(folder, f"id,a,d\n1,{admitted},{discharged}\n"), columns)


@pytest.mark.parametrize(
    ("admitted", "discharged", "code", "found"),
    [
        ("2024-02-28", "2024-03-01", 2, IN_ORDER),
        ("2023-02-28", "2023-03-01", 1, IN_ORDER),
        ("1900-02-28", "1900-03-01", 1, IN_ORDER),
        ("2000-01-01", "1999-12-31", -1, IN_ORDER),
        ("1969-12-31", "1970-01-01", 1, IN_ORDER),
        (" 2024-02-28 ", "2024-02-28", 0, IN_ORDER),
        ("2020-01-01", "2024-01-01", 1024, OUTSIDE),
        ("", "2024-01-01", -1000, MISSING),
        ("", "never", -1000, MISSING),
        ("2024-02-30", "2024-03-01", -1000, UNREADABLE),
        ("2023-02-29", "2024-03-01", -1000, UNREADABLE),
        ("2024-13-01", "2024-03-01", -1000, UNREADABLE),
        ("2024-00-10", "2024-03-01", -1000, UNREADABLE),
        ("2024-01-00", "2024-03-01", -1000, UNREADABLE),
        ("2024-1-01", "2024-03-01", -1000, UNREADABLE),
        ("20240101", "2024-03-01", -1000, UNREADABLE),
        ("2024-01-01T10:00", "2024-03-01", -1000, UNREADABLE),
        ("٢٠٢٤-01-01", "2024-03-01", -1000, UNREADABLE),
    ],
)
def test_days_between_dates(tmp_path: Path, admitted: str, discharged: str, code: int, found: Findings) -> None:
    table = days(tmp_path, admitted, discharged)
    assert table.bounded.codes.tolist() == [[code]]
    assert table.findings["x"] == found


def test_dates_in_parquet(tmp_path: Path) -> None:
    then = [datetime.date(1960, 2, 28), datetime.date(2024, 2, 28), None]
    columns: dict[str, dict[str, Any]] = {
        "a": {"kind": "date"},
        "d": {"kind": "date"},
        "x": {"derived": {"days": ["a", "d"]}, "lower": -1024, "upper": 1024, "fill": -1000},
    }
    texts = [str(each) if each else None for each in then]
    later = [each and datetime.datetime(each.year, 3, 1, 23, 59, 59) for each in then]
    earlier = [each and datetime.datetime(each.year, each.month, each.day, 0, 0, 1) for each in then]
    found = {}
    for admitted in (pa.array(then, pa.date32()), pa.array(then, pa.date64()), pa.array(earlier), pa.array(texts)):
        for discharged in (pa.array(later, pa.timestamp("ns")), pa.array(later, pa.timestamp("s")).dictionary_encode()):
            table = read(parquet(tmp_path, {"id": ["1", "2", "3"], "a": admitted, "d": discharged}), columns)
            found[str(admitted.type), str(discharged.type)] = codes_by_subject(table, ["1", "2", "3"])
            assert table.findings["x"] == MISSING
    assert len(found) == 8
    assert all(codes == {"1": [2], "2": [2], "3": [-1000]} for codes in found.values()), found
    for wrong in (pa.array([20240228] * 3), pa.array(later, pa.timestamp("s", "Europe/Vienna"))):
        with pytest.raises(DataRefused, match="which is not a date"):
            read(parquet(tmp_path, {"id": ["1", "2", "3"], "a": wrong, "d": then}), columns)


def test_what_is_derived_from_a_derived_number(tmp_path: Path) -> None:
    """As from a number that is read: clipped first, and missing where it is; whether or not it is released too."""
    columns: dict[str, dict[str, Any]] = {
        "old": {"derived": {"indicator": "years", "from": 65}, "fill": "other"},
        "band": {"derived": {"bands": "years", "at": [40, 65]}, "fill": "40 to 65"},
        "born": {"kind": "date"},
        "years": {"derived": {"age": ["born", "2011-01-01"]}, "lower": 18, "upper": 90},
        "gone": {"derived": {"missing": "years"}},
    }
    path = csv(tmp_path, "id,born\n1,1946-01-01\n2,1946-01-02\n3,1990-05-05\n4,\n5,1946-02-30\n6,1900-01-01\n")
    described = settings(path, columns)
    found = read(path, columns)
    read_back = codes_by_subject(found, [*"123456"])
    old, other = [UNIT, 0], [0, UNIT]
    low, middle, high = [UNIT, 0, 0], [0, UNIT, 0], [0, 0, UNIT]
    age = {
        name: round((years - 54) / 36 * UNIT) for name, years in zip("123456", (65, 64, 20, 54, 54, 90), strict=True)
    }
    assert read_back == {
        "1": [*old, *high, age["1"], *other],
        "2": [*other, *middle, age["2"], *other],
        "3": [*other, *low, age["3"], *other],
        "4": [*other, *middle, age["4"], *old],
        "5": [*other, *middle, age["5"], *old],
        "6": [*old, *high, age["6"], *other],
    }
    replaced = {"missing": 1, "unreadable": 1}
    assert found.findings["years"] == Findings(**replaced, outside=1)
    assert found.findings["band"] == found.findings["born"] == Findings(**replaced)
    (band,) = (column for column in described.declarations() if column.name == "band")
    alone = scan(described, KEY, (band,), GRID_BITS).table()
    assert alone.bounded.codes.tolist() == found.bounded.codes[:, 2:5].tolist()
    assert alone.findings == {name: found.findings[name] for name in ("born", "years", "band")}
    look = look_at(described)
    assert {name: each.findings for name, each in look.columns.items()} == found.findings
    assert look.in_order


def test_a_cell_is_a_function_of_its_own_row_whatever_the_order_and_the_batch(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    cost = generator.uniform(0, 1000, 300).round(2)
    columns: dict[str, dict[str, Any]] = {
        "cost": {"kind": "numeric", "lower": 0, "upper": 1000, "source_only": True},
        "x": {"derived": {"log": "cost", "plus": 1}},
    }
    rows = {"id": [f"{at:03}" for at in range(300)], "cost": list(cost)}
    whole = read(parquet(tmp_path, rows), columns)
    split = read(parquet(tmp_path, rows, "split.parquet", row_group_size=7), columns)
    text = "id,cost\n" + "".join(
        f"{name},{value}\n" for name, value in reversed(list(zip(*rows.values(), strict=True)))
    )
    assert whole.bounded.digest() == split.bounded.digest() == read(csv(tmp_path, text), columns).bounded.digest()
    for subject, row in codes_by_subject(whole, rows["id"]).items():
        assert row == [round((2 * math.log(cost[int(subject)] + 1) / math.log(1001) - 1) * UNIT)]


def test_a_source_that_cannot_be_read_is_implausible_though_nobody_asked_for_it(tmp_path: Path) -> None:
    columns: dict[str, dict[str, Any]] = {
        "cost": AGE | {"source_only": True},
        "x": {"derived": {"log": "cost", "plus": 1}},
    }
    table = read(csv(tmp_path, "id,cost\n1,500\n2,700\n3,3\n"), columns)
    assert table.implausible == {"cost"}
    assert table.findings == {"x": IN_ORDER, "cost": Findings(outside=2)}
    known = columns | {"cost": columns["cost"] | {"mostly_replaced": True}}
    assert read(csv(tmp_path, "id,cost\n1,500\n2,700\n3,3\n"), known).implausible == frozenset()
