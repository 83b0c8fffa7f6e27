"""CSV files, plain or gzip, in a declared encoding: every cell is text, and names have no blanks or quotes around them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from io import TextIOWrapper
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from party_node.settings import SourceSettings
from party_node.source.limits import LONGEST_LINE, checked_text, opened

_READ_BYTES = 1 << 20


class CsvReader:
    """Reads one CSV file.

    Args:
        source: how it is written.
        path: the file.
    """

    def __init__(self, source: SourceSettings, path: Path) -> None:
        self._source = source
        self._path = path

    def header(self) -> list[str]:
        """Names of all columns."""
        return [_bare(name) for name in self._written_header]

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Rows of some columns, as text; cells of words that mean a missing one are null."""
        encoding = self._encoding if self._encoding == "utf-16" else "utf-8"  # in the others marks are the same bytes
        with self._opened(encoding) as stream:
            checked_text(iter(lambda: stream.read(_READ_BYTES), b""), self._path)
        yield from self._rows(columns)

    def uneven(self) -> str:
        """Place of the first row that has more or fewer cells than the header, or is too long; empty where there is none.

        Read once more, by a reader that counts lines: a row may have several.
        """
        try:
            with self._text() as lines:
                rows = csv.reader(lines, delimiter=self._source.delimiter)
                filled = filter(None, rows)  # Arrow reads over empty lines too
                width = len(next(filled, ()))
                count = next((len(row) for row in filled if len(row) != width), None)
        except _TooLongError:
            return f"a line has more than {LONGEST_LINE:,} bytes"
        except (csv.Error, UnicodeError, pa.ArrowException):
            return ""
        if count is None:
            return ""
        return f"line {rows.line_num} has {count} cells, and the header has {width}"

    @contextmanager
    def _text(self) -> Iterator[Iterator[str]]:
        with self._opened() as stream, TextIOWrapper(stream, "utf-8", newline="") as text:
            yield _lines(text)

    def _rows(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        written = {_bare(name): name for name in self._written_header}
        convert = pa.csv.ConvertOptions(
            include_columns=[written[name] for name in columns],
            column_types=dict.fromkeys((written[name] for name in columns), pa.string()),
            strings_can_be_null=True,
            null_values=list(self._source.missing),
        )
        reading = pa.csv.ReadOptions(block_size=LONGEST_LINE)
        with self._opened() as stream:
            for batch in pa.csv.open_csv(stream, reading, self._parsing(), convert):
                yield batch.rename_columns(columns)

    @cached_property
    def _written_header(self) -> list[str]:
        with self._opened() as stream:
            reading = pa.csv.ReadOptions(block_size=LONGEST_LINE)
            return list(pa.csv.open_csv(stream, reading, self._parsing()).schema.names)

    def _parsing(self) -> pa.csv.ParseOptions:
        # Without newlines_in_values a quoted line break would be refused only where it falls on a block's end.
        return pa.csv.ParseOptions(delimiter=self._source.delimiter, newlines_in_values=True)

    @contextmanager
    def _opened(self, encoding: str | None = None) -> Iterator[pa.NativeFile]:
        # Arrow reads ahead in a thread, also where reading ends early. A file of Python's is closed only once no read is under
        # way; Arrow's own would let that thread go on with the descriptor, which by then may be that of the next file.
        with opened(self._path) as file:
            stream = pa.PythonFile(file, mode="r")
            if self._path.suffix == ".gz":
                stream = pa.CompressedInputStream(stream, "gzip")
            encoding = encoding or self._encoding
            yield stream if encoding == "utf-8" else pa.transcoding_input_stream(stream, encoding, "utf-8")

    @property
    def _encoding(self) -> str:
        return self._source.encoding.removesuffix("-sig")  # Arrow reads over a mark of the byte order


class _TooLongError(Exception):
    """A line that is longer than any row may be."""


def _lines(text: TextIOWrapper) -> Iterator[str]:
    while line := text.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise _TooLongError
        yield line


def _bare(name: str) -> str:
    return name.strip().strip('"').strip()
