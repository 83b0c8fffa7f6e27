"""A random sign matrix B, k x n, public and expanded from a seed, and its exact product with integer rows.

Layout (docs/format.md, with test vectors): columns are taken in groups of eight. Group g has kp bytes of the public
stream at offset g * kp, where kp is k rounded up to a multiple of 16. Byte r of group g holds the signs of
B[r, 8g .. 8g+7], the least significant bit first; bit 0 means +1, bit 1 means -1.

Source: multi-party release paper, Algorithm 2, without the division by sqrt(k): entries stay integers, so the product
is exact and its sensitivity is exactly sqrt(k) times that of a row (docs/guarantees.md 2).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from dprelease.errors import InvalidInput
from dprelease.privacy.public_stream import BLOCK_BYTES, PublicStream

GROUP = 8
_WORKING_SIGNS = 1 << 22  # signs expanded at once: 32 MiB of float64
_EXACT = 1 << 53  # float64 holds every integer up to here


class BernoulliMixing:
    """B in {-1, +1}^{k x n}, expanded from a public seed and never stored.

    Args:
        stream: the public stream of the release's mixing seed.
        outputs: k >= 1, rows of B.
        rows: n >= 1, columns of B, one for each patient row.

    Raises:
        InvalidInput: k or n is not positive.
    """

    def __init__(self, stream: PublicStream, outputs: int, rows: int) -> None:
        if outputs < 1 or rows < 1:
            raise InvalidInput(f"mixing needs at least one output and one row, not k = {outputs}, n = {rows}")
        self.outputs = outputs
        self.rows = rows
        self._stream = stream
        self._stride = -(-outputs // BLOCK_BYTES) * BLOCK_BYTES

    def _bits(self, first_group: int, groups: int) -> npt.NDArray[np.uint8]:
        data = self._stream.read(first_group * self._stride, groups * self._stride)
        packed = np.frombuffer(data, np.uint8).reshape(groups, self._stride)[:, : self.outputs]
        return np.unpackbits(np.ascontiguousarray(packed.T), axis=1, bitorder="little")

    def signs(self, start: int, stop: int) -> npt.NDArray[np.int8]:
        """B[:, start:stop] as (k, stop - start) int8.

        Raises:
            InvalidInput: the range does not lie within [0, n].
        """
        if not 0 <= start <= stop <= self.rows:
            raise InvalidInput(f"columns [{start}, {stop}) do not lie within B's {self.rows}")
        if start == stop:
            return np.zeros((self.outputs, 0), np.int8)
        first = start // GROUP
        bits = self._bits(first, -(-stop // GROUP) - first)[:, start - first * GROUP : stop - first * GROUP]
        return (1 - 2 * bits.astype(np.int8)).astype(np.int8)

    def apply(self, chunks: Iterable[npt.NDArray[np.integer]]) -> npt.NDArray[np.int64]:
        """B Q for integer rows Q that arrive in chunks, in order; exact, whatever the chunking.

        Args:
            chunks: arrays of shape (rows in chunk, d); together (n, d), with n * max|Q| < 2^53.

        Returns:
            (k, d) int64.

        Raises:
            InvalidInput: the chunks do not have n rows together, or the product could exceed 2^53.
        """
        total: npt.NDArray[np.int64] | None = None
        done = 0
        for chunk in chunks:
            rows = np.asarray(chunk)
            if rows.size and int(np.abs(rows.astype(np.int64)).max()) * self.rows >= _EXACT:
                raise InvalidInput("n times the largest code reaches 2^53: use a coarser grid")
            if total is None:
                total = np.zeros((self.outputs, rows.shape[1]), np.int64)
            if rows.shape[1:] != total.shape[1:]:
                raise InvalidInput("the chunks have different numbers of columns")
            if done + len(rows) > self.rows:
                raise InvalidInput(f"more than the {self.rows} rows that B was made for")
            total += self._product(done, rows)
            done += len(rows)
        if total is None or done != self.rows:
            raise InvalidInput(f"{done} rows arrived where B was made for {self.rows}")
        return total

    def _product(self, start: int, rows: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        # +-1 = 1 - 2 bit, so B Q = (column sums of Q) - 2 (bits Q); all sums are integers below 2^53, hence exact.
        step = max(GROUP, _WORKING_SIGNS // self.outputs // GROUP * GROUP)
        total = np.zeros((self.outputs, rows.shape[1]), np.float64)
        position = 0
        while position < len(rows):
            column = start + position
            width = min(step - column % GROUP, len(rows) - position)
            first = column // GROUP
            bits = self._bits(first, -(-(column + width) // GROUP) - first)
            lead = column - first * GROUP
            part = rows[position : position + width].astype(np.float64)
            total += part.sum(axis=0) - 2.0 * (bits[:, lead : lead + width].astype(np.float64) @ part)
            position += width
        return total.astype(np.int64)

    def row_sums(self) -> npt.NDArray[np.int64]:
        """B 1, the constant column after mixing: public and exact, (k,) int64. Takes k n / 8 bytes of the stream."""
        groups = -(-self.rows // GROUP)
        ones = np.zeros(self.outputs, np.int64)
        step = max(1, _WORKING_SIGNS // self._stride)
        for first in range(0, groups, step):
            count = min(step, groups - first)
            data = self._stream.read(first * self._stride, count * self._stride)
            packed = np.frombuffer(data, np.uint8).reshape(count, self._stride)[:, : self.outputs]
            if first + count == groups and self.rows % GROUP:
                packed = packed.copy()
                packed[-1] &= (1 << self.rows % GROUP) - 1
            ones += np.bitwise_count(packed).sum(axis=0, dtype=np.int64)
        return self.rows - 2 * ones
