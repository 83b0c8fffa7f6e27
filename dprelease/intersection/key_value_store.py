"""Oblivious key-value store: a table in which every key finds its value, and which, where values are uniform, is uniform.

A key's row names one cell of each of three segments and, by 128 bits, a subset of 128 dense cells. Its value is the exclusive or
of all of them. `encode` draws the table uniformly among all that give every key its value. So a table of uniform values is
uniform, whatever its keys are, and tells nothing of them.

Most rows are *peeled*: one that has a cell to itself can be met last, whatever the others are. Repeated, this leaves a core,
which is solved by elimination over GF(2), with the dense cells. There is no table only if rows are linearly dependent. For that
a set of rows must name every sparse cell an even number of times, and then it is a dependency with probability 2^-128, by its
dense bits. With E the expected number of such sets, a table fails with probability at most E 2^-128. E is below 1.3 at all
sizes: it is largest at nine rows and falls like 1/n (`tests/dprelease/intersection/test_key_value_store.py` computes it).

Source: Garimella, Pinkas, Rosulek, Trieu and Yanai 2021, "Oblivious Key-Value Stores and Amplification for Private Set
Intersection", section 4.1 (3-hash garbled cuckoo tables); docs/protocol.md, "Aligning".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dprelease.errors import IntegrityError
from dprelease.intersection.curve import EVALUATION_BYTES
from dprelease.intersection.ring import DENSE_CELLS, SEGMENTS
from dprelease.intersection.zero_sharing import LABEL_BYTES
from dprelease.mpc.ring import Words

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.intp]

_DENSE_BYTES = DENSE_CELLS // 8
_PLACE_BYTES = 8 * SEGMENTS
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").astype(bool)  # (256, 8)


@dataclass(frozen=True)
class KeyRows:
    """Rows of keys.

    Attributes:
        cells: (n, 3), a cell of each segment.
        dense: (n, 16), 128 bits, the lowest of the first byte first.
        segment: cells of a segment.
    """

    cells: Places
    dense: Bytes
    segment: int


def rows_of(evaluations: Bytes, segment: int) -> KeyRows:
    """Rows of elements, from what the parties' secrets made of them.

    Args:
        evaluations: (n, 64) pseudorandom bytes: three little-endian words for the cells, 128 dense bits, a label.
        segment: cells of a segment.
    """
    words = np.ascontiguousarray(evaluations[:, :_PLACE_BYTES]).view("<u8")
    places = (words % np.uint64(segment)).astype(np.intp) + np.arange(SEGMENTS, dtype=np.intp) * segment
    return KeyRows(places, evaluations[:, _PLACE_BYTES : _PLACE_BYTES + _DENSE_BYTES], segment)


def labels_of(evaluations: Bytes) -> Bytes:
    """(n, 16) labels of elements, independent of their rows."""
    start = _PLACE_BYTES + _DENSE_BYTES
    assert start + LABEL_BYTES <= EVALUATION_BYTES  # noqa: S101 - a digest is long enough for both
    return evaluations[:, start : start + LABEL_BYTES]


def decode(table: Words, rows: KeyRows) -> Words:
    """The value that each row finds.

    Args:
        table: (3 segment + 128,).
        rows: n of them.

    Returns:
        (n,) uint64.
    """
    found = _dense_sums(table[SEGMENTS * rows.segment :], rows.dense)
    for cells in rows.cells.T:
        found ^= table[cells]
    return found


def encode(rows: KeyRows, values: Words, filler: Words) -> Words:
    """A table in which every row finds its value.

    Args:
        rows: n of them, distinct.
        values: (n,).
        filler: (3 segment + 128,) uniform words: what cells are where rows leave them free.

    Returns:
        (3 segment + 128,), uniform among the tables with these values.

    Raises:
        IntegrityError: rows are linearly dependent.
    """
    table = filler.copy()
    # At 1.3 cells a row the core is almost always empty from some thousand rows on: peeling begins to fail at 1.222.
    peeled, core = _peel(rows)
    if core.size:
        _solve(table, rows, values, core)
    dense = _dense_sums(table[SEGMENTS * rows.segment :], rows.dense) ^ values
    for found, pivots in reversed(peeled):
        others = rows.cells[found]
        total = dense[found]
        for cells in others.T:
            total ^= np.where(cells == pivots, np.uint64(0), table[cells])
        table[pivots] = total
    return table


def _peel(rows: KeyRows) -> tuple[list[tuple[Places, Places]], Places]:
    """Rows by the round in which each had a cell to itself, with these cells; and the rows that never had one."""
    size = SEGMENTS * rows.segment
    degree = np.bincount(rows.cells.ravel(), minlength=size)
    which = np.zeros(size, np.intp)  # the exclusive or of the rows at a cell: where there is one, that row
    every = np.arange(len(rows.cells), dtype=np.intp)
    for cells in rows.cells.T:
        np.bitwise_xor.at(which, cells, every)
    left = np.ones(len(rows.cells), bool)
    peeled = []
    single = np.flatnonzero(degree == 1)
    while single.size:
        found, first = np.unique(which[single], return_index=True)
        peeled.append((found, single[first]))
        left[found] = False
        touched = rows.cells[found]
        for cells in touched.T:
            np.subtract.at(degree, cells, 1)
            np.bitwise_xor.at(which, cells, found)
        touched = np.unique(touched)
        single = touched[degree[touched] == 1]
    return peeled, np.flatnonzero(left)


def _solve(table: Words, rows: KeyRows, values: Words, core: Places) -> None:
    """Give the core's rows their values, by Gauss-Jordan elimination over GF(2) on packed bits; free cells stay as they are."""
    dense = np.arange(DENSE_CELLS, dtype=np.intp) + SEGMENTS * rows.segment
    sparse, places = np.unique(rows.cells[core], return_inverse=True)
    cells = np.concatenate([sparse, dense])
    matrix = np.zeros((core.size, cells.size), bool)
    np.put_along_axis(matrix, places.reshape(core.size, SEGMENTS), True, axis=1)
    matrix[:, sparse.size :] = _BITS[rows.dense[core]].reshape(core.size, DENSE_CELLS)
    packed, target = np.packbits(matrix, axis=1), values[core].copy()
    pivots: list[int] = []
    for column in range(cells.size):
        row, bit = len(pivots), np.uint8(128 >> column % 8)
        having = np.flatnonzero(packed[:, column // 8] & bit)
        pivot = having[having >= row][:1]
        if not pivot.size:
            continue
        swap, back = [row, pivot[0]], [pivot[0], row]
        packed[swap], target[swap] = packed[back], target[back]
        having = np.flatnonzero(packed[:, column // 8] & bit)
        others = having[having != row]
        packed[others] ^= packed[row]
        target[others] ^= target[row]
        pivots.append(column)
        if len(pivots) == core.size:
            break
    if len(pivots) < core.size:
        raise IntegrityError("elements of this run depend on one another; begin another run")
    bits = np.unpackbits(packed, axis=1, count=cells.size).astype(bool)
    bits[:, pivots] = False
    for row, column in enumerate(pivots):
        table[cells[column]] = target[row] ^ np.bitwise_xor.reduce(table[cells[bits[row]]])


def _dense_sums(cells: Words, dense: Bytes) -> Words:
    """For each row the exclusive or of the dense cells that its bits name, eight bits at a time."""
    total = np.zeros(len(dense), np.uint64)
    for place in range(_DENSE_BYTES):
        eight = np.where(_BITS, cells[8 * place : 8 * place + 8], np.uint64(0))
        total ^= np.bitwise_xor.reduce(eight, axis=1)[dense[:, place]]
    return total
