"""The discrete Gaussian N_Z(0, sigma^2) on the integers, sampled exactly and in whole arrays.

Let w(x) = exp(-x^2 / (2 sigma^2)), and let t be a power of two between sigma/32 and sigma/16, or 1. One draw:

1. a strip [v t, (v + 1) t), v = 0, 1, ..., with probability proportional to w(v t), by inverting the distribution function;
2. an offset U, uniform on 0, ..., t - 1;
3. x = v t + U is kept with probability w(x) / w(v t) = exp(-(2 v t U + U^2) / (2 sigma^2)), else everything is drawn again;
4. a sign; minus zero is drawn again.

So x comes with probability proportional to w(|x|), exactly: no strip is cut off and no probability is rounded. Steps 1 and 3
ask whether a uniform real number lies below an irrational one (`Uniform`). How long a draw takes depends on its bits only
through what is drawn again.

Proof: docs/guarantees.md 3. Source of reading bits as they are needed: Karney 2016, "Sampling exactly from the normal
distribution".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache, partial
from itertools import count
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Integers

Words = npt.NDArray[np.uint64]

MARGIN = 2.0**-44
"""How close to its probability of being kept a double is left undecided; all roundings together stay below 2^-48."""

_WORD = 64
_AT_ONCE = 1 << 15  # candidates that are drawn together: their arrays stay in the processor's cache
_KEPT = 0.96  # at least this share is kept: 1 - t / (2 sigma sqrt(pi / 2)), and more where t = 1

Bounds = Callable[[int], tuple[Fraction, Fraction]]
"""A real number as ever closer bounds: two rationals around it that lie at most 2^-bits apart."""


class Bits(Protocol):
    """Source of uniform bits."""

    def words(self, count: int) -> Words:
        """(count,) fresh uniform 64-bit words."""
        ...


def discrete_gaussian(scale: float, size: int, bits: Bits, margin: float = MARGIN) -> Integers:
    """Independent draws of N_Z(0, scale^2).

    Args:
        scale: sigma, positive and below 2^56; its exact rational square is the variance parameter.
        size: how many.
        bits: uniform bits; the draws are as secret and as fresh as they are.
        margin: at least `MARGIN`; larger ones leave more to exact arithmetic and do not change the law.

    Returns:
        (size,) int64.
    """
    return collected(size, _KEPT, lambda wanted: _candidates(scale, wanted, bits, margin))


def collected(size: int, share: float, candidates: Callable[[int], Integers]) -> Integers:
    """(size,) draws out of many candidates at a time, of which about a share is kept."""
    drawn, filled = np.empty(size, np.int64), 0
    while filled < size:
        wanted = min(_AT_ONCE, math.ceil((size - filled) / share) + 16)
        kept = candidates(wanted)[: size - filled]
        drawn[filled : filled + len(kept)] = kept
        filled += len(kept)
    return drawn


def _candidates(scale: float, size: int, bits: Bits, margin: float) -> Integers:
    """Draws of N_Z(0, scale^2): those of `size` candidates that were kept, in their order."""
    width = strip_width(scale)
    base = _strips(scale, bits.words(size), bits) * width
    second, third = bits.words(size), bits.words(size)
    offset = (second & np.uint64(width - 1)).astype(np.int64)
    kept = _accepted(scale, base, offset, third, bits, margin)
    return signed(base + offset, second, kept)


def signed(value: Integers, words: Words, kept: npt.NDArray[np.bool_]) -> Integers:
    """The candidates that were kept, with signs by the highest bits of words; minus zero is not kept."""
    negative = (words >> np.uint64(_WORD - 1)).astype(bool)
    return np.asarray(np.where(negative, -value, value)[kept & ~(negative & (value == 0))])


def strip_width(scale: float) -> int:
    """t, the largest power of two that is at most sigma / 16, or 1."""
    return 1 << max(0, math.frexp(scale)[1] - 5)


def _strips(scale: float, words: Words, bits: Bits) -> Integers:
    """v for each uniform number, whose first bits are given."""
    table = _table(scale)
    found = np.searchsorted(table, words, side="right")
    for place in np.flatnonzero(table[found - 1] == words):  # where nothing lies below, the last entry is no tie
        uniform, strip = Uniform(int(words[place]), bits), int(np.searchsorted(table, words[place], side="left"))
        while not uniform.below(partial(_share, scale, strip)):
            strip += 1
        found[place] = strip
    return found.astype(np.int64, copy=False)


def _accepted(
    scale: float, base: Integers, offset: Integers, words: Words, bits: Bits, margin: float
) -> npt.NDArray[np.bool_]:
    """Which candidates are kept: each with probability exp(-(2 v t U + U^2) / (2 sigma^2))."""
    start, step = base / scale, offset / scale
    gap = np.exp(-step * (start + step / 2)) - words * 2.0**-_WORD
    kept = np.asarray(gap > 0)
    for place in np.flatnonzero(np.abs(gap) <= margin):
        first, inside = int(base[place]), int(offset[place])
        exponent = (2 * first + inside) * inside / (2 * Fraction(scale) ** 2)
        kept[place] = inside == 0 or Uniform(int(words[place]), bits).below(partial(power, exponent))
    return kept


class Uniform:
    """A uniform real number in [0, 1), of which as many bits are read as it takes to compare it.

    Args:
        word: its first 64 bits.
        bits: where the others come from.
    """

    def __init__(self, word: int, bits: Bits) -> None:
        self._value, self._length, self._bits = word, _WORD, bits

    def below(self, bounds: Bounds) -> bool:
        """Tells whether it lies below a real number."""
        while True:
            low, high = bounds(self._length)
            if Fraction(self._value + 1, 1 << self._length) <= low:
                return True
            if Fraction(self._value, 1 << self._length) >= high:
                return False
            self._value = self._value << _WORD | int(self._bits.words(1)[0])
            self._length += _WORD


@lru_cache(maxsize=64)
def _table(scale: float) -> Words:
    """floor(2^64 F_v) for v = 0, 1, ..., where F is the strips' distribution function, until it is 2^64 - 1."""
    found: list[int] = []
    while not found or found[-1] < (1 << _WORD) - 1:
        for length in count(2 * _WORD, _WORD):
            low, high = _share(scale, len(found), length)
            word = math.floor(low * (1 << _WORD))
            if word == math.ceil(high * (1 << _WORD)) - 1:
                break
        found.append(word)
    return np.array(found, np.uint64)


def _share(scale: float, strip: int, length: int) -> tuple[Fraction, Fraction]:
    """F_v, the probability of the strips up to v, to `length` bits; below 1 like every F_v."""
    sums = _sums(scale, length)
    near, slack = sums[min(strip, len(sums) - 1)], Fraction(1, 1 << (length + 2))
    return near - slack, min(near + slack if strip < len(sums) else near + 2 * slack, Fraction(1))


@lru_cache(maxsize=8)
def _sums(scale: float, length: int) -> list[Fraction]:
    """F_v with an error below 2^-(length + 2), until what is missing from 1 is below that too.

    With P digits a weight's exponent, below 10^4, is rounded once, and so is its power: an error of 10^(5 - P) of the
    weight. Fewer than 10^4 sums and one quotient add less. Weights left out are below 10^-P, and fall by a third or more
    from one to the next.
    """
    context = Context(prec=_digits(length))
    smallest, sums = Decimal(10) ** -context.prec, [Decimal(0)]
    while (
        weight := _exp(Fraction((len(sums) - 1) * strip_width(scale)) ** 2 / (2 * Fraction(scale) ** 2), context)
    ) > smallest:
        sums.append(context.add(sums[-1], weight))
    return [Fraction(context.divide(each, sums[-1])) for each in sums[1:]]


def power(exponent: Fraction, length: int) -> tuple[Fraction, Fraction]:
    """exp(-exponent), for exponents up to 10^4, to `length` bits."""
    near, slack = Fraction(_exp(exponent, Context(prec=_digits(length)))), Fraction(1, 1 << (length + 2))
    return near - slack, near + slack


def _exp(exponent: Fraction, context: Context) -> Decimal:
    return context.exp(context.divide(Decimal(-exponent.numerator), Decimal(exponent.denominator)))


def _digits(length: int) -> int:
    """Decimal digits of arithmetic whose results are good to `length` + 2 bits, with ten digits to spare."""
    return math.ceil((length + 2) * math.log10(2)) + 10
