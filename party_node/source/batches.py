"""Batches of a table: which rows came together, and that rows of earlier checkpoints of a stream are what they were.

A row's batch is a number in a column of the source, or follows from its place in the file: batch t is the t-th N rows, once all N
are there. Rows of a batch have the canonical order of the whole table, and an alignment digest as if they were alone.

Source: docs/party.md, "Streams".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dprelease.data.bounding import BoundedRows
from dprelease.errors import DataRefused
from party_node.settings import SourceSettings
from party_node.source.cells import texts

Numbers = npt.NDArray[np.int64]

NONE = 0
"""The number of rows that are of no batch yet."""

_LONGEST = 9
"""Most digits of a batch's number."""


@dataclass(frozen=True)
class Checkpoint:
    """What a stream reads of the table.

    Attributes:
        number: t; the batch that is released now.
        released: earlier checkpoints to the digests of the codes that were approved for them.
    """

    number: int
    released: Mapping[int, str] = field(default_factory=dict)


def numbers_in(batch: pa.RecordBatch, source: SourceSettings) -> Numbers:
    """(n,) numbers in the batch column of some rows; none where the source has no such column.

    Raises:
        DataRefused: a cell is no whole number from 1. Counts only.
    """
    if source.batch is None:
        return np.full(batch.num_rows, NONE, np.int64)
    cells = texts(batch.column(source.batch), source.batch, source.missing)
    found = np.array([int(cell) if cell and _is_number(cell) else NONE for cell in cells], np.int64)
    wrong = int(np.sum(found == NONE))
    if wrong:
        raise DataRefused(
            f"{wrong} cells of {source.batch} are no whole number from 1; it must say of every row which batch it came with"
        )
    return found


def _is_number(cell: str) -> bool:
    return cell.isascii() and cell.isdigit() and len(cell) <= _LONGEST


def numbers_of(parts: Iterable[Numbers], source: SourceSettings) -> Numbers:
    """(n,) the batch of every row of the file, in its order; `NONE` of what is not complete yet."""
    named = np.concatenate([*parts])
    if source.batch_rows is None:
        return named
    places = np.arange(len(named))
    return np.where(places < len(named) // source.batch_rows * source.batch_rows, places // source.batch_rows + 1, NONE)


def of(rows: BoundedRows, chosen: npt.NDArray[np.bool_]) -> BoundedRows:
    """Some of the rows, in their order."""
    return BoundedRows(rows.codes[chosen], rows.columns, rows.grid_bits)


def check_released(rows: BoundedRows, numbers: Numbers, at: Checkpoint) -> None:
    """Refuse a table whose rows of earlier checkpoints are not those that were approved then.

    Args:
        rows: in canonical order.
        numbers: (n,) their batches.
        at: the checkpoint.

    Raises:
        DataRefused: with the first checkpoint whose rows changed.
    """
    for number, digest in sorted(at.released.items()):
        if of(rows, numbers == number).digest() != digest:
            raise DataRefused(
                f"rows of batch {number} changed, were removed or added after checkpoint {number} was released from them; "
                "put them back as they were: what is released cannot be taken back, and the stream adds to it"
            )
