"""The two moduli of sessions: Z_2^64, and the prime field of p = 2^61 - 1 elements, both in 64-bit words.

New releases compute in the field, where a random combination of cells that are not all zero is zero with chance 1/p: proofs about
cells need that, and the ring's zero divisors have no such thing. Releases in the ring stay as they are for ever; a spec says which.

In a field a word is an element if it is below p, and nothing else is read as one.

* Addition takes the smaller of s and s - p, where words wrap round: exactly one of them is below p.
* Multiplication for 2^61 - 1 splits x = x1 2^31 + x0 and uses 2^61 = 1, hence 2^62 = 2:

      x y = 2 x1 y1 + (x1 y0 + x0 y1) 2^31 + x0 y0,    m 2^31 = (m >> 30) + (m mod 2^30) 2^31

  With x and y below 2^61 the four terms are below 2^61, 2^32, 2^61 and 2^62, so that their sum fits a word.
* Products of matrices split elements into limbs x = x0 + 2^21 x1 + 2^42 x2 with -2^20 <= x0, x1 < 2^20 and 0 <= x2 <= 2^19. All
  nine pairs are multiplied, 8,192 rows at a time; `ring` says why that is exact. Up to three sums of one place, each at most
  2^53, are added as 64-bit integers, and then reduced.
* Word j of a seed's elements is the first below p among word j of its keystreams 0, 1, .., each cut to the bits of p. It is
  exactly uniform, any rows are read by themselves, and two who have a seed read the same. Keystream 0 is that of the seed,
  and the others are those of seeds derived from it. One word in 2^61 needs a second.

Source: docs/format.md 15; Mersenne primes in hashing: Carter and Wegman 1979.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Integers
from dprelease.errors import IntegrityError, InvalidInput
from dprelease.mpc.encryption import Context, derive, derive_again
from dprelease.mpc.ring import RING_LIMBS, Limbs, SecretStream, Words, product

Elements = Callable[[int, int], Words]
"""(first, number) to elements [first, first + number) of a stream."""

_BITS = 61
P = (1 << _BITS) - 1
"""The field's number of elements, a prime."""

_CACHED = 1 << 13
_MOST = 1 << 26  # products of smaller primes' elements fit a word
_HALF_WORD = np.uint64(32)
_LOW_HALF = np.uint64((1 << 32) - 1)


class Modulus(ABC):
    """Integers modulo a public number N, as 64-bit words. Every method returns new words.

    Attributes:
        limbs: how products are taken.
        reach: integers of smaller magnitude are read back from their elements.
    """

    limbs: Limbs
    reach: int

    @abstractmethod
    def read(self, seed: bytes, first_row: int, rows: int, width: int) -> Words:
        """(rows, width) uniform elements of a secret seed; arguments and errors as of `SecretStream.read_words`."""

    @abstractmethod
    def canonical(self, words: Words, what: str) -> Words:
        """The same words, if each is an element: the one decoder of all that others send.

        Raises:
            IntegrityError: some word is none.
        """

    @abstractmethod
    def elements(self, integers: npt.NDArray[np.signedinteger]) -> Words:
        """Signed integers mod N; elements in 64-bit integers stay what they are."""

    @abstractmethod
    def signed(self, words: Words) -> Integers:
        """The integers nearest to 0 of these elements."""

    @abstractmethod
    def add(self, left: Words, right: Words) -> Words:
        """left + right."""

    @abstractmethod
    def subtract(self, left: Words, right: Words) -> Words:
        """left - right."""

    @abstractmethod
    def scaled(self, weight: int, words: Words) -> Words:
        """weight times words, for any integer."""

    def product(
        self,
        left: npt.NDArray[np.integer],
        right: npt.NDArray[np.integer],
        *,
        left_bits: int | None = None,
        right_bits: int | None = None,
    ) -> Words:
        """left^T right, exactly; arguments and errors as of `ring.product`, words being elements."""
        return product(left, right, left_bits=left_bits, right_bits=right_bits, limbs=self.limbs)

    def combined(self, parts: Iterable[tuple[int, Integers]]) -> Integers:
        """Sum of integers or elements times weights, one at least, as elements in 64-bit integers."""
        total: Words | None = None
        for weight, part in parts:
            term = self.elements(part) if weight == 1 else self.scaled(weight, self.elements(part))
            total = term if total is None else self.add(total, term)
        assert total is not None  # noqa: S101 - at least one
        return total.view(np.int64)


class _Ring(Modulus):
    """Z_2^64: every word is an element, and wrap-around its arithmetic."""

    limbs = RING_LIMBS
    reach = 1 << 63

    def read(self, seed: bytes, first_row: int, rows: int, width: int) -> Words:
        return SecretStream(seed).read_words(first_row, rows, width)

    def canonical(self, words: Words, what: str) -> Words:
        return words

    def elements(self, integers: npt.NDArray[np.signedinteger]) -> Words:
        return integers.astype(np.int64, copy=False).view(np.uint64)

    def signed(self, words: Words) -> Integers:
        return words.view(np.int64)

    def add(self, left: Words, right: Words) -> Words:
        return left + right

    def subtract(self, left: Words, right: Words) -> Words:
        return left - right

    def scaled(self, weight: int, words: Words) -> Words:
        return words * np.uint64(weight % (1 << 64))


class Field(Modulus):
    """Integers modulo a small prime, for tests that try everything; `FIELD` has the same methods.

    Args:
        p: an odd prime below 2^26. (A composite is not found.)

    Raises:
        InvalidInput: it is even, or another size.
    """

    def __init__(self, p: int) -> None:
        if not 3 <= p < _MOST or p % 2 == 0:
            raise InvalidInput(f"a field of {p} elements: give an odd prime below 2^26")
        self._begin(p)

    def _begin(self, p: int) -> None:
        self.p = p
        self.half = self.reach = (p + 1) // 2
        self.limbs = _FieldLimbs(21, (3, 3, 3), self)
        self._p = np.uint64(p)
        self._bits = np.uint64((1 << p.bit_length()) - 1)

    def read(self, seed: bytes, first_row: int, rows: int, width: int) -> Words:

        def words(turn: int) -> Words:
            return SecretStream(derive_again(seed, turn) if turn else seed).read_words(first_row, rows, width)

        return self.first_elements(words)

    def uniform(self, seed: bytes, context: Context) -> Elements:
        """The stream of uniform elements of a 32-byte seed for one purpose; another purpose gives another stream."""
        derived = derive(seed, context)

        def read(first: int, number: int) -> Words:
            odd = first % 2  # keystreams are entered every 16 bytes
            return self.read(derived, first - odd, number + odd, 1)[odd:, 0]

        return read

    def first_elements(self, words: Callable[[int], Words]) -> Words:
        """For each place the first element among the words that turns 0, 1, .. have there, cut to the bits of p."""
        found = words(0)
        found &= self._bits
        for turn in count(1):
            bad = found >= self._p
            if not bad.any():
                break
            found[bad] = (words(turn) & self._bits)[bad]
        return found

    def canonical(self, words: Words, what: str) -> Words:
        if words.dtype != np.uint64 or (words.size and int(words.max()) >= self.p):
            raise IntegrityError(f"{what} has a number that is no element modulo {self.name}")
        return words

    @property
    def name(self) -> str:
        """The prime, for errors."""
        return str(self.p)

    def elements(self, integers: npt.NDArray[np.signedinteger]) -> Words:
        return np.mod(integers.astype(np.int64, copy=False), np.int64(self.p)).view(np.uint64)

    def signed(self, words: Words) -> Integers:
        values = words.view(np.int64)
        return values - (((self.p >> 1) - values) >> 63 & self.p)

    def add(self, left: Words, right: Words) -> Words:
        total: Words = left + right
        return self._smaller(total, total - self._p)

    def subtract(self, left: Words, right: Words) -> Words:
        total: Words = left - right
        return self._smaller(total, total + self._p)

    def multiply(self, left: Words, right: Words) -> Words:
        """left times right, element by element; shapes are broadcast."""
        return left * right % self._p

    def scaled(self, weight: int, words: Words) -> Words:
        return self.multiply(words, np.array(weight % self.p, np.uint64))

    def reduced(self, words: Words) -> Words:
        """Any words mod p."""
        return np.asarray(words % self._p)

    def total(self, values: Words, axis: int) -> Words:
        """Sums along an axis of at most 2^32 elements, of arrays with two axes or more."""
        low = self.reduced((values & _LOW_HALF).sum(axis, dtype=np.uint64))
        high = self.reduced((values >> _HALF_WORD).sum(axis, dtype=np.uint64))
        return self.add(low, self.scaled(1 << 32, high))

    def dot(self, left: Words, right: Words) -> int:
        """Sum of all products of elements in the same place."""
        return int(self.total(self.multiply(left, right).reshape(1, -1), 1)[0])

    def encode(self, parts: Iterable[Words]) -> bytes:
        """Elements as bytes: 8 for each, little-endian, part by part and row by row."""
        return b"".join(part.astype("<u8").tobytes() for part in parts)

    def decode(self, data: bytes, shapes: Iterable[tuple[int, ...]], what: str) -> tuple[Words, ...]:
        """Elements of parts of these shapes from bytes.

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

    @staticmethod
    def _smaller(one: Words, other: Words) -> Words:
        return np.asarray(np.minimum(one, other))


class _Mersenne(Field):
    """Integers modulo 2^61 - 1."""

    name = f"2^{_BITS} - 1"

    def __init__(self) -> None:
        self._begin(P)

    def elements(self, integers: npt.NDArray[np.signedinteger]) -> Words:
        values = integers.astype(np.int64, copy=False)
        if integers.itemsize == values.itemsize:  # the part from bit 61 on counts once, and lies in [-4, 3]
            values = (values & P) + (values >> _BITS) - P
            values += values >> 63 & P
        return (values + (values >> 63 & P)).view(np.uint64)

    def multiply(self, left: Words, right: Words) -> Words:
        shape = np.broadcast_shapes(left.shape, right.shape)
        if math.prod(shape) <= _CACHED:
            return self._multiplied(left, right)
        # The dozen arrays in between stay in the nearest caches: three times as fast as in memory.
        out, axis = np.empty(shape, np.uint64), int(np.argmax(shape))
        left, right = np.broadcast_to(left, shape), np.broadcast_to(right, shape)
        step = max(1, _CACHED * shape[axis] // math.prod(shape))
        for start in range(0, shape[axis], step):
            at = (*(slice(None),) * axis, slice(start, start + step))
            out[at] = self._multiplied(left[at], right[at])
        return out

    def _multiplied(self, left: Words, right: Words) -> Words:
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

    def reduced(self, words: Words) -> Words:
        total = words & self._p
        total += words >> np.uint64(_BITS)
        return self._smaller(total, total - self._p)


@dataclass(frozen=True)
class _FieldLimbs(Limbs):
    field: Field

    def add(self, total: Words, sums: npt.NDArray[np.int64], place: int) -> Words:
        return self.field.add(total, self.field.scaled(1 << self.bits * place, self.field.elements(sums)))


RING, FIELD = _Ring(), _Mersenne()

MODULI: Mapping[str | None, Modulus] = MappingProxyType({None: RING, "2^61-1": FIELD})
"""By the names that specs have for them; the ring has none."""
