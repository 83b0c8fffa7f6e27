"""The two moduli of sessions: Z_2^64, and the prime field of p = 2^61 - 1 elements, both in 64-bit words.

New releases compute in the field, where a random combination of cells that are not all zero is zero with chance 1/p: proofs about
cells need that, and the ring's zero divisors have no such thing. Releases in the ring stay as they are for ever; a spec says which.

In the field a word is an element if it is below p, and nothing else is read as one. Its arithmetic is that of 64-bit integers:

* 2^61 = 1 mod p, so that multiplication by 2^s turns the 61 bits of an element round by s places.
* A keystream gives an element for each word, its lower 61 bits. They are uniform but for the value p, which is no element: whoever
  draws a seed whose stream has one draws again, and the rest are exactly uniform.
* Products split elements into limbs x = x0 + 2^21 x1 + 2^42 x2 with -2^20 <= x0, x1 < 2^20 and 0 <= x2 <= 2^19. All nine pairs
  are multiplied, 8,192 rows at a time; `ring` says why that is exact. Up to three sums of one place, each at most 2^53, are
  added as 64-bit integers, reduced mod p, and turned.

Source: docs/format.md 15; Mersenne primes in hashing: Carter and Wegman 1979.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Integers
from dprelease.errors import IntegrityError
from dprelease.mpc.encryption import derive_again
from dprelease.mpc.ring import RING_LIMBS, Limbs, SecretStream, Words, product

_BITS = 61
P = (1 << _BITS) - 1
"""The field's number of elements, a prime."""

_MOST_WEIGHT = 1 << 30


class Redraw(IntegrityError):
    """A seed's keystream has a word that is no element: whoever drew the seed draws another."""


class Modulus(ABC):
    """Integers modulo a public number N, as 64-bit words.

    Attributes:
        limbs: how products are taken.
        reach: integers of smaller magnitude are read back from their elements.
    """

    limbs: Limbs
    reach: int

    @abstractmethod
    def read(self, stream: SecretStream, first_row: int, rows: int, width: int) -> Words:
        """(rows, width) elements of a keystream; arguments as of `SecretStream.read_words`.

        Raises:
            Redraw: one of its words there is no element.
        """

    @abstractmethod
    def canonical(self, words: Words, what: str) -> Words:
        """The same words, if each is an element: the one decoder of all that others send.

        Args:
            words: as they came.
            what: they are, for the error.

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
        """weight times words, for a weight of magnitude below 2^30."""

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
        """Sum of integers or elements times weights, as elements in 64-bit integers.

        Args:
            parts: at least one weight, as of `scaled`, and what it is the weight of.
        """
        total: Words | None = None
        for weight, part in parts:
            term = self.elements(part) if weight == 1 else self.scaled(weight, self.elements(part))
            total = term if total is None else self.add(total, term)
        assert total is not None  # noqa: S101 - at least one
        return total.view(np.int64)

    def read_agreed(
        self, seed: bytes, rows: int, width: int, stream: Callable[[bytes], SecretStream] = SecretStream
    ) -> Words:
        """(rows, width) elements of a seed that two parties agreed on, and that neither can draw again alone.

        If its keystream will not do, both take the next of the seeds that HKDF derives from it with a counter.

        Args:
            seed: 32 bytes.
            rows: how many.
            width: elements in a row.
            stream: of a seed.
        """
        for counter in count():
            try:
                return self.read(stream(derive_again(seed, counter) if counter else seed), 0, rows, width)
            except Redraw:
                continue
        raise AssertionError  # the counter does not end


class _Ring(Modulus):
    """Z_2^64: every word is an element, and wrap-around its arithmetic."""

    limbs = RING_LIMBS
    reach = 1 << 63

    def read(self, stream: SecretStream, first_row: int, rows: int, width: int) -> Words:
        return stream.read_words(first_row, rows, width)

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
        return (words.view(np.int64) * np.int64(weight)).view(np.uint64)


class _Field(Modulus):
    """Integers mod p = 2^61 - 1; a word is an element if it is below p."""

    reach = 1 << (_BITS - 1)

    def __init__(self) -> None:
        self.limbs = _FieldLimbs(21, (3, 3, 3))

    def read(self, stream: SecretStream, first_row: int, rows: int, width: int) -> Words:
        words = stream.read_words(first_row, rows, width)
        np.bitwise_and(words, np.uint64(P), out=words)
        if words.size and words.max() == P:
            raise Redraw("a seed has a word that is no element in its keystream; whoever drew it must draw another")
        return words

    def canonical(self, words: Words, what: str) -> Words:
        if words.size and words.max() >= P:
            raise IntegrityError(f"{what} has a number that is no element modulo 2^{_BITS} - 1")
        return words

    def elements(self, integers: npt.NDArray[np.signedinteger]) -> Words:
        values = integers.astype(np.int64, copy=False)
        return _lifted(values).view(np.uint64) if integers.itemsize < values.itemsize else _reduced(values)

    def signed(self, words: Words) -> Integers:
        values = words.view(np.int64)
        return values - (((P >> 1) - values) >> 63 & P)

    def add(self, left: Words, right: Words) -> Words:
        return _lifted(left.view(np.int64) + right.view(np.int64) - P).view(np.uint64)

    def subtract(self, left: Words, right: Words) -> Words:
        return _lifted(left.view(np.int64) - right.view(np.int64)).view(np.uint64)

    def scaled(self, weight: int, words: Words) -> Words:
        assert abs(weight) < _MOST_WEIGHT, weight  # noqa: S101 - so that neither half of the product reaches 2^61
        half, factor = np.uint64(31), np.uint64(abs(weight))
        upper, lower = (words >> half) * factor, (words & np.uint64((1 << 31) - 1)) * factor
        found = self.add(_turned(upper, 31), lower)
        return found if weight >= 0 else self.subtract(np.zeros_like(found), found)


@dataclass(frozen=True)
class _FieldLimbs(Limbs):
    def add(self, total: Words, sums: npt.NDArray[np.int64], place: int) -> Words:
        return FIELD.add(total, _turned(_reduced(sums), self.bits * place % _BITS))


def _lifted(values: Integers) -> Integers:
    """Values in [-p, p), and p more where they are negative."""
    return values + (values >> 63 & P)


def _reduced(values: Integers) -> Words:
    """Any 64-bit integers mod p: the part from bit 61 on counts once, and lies in [-4, 3]."""
    return _lifted(_lifted((values & P) + (values >> _BITS) - P)).view(np.uint64)


def _turned(words: Words, places: int) -> Words:
    """Elements times 2^places, 0 <= places <= 61."""
    return (words << np.uint64(places) & np.uint64(P)) | (words >> np.uint64(_BITS - places))


RING, FIELD = _Ring(), _Field()

MODULI: Mapping[str | None, Modulus] = MappingProxyType({None: RING, "2^61-1": FIELD})
"""By the names that specs have for them; the ring has none."""
