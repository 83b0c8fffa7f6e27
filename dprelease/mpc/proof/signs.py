"""Sums over signs that bits stand for: the loops over all rows that take the time of a proof.

* <sigma, e> of 32 signs is a look-up for each 11 bits. The three tables of all 2^11 sums fit the nearest cache, and are made by
  doubling.
* sum_i alpha_i e_u e_a' over rows is counted first. For each pair of a byte of u and one of a, alpha's two halves of 31 and 30
  bits are added up by the 65,536 values of the pair, in float64 and exactly for up to 2^22 rows. The 8 x 256 matrix of signs S
  then gives S H S', whose entries are sums of the same numbers with signs: exact too.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Floats
from dprelease.mpc.modulus import Field
from dprelease.mpc.proof.claim import Bits
from dprelease.mpc.ring import Words

COUNTED_ROWS = 1 << 19
"""Rows that `sign_products` takes at a time: far more than a histogram has bins, and sums stay below 2^48."""

_TABLE_BITS = 11
_BYTE = 256
_HALF_BITS = 31


class SignTables:
    """Look-up tables of <vector, e> for the signs e of one unit after another.

    Args:
        field: of the vectors.
        vectors: (units, unit).
    """

    def __init__(self, field: Field, vectors: Words) -> None:
        self._field = field
        unit = vectors.shape[1] if len(vectors) else 0
        self._tables = [_table(field, vectors[:, at : at + _TABLE_BITS]) for at in range(0, unit, _TABLE_BITS)]

    def sums(self, bits: Bits) -> Words:
        """(units, r) of (r, units) bits."""
        rows, units = bits.shape
        found = np.zeros((units, rows), np.uint64)
        place, more = np.empty(rows, np.intp), np.empty(rows, np.uint64)
        for unit, words in enumerate(np.ascontiguousarray(bits.T).astype(np.intp)):
            for at, table in enumerate(self._tables):
                np.right_shift(words, at * _TABLE_BITS, out=place)
                np.bitwise_and(place, table.shape[1] - 1, out=place)
                np.take(table[unit], place, out=more, mode="clip")  # no place lies outside, and this mode needs no copy
                found[unit] += more
        return self._field.reduced(found)


def _table(field: Field, vectors: Words) -> Words:
    """(units, 2^k) of (units, k): place j has the sum with the signs of j's bits."""
    size = vectors.shape[1]
    table = np.empty((len(vectors), 1 << size), np.uint64)
    table[:, 0] = field.total(vectors, 1)
    twice = field.add(vectors, vectors)
    for bit in range(size):
        half = 1 << bit
        table[:, half : 2 * half] = field.subtract(table[:, :half], twice[:, bit : bit + 1])
    return table


def sign_products(field: Field, alpha: Words, left: Bits, right: Bits, unit: int) -> Words:
    """sum_i alpha_i e_left,ih e_right,ih' for each unit h; (units, unit, unit).

    Args:
        field: of alpha.
        alpha: (r,), for at most `COUNTED_ROWS` rows.
        left: (r, units).
        right: (r, units).
        unit: bits of a unit.
    """
    units, size = left.shape[1], -(-unit // 8)
    halves = [(alpha & np.uint64((1 << _HALF_BITS) - 1)).astype(np.float64)]
    if field.p >> _HALF_BITS:
        halves.append((alpha >> np.uint64(_HALF_BITS)).astype(np.float64))
    found = np.zeros((units, 8 * size, 8 * size), np.uint64)
    for h in range(units):
        rights = _bytes(right[:, h], size)
        for i, upper in enumerate(_bytes(left[:, h], size)):
            upper *= _BYTE
            for j, lower in enumerate(rights):
                block = _counted(field, upper + lower, halves)
                found[h, 8 * i : 8 * i + 8, 8 * j : 8 * j + 8] = block
    return np.ascontiguousarray(found[:, :unit, :unit])


def _bytes(words: npt.NDArray[np.uint32], size: int) -> list[npt.NDArray[np.intp]]:
    return [(words >> np.uint32(8 * place) & np.uint32(_BYTE - 1)).astype(np.intp) for place in range(size)]


def _counted(field: Field, places: npt.NDArray[np.intp], halves: list[Floats]) -> Words:
    """(8, 8) from the pair of bytes of each row and alpha's halves."""
    total = np.zeros((8, 8), np.uint64)
    for place, half in enumerate(halves):
        sums = np.bincount(places, half, _BYTE * _BYTE).reshape(_BYTE, _BYTE)
        signed = _signs() @ sums @ _signs().T
        total = field.add(total, field.scaled(1 << _HALF_BITS * place, field.elements(signed.astype(np.int64))))
    return total


@cache
def _signs() -> Floats:
    """(8, 256): the sign of each bit of a byte."""
    return (1 - 2 * (np.arange(_BYTE) >> np.arange(8)[:, None] & 1)).astype(np.float64)


def in_lines(values: Words, line: int) -> Words:
    """(entries, r) as (entries, blocks, line), rows that are missing being 0."""
    entries, rows = values.shape
    blocks = -(-rows // line)
    if rows == blocks * line:
        return values.reshape(entries, blocks, line)
    padded = np.zeros((entries, blocks * line), np.uint64)
    padded[:, :rows] = values
    return padded.reshape(entries, blocks, line)
