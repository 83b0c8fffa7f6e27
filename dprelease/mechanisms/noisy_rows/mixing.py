"""The public mixing matrix B, k x n, expanded from a seed and never stored, and its exact product with integer rows.

Two kinds, laid out in docs/format.md 6 with test vectors. ``bernoulli`` has a sign in every entry, so a column's squared norm
is k. ``buckets`` has one sign in each column, so it is 1, and k patients that follow one another go to k different rows of B.

Entries stay integers, so the product is exact and its sensitivity is exactly the norm of a column times that of a row
(docs/guarantees.md 2). Sources: multi-party release paper, Algorithm 2, without the division by sqrt(k); Charikar, Chen and
Farach-Colton (2002), Finding frequent items in data streams, with buckets of equal sizes. Second moments are as good with
either (docs/methods.md, "Two mixings").

The one loop that takes time sums integers with signs given by bits, in numpy and, where it pays, in numba. Eight integers have
256 signed sums. All are made once, by doubling, and every output looks its own one up by its byte of signs: an addition for eight
signs. Two columns lie in one 64-bit integer, so one addition serves both. Both kernels add the same 64-bit integers, so they give
the same bytes. numba is the extra ``fast``. To import it and to compile takes about a second in every process, and nothing
compiled is kept in a folder: `kernel_for` alone decides when that pays.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import cast

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Integers, PieceMap, one_by_one
from dprelease.errors import InvalidInput
from dprelease.privacy.public_stream import BLOCK_BYTES, PublicStream

_log = logging.getLogger(__name__)

GROUP = 8
"""Integers that share a table: their signs are a byte."""
MOST_GROUPS = 128
"""Groups that a kernel gets at once at most; a multiple of 8."""
WORTH_COMPILING = 1 << 30
"""Lookups that numpy takes about three seconds for and numba a fifth of that."""

_TABLE = 1 << GROUP
_HALF = 32
_PAIRED = 1 << 21
"""Integers below this can be paired: `GROUP` * `MOST_GROUPS` of them add up to less than 2^31."""

Signs = npt.NDArray[np.uint8]
Kernel = Callable[[Signs, Integers], Integers]
"""(g, k) bytes and (c, g, 8) integers, g a multiple of 8, to (c, k): sum over groups and bits of (1 - 2 bit) * integer."""


def signed_sums(packed: Signs, codes: Integers, largest: int, kernel: Kernel) -> Integers:
    """Signed sums of the rows' columns, exact as long as they stay below 2^63; (k, d).

    Args:
        packed: (g, k) bytes, bit i of packed[j, r] the sign of row 8 j + i in output r; g a multiple of 8, `MOST_GROUPS` at most.
        codes: (8 g, d) rows.
        largest: of their absolute values.
        kernel: from `kernel_for`.
    """
    rows, columns = codes.shape
    if largest >= _PAIRED:
        return kernel(packed, np.ascontiguousarray(codes.T).reshape(columns, -1, GROUP)).T
    words = np.zeros((-(-columns // 2), rows), np.int64)
    words += codes[:, ::2].T
    words[: columns // 2] += codes[:, 1::2].T << _HALF
    sums = kernel(packed, words.reshape(len(words), -1, GROUP))
    found = np.empty((packed.shape[1], 2 * len(words)), np.int64)
    found[:, ::2] = sums.T.astype(np.int32)  # the lower half, its sign included
    found[:, 1::2] = (sums.T - found[:, ::2]) >> _HALF
    return found[:, :columns]


def kernel_for(lookups: int) -> Kernel:
    """The kernel for so many lookups, all calls together; the bytes of the result do not depend on it."""
    return (in_numba() if lookups >= WORTH_COMPILING else None) or in_numpy


def in_numpy(packed: Signs, words: Integers) -> Integers:
    """`Kernel` by array operations."""
    places = packed + (np.arange(len(packed)) * _TABLE)[:, None]
    sums = np.empty((len(words), packed.shape[1]), np.int64)
    table = np.empty((len(packed), _TABLE), np.int64)
    for found, each in zip(sums, words, strict=True):
        table[:, 0] = each.sum(axis=1)
        for bit in range(GROUP):
            half = 1 << bit
            np.subtract(table[:, :half], 2 * each[:, bit : bit + 1], out=table[:, half : 2 * half])
        found[:] = np.take(table.ravel(), places).sum(axis=0)
    return sums


@cache
def in_numba() -> Kernel | None:
    """`Kernel` by a compiled loop; None where numba is not installed, or does not work here, which is logged."""
    try:
        from numba import int64, njit, types

        signs = types.Array(types.uint8, 2, "A", readonly=True)
        return cast(Kernel, njit(int64[:, ::1](signs, int64[:, :, ::1]), nogil=True)(_loop))  # compiles here
    except ModuleNotFoundError:
        return None
    except Exception as error:  # libraries that are missing, or versions that do not fit
        _log.warning("numba does not work here, and numpy mixes in its place: %s", error)
        return None


def _loop(packed: Signs, words: Integers) -> Integers:
    groups, outputs = packed.shape
    sums = np.zeros((len(words), outputs), np.int64)
    table = np.empty((8, _TABLE), np.int64)
    for column in range(len(words)):
        for first in range(0, groups, 8):
            for each in range(8):
                integers = words[column, first + each]
                table[each, 0] = integers.sum()
                for bit in range(GROUP):
                    half = 1 << bit
                    for place in range(half):
                        table[each, half + place] = table[each, place] - 2 * integers[bit]
            for output in range(outputs):  # eight tables at once fit the nearest cache and save seven stores in eight
                sums[column, output] += (
                    table[0, packed[first, output]]
                    + table[1, packed[first + 1, output]]
                    + table[2, packed[first + 2, output]]
                    + table[3, packed[first + 3, output]]
                    + table[4, packed[first + 4, output]]
                    + table[5, packed[first + 5, output]]
                    + table[6, packed[first + 6, output]]
                    + table[7, packed[first + 7, output]]
                )
    return sums


_WORKING_ENTRIES = 1 << 22  # looked up at once: 32 MiB of 64-bit integers
_WORKING_PATIENTS = 1 << 18  # put into buckets at once
_TURN_BYTES = 8
_EXACT = 1 << 53  # float64 holds every integer up to here

_Chunk = tuple[int, npt.NDArray[np.integer], int]
"""Place of the first row, the rows, and the largest of their absolute values."""


class MixingMatrix(ABC):
    """B of either kind.

    Args:
        stream: the public stream of the release's mixing seed.
        outputs: k >= 1, rows of B.
        rows: n >= 1, columns of B, one for each patient row.
    """

    def __init__(self, stream: PublicStream, outputs: int, rows: int) -> None:
        self.outputs = outputs
        self.rows = rows
        self._stream = stream
        self._stride = -(-self._group_bytes // BLOCK_BYTES) * BLOCK_BYTES

    @property
    @abstractmethod
    def _group_bytes(self) -> int:
        """Bytes of the stream that a group of patients has, before they are rounded up to whole blocks of the cipher."""

    def _groups(self, first: int, count: int) -> npt.NDArray[np.uint8]:
        """(count, stride) bytes of the groups from one on."""
        data = self._stream.read(first * self._stride, count * self._stride)
        return np.frombuffer(data, np.uint8).reshape(count, self._stride)

    @abstractmethod
    def signs(self, start: int, stop: int) -> npt.NDArray[np.int8]:
        """B[:, start:stop] as (k, stop - start) int8; 0 <= start <= stop <= n."""

    def apply(self, chunks: Iterable[npt.NDArray[np.integer]], run: PieceMap = one_by_one) -> Integers:
        """B Q for integer rows Q that arrive in chunks, in order; exact, whatever the chunking.

        Args:
            chunks: arrays of shape (rows in chunk, d); together (n, d), with n * max|Q| < 2^53.
            run: makes the product of each chunk.

        Returns:
            (k, d) int64.

        Raises:
            InvalidInput: the chunks do not have n rows together, or the product could exceed 2^53.
        """
        total: Integers | None = None
        for product in run(self._product, self._checked(chunks)):
            if total is None:
                total = product
            else:
                total += product
        assert total is not None  # noqa: S101 - no chunk at all is refused
        return total

    def _checked(self, chunks: Iterable[npt.NDArray[np.integer]]) -> Iterator[_Chunk]:
        """The chunks with the place of their first row; raises as `apply`."""
        done, columns = 0, None
        for chunk in chunks:
            rows = np.asarray(chunk)
            largest = max(-int(rows.min()), int(rows.max())) if rows.size else 0
            if largest * self.rows >= _EXACT:
                raise InvalidInput("n times the largest code reaches 2^53: use a coarser grid")
            if columns not in (None, rows.shape[1:]):
                raise InvalidInput("the chunks have different numbers of columns")
            if done + len(rows) > self.rows:
                raise InvalidInput(f"more than the {self.rows} rows that B was made for")
            columns = rows.shape[1:]
            yield done, rows, largest
            done += len(rows)
        if columns is None or done != self.rows:
            raise InvalidInput(f"{done} rows arrived where B was made for {self.rows}")

    def _product(self, chunk: _Chunk) -> Integers:
        """(k, d) product with the rows of a chunk."""
        start, rows, largest = chunk
        found = np.zeros((self.outputs, rows.shape[1]), np.int64)
        self._add(found, start, rows, largest)
        return found

    @abstractmethod
    def _add(self, total: Integers, start: int, rows: npt.NDArray[np.integer], largest: int) -> None:
        """Adds the product with patients from `start` on; no code is larger than `largest`."""

    def row_sums(self) -> Integers:
        """B 1, the constant column after mixing: public and exact, (k,) int64. As much work as a column."""
        return self.apply([np.broadcast_to(np.int8(1), (self.rows, 1))])[:, 0]


class BernoulliMixing(MixingMatrix):
    """B in {-1, +1}^{k x n}: byte r of a group of eight columns has their signs in row r."""

    @property
    def _group_bytes(self) -> int:
        return self.outputs

    def signs(self, start: int, stop: int) -> npt.NDArray[np.int8]:
        """As `MixingMatrix.signs`."""
        first = start // GROUP
        packed = self._groups(first, -(-stop // GROUP) - first)[:, : self.outputs]
        bits = np.unpackbits(np.ascontiguousarray(packed.T), axis=1, bitorder="little")
        return (1 - 2 * bits[:, start - first * GROUP : stop - first * GROUP].astype(np.int8)).astype(np.int8)

    def _add(self, total: Integers, start: int, rows: npt.NDArray[np.integer], largest: int) -> None:
        columns = rows.shape[1]
        kernel = kernel_for(self.rows * self.outputs * -(-columns // 2) // GROUP)
        groups = min(MOST_GROUPS, max(8, _WORKING_ENTRIES // self.outputs // 8 * 8))
        for low, high, lead in _aligned(start, len(rows), groups * GROUP):
            before = lead % GROUP
            used = -(-(before + high - low) // (8 * GROUP)) * 8  # of the groups: a chunk of few rows is few
            codes = np.zeros((used * GROUP, columns), np.int64)  # zeros beside the chunk: their signs do not matter
            codes[before : before + high - low] = rows[low:high]
            packed = self._groups((start + low - before) // GROUP, used)[:, : self.outputs]
            total += signed_sums(packed, codes, largest, kernel)


class BucketMixing(MixingMatrix):
    """B with one +-1 in each column. A group of k columns has a turn, by which row 0 .. k - 1 is shifted, and k signs."""

    @property
    def _group_bytes(self) -> int:
        return _TURN_BYTES + -(-self.outputs // 8)

    def _placed(self, start: int, stop: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int8]]:
        """Row and sign of columns [start, stop), each (stop - start,)."""
        k = self.outputs
        first = start // k
        groups = self._groups(first, -(-stop // k) - first)
        turns = groups[:, :_TURN_BYTES].copy().view("<u8") % np.uint64(k)
        places = (turns.astype(np.intp) + np.arange(k)) % k
        bits = np.unpackbits(groups[:, _TURN_BYTES:], axis=1, count=k, bitorder="little")
        here = slice(start - first * k, stop - first * k)
        return places.ravel()[here], 1 - 2 * bits.ravel()[here].astype(np.int8)

    def signs(self, start: int, stop: int) -> npt.NDArray[np.int8]:
        """As `MixingMatrix.signs`."""
        found = np.zeros((self.outputs, stop - start), np.int8)
        places, signs = self._placed(start, stop)
        found[places, np.arange(stop - start)] = signs
        return found

    def _add(self, total: Integers, start: int, rows: npt.NDArray[np.integer], largest: int) -> None:
        for low, high, _ in _aligned(start, len(rows), max(1, _WORKING_PATIENTS // self.outputs) * self.outputs):
            places, signs = self._placed(start + low, start + high)
            for column, found in zip(rows[low:high].T, total.T, strict=True):
                found += np.bincount(places, signs * column.astype(np.float64), self.outputs).astype(np.int64)


def _aligned(start: int, count: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Patients [start, start + count) cut at multiples of `size`: (first, end, lead), the first two counted from `start`.

    The lead is how many patients of the same multiple stand before the first.
    """
    low = 0
    while low < count:
        lead = (start + low) % size
        high = min(count, low + size - lead)
        yield low, high, lead
        low = high
