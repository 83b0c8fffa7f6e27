"""Files that cannot be used: one sentence about the file, and never a cell or an identifier in it."""

import datetime
import gzip
import logging
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dprelease.errors import DataRefused, InvalidInput
from party_node.source.first_look import look_at
from tests.party_node.tables import KEY, csv, parquet, read, settings

MARK = "Erika-Mustermann-4711"
"""Stands in the row that is at fault."""

HEAD = "id,x,c\n1,0,u\n"

CSV_FAULTS: dict[str, tuple[str | bytes, str]] = {
    "a cell too many": (f"{HEAD}{MARK},0,u,{MARK}\n", " has 4 cells, and the header has 3"),
    "a cell too few": (f"{HEAD}{MARK},0\n", " has 2 cells, and the header has 3"),
    "a quotation mark that is never closed": (f'{HEAD}2,0,"{MARK}\n3,0,u\n', "never closed"),
    "not UTF-8 in a cell": (f"{HEAD}2,0,{MARK}".encode() + b"\xe9\n", "UTF-8"),
    "not UTF-8 in an identifier": (HEAD.encode() + b"\xe9" + f"{MARK},0,u\n".encode(), "UTF-8"),
    "not UTF-8 in the header": (f"id,x,c,{MARK}".encode() + b"\xe9\n1,0,u,\n", "UTF-8"),
    "UTF-16": (f"{HEAD}{MARK},0,u\n".encode("utf-16"), ""),
    "zero bytes": (b"\0" * 64 + MARK.encode(), ""),
    "no header": (f"1,0,{MARK}\n2,0,u\n", "has no column id, x, c"),
    "a column missing": (f"id,x\n{MARK},0\n", "has no column c"),
    "an identifier missing": (f"{HEAD},0,{MARK}\n", "1 rows have no identifier in id"),
    "a blank identifier": (f"{HEAD}  ,0,{MARK}\n", "1 rows have no identifier in id"),
    "an identifier that says it is missing": (f"{HEAD}NA,0,{MARK}\nnull,0,u\n", "2 rows have no identifier"),
    "an identifier twice": (f"{HEAD}{MARK},0,u\n{MARK},0,u\n", "1 rows repeat an identifier"),
    "an identifier twice but for white space": (f"{HEAD}{MARK},0,u\n {MARK} ,0,u\n", "1 rows repeat an identifier"),
    "a column twice": (f"id,x,x,c\n{MARK},0,0,u\n", "more than one column x"),
    "the identifier's column twice": (f"id,id,x,c\n{MARK},2,0,u\n", "more than one column id"),
    "no rows": ("id,x,c\n", "has no rows"),
    "an empty file": ("", "not a well-formed csv"),
    "another delimiter": (f"id;x;c\n{MARK};0;u\n", "has no column id, x, c"),
}


def refused(use: Callable[[], object]) -> DataRefused:
    """The refusal; neither it nor a traceback of it carries the mark."""
    with pytest.raises(DataRefused) as caught:
        use()
    assert MARK not in "".join(traceback.format_exception(caught.value))
    return caught.value


@pytest.mark.parametrize(("text", "words"), CSV_FAULTS.values(), ids=CSV_FAULTS)
def test_a_csv_file_at_fault(tmp_path: Path, text: str | bytes, words: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    path = csv(tmp_path, text)
    assert words in refused(lambda: read(path)).message
    assert MARK not in caplog.text


@pytest.mark.parametrize(
    ("text", "how", "line"),
    [
        (f"{HEAD}{MARK},0\n", {}, 3),
        (f'\n{HEAD}\n"2\n\n",0,u\n{MARK},0\n', {}, 8),
        (f"id;x;c\n1;0;ü\n{MARK};0\n".encode("cp1252"), {"delimiter": ";", "encoding": "cp1252"}, 3),
        (f"{HEAD}{MARK},0\n".encode("utf-16"), {"encoding": "utf-16"}, 3),
    ],
)
def test_an_uneven_row_is_named_by_its_line(tmp_path: Path, text: str | bytes, how: dict[str, Any], line: int) -> None:
    path = csv(tmp_path, text)
    said = rf"csv file in [-A-Z0-9]+: line {line} has 2 cells, and the header has 3$"
    assert re.search(said, refused(lambda: read(path, **how)).message)
    assert re.search(said, look_at(settings(path, **how)).problems[0])


def test_a_file_in_utf_16_without_a_mark_of_the_byte_order(tmp_path: Path) -> None:
    path = csv(tmp_path, f"{HEAD}{MARK},0,u\n".encode("utf-16-le"))
    assert "not a well-formed csv file in UTF-16" in refused(lambda: read(path, encoding="utf-16")).message


@pytest.mark.parametrize(("text", "words"), CSV_FAULTS.values(), ids=CSV_FAULTS)
def test_a_fault_behind_the_first_block_reads_the_same(tmp_path: Path, text: str | bytes, words: str) -> None:
    data = text if isinstance(text, bytes) else text.encode()
    if not data.startswith(HEAD.encode()):
        return  # a fault of the header
    rows = b"".join(b"%d,0.123456,u\n" % i for i in range(10**6, 10**6 + 60_000))
    assert len(rows) > 1 << 20  # Arrow's block
    path = csv(tmp_path, HEAD.encode() + rows + data.removeprefix(HEAD.encode()))
    assert words in refused(lambda: read(path)).message


def dates(how_many: int = 1) -> pa.Array:
    return pa.array([datetime.date(2026, 1, 1)] * how_many)


PARQUET_FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "a date for a number": ({"id": [MARK], "x": dates(), "c": ["u"]}, "column x holds date32"),
    "a time for a number": ({"id": [MARK], "x": pa.array([1], pa.timestamp("s")), "c": ["u"]}, "column x holds"),
    "a duration for a number": ({"id": [MARK], "x": pa.array([1], pa.duration("s")), "c": ["u"]}, "column x holds"),
    "a list for a number": ({"id": ["1"], "x": [[MARK]], "c": ["u"]}, "column x holds list"),
    "a record for a number": ({"id": ["1"], "x": [{"a": MARK}], "c": ["u"]}, "column x holds struct"),
    "bytes for a number": ({"id": ["1"], "x": [MARK.encode()], "c": ["u"]}, "column x holds binary"),
    "a date for a category": ({"id": [MARK], "x": [0.0], "c": dates()}, "column c holds date32"),
    "a fraction for a category": ({"id": [MARK], "x": [0.0], "c": [4711.5]}, "column c holds double"),
    "bytes for a category": ({"id": ["1"], "x": [0.0], "c": [MARK.encode()]}, "column c holds binary"),
    "a fraction for an identifier": ({"id": [4711.0], "x": [0.0], "c": ["u"]}, "column id holds double"),
    "a date for an identifier": ({"id": dates(), "x": [0.0], "c": ["u"]}, "column id holds date32"),
    "a column missing": ({"id": [MARK], "x": [0.0]}, "has no column c"),
    "no identifier": ({"id": [MARK, None], "x": [0.0, 0.0], "c": ["u", "u"]}, "1 rows have no identifier"),
    "no identifier at all": ({"id": pa.nulls(2), "x": [0.0, 0.0], "c": [MARK, "u"]}, "2 rows have no identifier"),
    "an empty identifier": ({"id": [MARK, ""], "x": [0.0, 0.0], "c": ["u", "u"]}, "1 rows have no identifier"),
    "an identifier twice": ({"id": [MARK, MARK], "x": [0.0, 0.0], "c": ["u", "u"]}, "1 rows repeat"),
    "no rows": (
        {"id": pa.array([], pa.string()), "x": pa.array([], pa.float64()), "c": pa.array([], pa.string())},
        "has no rows",
    ),
}


@pytest.mark.parametrize(("columns", "words"), PARQUET_FAULTS.values(), ids=PARQUET_FAULTS)
def test_a_parquet_file_at_fault(
    tmp_path: Path, columns: dict[str, Any], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    path = parquet(tmp_path, columns)
    assert words in refused(lambda: read(path)).message
    assert MARK not in caplog.text


def test_a_column_twice_in_parquet(tmp_path: Path) -> None:
    arrays = [pa.array([MARK]), pa.array([0.0]), pa.array([1.0]), pa.array(["u"])]
    table = pa.Table.from_arrays(arrays, names=["id", "x", "x", "c"])
    pa.parquet.write_table(table, tmp_path / "rows.parquet")
    assert "more than one column x" in refused(lambda: read(tmp_path / "rows.parquet")).message


def whole(tmp_path: Path) -> bytes:
    return parquet(tmp_path, {"id": [MARK], "x": [0.0], "c": ["u"]}).read_bytes()


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("rows.parquet", lambda data: data[:-8]),
        ("rows.parquet", lambda data: b"PAR1" + MARK.encode() + b"PAR1"),
        ("rows.parquet", lambda data: data[:4] + b"\xff" * 40 + data[44:]),
        ("rows.parquet", lambda data: b""),
        ("rows.pq", lambda data: f"{HEAD}{MARK},0,u\n".encode()),
        ("rows.csv.gz", lambda data: f"{HEAD}{MARK},0,u\n".encode()),
        ("rows.csv.gz", lambda data: gzip.compress(f"{HEAD}{MARK},0,u\n".encode() * 99)[:-12]),
        ("rows.csv", lambda data: data),
    ],
)
def test_a_file_that_is_not_what_its_name_says(
    tmp_path: Path, name: str, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    path = csv(tmp_path, damage(whole(tmp_path)), name)
    refused(lambda: read(path))
    assert MARK not in caplog.text


def test_a_file_that_is_not_there_or_a_folder(tmp_path: Path) -> None:
    assert "No such file" in refused(lambda: read(tmp_path / "absent.csv")).message
    assert "No such file" in refused(lambda: read(tmp_path / "absent.parquet")).message
    for name in ("rows.csv", "rows.parquet"):
        (tmp_path / name).mkdir()
        assert "cannot read" in refused(lambda path=tmp_path / name: read(path)).message


def test_a_subject_with_more_rows_than_declared(tmp_path: Path) -> None:
    rows = "id,visit,x,c\n" + "".join(f"{MARK},{visit},0,u\n" for visit in range(3))
    path = csv(tmp_path, rows)
    error = refused(lambda: read(path, rows_per_subject=2, record="visit"))
    assert "more than rows_per_subject = 2 rows (1 too many)" in error.message
    assert read(path, rows_per_subject=3, record="visit").alignment.rows == 3


@pytest.mark.parametrize("visit", ["", "NA", "  "])
def test_a_record_without_a_name(tmp_path: Path, visit: str) -> None:
    path = csv(tmp_path, f"id,visit,x,c\n{MARK},1,0,u\n{MARK},{visit},0,u\n")
    error = refused(lambda: read(path, rows_per_subject=2, record="visit"))
    assert "1 rows have no identifier in id and visit" in error.message


@pytest.mark.parametrize("key", [b"", KEY[:31], KEY + b"0"])
def test_an_alignment_key_of_another_length(tmp_path: Path, key: bytes) -> None:
    with pytest.raises(InvalidInput, match="32 bytes"):
        read(csv(tmp_path, HEAD), key=key)


@pytest.mark.parametrize("delimiter", ["", ",,", "é", '"', "\n", "\0"])
def test_a_delimiter_that_cannot_be_one(tmp_path: Path, delimiter: str) -> None:
    with pytest.raises(ValueError, match="delimiter"):
        settings(tmp_path / "rows.csv", delimiter=delimiter)
