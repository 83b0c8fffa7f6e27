"""Prices as text: correctly rounded, and epsilon from the same number."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest

from dprelease.errors import InvalidInput
from dprelease.gaussian import epsilon_of
from dprelease.price import DIGITS, epsilon_text, mu2_text, price_text


@pytest.mark.parametrize(
    ("mu2", "text"),
    [
        (Fraction(0), "0"),
        (Fraction(1, 2), "0.5"),
        (Fraction(30), "30"),
        (Fraction(1, 3), "0.333333333333333"),
        (Fraction(2, 3), "0.666666666666667"),
        (Fraction(41955123456789, 10**15), "0.041955123456789"),
        (Fraction(1, 3 * 10**9), "3.33333333333333e-10"),
        (Fraction(10**30), "1.00000000000000e+30"),
    ],
)
def test_a_price_is_the_nearest_decimal(mu2: Fraction, text: str) -> None:
    assert mu2_text(mu2) == text
    assert abs(Fraction(Decimal(text)) - mu2) <= mu2 / 10 ** (DIGITS - 1) / 2


def test_prices_that_differ_in_the_last_digit_are_told_apart() -> None:
    one = Fraction(1, 7)
    assert mu2_text(one) != mu2_text(one * (1 + Fraction(1, 10**14)))


def test_epsilon_comes_from_the_same_number() -> None:
    mu2 = Fraction(1, 25)
    assert epsilon_text(mu2, 1e-6) == f"{epsilon_of(math.sqrt(0.04), 1e-6):.6g}"
    assert price_text(mu2, 1e-6) == f"mu^2 = 0.04, epsilon = {epsilon_text(mu2, 1e-6)} at delta = 1e-06"


@pytest.mark.parametrize("delta", [0.0, 1.0, math.nan])
def test_epsilon_needs_a_delta(delta: float) -> None:
    with pytest.raises(InvalidInput):
        price_text(Fraction(1), delta)
