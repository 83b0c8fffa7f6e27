"""CSV files, plain or gzip: every cell is text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from dprelease.errors import DataRefused
from party_node.settings import SourceSettings

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
        with self._opened() as stream:
            return list(pa.csv.open_csv(stream, parse_options=self._parsing()).schema.names)

    def batches(self, columns: list[str], start: int) -> Iterator[pa.RecordBatch]:
        """Rows of some columns from a byte on; cells of words that mean a missing one are null."""
        # Arrow takes what follows an open quotation mark, to the end of the file, for one cell: rows would go missing.
        with self._opened(start) as stream:
            if sum(data.count(b'"') for data in iter(lambda: stream.read(_READ_BYTES), b"")) % 2:
                raise DataRefused(f"{self._path} has a quotation mark that is never closed")
        convert = pa.csv.ConvertOptions(
            include_columns=columns,
            column_types={name: pa.string() for name in columns},
            strings_can_be_null=True,
            null_values=list(self._source.missing),
        )
        reading = pa.csv.ReadOptions(column_names=self.header()) if start else None
        with self._opened(start) as stream:
            yield from pa.csv.open_csv(stream, reading, self._parsing(), convert)

    def _parsing(self) -> pa.csv.ParseOptions:
        # Without newlines_in_values a quoted line break would be refused only where it falls on a block's end.
        return pa.csv.ParseOptions(delimiter=self._source.delimiter, newlines_in_values=True)

    @contextmanager
    def _opened(self, start: int = 0) -> Iterator[pa.NativeFile]:
        # Arrow reads ahead in a thread, also where reading ends early. A file of Python's is closed only once no read is under
        # way; Arrow's own would let that thread go on with the descriptor, which by then may be that of the next file.
        with self._path.open("rb") as file:
            file.seek(start)
            stream = pa.PythonFile(file, mode="r")
            yield pa.CompressedInputStream(stream, "gzip") if self._path.suffix == ".gz" else stream
