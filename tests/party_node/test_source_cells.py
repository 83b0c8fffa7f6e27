"""Single cells: what is a number, what is missing, what is a level; counted exactly and never refused."""

import decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from party_node.source.cells import floats, read_cells
from party_node.source.findings import Findings
from tests.party_node.tables import COLUMNS, FILL, LEVEL, UNIT, csv, parquet, read, settings

IN_ORDER = Findings()
MISSING = Findings(missing=1)
UNREADABLE = Findings(unreadable=1)
OUTSIDE = Findings(outside=1)

NUMBERS: list[tuple[str, int, Findings]] = [
    ("0", 0, IN_ORDER),
    ("1", UNIT, IN_ORDER),
    ("-1", -UNIT, IN_ORDER),
    ("+1", UNIT, IN_ORDER),
    (".25", UNIT // 4, IN_ORDER),
    ("1.", UNIT, IN_ORDER),
    ("25e-2", UNIT // 4, IN_ORDER),
    ("2.5E-1", UNIT // 4, IN_ORDER),
    (" 0.25\t", UNIT // 4, IN_ORDER),
    ("00.25", UNIT // 4, IN_ORDER),
    ("1e-999", 0, IN_ORDER),
    ("1.0000001", UNIT, OUTSIDE),
    ("-7", -UNIT, OUTSIDE),
    ("1e300", UNIT, OUTSIDE),
    ("", FILL, MISSING),
    ("NA", FILL, MISSING),
    ("N/A", FILL, MISSING),
    ("NaN", FILL, MISSING),
    ("null", FILL, MISSING),
    (" NA ", FILL, MISSING),
    ("   ", FILL, MISSING),
    ('"NULL"', FILL, MISSING),
    ("inf", FILL, UNREADABLE),
    ("-Infinity", FILL, UNREADABLE),
    ("1e999", FILL, UNREADABLE),
    ("-1e999", FILL, UNREADABLE),
    ("9" * 400, FILL, UNREADABLE),
    ("twelve", FILL, UNREADABLE),
    ("0x10", FILL, UNREADABLE),
    ("1_0", FILL, UNREADABLE),
    ('"0,5"', FILL, UNREADABLE),
    ("1 2", FILL, UNREADABLE),
    ("--1", FILL, UNREADABLE),
    ("1e", FILL, UNREADABLE),
    (".", FILL, UNREADABLE),
    ("٣", FILL, UNREADABLE),
    ("true", FILL, UNREADABLE),
]

LEVELS: list[tuple[str, list[int], Findings]] = [
    ("u", LEVEL["u"], IN_ORDER),
    ("v", LEVEL["v"], IN_ORDER),
    (" u ", LEVEL["u"], IN_ORDER),
    ('"u"', LEVEL["u"], IN_ORDER),
    ('"u\n"', LEVEL["u"], IN_ORDER),
    ("U", LEVEL["other"], OUTSIDE),
    ("w", LEVEL["other"], OUTSIDE),
    ("other", LEVEL["other"], OUTSIDE),
    ("1", LEVEL["other"], OUTSIDE),
    ("", LEVEL["v"], MISSING),
    ("NA", LEVEL["v"], MISSING),
    (" null ", LEVEL["v"], MISSING),
]


@pytest.mark.parametrize(("cell", "code", "found"), NUMBERS, ids=[repr(case[0][:12]) for case in NUMBERS])
def test_a_cell_that_should_be_a_number(tmp_path: Path, cell: str, code: int, found: Findings) -> None:
    table = read(csv(tmp_path, f"id,x,c\n1,{cell},u\n"))
    assert table.bounded.codes.tolist() == [[code, *LEVEL["u"]]]
    assert table.findings == {"x": found, "c": IN_ORDER}


@pytest.mark.parametrize(("cell", "codes", "found"), LEVELS, ids=[repr(case[0]) for case in LEVELS])
def test_a_cell_that_should_be_a_level(tmp_path: Path, cell: str, codes: list[int], found: Findings) -> None:
    table = read(csv(tmp_path, f"id,x,c\n1,0,{cell}\n"))
    assert table.bounded.codes.tolist() == [[0, *codes]]
    assert table.findings == {"x": IN_ORDER, "c": found}


def test_single_precision_has_the_numbers_that_its_decimals_say() -> None:
    random = np.random.default_rng(3)
    numbers = [0.1, -0.3, 16777216.0, 1e-30, 3.4e38, *np.round(random.normal(0, 40, 500), 3).tolist()]
    single = pa.array([*numbers, None, float("nan")], pa.float32())
    assert floats(single)[:-2].tolist() == numbers
    assert np.isnan(floats(single)[-2:]).all()
    assert floats(single.slice(1, 2)).tolist() == numbers[1:3]


@pytest.mark.parametrize(
    ("cells", "code", "found"),
    [
        (pa.array([0.25]), UNIT // 4, IN_ORDER),
        (pa.array([0.25], pa.float32()), UNIT // 4, IN_ORDER),
        (pa.array(np.array([0.25], np.float16)), UNIT // 4, IN_ORDER),
        (pa.array([1]), UNIT, IN_ORDER),
        (pa.array([255], pa.uint8()), UNIT, OUTSIDE),
        (pa.array([-(2**63)]), -UNIT, OUTSIDE),
        (pa.array([True]), UNIT, IN_ORDER),
        (pa.array([False]), 0, IN_ORDER),
        (pa.array([decimal.Decimal("0.25")]), UNIT // 4, IN_ORDER),
        (pa.array([decimal.Decimal("0.25")], pa.decimal256(50, 2)), UNIT // 4, IN_ORDER),
        (pa.array([0.25]).dictionary_encode(), UNIT // 4, IN_ORDER),
        (pa.array([float("nan")]), FILL, UNREADABLE),
        (pa.array([float("inf")]), FILL, UNREADABLE),
        (pa.array([None], pa.float64()), FILL, MISSING),
        (pa.array([None], pa.int32()), FILL, MISSING),
        (pa.array([None], pa.bool_()), FILL, MISSING),
        (pa.array([None], pa.decimal128(5, 2)), FILL, MISSING),
        (pa.array([None], pa.string()), FILL, MISSING),
        (pa.array([None], pa.string()).dictionary_encode(), FILL, MISSING),
        (pa.nulls(1), FILL, MISSING),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else None,
)
def test_numbers_in_parquet(tmp_path: Path, cells: pa.Array, code: int, found: Findings) -> None:
    table = read(parquet(tmp_path, {"id": ["1"], "x": cells, "c": ["u"]}))
    assert table.bounded.codes[0, 0] == code
    assert table.findings["x"] == found


def test_findings_stay_out_of_what_is_printed_by_chance(tmp_path: Path) -> None:
    assert "Findings" not in repr(read(csv(tmp_path, "id,x,c\n1,7,u\n")))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_timestamp_at_the_end_of_its_range_leaves_the_others_as_they_are(tmp_path: Path, unit: str) -> None:
    at = settings(tmp_path / "rows.parquet", COLUMNS | {"d": {"kind": "date"}})
    ends = pa.array([-(2**63), 2**63 - 1, None, 0, -1], pa.int64()).cast(pa.timestamp(unit))
    found = read_cells(ends, at.declared["d"], at.source)
    days = np.asarray(found.values)
    a_day = 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    assert days[[0, 1, 3, 4]].tolist() == [float(-(2**63) // a_day), float((2**63 - 1) // a_day), 0, -1]
    assert (found.missing.tolist(), found.unreadable.any()) == ([False, False, True, False, False], False)
