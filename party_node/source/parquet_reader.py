"""Parquet files: cells have the types that the file says."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from party_node.settings import SourceSettings


class ParquetReader:
    """Reads one Parquet file.

    Args:
        source: how it is written.
        path: the file.
    """

    def __init__(self, source: SourceSettings, path: Path) -> None:
        self._path = path

    def header(self) -> list[str]:
        """Names of all columns."""
        return list(pa.parquet.read_schema(self._path).names)

    def batches(self, columns: list[str], start: int, numbers: Collection[str] = ()) -> Iterator[pa.RecordBatch]:
        """Rows of some columns."""
        with pa.parquet.ParquetFile(self._path) as file:
            yield from file.iter_batches(columns=columns)
