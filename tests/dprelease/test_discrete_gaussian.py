"""The sampler's decisions, one at a time: bits are handed in, and what they must decide is computed by other means."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import numpy.typing as npt
import pytest

from dprelease.privacy.discrete_gaussian import MARGIN, discrete_gaussian

DIGITS = 80
ONES = (1 << 64) - 1
TOP = 1 << 63  # the sign, in the word that holds the offset


class Handed:
    """Bits from a list, then from `rest`; remembers how many words were read."""

    def __init__(self, *words: int, rest: int = 0) -> None:
        self.given = list(words)
        self.rest = rest
        self.read = 0

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        self.read += count
        taken, self.given = self.given[:count], self.given[count:]
        return np.array(taken + [self.rest] * (count - len(taken)), np.uint64)


class Seeded:
    """A fast seeded source, for shares of many draws."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        return self._generator.integers(0, ONES, count, np.uint64, endpoint=True)


def first(scale: float, strip: int, offset: int, keep: int, *more: int, rest: int = 0, margin: float = MARGIN) -> int:
    """The draw that begins with these words; those after it are zeros, which are the strip 0 and the offset 0."""
    together = 18  # candidates of one draw: their first words come first, then the second ones, then the third
    words = [strip, *[0] * (together - 1)]
    tied = list(more) if _tied(scale, strip) else []
    words += tied
    words += [offset, *[0] * (together - 1), keep, *[0] * (together - 1)]
    words += [] if tied else list(more)
    return int(discrete_gaussian(scale, 1, Handed(*words, rest=rest), margin)[0])


def _tied(scale: float, word: int) -> bool:
    return word in {begin(share) for share in shares(scale)}


def width(scale: float) -> int:
    t = 1
    while 2 * t <= scale / 16:
        t *= 2
    return t


@cache
def shares(scale: float, digits: int = DIGITS) -> list[Fraction]:
    """F_v, until it is 1 to the digits."""
    with mpmath.workdps(digits + 10):
        t, sigma, weights = width(scale), mpmath.mpf(scale), [mpmath.mpf(1)]
        while weights[-1] > mpmath.mpf(10) ** -(digits + 5):
            weights.append(mpmath.exp(-((t * len(weights) / sigma) ** 2) / 2))
        total = mpmath.fsum(weights)
        return [exact(mpmath.fsum(weights[: strip + 1]) / total) for strip in range(len(weights))]


def exact(number: mpmath.mpf) -> Fraction:
    return Fraction(int(mpmath.floor(mpmath.ldexp(number, 500))), 1 << 500)


def begin(number: Fraction) -> int:
    """Its first 64 bits."""
    return int(number * (1 << 64))


SCALES = [1e-9, 0.3, 2.5, 15.99, 16.0, 17.0, 1000.1, 2.0**30 + 0.1, 2.0**55]


@pytest.mark.parametrize("scale", SCALES)
def test_a_strip_begins_where_the_distribution_function_says(scale: float) -> None:
    words = [begin(share) for share in shares(scale)]
    for strip, word in list(enumerate(words))[:200:7]:
        if word + 1 < ONES:
            assert first(scale, word - 1, 0, 0) <= strip * width(scale)
            assert first(scale, word + 1, 0, 0) > strip * width(scale)


@pytest.mark.parametrize("scale", SCALES[1:])
def test_a_tie_between_strips_is_decided_by_further_bits(scale: float) -> None:
    word = begin(shares(scale)[0])
    assert first(scale, word, 0, 0, 0) == 0
    assert first(scale, word, 0, 0, ONES) == width(scale)


@pytest.mark.parametrize("scale", SCALES[1:])
def test_no_strip_is_cut_off(scale: float) -> None:
    """256 bits of ones lie as far out as 256 bits can tell, and one word more that is below the middle ends the draw."""
    wanted = next(strip for strip, share in enumerate(shares(scale, 110)) if share > 1 - Fraction(1, 1 << 256))
    assert first(scale, ONES, 0, 0, ONES, ONES, ONES, 0) == wanted * width(scale)


@pytest.mark.parametrize("scale", [17.0 * 16, 1000.1, 2.0**55])
def test_a_candidate_is_kept_with_its_probability_to_the_last_bit(scale: float) -> None:
    t, offset = width(scale), width(scale) - 1
    with mpmath.workdps(DIGITS):
        base, sigma = 4 * t, mpmath.mpf(scale)
        probability = mpmath.exp(-(2 * base * offset + mpmath.mpf(offset) ** 2) / (2 * sigma**2))
        near = begin(exact(probability))
    strip, far = begin(shares(scale)[4]) - 5, 1 << 21  # 2^-43 is beyond the margin
    assert first(scale, strip, offset, near - far) == base + offset
    assert first(scale, strip, offset, near + far) == 0  # drawn again, from zeros
    assert first(scale, strip, offset, near - 1) == base + offset
    assert first(scale, strip, offset, near + 1) == 0
    assert first(scale, strip, offset, near, 0) == base + offset
    assert first(scale, strip, offset, near, ONES) == 0


def test_further_bits_are_read_only_where_they_are_needed() -> None:
    bits = Handed(rest=1 << 60)
    discrete_gaussian(1000.1, 1, bits)
    assert bits.read == 3 * 18


def test_the_sign_is_a_bit_and_minus_zero_is_drawn_again() -> None:
    scale = 1000.1
    strip = begin(shares(scale)[0]) - 5
    assert first(scale, strip, 3, 0) == 3
    assert first(scale, strip, TOP | 3, 0) == -3
    bits = Handed(*[0] * 18, *[TOP] * 17, 5, rest=0)
    assert discrete_gaussian(scale, 1, bits)[0] == 5  # seventeen times minus zero, then five


@pytest.mark.parametrize("margin", [MARGIN, 1.0])
@pytest.mark.parametrize("scale", [0.5, 2.5, 40.3])
def test_integers_come_as_often_as_the_law_says(scale: float, margin: float) -> None:
    """In double precision with exact arithmetic behind it, and in exact arithmetic alone."""
    size = 400_000 if margin == MARGIN else 20_000
    drawn = discrete_gaussian(scale, size, Seeded(1), margin)
    reach = int(6 * scale) + 2
    support = np.arange(-reach, reach + 1)
    law = np.exp(-(support**2) / (2 * scale**2))
    law /= law.sum()
    found = np.array([np.mean(drawn == value) for value in support])
    error = np.sqrt(law * (1 - law) / size)
    common = law * size > 50
    assert np.all(np.abs(found - law)[common] < 4.5 * error[common])


def test_as_many_as_asked_for_in_the_order_in_which_they_come() -> None:
    long = discrete_gaussian(1e6, 100_000, Seeded(2))
    assert long.shape == (100_000,)
    assert discrete_gaussian(1e6, 0, Seeded(2)).shape == (0,)
