"""Readers of a source: the names of its columns, and its rows in record batches, whatever it is kept in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from dprelease.errors import DataRefused
from dprelease.one_line import listed
from party_node.settings import SourceSettings
from party_node.source.csv_reader import CsvReader
from party_node.source.files import PARQUET, files_of
from party_node.source.limits import bounded
from party_node.source.parquet_reader import ParquetReader
from party_node.source.sql_reader import SqlReader


class Reader(Protocol):
    """One way to keep rows."""

    def header(self) -> list[str]:
        """Names of all columns, as often as each stands there."""
        ...

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Rows of some columns, in pieces."""
        ...


def record_batches(source: SourceSettings, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Identifiers, batches and these columns of the source, in pieces.

    Args:
        source: what is read.
        columns: the source's names of columns.

    Raises:
        DataRefused: a column is not there, or there twice; or it cannot be read.
        PeerUnavailable: its database does not answer, or stopped before the last row.
    """
    reader = reader_of(source)
    wanted = list(dict.fromkeys([*filter(None, (source.subject, source.record, source.batch)), *columns]))
    present = reader.header()
    absent = [name for name in wanted if name not in present]
    if absent:
        raise DataRefused(f"{source.place} has no column {listed(absent)}")
    doubled = [name for name in wanted if present.count(name) > 1]
    if doubled:
        raise DataRefused(f"{source.place} has more than one column {listed(doubled)}; rename all but one")
    yield from reader.batches(wanted)


def reader_of(source: SourceSettings) -> Reader:
    """Reader of a source; raises `DataRefused` where there is no file."""
    return FilesReader(source) if source.url is None else SqlReader(source)


class FilesReader:
    """Reads one file, or several with the same header one after another.

    Args:
        source: names them.

    Raises:
        DataRefused: there is none.
    """

    def __init__(self, source: SourceSettings) -> None:
        self._source = source
        self._readers = {
            path: (ParquetReader if _kind(source, path) == "parquet" else CsvReader)(source, path)
            for path in files_of(source)
        }

    def header(self) -> list[str]:
        """Names of all columns; raises `DataRefused` where two files have others."""
        headers = {}
        for path, reader in self._readers.items():
            with read_errors(self._source, path):
                headers[path] = reader.header()
        first, header = next(iter(headers.items()))
        other = [path.name for path, each in headers.items() if each != header]
        if other:
            raise DataRefused(
                f"{other[0]} has other columns than {first.name}, or in another order; all of {self._source.place} need the same"
            )
        return header

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Rows of some columns."""
        for path, reader in self._readers.items():
            with read_errors(self._source, path):
                yield from bounded(reader.batches(columns), str(path), path.stat().st_size)


def is_plain_csv(source: SourceSettings) -> bool:
    """Tells whether the source is one file of CSV with bytes for each line."""
    path = source.path
    plain = path is not None and path.is_file() and _kind(source, path) == "csv" and path.suffix != ".gz"
    return plain and source.encoding != "utf-16"


@contextmanager
def read_errors(source: SourceSettings, path: Path | None = None) -> Iterator[None]:
    """Refusals in our own words: Arrow's messages may quote a row, and ours may end up in a log.

    Args:
        source: what is read.
        path: the one of its files that is; None where it is no file.
    """
    place = source.place if path is None else path
    try:
        yield
    except OSError as error:
        raise DataRefused(f"cannot read {place}: {error.strerror or 'not a readable file'}") from None
    except (pa.ArrowException, UnicodeError):
        kind = "table" if path is None else _kind(source, path)
        what = kind if path is None else f"{kind} file in {source.encoding.upper()}"
        uneven = CsvReader(source, path).uneven() if path is not None and kind == "csv" else ""
        raise DataRefused(f"{place} is not a well-formed {what}" + (uneven and f": {uneven}")) from None


def _kind(source: SourceSettings, path: Path) -> str:
    return source.format or ("parquet" if path.suffix in PARQUET else "csv")
