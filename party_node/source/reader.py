"""Readers of a source: the names of its columns, and its rows in record batches, whatever it is kept in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import pyarrow as pa

from dprelease.errors import DataRefused
from party_node.settings import SourceSettings
from party_node.source.csv_reader import CsvReader
from party_node.source.parquet_reader import ParquetReader


class Reader(Protocol):
    """One way to keep rows."""

    def header(self) -> list[str]:
        """Names of all columns, as often as each stands there."""
        ...

    def batches(self, columns: list[str], start: int) -> Iterator[pa.RecordBatch]:
        """Rows of some columns, in pieces; from byte `start` on, where `is_plain_csv`."""
        ...


def record_batches(source: SourceSettings, columns: list[str], start: int = 0) -> Iterator[pa.RecordBatch]:
    """Identifiers, batches and these columns of the source, in pieces; those of a plain CSV file from a row on.

    Raises:
        DataRefused: a column is not there, or there twice.
    """
    reader = reader_of(source)
    wanted = list(dict.fromkeys([*filter(None, (source.subject, source.record, source.batch)), *columns]))
    present = reader.header()
    absent = [name for name in wanted if name not in present]
    if absent:
        raise DataRefused(f"{source.place} has no column {', '.join(absent)}")
    doubled = [name for name in wanted if present.count(name) > 1]
    if doubled:
        raise DataRefused(f"{source.place} has more than one column {', '.join(doubled)}; rename all but one")
    yield from reader.batches(wanted, start)


def reader_of(source: SourceSettings) -> Reader:
    """What reads a source."""
    return (ParquetReader if _kind(source) == "parquet" else CsvReader)(source, source.path)


def is_plain_csv(source: SourceSettings) -> bool:
    """Whether bytes that are appended to the file are rows, and change none before."""
    return _kind(source) == "csv" and source.path.suffix != ".gz"


@contextmanager
def read_errors(source: SourceSettings) -> Iterator[None]:
    """Refusals in our own words: Arrow's messages may quote a row, and ours may end up in a log."""
    try:
        yield
    except OSError as error:
        raise DataRefused(f"cannot read {source.place}: {error.strerror or 'not a readable file'}") from None
    except (pa.ArrowException, UnicodeDecodeError):
        raise DataRefused(f"{source.place} is not a well-formed {_kind(source)} file in UTF-8") from None


def _kind(source: SourceSettings) -> str:
    return source.format or ("parquet" if source.path.suffix in {".parquet", ".pq"} else "csv")
