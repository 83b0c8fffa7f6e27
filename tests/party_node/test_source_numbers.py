"""Numbers as people write them, each read as its declaration says: marks, units, bands, words for missing ones."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from party_node.settings import PartySettings
from party_node.source.cells import Cells, read_cells
from tests.party_node.tables import settings

GERMAN = {"decimal": ",", "thousands": "."}
NUMBER: dict[str, Any] = {"kind": "numeric", "lower": -1e9, "upper": 1e9}


@cache
def described_by(column: str, source: str) -> PartySettings:
    """Settings by canonical text, for they take longer than the cells."""
    return settings(Path("rows.csv"), {"x": json.loads(column)}, **json.loads(source))


def cells_of(
    texts: Sequence[str | None], column: dict[str, Any], kind: pa.DataType | None = None, **source: Any
) -> Cells:
    """Cells of a column of some declaration."""
    described = described_by(json.dumps(column), json.dumps(source))
    return read_cells(pa.array(texts, kind or pa.string()), described.declared["x"], described.source)


def number(text: str, rules: dict[str, Any], source: dict[str, Any]) -> float | str:
    cells = cells_of([text], NUMBER | rules, **source)
    return (
        "missing" if cells.missing[0] else "unreadable" if cells.unreadable[0] else float(np.asarray(cells.values)[0])
    )


NUMBERS: list[tuple[dict[str, Any], dict[str, Any], dict[str, float | str]]] = [
    ({"decimal": ","}, {}, {"1,5": 1.5, "-,5": -0.5, "7": 7, "1,5e2": 150, "1.5": "unreadable", "1,5,2": "unreadable"}),
    (
        GERMAN,
        {},
        {
            "1.234,5": 1234.5,
            "1.234": 1234,
            "-12.345.678,": -12345678,
            "1234,5": 1234.5,
            " 1.234 ": 1234,
            "1.23": "unreadable",
            "1234.567": "unreadable",
            "1,234.5": "unreadable",
            ".234": "unreadable",
        },
    ),
    ({"thousands": ","}, {}, {"1,234.5": 1234.5, "1234.5": 1234.5, "1,23": "unreadable", "12,34,567": "unreadable"}),
    ({"thousands": " "}, {}, {"1 234": 1234, "1\u00a0234\u202f567.5": 1234567.5, "1 2": "unreadable"}),
    ({"thousands": "'"}, {}, {"1'234": 1234}),
    (GERMAN, {"decimal": ".", "thousands": ""}, {"1.234": 1.234, "1,234": "unreadable"}),
    ({}, {"decimal": ","}, {"1,5": 1.5}),
    (
        {},
        {"suffix": "kg"},
        {"72 kg": 72, "72kg": 72, "72": 72, " 7.5 kg ": 7.5, "kg": "unreadable", "72 kg kg": "unreadable"},
    ),
    ({}, {"suffix": ["%", "mm[Hg]", "m"]}, {"45 %": 45, "120 mm[Hg]": 120, "1.8m": 1.8, "45 KG": "unreadable"}),
    (GERMAN, {"suffix": "\u20ac"}, {"1.234,50 \u20ac": 1234.5}),
    (
        {"missing": ["NA", "-9"]},
        {"missing": ["unknown", "999"]},
        {"unknown": "missing", " 999 ": "missing", "999": "missing", "-9": "missing", "999.0": 999, "NA": "missing"},
    ),
    ({}, {"missing": "."}, {".": "missing", "0.": 0}),
]
BANDS: dict[str, float | str] = {
    "[70-80)": 75,
    "(70, 80]": 75,
    "[70,80)": 75,
    "[70.5; 80.5)": 75.5,
    "70-79": 74.5,
    "70 \u2013 79": 74.5,
    "70 to 80": 75,
    "[-10--5)": -7.5,
    "80+": 100,
    ">80": 100,
    ">=80": 100,
    "\u226480": 40,
    "<18": 9,
    "75": 75,
    "80-70": "unreadable",
    "70,80": "unreadable",
    "70-80-90": "unreadable",
    "seventy": "unreadable",
    "NA": "missing",
}


@pytest.mark.parametrize(("source", "rules", "expected"), NUMBERS, ids=[str(case[:2])[:70] for case in NUMBERS])
def test_a_number_is_what_its_declaration_makes_of_it(
    source: dict[str, Any], rules: dict[str, Any], expected: dict[str, float | str]
) -> None:
    assert {text: number(text, rules, source) for text in expected} == expected
    column = cells_of([*expected], NUMBER | rules, **source)  # next to one another they are what they are alone
    assert [float(value) for value in np.asarray(column.values)[~column.missing & ~column.unreadable]] == [
        value for value in expected.values() if not isinstance(value, str)
    ]


def test_bands_are_their_midpoints_and_open_ones_end_at_the_declared_bounds() -> None:
    column = {"kind": "numeric", "lower": 0, "upper": 120, "bands": True}
    cells = cells_of([*BANDS, None], column)
    numbers = [value for value in BANDS.values() if not isinstance(value, str)]
    assert np.asarray(cells.values)[~cells.missing & ~cells.unreadable].tolist() == numbers
    assert cells.missing.tolist() == [value == "missing" for value in BANDS.values()] + [True]
    assert cells.unreadable.tolist() == [value == "unreadable" for value in BANDS.values()] + [False]
    assert cells_of(["70,5-80,5"], column, decimal=",").values[0] == 75.5
    assert cells_of(["70-80"], column | {"bands": False}).unreadable.all()
