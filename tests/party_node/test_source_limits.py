"""Sources that never end, or unfold to much more than they are: one sentence each, at once and in little memory."""

import gzip
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from dprelease.errors import DataRefused
from party_node.source import databases, limits
from party_node.source.first_lines import first_lines
from party_node.source.first_look import look_at
from party_node.source.limits import LONGEST_CELL, LONGEST_LINE
from tests.party_node.tables import COLUMNS, csv, parquet, read
from tests.party_node.test_source_sql import read as read_query
from tests.party_node.test_source_sql import settings
from tests.support.databases import sqlite_table

HEAD = b"id,x,c\n1,0,u\n"
GIBIBYTE = 1 << 30


def unfolding(path: Path, text: bytes, size: int = 4 * GIBIBYTE) -> None:
    """A file of gzip with a head and then one text until it has a size; made of the same piece over and over."""
    piece = gzip.compress(text * ((1 << 24) // len(text)))
    path.write_bytes(gzip.compress(HEAD) + piece * (size >> 24))


def sparse(path: Path, begin: bytes = HEAD) -> None:
    path.write_bytes(begin)
    os.truncate(path, 1 << 40)


def repeated(path: Path) -> None:
    """Two million rows of one text of 5 MB."""
    rows = 1 << 17
    kind = pa.dictionary(pa.int32(), pa.string())
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["y" * 5_000_000]))
    schema = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("c", kind)])
    with pa.parquet.ParquetWriter(path, schema) as file:
        for group in range(16):
            ids = pa.array(np.arange(group * rows, (group + 1) * rows))
            file.write_table(pa.table([ids, pa.array(np.zeros(rows)), texts], schema=schema))


def view(path: Path, cells: str, rows: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE VIEW t AS SELECT i AS id, 0.5 AS x, {cells} AS c FROM ({rows})")  # noqa: S608


LINE = "a line (of|has) more than 4,194,304 bytes"
NO_FILE = "cannot read .*: it is a pipe, a device or a folder"
NOT_DESCRIBED = "is not text|is neither a well-formed CSV file nor a Parquet file|taken"
"""What declaring says; it reads the first lines alone, and takes a column that should not be declared."""

SOURCES: dict[str, tuple[Callable[[Path], object], str]] = {
    "4 GiB in one line.csv.gz": (lambda path: unfolding(path, b"a"), LINE),
    "a terabyte of nothing.csv": (sparse, LINE),
    "a terabyte without a header.csv": (lambda path: sparse(path, b""), LINE),
    "a line of 64 MB.csv": (lambda path: path.write_bytes(HEAD + b"2,0," + b"a" * 64_000_000 + b"\n"), LINE),
    "a device.csv": (lambda path: path.symlink_to("/dev/zero"), NO_FILE),
    "a device.csv.gz": (lambda path: path.symlink_to("/dev/zero"), NO_FILE),
    "a device.parquet": (lambda path: path.symlink_to("/dev/zero"), NO_FILE),
    "a pipe.csv": (os.mkfifo, NO_FILE),
    "a pipe.csv.gz": (os.mkfifo, NO_FILE),
    "a pipe.parquet": (os.mkfifo, NO_FILE),
    "a pipe.sqlite": (os.mkfifo, NO_FILE),
    "a cell of 800 MB.sqlite": (
        lambda path: view(path, "replace(hex(zeroblob(100000000)), '00', 'aaaaaaaa')", "SELECT 1 AS i UNION SELECT 2"),
        "a cell or a step of the query is larger than a table of patients needs",
    ),
    "eight values of 60 MB at a time.sqlite": (
        lambda path: view(
            path, f"max({', '.join(f'hex(zeroblob({30_000_000 + n}))' for n in range(8))})", "SELECT 1 AS i"
        ),
        "a cell or a step of the query is larger than a table of patients needs",
    ),
    "2 million times 5 MB.parquet": (repeated, "column c has a cell of more than 8,192 bytes"),
}


def test_what_never_ends_or_unfolds_to_too_much_is_refused_in_little_memory(tmp_path: Path) -> None:
    for name, (make, _) in SOURCES.items():
        make(tmp_path / name)
    run = [sys.executable, "-m", "tests.party_node.bad_sources", *(str(tmp_path / name) for name in SOURCES)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for name, (_, words) in SOURCES.items():
        *declared, refused, looked = found["refusals"][str(tmp_path / name)]
        for each in (refused, looked):
            assert re.search(words, each), each
        for each in declared:
            assert re.search(f"{words}|{NOT_DESCRIBED}", each), each
    assert found["mebibytes"] < 400


def test_lines_and_cells_up_to_the_limit_are_read(tmp_path: Path) -> None:
    longest = "v" * LONGEST_CELL
    path = csv(tmp_path, f"id,x,c\n1,0,{longest}\n2,0,u\n")
    assert read(path).findings["c"].outside == 1
    cells = {"id": ["1", "2"], "x": [0.0, 0.0], "c": [longest, "u"]}
    assert read(parquet(tmp_path, cells)).findings["c"].outside == 1
    url = sqlite_table(tmp_path / "rows.sqlite", "t", "id, x, c", list(zip(*cells.values(), strict=True)))
    assert read_query(settings(tmp_path, COLUMNS, url=url, table="t")).findings["c"].outside == 1
    wide = "r" * (LONGEST_LINE - len("1,0,u,\n"))
    assert read(csv(tmp_path, f"id,x,c,remark\n1,0,u,{wide}\n")).alignment.rows == 1
    returns = "id,x,c\r" + "".join(f"{number},0,u\r" for number in range(9))  # lines as they were ended before 2001
    assert read(csv(tmp_path, returns)).alignment.rows == 9


@pytest.mark.parametrize("kind", ["csv", "parquet", "sqlite", "postgres"])
def test_a_cell_beyond_the_limit_is_refused_where_it_is_declared(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    long = "\u00e9" * (LONGEST_CELL // 2) + "v"
    cells = {"id": ["1", "2"], "x": ["0", "0"], "c": ["u", long]}
    rows = list(zip(*cells.values(), strict=True))
    if kind == "csv":
        source: dict[str, object] = {"path": csv(tmp_path, "\n".join(map(",".join, [cells, *rows])) + "\n")}
    elif kind == "parquet":
        source = {"path": parquet(tmp_path, cells)}
    elif kind == "sqlite":
        source = {"url": sqlite_table(tmp_path / "rows.sqlite", "t", "id, x, c", rows), "table": "t"}
    else:
        from tests.support.databases import postgres_table

        postgres = request.getfixturevalue("postgres")
        url = postgres.database()
        postgres_table(url, "t", "id text, x text, c text", rows)
        source = {**postgres.source(url), "table": "t"}
    with pytest.raises(
        DataRefused, match="column c has a cell of more than 8,192 bytes; shorten it, or do not declare"
    ):
        read_query(settings(tmp_path, COLUMNS, **source))
    without = {"x": COLUMNS["x"]}
    assert read_query(settings(tmp_path, without, **source)).alignment.rows == 2
    if kind in ("csv", "parquet"):
        assert [each.name for each in first_lines(Path(str(source["path"]))).columns] == ["id", "x", "c"]


@pytest.mark.parametrize(
    "cells", ["'u'", "(WITH RECURSIVE n(k) AS (VALUES (0) UNION ALL SELECT 1 - k FROM n) SELECT max(k) FROM n)"]
)
def test_a_query_that_computes_for_ever_without_a_row_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cells: str
) -> None:
    monkeypatch.setattr(databases, "_STEPS_OF_ANY_FILE", 20_000_000)
    rows = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0"
    view(tmp_path / "rows.sqlite", cells, "SELECT 1 AS i" if "max" in cells else rows)
    described = settings(tmp_path, COLUMNS, url=f"sqlite:///{tmp_path / 'rows.sqlite'}", table="t")
    with pytest.raises(DataRefused, match="the query computes longer than a table of patients needs"):
        read_query(described)
    assert "computes longer" in " ".join(look_at(described).problems)


def test_a_view_that_goes_on_for_ever_ends_at_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_ROWS_OF_ANY_FILE", 20_000)
    view(
        tmp_path / "rows.sqlite",
        "'u'",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
    )
    at = settings(tmp_path, COLUMNS, url=f"sqlite:///{tmp_path}/rows.sqlite", table="t")
    with pytest.raises(
        DataRefused, match="more than 20,000 rows, more than a table of 4,096 bytes has; if that is right"
    ):
        read_query(at)


def test_long_texts_that_many_rows_share_are_handed_on_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_AT_A_TIME", 1 << 20)
    rows = 5000
    cells = {
        "id": [str(i) for i in range(rows)],
        "x": [i / rows for i in range(rows)],
        "c": ["u" * 8000, "u"] * (rows // 2),
    }
    table = pa.record_batch(cells)
    pieces = list(limits.bounded([table], "rows", None))
    assert max(piece.num_rows for piece in pieces) == (1 << 20) // 8000
    assert pa.Table.from_batches(pieces).equals(pa.Table.from_batches([table]))
    found = read(parquet(tmp_path, cells))
    monkeypatch.undo()
    assert found.bounded.digest() == read(parquet(tmp_path, cells)).bounded.digest()


def test_a_compressed_file_unfolds_to_no_more_than_a_table_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_TEXT_OF_ANY_FILE", 1 << 20)
    path = tmp_path / "rows.csv.gz"
    unfolding(path, b"\n", 1 << 24)
    most = 200 * path.stat().st_size
    assert most < 1 << 24
    with pytest.raises(
        DataRefused, match=f"unfolds to more than {most:,} bytes, 200 times its own; if that is right, unpack"
    ):
        read(path)
    assert read(csv(tmp_path, gzip.decompress(path.read_bytes()))).alignment.rows == 1
