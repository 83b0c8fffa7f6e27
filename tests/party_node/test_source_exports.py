"""What exports look like: marks, encodings, headers, units, bands, dates and missing words, each read as it is declared to be."""

import gzip
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from dprelease.errors import DataRefused
from party_node.source.findings import Findings
from party_node.source.first_look import MOST_EXAMPLES, Example, look_at
from party_node.source.scan import BoundedTable, scan
from tests.party_node.tables import GRID_BITS, KEY, UNIT, codes_by_subject, csv, parquet, read, settings

DOCUMENT = (Path(__file__).parents[2] / "docs" / "party.md").read_text(encoding="utf-8")
NUMBER: dict[str, Any] = {"kind": "numeric", "lower": -1e9, "upper": 1e9}


_, TEXT, _, TOML, *_ = re.split(
    r"```(?:text|toml)?\n", DOCUMENT[DOCUMENT.index("## What exports look like") :], maxsplit=4
)
SOURCE, COLUMNS = (tomllib.loads(TOML)[key] for key in ("source", "columns"))
del SOURCE["path"], SOURCE["subject"]


def export(folder: Path, data: bytes, name: str = "rows.csv", **source: Any) -> BoundedTable:
    """The table that the page declares, from this file."""
    described = settings(csv(folder, data, name), COLUMNS, **SOURCE | source | {"subject": "Patient-Nr"})
    return scan(described, KEY, described.declarations(), GRID_BITS).table()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("packed", [False, True])
def test_the_export_of_the_page_is_the_table_that_was_meant(tmp_path: Path, encoding: str, packed: bool) -> None:
    data = TEXT.encode(encoding)
    name = "rows.csv.gz" if packed else "rows.csv"
    table = export(tmp_path, gzip.compress(data) if packed else data, name, encoding=encoding)
    meant = {
        "height": [176.0, None],
        "age": [75.0, 90.0],
        "cost": [1247.0, 99.0],
        "stays": [2, 1],
        "smoker": ["ja", "nein"],
        "day": [1095.0, None],
        "no_height": ["other", "yes"],
    }
    shown = re.findall(r"^\| [12] \| (.*) \|$", DOCUMENT, re.M)
    rows = zip(*meant.values(), strict=True)
    assert [
        [
            "missing"
            if cell is None
            else "other"
            if cell == "nein"
            else f"{cell:g}"
            if name not in ("smoker", "no_height")
            else cell
            for name, cell in zip(meant, row, strict=True)
        ]
        for row in rows
    ] == [line.split(" | ") for line in shown]
    plain: dict[str, dict[str, Any]] = {
        name: {"kind": "numeric", "lower": COLUMNS[name]["lower"], "upper": COLUMNS[name]["upper"]}
        if "lower" in COLUMNS[name]
        else {"kind": "categorical", "levels": ["ja" if name == "smoker" else "yes"]}
        for name in meant
    }
    expected = read(parquet(tmp_path, {"id": [1, 2], **meant}), plain)
    assert np.array_equal(table.bounded.codes, expected.bounded.codes)
    assert table.alignment.digest == expected.alignment.digest
    assert table.findings["admitted"] == Findings(missing=1)
    assert table.findings["height"] == Findings(missing=1)


def test_its_header_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    marked = export(tmp_path, ("\ufeff" + TEXT).encode(), encoding="utf-8")
    assert marked.bounded.digest() == export(tmp_path, TEXT.encode("cp1252")).bounded.digest()


def test_an_encoding_that_the_file_is_not_in_is_refused(tmp_path: Path) -> None:
    path = csv(tmp_path, "id,x,c\nM\u00fcller,0,u\n".encode("latin-1"))
    with pytest.raises(DataRefused, match="not a well-formed csv file in UTF-8"):
        read(path)
    assert read(path, encoding="latin-1").alignment.digest == read(path, encoding="cp1252").alignment.digest
    with pytest.raises(DataRefused, match="in CP1252"):
        read(csv(tmp_path, b"id,x,c\n\x81,0,u\n"), encoding="cp1252")
    with pytest.raises(DataRefused, match="more than one column x"):
        read(csv(tmp_path, 'id, x ,"x",c\n1,0,0,u\n'))


DATES: list[tuple[object, list[str | None], list[float | None]]] = [
    ({"days": ["2011-01-01", "d"]}, ["2011-01-01", "2011-03-01", "2010-12-31"], [0, 59, -1]),
    ({"days": ["d", "2012-03-01"]}, ["2012-02-28", None, "2011-02-29"], [2, None, None]),
    ({"age": ["d", "2011-06-15"]}, ["1950-06-15", "1950-06-16", "1950-06-14", "2011-06-15"], [61, 60, 61, 0]),
    ({"age": ["d", "2011-02-28"]}, ["1996-02-29", "1996-02-28"], [14, 15]),
    ({"age": ["d", "2012-02-29"]}, ["1996-02-29", "1995-03-01"], [16, 16]),
    ({"age": ["1900-01-01", "d"]}, ["1899-12-31", "1969-12-31", "1970-01-01"], [-1, 69, 70]),
]


@pytest.mark.parametrize(("derived", "dates", "expected"), DATES, ids=[str(case[0]) for case in DATES])
def test_days_and_whole_years_between_a_date_and_a_fixed_one(
    tmp_path: Path, derived: object, dates: list[str | None], expected: list[float | None]
) -> None:
    columns: dict[str, dict[str, Any]] = {
        "d": {"kind": "date"},
        "x": {"derived": derived, "lower": -128, "upper": 128, "fill": 128},
    }
    subjects = [str(place) for place in range(len(dates))]
    table = read(
        csv(tmp_path, "id,d\n" + "".join(f"{i},{d or ''}\n" for i, d in zip(subjects, dates, strict=True))), columns
    )
    found = {subject: code / UNIT * 128 for subject, (code,) in codes_by_subject(table, subjects).items()}
    assert found == {
        subject: 128 if wanted is None else wanted for subject, wanted in zip(subjects, expected, strict=True)
    }


def test_examples_of_cells_stay_in_memory_and_are_few(tmp_path: Path) -> None:
    texts = ["0", "1,5", "1,5", "x" * 500, "7", *(f"t{i}" for i in range(20))]
    path = csv(tmp_path, "id,x,c\n" + "".join(f'{i},"{text}",u\n' for i, text in enumerate(texts)))
    described = settings(path)
    found = look_at(described).columns["x"]
    assert found.examples[:2] == [Example("unreadable", "1,5", 2), Example("unreadable", "x" * 100, 4)]
    assert [each for each in found.examples if each.kind == "outside"] == [Example("outside", "7", 5)]
    assert len(found.examples) == MOST_EXAMPLES + 1
    assert "1,5" not in repr(found)


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"x": {"kind": "categorical", "levels": ["a"], "decimal": ","}}, {}, "column x: decimal: only numbers have it"),
    ({"x": {"kind": "date", "suffix": "kg"}, "y": NUMBER}, {}, "column x: suffix: only numbers have it"),
    ({"x": NUMBER | {"decimal": ";"}}, {}, "column x: decimal: "),
    ({"x": NUMBER | {"suffix": ""}}, {}, "column x: suffix: is left blank"),
    ({"x": {"kind": "numeric", "bounds": "unknown", "bands": True}}, {}, "column x: bands: .* declare lower and upper"),
    ({"x": NUMBER}, {"decimal": ",", "thousands": ","}, "decimal and thousands are the same mark, ','"),
    ({"x": NUMBER | {"decimal": ","}}, {"thousands": ","}, 'column x: .* same mark, .*; say thousands = ""'),
    ({"x": NUMBER | {"aggregate": "mean"}}, {}, 'column x: aggregate: needs source.rows = "first" or "last"'),
    ({"x": NUMBER | {"aggregate": "median"}}, {"rows": "last"}, "column x: aggregate: "),
    (
        {"x": {"kind": "categorical", "levels": ["a"], "aggregate": "max"}},
        {"rows": "last"},
        'kind = "categorical" takes first, last',
    ),
    (
        {"x": NUMBER, "y": {"derived": {"square": "x"}, "suffix": "kg"}},
        {},
        "column y: suffix: a derived column is neither",
    ),
    ({"x": NUMBER}, {"by": "x"}, "by orders the rows"),
    ({"x": NUMBER}, {"rows": "last", "by": "when"}, "source.by: when is no declared column"),
    ({"x": NUMBER}, {"rows": "last", "batch": "month"}, "which may be of several batches"),
    ({"x": NUMBER}, {"rows": "last", "record": "visit"}, "leave out record"),
    ({"x": NUMBER}, {"rows": "last", "rows_per_subject": 2}, "rows_per_subject is 1"),
    ({"x": NUMBER}, {"rows": "any"}, "rows"),
    ({"x": NUMBER}, {"encoding": "ebcdic"}, "encoding"),
    ({"d": {"kind": "date"}, "x": {"derived": {"days": ["2011-02-29", "d"]}}}, {}, "there is no date 2011-02-29"),
    ({"d": {"kind": "date"}, "x": {"derived": {"age": ["2011-02-28", "2012-01-01"]}}}, {}, "age: both dates are fixed"),
    ({"d": {"kind": "date"}, "x": {"derived": {"age": ["d", "d"]}}}, {}, "age: names d twice"),
    ({"d": {"kind": "date"}, "x": {"derived": {"age": ["d", "1 May"]}}}, {}, "neither a column's name nor a date"),
    ({"x": NUMBER, "y": {"derived": {"age": ["x", "2012-01-01"]}}}, {}, "age: x is no date"),
]


@pytest.mark.parametrize(("columns", "source", "words"), REFUSED, ids=[case[2] for case in REFUSED])
def test_rules_that_do_not_fit_are_refused_by_column_and_key(
    tmp_path: Path, columns: dict[str, dict[str, Any]], source: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(tmp_path / "rows.csv", columns, **source)
    assert re.search(words, str(caught.value))
