"""Oblivious key-value store: a table in which every key finds its value, and which, where values are uniform, is uniform.

A key's row names one cell of each of three segments and, by 128 bits, a subset of 128 dense cells. Its value is the exclusive or
of all of them. `encode` draws the table uniformly among all that give every key its value. So a table of uniform values is
uniform, whatever its keys are, and tells nothing of them.

Most rows are *peeled*: one that has a cell to itself can be met last, whatever the others are. Repeated, this leaves a core,
which is solved by elimination over GF(2), with the dense cells. There is no table only if rows are linearly dependent. For that
a set of rows must name every sparse cell an even number of times, and then it is a dependency with probability 2^-128, by its
dense bits. With E the expected number of such sets, a table fails with probability at most E 2^-128. E is below 1.3 at all
sizes: it is largest at nine rows and falls like 1/n (`tests/dprelease/intersection/test_key_value_store.py` computes it).

The values are a party's shares of zero, one for each element: unknown to everybody else, and known to cancel. Parties i and j
share a seed k_ij. The share of party i for an element with label y is the exclusive or, over all j, of F(k_ij, y), so the
shares of all parties cancel, and those of any fewer parties are independent and uniform to whoever lacks one of the seeds among
them. F is AES-256 of one block, cut to 64 bits: a pseudorandom function on distinct labels up to terms of 2^-128 times their
number squared.

Source: Garimella, Pinkas, Rosulek, Trieu and Yanai 2021, "Oblivious Key-Value Stores and Amplification for Private Set
Intersection", section 4.1 (3-hash garbled cuckoo tables); Kolesnikov, Matania, Pinkas, Rosulek and Trieu 2017, "Practical
Multi-party Private Set Intersection from Symmetric-Key Techniques", the variant with unconditional zero-sharing; docs/protocol.md,
"Aligning".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dprelease.arrays import pieces
from dprelease.errors import IntegrityError
from dprelease.intersection.curve import EVALUATION_BYTES
from dprelease.intersection.ring import DENSE_CELLS, SEGMENTS
from dprelease.mpc.ring import Words

LABEL_BYTES = 16


def pseudorandom(seed: bytes, labels: npt.NDArray[np.uint8]) -> Words:
    """F(seed, label) for (n, 16) distinct labels, under 32 secret bytes for one purpose: (n,) uint64."""
    # Labels are distinct, so that no two blocks are alike, and nothing is ever decrypted: a function, not a mode.
    cipher = Cipher(algorithms.AES256(seed), modes.ECB()).encryptor()  # noqa: S305
    found, start = np.empty(len(labels), np.uint64), 0
    for piece in pieces(labels):
        words = np.frombuffer(cipher.update(piece.tobytes()), "<u8").reshape(-1, LABEL_BYTES // 8)
        found[start : start + len(piece)] = words[:, 0]
        start += len(piece)
    return found


def shares(seeds: Iterable[bytes], labels: npt.NDArray[np.uint8]) -> Words:
    """A party's share of zero for (n, 16) distinct labels, from the seed that it shares with each of the others: (n,) uint64."""
    total = np.zeros(len(labels), np.uint64)
    for seed in seeds:
        total ^= pseudorandom(seed, labels)
    return total


Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int32]
"""Cells and rows: a table of `task.MOST_PATIENTS` has fewer than 2^31 of either."""

_DENSE_BYTES = DENSE_CELLS // 8
_PLACE_BYTES = 8 * SEGMENTS
_STEP = 1 << 20
"""Rows that are read together: cells are looked up by words of 64 bits, which no more rows have at once."""
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
    """Rows of elements, from (n, 64) bytes that the parties' secrets made of them.

    These are three little-endian words for the cells of segments, 128 dense bits and a label.
    """
    places = np.empty((len(evaluations), SEGMENTS), np.int32)
    for some in _steps(len(places)):
        words = np.ascontiguousarray(evaluations[some, :_PLACE_BYTES]).view("<u8")
        places[some] = words % np.uint64(segment) + np.arange(SEGMENTS, dtype=np.uint64) * np.uint64(segment)
    return KeyRows(places, evaluations[:, _PLACE_BYTES : _PLACE_BYTES + _DENSE_BYTES], segment)


def labels_of(evaluations: Bytes) -> Bytes:
    """(n, 16) labels of elements, independent of their rows."""
    start = _PLACE_BYTES + _DENSE_BYTES
    assert start + LABEL_BYTES <= EVALUATION_BYTES  # noqa: S101 - a digest is long enough for both
    return evaluations[:, start : start + LABEL_BYTES]


def decode(table: Words, rows: KeyRows) -> Words:
    """The value that each row finds in a table of (3 segment + 128,) cells; (n,) uint64."""
    found = _dense_sums(table[SEGMENTS * rows.segment :], rows.dense)
    for some in _steps(len(found)):
        for cells in rows.cells[some].T:
            found[some] ^= table[cells]
    return found


def encode(rows: KeyRows, values: Words, filler: Words) -> Words:
    """A table in which every row finds its value.

    Args:
        rows: n of them, distinct.
        values: (n,).
        filler: (3 segment + 128,) uniform words: what cells are where rows leave them free. It becomes the table.

    Returns:
        (3 segment + 128,), uniform among the tables with these values.

    Raises:
        IntegrityError: rows are linearly dependent.
    """
    table = filler
    # At 1.3 cells a row the core is almost always empty from some thousand rows on: peeling begins to fail at 1.222.
    peeled, core = _peel(rows)
    if core.size:
        _solve(table, rows, values, core)
    dense = _dense_sums(table[SEGMENTS * rows.segment :], rows.dense)
    dense ^= values
    for round_rows, round_pivots in reversed(peeled):
        # Rows of one round have cells of their own to set, and read none that another row of it sets.
        for some in _steps(len(round_rows)):
            found, pivots = round_rows[some], round_pivots[some]
            total = dense[found]
            for cells in rows.cells[found].T:
                total ^= np.where(cells == pivots, np.uint64(0), table[cells])
            table[pivots] = total
    return table


def _peel(rows: KeyRows) -> tuple[list[tuple[Places, Places]], Places]:
    """Rows by the round in which each had a cell to itself, with these cells; and the rows that never had one."""
    size = SEGMENTS * rows.segment
    one, degree = np.int32(1), np.zeros(size, np.int32)  # of one type, or NumPy counts ten times as slowly
    which = np.zeros(size, np.uint32)  # the sum of the rows at a cell, mod 2^32: where there is one, that row
    for some in _steps(len(rows.cells)):
        every = np.arange(some.start, some.stop, dtype=np.uint32)
        for cells in rows.cells[some].T:
            np.add.at(degree, cells, one)
            np.add.at(which, cells, every)
    left = np.ones(len(rows.cells), bool)
    peeled = []
    single = np.flatnonzero(degree == 1).astype(np.int32)
    while single.size:
        found, first = np.unique(which[single], return_index=True)
        peeled.append((found.view(np.int32), single[first]))
        left[found] = False
        touched = []
        for some in _steps(len(found)):
            cells_of = rows.cells[found[some]]
            for cells in cells_of.T:
                np.subtract.at(degree, cells, one)
                np.subtract.at(which, cells, found[some])
            touched.append(np.unique(cells_of))
        single = np.unique(np.concatenate([cells[degree[cells] == 1] for cells in touched]))
    return peeled, np.flatnonzero(left).astype(np.int32)


def _steps(count: int) -> Iterator[slice]:
    """Some rows at a time."""
    return (slice(start, min(start + _STEP, count)) for start in range(0, count, _STEP))


def _solve(table: Words, rows: KeyRows, values: Words, core: Places) -> None:
    """Give the core's rows their values, by Gauss-Jordan elimination over GF(2) on packed bits; free cells stay as they are."""
    dense = np.arange(DENSE_CELLS, dtype=np.int32) + SEGMENTS * rows.segment
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
        sums = np.bitwise_xor.reduce(eight, axis=1)
        for some in _steps(len(dense)):
            total[some] ^= sums[dense[some, place]]
    return total
