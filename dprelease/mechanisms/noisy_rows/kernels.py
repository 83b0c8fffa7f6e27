"""Sums of integers with signs given by bits: the one loop of a mixing that takes time, in numpy and, where it pays, in numba.

Eight integers have 256 signed sums. All are made once, by doubling, and every output looks its own one up by its byte of
signs: an addition for eight signs. Two columns lie in one 64-bit integer, so one addition serves both.

Both kernels add the same 64-bit integers, so they give the same bytes. numba is the extra ``fast``. To import it and to compile
takes about a second in every process, and nothing compiled is kept in a folder: `kernel_for` alone decides when that pays.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from typing import cast

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Integers

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
