"""Limits of what one source makes of its bytes: a bad export is refused before it fills memory or never ends.

Rows and bytes may be as many as the source is large. A small source that unfolds to much is not a table of patients: a
file of gzip or Parquet whose rows are more than its bytes, a view that goes on for ever, a cell of megabytes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from dprelease.errors import DataRefused

LONGEST_CELL = 1 << 13
"""Bytes of a text: of a number, a date, a level or an identifier."""

LONGEST_LINE = 1 << 22
"""Bytes of a line of CSV; also of the blocks in which it is read."""

_ROWS_OF_ANY_FILE = 1 << 21
"""Rows that the smallest file may have; a larger one has at most one for each of its bytes."""

_TEXT_OF_ANY_FILE = 1 << 30
_UNFOLDED = 200
"""Bytes of text that a compressed file may have, and for each of its own bytes."""

_AT_A_TIME = 1 << 26
"""Bytes of one column that are handed on together."""

MOST_ROWS = 1 << 16
"""Rows that are handed on together: as objects of Python each takes some hundred bytes."""


def opened(path: Path) -> BinaryIO:
    """A regular file, opened for reading and never waited for.

    Raises:
        OSError: it cannot be opened.
        DataRefused: it is a pipe, a device or a folder, whose end may never come.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise DataRefused(f"cannot read {path}: it is a pipe, a device or a folder; export the table to a file")
    return os.fdopen(handle, "rb")


def checked_text(pieces: Iterable[bytes], path: Path) -> None:
    """Refuse text of CSV that no row can be told from, piece by piece.

    Args:
        pieces: its bytes in UTF-8, none of them longer than a line may be.
        path: of the file, which may be compressed.

    Raises:
        DataRefused: a line is too long, a quotation mark is never closed, or a compressed file unfolds to too much.
    """
    unended = quotes = total = 0
    most = max(_TEXT_OF_ANY_FILE, _UNFOLDED * path.stat().st_size)
    for data in pieces:
        ends = [place for place in (data.find(b"\n"), data.find(b"\r")) if place >= 0]
        if unended + (min(ends) if ends else len(data)) > LONGEST_LINE:
            raise DataRefused(
                f"{path} has a line of more than {LONGEST_LINE:,} bytes; export a row to a line, and declared columns alone"
            )
        unended = len(data) - 1 - max(data.rfind(b"\n"), data.rfind(b"\r")) if ends else unended + len(data)
        quotes += data.count(b'"')
        total += len(data)
        if path.suffix == ".gz" and total > most:
            raise DataRefused(
                f"{path} unfolds to more than {most:,} bytes, {_UNFOLDED} times its own; if that is right, unpack it"
            )
    if quotes % 2:  # Arrow takes what follows an open one, to the end of the file, for one cell: rows would go missing
        raise DataRefused(f"{path} has a quotation mark that is never closed")


def bounded(batches: Iterable[pa.RecordBatch], place: str, size: int | None) -> Iterator[pa.RecordBatch]:
    """Rows of a source, as long as they are no more than it can have.

    Args:
        batches: the rows.
        place: where they are, in words.
        size: bytes of the file that they are in; None where another program counts them.

    Raises:
        DataRefused: a cell is too long, or there are more rows than bytes.
    """
    most = None if size is None else max(_ROWS_OF_ANY_FILE, size)
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        if most is not None and rows > most:
            raise DataRefused(
                f"{place} has more than {most:,} rows, more than a table of {size:,} bytes has; if that is right, unpack it"
            )
        longest = 1
        for name, texts in zip(batch.schema.names, batch.columns, strict=True):
            longest = max(longest, longest_text(texts))
            if longest > LONGEST_CELL:
                raise DataRefused(
                    f"{place}: column {name} has a cell of more than {LONGEST_CELL:,} bytes; shorten it, or do not declare "
                    "the column"
                )
        step = min(MOST_ROWS, _AT_A_TIME // longest)
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)


def longest_text(cells: pa.Array) -> int:
    """Bytes of the longest of some texts; 0 where cells are of another type."""
    texts = cells.dictionary if pa.types.is_dictionary(cells.type) else cells
    return (pc.max(pc.binary_length(texts)).as_py() or 0) if is_text(texts.type) else 0


def is_text(kind: pa.DataType) -> bool:
    """Tells whether cells of a type are text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
