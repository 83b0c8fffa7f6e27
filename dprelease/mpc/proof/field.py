"""Prime fields as 64-bit words: p = 2^61 - 1 for proofs, and small primes with the same code for tests that try everything.

* Addition takes the smaller of s and s - p, where words wrap round: exactly one of them is below p.
* Multiplication for 2^61 - 1 splits x = x1 2^31 + x0 and uses 2^61 = 1, hence 2^62 = 2:

      x y = 2 x1 y1 + (x1 y0 + x0 y1) 2^31 + x0 y0,    m 2^31 = (m >> 30) + (m mod 2^30) 2^31

  With x and y below 2^61 the four terms are below 2^61, 2^32, 2^61 and 2^62, so that their sum fits a word.
* Products of matrices split words in three limbs of 21 bits. A product of limbs is below 2^42, so that float64 adds 2,048 of
  them exactly in any order.
* Element j of a stream is the first below p among word j of keystream 0, of keystream 1, and so on, each cut to the bits of p.
  It is exactly uniform, and each chunk of rows is read by itself. A second keystream is needed once in 2^61 words.

Source: docs/range_proofs.md 4; Mersenne primes in hashing: Carter and Wegman 1979.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from itertools import count

import numpy as np
import numpy.typing as npt

from dprelease.errors import IntegrityError, InvalidInput
from dprelease.mpc.encryption import Context, derive
from dprelease.mpc.ring import SecretStream, Words

Elements = Callable[[int, int], Words]
"""(first, number) to elements [first, first + number) of a stream."""

MERSENNE_BITS = 61
MERSENNE = (1 << MERSENNE_BITS) - 1

_MOST = 1 << 26  # products of smaller primes' elements fit a word, and their limbs the rule for sums
_LIMB_BITS = 21
_LIMBS = 3
_EXACT_ROWS = 1 << (53 - 2 * _LIMB_BITS)
_BLOCK = 1 << 15


class Field:
    """Integers modulo a prime p; an element is a uint64 below p, and every method returns new elements.

    Args:
        p: 2^61 - 1, or an odd prime below 2^26.

    Raises:
        InvalidInput: p is neither. (A composite is not found.)
    """

    def __init__(self, p: int = MERSENNE) -> None:
        if p != MERSENNE and (not 3 <= p < _MOST or p % 2 == 0):
            raise InvalidInput(f"a field of {p} elements: give 2^61 - 1 or an odd prime below 2^26")
        self.p = p
        self.half = (p + 1) // 2
        self._p = np.uint64(p)
        self._bits = np.uint64((1 << p.bit_length()) - 1)

    def integers(self, values: npt.ArrayLike) -> Words:
        """Signed 64-bit integers as elements."""
        return np.mod(np.asarray(values, np.int64), np.int64(self.p)).view(np.uint64)

    def add(self, left: Words, right: Words) -> Words:
        """left + right."""
        total: Words = left + right
        return self._smaller(total, total - self._p)

    def subtract(self, left: Words, right: Words) -> Words:
        """left - right."""
        total: Words = left - right
        return self._smaller(total, total + self._p)

    def multiply(self, left: Words, right: Words) -> Words:
        """left times right, element by element; shapes are broadcast."""
        if self.p != MERSENNE:
            return left * right % self._p
        low, bits = np.uint64((1 << 31) - 1), np.uint64(31)
        left_high, left_low, right_high, right_low = left >> bits, left & low, right >> bits, right & low
        middle = left_high * right_low
        middle += left_low * right_high
        total = left_high * right_high
        total <<= np.uint64(1)
        left_low = left_low * right_low
        total += left_low
        total += middle >> np.uint64(30)
        middle &= np.uint64((1 << 30) - 1)
        middle <<= bits
        total += middle
        return self.reduced(total)

    def scaled(self, factor: int, values: Words) -> Words:
        """factor times values, for any integer."""
        return self.multiply(values, np.array(factor % self.p, np.uint64))

    def reduced(self, words: Words) -> Words:
        """Any words mod p."""
        if self.p != MERSENNE:
            return np.asarray(words % self._p)
        total = words & self._p
        total += words >> np.uint64(MERSENNE_BITS)
        return self._smaller(total, total - self._p)

    def total(self, values: Words, axis: int) -> Words:
        """Sums along an axis of at most 2^32 elements, of arrays with two axes or more."""
        half = np.uint64(32)
        low = self.reduced((values & np.uint64((1 << 32) - 1)).sum(axis, dtype=np.uint64))
        high = self.reduced((values >> half).sum(axis, dtype=np.uint64))
        return self.add(low, self.scaled(1 << 32, high))

    def dot(self, left: Words, right: Words) -> int:
        """Sum of all products of elements in the same place."""
        return int(self.total(self.multiply(left, right).reshape(1, -1), 1)[0])

    def product(self, left: Words, right: Words) -> Words:
        """left^T right of (r, d) and (r, e), exactly; (d, e)."""
        total = np.zeros((left.shape[1], right.shape[1]), np.uint64)
        for start in range(0, len(left), _EXACT_ROWS):
            lefts, rights = _limbs(left[start : start + _EXACT_ROWS]), _limbs(right[start : start + _EXACT_ROWS])
            sums = self.reduced(np.matmul(lefts.transpose(0, 2, 1)[:, None], rights[None]).astype(np.uint64))
            for i in range(_LIMBS):
                for j in range(_LIMBS):
                    total = self.add(total, self.scaled(1 << _LIMB_BITS * (i + j), sums[i, j]))
        return total

    def canonical(self, words: Words, what: str) -> Words:
        """The same words, if each is an element.

        Raises:
            IntegrityError: some word is p or more.
        """
        if words.dtype != np.uint64 or (words.size and int(words.max()) >= self.p):
            raise IntegrityError(f"{what} has a number that is no element modulo {self.p}")
        return words

    def encode(self, parts: Iterable[Words]) -> bytes:
        """Elements as bytes: 8 for each, little-endian, part by part and row by row."""
        return b"".join(part.astype("<u8").tobytes() for part in parts)

    def decode(self, data: bytes, shapes: Iterable[tuple[int, ...]], what: str) -> tuple[Words, ...]:
        """Elements from bytes: the one decoder of all that others send.

        Args:
            data: as it came.
            shapes: of the parts, which the plan says.
            what: it is, for errors.

        Raises:
            IntegrityError: another length, or a word that is no element.
        """
        sizes = [(shape, int(np.prod(shape, dtype=np.int64))) for shape in shapes]
        if len(data) != 8 * sum(size for _, size in sizes):
            raise IntegrityError(f"{what} has {len(data)} bytes, not {8 * sum(size for _, size in sizes)}")
        words, parts, start = self.canonical(np.frombuffer(data, "<u8").astype(np.uint64), what), [], 0
        for shape, size in sizes:
            parts.append(words[start : start + size].reshape(shape))
            start += size
        return tuple(parts)

    def uniform(self, seed: bytes, context: Context) -> Elements:
        """The stream of uniform elements of a seed.

        Args:
            seed: 32 bytes.
            context: what it is for; another purpose gives another stream.
        """

        @cache
        def stream(turn: int) -> SecretStream:
            purpose = f"{context.purpose}, turn {turn}"
            return SecretStream(derive(seed, replace(context, purpose=purpose)))

        def read(first: int, number: int) -> Words:
            odd = first % 2  # keystreams are entered every 16 bytes
            return self.first_elements(lambda turn: stream(turn).read_words(first - odd, number + odd, 1)[odd:, 0])

        return read

    def first_elements(self, words: Callable[[int], Words]) -> Words:
        """For each place the first element among the words that turns 0, 1, .. have there, cut to the bits of p."""
        found = words(0) & self._bits
        for turn in count(1):
            bad = found >= self._p
            if not bad.any():
                break
            found[bad] = (words(turn) & self._bits)[bad]
        return found

    @staticmethod
    def _smaller(one: Words, other: Words) -> Words:
        return np.asarray(np.minimum(one, other))


FIELD = Field()
"""The field of masked columns, p = 2^61 - 1."""


def _limbs(words: Words) -> npt.NDArray[np.float64]:
    """(r, d) words as (3, r, d) floats, the lowest limbs first."""
    values, out = words.view(np.int64), np.empty((_LIMBS, *words.shape))
    part = np.empty_like(values)  # one buffer for all: fresh memory costs more than the arithmetic
    for limb in range(_LIMBS):
        np.right_shift(values, _LIMB_BITS * limb, out=part)
        out[limb] = np.bitwise_and(part, (1 << _LIMB_BITS) - 1, out=part)
    return out
