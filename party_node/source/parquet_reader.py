"""Parquet files: cells have the types that the file says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from party_node.settings import SourceSettings
from party_node.source.limits import opened

_MOST_ROWS = 1 << 16
_BYTES = 1 << 26
"""Size of a batch, as the file says how long its columns are before they are compressed."""


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
        with opened(self._path) as file:
            return list(pa.parquet.read_schema(file).names)

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Rows of some columns."""
        with parquet_file(self._path, columns) as file:
            yield from file.iter_batches(rows_at_a_time(file, columns), columns=columns)


@contextmanager
def parquet_file(path: Path, columns: list[str] | None = None) -> Iterator[pa.parquet.ParquetFile]:
    """A Parquet file whose texts stay as the file has them: each once, with numbers in place of cells.

    Args:
        path: the file.
        columns: which of its columns are read; all unless told.
    """
    with opened(path) as handle:
        schema = pa.parquet.read_schema(handle)
        times = Counter(schema.names)
        wanted = times.keys() if columns is None else {*columns}
        texts = [each.name for each in schema if times[each.name] == 1 and each.name in wanted and _is_text(each.type)]
        with pa.parquet.ParquetFile(handle, read_dictionary=texts) as file:
            yield file


def rows_at_a_time(file: pa.parquet.ParquetFile, columns: list[str]) -> int:
    """Rows of a batch of some columns, fewer where they are long."""
    wanted, groups = set(columns), file.metadata
    longest = 1
    for number in range(groups.num_row_groups):
        group = groups.row_group(number)
        chunks = (group.column(place) for place in range(group.num_columns))
        size = sum(
            chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema.partition(".")[0] in wanted
        )
        longest = max(longest, size // max(group.num_rows, 1))
    return max(1, min(_MOST_ROWS, _BYTES // longest))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
