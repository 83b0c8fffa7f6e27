"""Laplace noise on the integers: its law, decisions that need more bits, and what it costs in the ledgers' mu^2."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import log_ndtr, ndtri_exp

from dprelease.errors import InvalidInput
from dprelease.privacy.discrete_gaussian import MARGIN
from dprelease.privacy.discrete_laplace import discrete_laplace
from dprelease.privacy.noise import SecureNoise
from dprelease.privacy.pure import LARGE, epsilon_within, mu2_of_epsilon
from tests.dprelease.test_discrete_gaussian import ONES, TOP, Handed, Seeded

TOGETHER = 18
"""Candidates of one draw for a wide scale: first their words for strips, then those for offsets, then those for keeping."""


def first(scale: int, strip: int, offset: int, keep: int) -> int:
    rest = [0] * (TOGETHER - 1)
    words = [strip, *[ONES] * (TOGETHER - 1), offset, *rest, keep, *rest]
    return int(discrete_laplace(scale, 1, Handed(*words, rest=0))[0])


@pytest.mark.parametrize("margin", [MARGIN, 1.0])
@pytest.mark.parametrize("scale", [1, 3, 40])
def test_integers_come_as_often_as_the_law_says(scale: int, margin: float) -> None:
    size = 400_000 if margin == MARGIN else 20_000
    drawn = discrete_laplace(scale, size, Seeded(1), margin)
    support = np.arange(-15 * scale, 15 * scale + 1)
    law = np.exp(-np.abs(support) / scale) * math.tanh(1 / (2 * scale))
    found = np.array([np.mean(drawn == value) for value in support])
    common = law * size > 50
    assert np.all(np.abs(found - law)[common] < 4.5 * np.sqrt(law * (1 - law) / size)[common])


@pytest.mark.parametrize("scale", [1000, 123_456_789, 1 << 49])
def test_a_wide_law_by_its_quantiles(scale: int) -> None:
    drawn = np.abs(discrete_laplace(scale, 200_000, Seeded(2))) / scale
    for share in (0.01, 0.5, 0.9, 0.999):
        error = math.sqrt(share * (1 - share) / len(drawn))
        assert abs(np.mean(drawn <= -math.log1p(-share)) - share) < 5 * error + 1 / scale


def test_a_strip_is_decided_to_the_last_bit() -> None:
    """P[v or more] = exp(-v w/t): a uniform number just below it, and just above."""
    scale, width = 1000, 32
    with mpmath.workdps(80):
        begin = int(mpmath.floor(mpmath.exp(mpmath.mpf(-5 * width) / scale) * mpmath.mpf(2) ** 64))
    assert first(scale, begin - 1, 0, 0) == 5 * width
    assert first(scale, begin + 1, 0, 0) == 4 * width
    for bit, strip in ((0, 5), (ONES, 4)):
        words = [begin, *[ONES] * (TOGETHER - 1), bit, *[0] * (2 * TOGETHER)]
        assert discrete_laplace(scale, 1, Handed(*words, rest=0))[0] == strip * width


def test_the_sign_and_the_offset() -> None:
    assert first(1000, ONES - 1, 7, 0) == 7
    assert first(1000, ONES - 1, TOP | 7, 0) == -7


@pytest.mark.parametrize("scale", [0, -1, 1 << 50])
def test_a_scale_that_the_door_refuses(scale: int) -> None:
    with pytest.raises(InvalidInput, match="noise scale"):
        SecureNoise().discrete_laplace(scale, (1, 1))


def test_the_production_source_draws_afresh() -> None:
    one, two = (SecureNoise().discrete_laplace(1 << 40, (4, 5)) for _ in range(2))
    assert one.shape == (4, 5)
    assert not np.array_equal(one, two)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 2.6, 8 / 3, 4.0, 10.0, 100.0, 1000.0])
def test_its_price_covers_the_trade_off_function(epsilon: float) -> None:
    """Exact mu of f_epsilon: -2 Phi^-1(1/(1 + e^epsilon)); the price is never below, and at most 1.01 times for small epsilon."""
    kink = -epsilon - math.log1p(math.exp(-epsilon))
    exact = (2 * float(ndtri_exp(kink))) ** 2
    price = float(mu2_of_epsilon(Fraction(epsilon)))
    assert price >= exact * (1 - 1e-9)
    assert price <= exact * (1.01 if epsilon <= 0.1 else 1.65)
    mu = math.sqrt(price)
    for alpha in np.concatenate([np.geomspace(1e-12, 0.5, 60), 1 - np.geomspace(1e-12, 0.5, 60)]):
        pure = max(0.0, 1 - math.exp(min(epsilon, 700)) * alpha, math.exp(-epsilon) * (1 - alpha))
        z = float(ndtri_exp(math.log(alpha)))
        assert math.exp(float(log_ndtr(-z - mu))) <= pure + 1e-12


@pytest.mark.parametrize("mu2", ["1/1000000", "7/100", "1", "11", "12", "40", "5000"])
def test_the_largest_epsilon_within_a_price(mu2: str) -> None:
    found = epsilon_within(Fraction(mu2))
    assert mu2_of_epsilon(found) <= Fraction(mu2)
    assert mu2_of_epsilon(found + Fraction(2, 10**12)) > Fraction(mu2)
    assert mu2_of_epsilon(LARGE) <= 8 * LARGE - 5
