"""Batches of a table: which rows came together.

A row's batch is a number in a column of the source, or follows from its place in the file: batch t is the t-th N rows, once all N
are there. Rows of a batch have the canonical order of the whole table, and an alignment digest as if they were alone.

Source: docs/party.md, "Streams".
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dprelease.errors import DataRefused
from party_node.settings import SourceSettings
from party_node.source.cells import texts

Numbers = npt.NDArray[np.int64]

NONE = 0
"""The number of rows that are of no batch yet."""

_LONGEST = 9
"""Most digits of a batch's number."""


def numbers_in(batch: pa.RecordBatch, source: SourceSettings) -> Numbers:
    """(n,) numbers in the batch column of some rows; none where the source has no such column.

    Raises:
        DataRefused: a cell is no whole number from 1. Counts only.
    """
    if source.batch is None:
        return np.full(batch.num_rows, NONE, np.int64)
    cells = texts(batch.column(source.batch), source.batch, source.missing)
    found = np.array([int(cell) if cell and is_number(cell) else NONE for cell in cells], np.int64)
    wrong = int(np.sum(found == NONE))
    if wrong:
        raise DataRefused(
            f"{wrong} cells of {source.batch} are no whole number from 1; it must say of every row which batch it came with"
        )
    return found


def last_complete(numbers: Numbers, source: SourceSettings) -> int:
    """The number of the last batch that no more rows come to; `NONE` where there is none.

    Args:
        numbers: from `numbers_of`, of all rows of the source.
        source: says how batches are told.
    """
    latest = int(numbers.max(initial=NONE))
    if source.batch is None or source.whole_batches:
        return latest
    return int(numbers[numbers < latest].max(initial=NONE))  # a later one has begun


def all_complete(numbers: Numbers, source: SourceSettings) -> bool:
    """Tells whether no row of the source is of a batch that is still filling; so where batches are not told."""
    last = last_complete(numbers, source)
    return not source.tells_batches or not bool(((numbers == NONE) | (numbers > last)).any())


def is_number(cell: str) -> bool:
    """Tells whether a cell is a number that a batch may have."""
    return cell.isascii() and cell.isdigit() and len(cell) <= _LONGEST


def numbers_of(parts: Iterable[Numbers], source: SourceSettings) -> Numbers:
    """(n,) the batch of every row of the file, in its order; `NONE` of what is not complete yet.

    Args:
        parts: from `numbers_in`.
        source: says how batches are told.
    """
    named = np.concatenate([*parts])
    if source.batch_rows is None:
        return named
    places = np.arange(len(named))
    complete = len(named) // source.batch_rows * source.batch_rows
    return np.where(places < complete, places // source.batch_rows + 1, NONE)
