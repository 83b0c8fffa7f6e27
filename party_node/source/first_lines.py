"""Proposal for party.toml from the header and the first lines of a file: how it is written, and kinds of columns by their types.

A person confirms it. Bounds are never proposed: one that is computed from the data reveals the most extreme patient.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from dprelease.errors import DataRefused
from party_node.declarations.source_columns import ISO_8601, DateColumn
from party_node.source.cells import NumberStyle, is_number_type, read_numbers
from party_node.source.limits import LONGEST_CELL, longest_text, opened
from party_node.source.reader import PARQUET, files_at, parquet_file, rows_at_a_time
from party_node.source.table import is_number

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", ".", "-")
"""Texts that are proposed to mean a missing cell, whatever the file has."""

MOST_LINES = 1000
"""Rows that kinds are guessed from."""

_HEAD_BYTES = 1 << 20
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_SQLITE = b"SQLite format 3\0"
_DELIMITERS = (",", ";", "\t", "|")
_STYLES = ((".", ""), (",", ""), (",", "."), (".", ","), (",", " "), (".", " "), (".", "'"))
"""Decimal mark and mark between thousands; of those that fit equally many columns the first counts."""

_DATES = (
    ISO_8601,
    "%d.%m.%Y",
    "%-d.%-m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%Y/%m/%d",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
)
_ENDS = (-1e9, 1e9)  # of open bands

_MOST = 0.9

_BATCH = re.compile(r"(batch|checkpoint|wave)([ _]?(no|nr|number))?", re.IGNORECASE)
_CODE = re.compile(r"[A-Z][0-9][0-9A-Z](\.?[0-9A-Z]{1,4})?", re.IGNORECASE)
_RECORD = re.compile(r"(record|visit)([ _]?(id|no|nr|number))?", re.IGNORECASE)
_ROWS_A_BATCH = 3
"""Least rows of a batch on average, where a column without such a name is taken for one of batches."""

Kind = Literal["numeric", "categorical", "date"]
Key = Literal["", "batch", "record"]


@dataclass(frozen=True)
class ProposedColumn:
    """Proposal for a column.

    Attributes:
        name: the file's name of it.
        kind: by its type.
        bands: whether its numbers are written as bands.
        format: of its dates, if they are text.
        texts: what its cells hold in the first lines, each once, sorted; of categories only.
        key: of ``[source]``, which it looks as if it were for; empty for a column of data.
    """

    name: str
    kind: Kind
    bands: bool = False
    format: str = ISO_8601
    texts: tuple[str, ...] = ()
    key: Key = ""

    @property
    def coded(self) -> bool:
        """Tells whether its texts look like codes of diagnoses or drugs, such as ICD-10 and ATC."""
        return _most(sum(_CODE.fullmatch(text) is not None for text in self.texts), len(self.texts))


@dataclass(frozen=True)
class FirstLines:
    """Proposal for a file.

    Attributes:
        columns: in the order of the file.
        written: keys of ``[source]`` that say how it is written, where they are not the usual ones.
    """

    columns: tuple[ProposedColumn, ...]
    written: dict[str, str]


def first_lines(path: Path) -> FirstLines:
    """Read the beginning of a CSV file, plain or .gz, or the schema of a Parquet file; of several files, of the first.

    Args:
        path: a file, a pattern of names, or a folder of Parquet files.

    Raises:
        DataRefused: the file cannot be read, is no table, or has no header.
    """
    path = files_at(path)[0]
    try:
        return _parquet(path) if path.suffix in PARQUET else _csv(path)
    except OSError as error:
        raise DataRefused(f"cannot read {path}: {error.strerror or 'not a readable file'}") from None
    except (pa.ArrowException, UnicodeDecodeError, csv.Error, EOFError):
        raise DataRefused(f"{path} is neither a well-formed CSV file nor a Parquet file") from None


def _parquet(path: Path) -> FirstLines:
    with parquet_file(path) as file:
        found = [(field.name, _kind_of(field.type)) for field in file.schema_arrow]
        rows = min(MOST_LINES, rows_at_a_time(file, [name for name, _ in found]))
        batch = next(file.iter_batches(rows), None)
    columns = []
    for place, (name, kind) in enumerate(found):
        unseen = batch is None or kind == "date" or longest_text(batch.column(place)) > LONGEST_CELL
        cells = [] if batch is None or unseen else batch.column(place).to_pylist()
        texts = _levels(cells) if kind == "categorical" else ()
        columns.append(ProposedColumn(name, kind, texts=texts, key=_key(name, kind, cells)))
    return FirstLines(tuple(columns), {})


def _kind_of(kind: pa.DataType) -> Kind:
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "date"
    return "numeric" if is_number_type(kind) else "categorical"


def _csv(path: Path) -> FirstLines:
    with opened(path) as file, gzip.open(file) if path.suffix == ".gz" else file as plain:
        data = plain.read(_HEAD_BYTES)
    _check_text(path, data)
    encoding, text = _decoded(data)
    delimiter = max(_DELIMITERS, key=lambda each: _fields(text, each))
    header, *rows = _rows(text, delimiter, MOST_LINES + 1) or [[]]
    if len(data) == _HEAD_BYTES and len(rows) < MOST_LINES:
        rows = rows[:-1]  # the last one may be cut off
    names = [name.strip() for name in header]
    if not any(names):
        raise DataRefused(f"{path} has no header")
    rows = [row for row in rows if len(row) == len(header)]
    cells = [pa.array([row[place].strip() for row in rows], pa.string()) for place in range(len(names))]
    marks = max(_STYLES, key=lambda marks: sum(_reads(each, NumberStyle(*marks)) for each in cells))
    columns = [_proposed(name, each, NumberStyle(*marks)) for name, each in zip(names, cells, strict=True)]
    usual = {"delimiter": ",", "encoding": "utf-8", "decimal": ".", "thousands": ""}
    written = {"delimiter": delimiter, "encoding": encoding, "decimal": marks[0], "thousands": marks[1]}
    return FirstLines(tuple(columns), {key: value for key, value in written.items() if value != usual[key]})


def _check_text(path: Path, data: bytes) -> None:
    if data.startswith(_SQLITE):
        raise DataRefused(
            f"{path} is a database of SQLite; begin with deploy/party.toml, name it by url (docs/party.md, Data in a database)"
        )
    if b"\0" in data and not data.startswith(tuple(mark for mark, _ in _MARKS)):
        raise DataRefused(f"{path} is not text; export a workbook as CSV, and name a Parquet file .parquet")


def _decoded(data: bytes) -> tuple[str, str]:
    """The encoding of text, which may end within a character, and the text."""
    marked = next((name for mark, name in _MARKS if data.startswith(mark)), None)
    for encoding in [marked] if marked else ["utf-8", "cp1252"]:
        try:
            return encoding, codecs.getincrementaldecoder(encoding)().decode(data)
        except UnicodeDecodeError:
            continue
    return "latin-1", data.decode("latin-1")


def _rows(text: str, delimiter: str, most: int) -> list[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    return [row for row, _ in zip((row for row in reader if row), range(most), strict=False)]


def _fields(text: str, delimiter: str) -> int:
    """How many fields the header has, where most of the lines after it have as many; 1 where they do not."""
    try:
        header, *rows = [len(row) for row in _rows(text, delimiter, 100)] or [1]
    except csv.Error:  # a whole line of many columns is too long for one field
        return 1
    return header if Counter(rows)[header] >= len(rows) / 2 else 1


def _reads(cells: pa.Array, style: NumberStyle) -> bool:
    """Tells whether some cells are there, and most of these are numbers."""
    numbers, absent = read_numbers(cells, style, MISSING)
    return _most(int(np.isfinite(numbers).sum()), int((~absent).sum()))


def _most(fit: int, there: int) -> bool:
    """Tells whether a type is that of a column: a stray text does not change it, `check` shows it."""
    return there > 0 and fit >= _MOST * there


def _proposed(name: str, cells: pa.Array, style: NumberStyle) -> ProposedColumn:
    if _reads(cells, style):
        return ProposedColumn(name, "numeric", key=_key(name, "numeric", cells.to_pylist()))
    if _reads(cells, NumberStyle(style.decimal, style.thousands, ends=_ENDS)):
        return ProposedColumn(name, "numeric", bands=True)
    texts = [text for text in cells.to_pylist() if text not in MISSING]
    for each in _DATES if texts else ():
        pattern = re.compile(DateColumn(kind="date", name="date", format=each).pattern)
        if _most(sum(pattern.match(text) is not None for text in texts), len(texts)):
            return ProposedColumn(name, "date", format=each)
    return ProposedColumn(name, "categorical", texts=_levels(texts), key=_key(name, "categorical", texts))


def _levels(texts: Sequence[object]) -> tuple[str, ...]:
    return tuple(sorted({str(text).strip() for text in texts if text is not None} - {*MISSING}))


def _key(name: str, kind: Kind, cells: Sequence[object]) -> Key:
    if kind == "numeric" and (_BATCH.fullmatch(name) or _grows([str(cell) for cell in cells])):
        return "batch"
    return "record" if kind != "date" and _RECORD.fullmatch(name) else ""


def _grows(cells: Sequence[str]) -> bool:
    """Tells whether cells are whole numbers from 1 that grow with the rows, each in several of them."""
    if not all(map(is_number, cells)):
        return False
    numbers = [int(cell) for cell in cells]
    return numbers == sorted(numbers) and numbers[:1] == [1] and 1 < len({*numbers}) <= len(numbers) / _ROWS_A_BATCH
