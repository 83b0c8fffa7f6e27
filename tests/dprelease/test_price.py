"""Prices as text: correctly rounded, and epsilon from the same number."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.errors import InvalidInput
from dprelease.privacy.gaussian import MARGIN, epsilon_of, mu_of
from dprelease.privacy.price import DIGITS, epsilon_figure, epsilon_text, mu2_text, price_text, room_text, rounded_up


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
    assert epsilon_text(mu2, 1e-6) == epsilon_figure(epsilon_of(math.sqrt(0.04), 1e-6))
    assert price_text(mu2, 1e-6) == f"mu^2 = 0.04, epsilon = {epsilon_text(mu2, 1e-6)} at delta = 1e-06"


@pytest.mark.parametrize("delta", [0.0, 1.0, math.nan])
def test_epsilon_needs_a_delta(delta: float) -> None:
    with pytest.raises(InvalidInput):
        price_text(Fraction(1), delta)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.4420843, "2.44209"),
        (2.9530910, "2.9531"),
        (3.6185914, "3.6186"),
        (1.0000004e-5, "1.00001e-05"),
        (1e-5, "1e-05"),
        (1.0, "1"),
        (1.0 + 2**-52, "1.00001"),
        (0.0, "0"),
        (999999.5, "1e+06"),
        (9.9999991, "10"),
        (math.inf, "inf"),
    ],
)
def test_a_figure_is_rounded_up(value: float, text: str) -> None:
    assert rounded_up(value) == text
    assert float(text) >= value


def test_an_epsilon_that_was_rounded_up_already_is_printed_as_agreed() -> None:
    for epsilon in (0.1, 0.3, 1.0, 2.7):
        spent = epsilon_of(mu_of(epsilon, 1e-6), 1e-6)
        assert epsilon_figure(spent) == f"{epsilon:g}"
        assert epsilon_figure(spent * (1 + 1e-10)) != f"{epsilon:g}"


@given(value=st.floats(1e-12, 1e6), slack=st.sampled_from([0.0, MARGIN]))
def test_a_figure_is_the_least_that_is_not_below(value: float, slack: float) -> None:
    least = Decimal(value) * (1 - Decimal(slack))
    text = Decimal(rounded_up(value, slack))
    unit = Decimal((0, (1,), least.adjusted() - 5))
    assert least * (1 - Decimal(2) ** -50) <= text < least * (1 + Decimal(2) ** -50) + unit


@pytest.mark.parametrize(
    ("left", "words"),
    [
        (Fraction(-1), "enough for 0 more like this release"),
        (Fraction(5, 2), "enough for 2 more like this release"),
        (Fraction(1000), "enough for 1000 more like this release"),
        (Fraction(1001), "enough for more than 1000 more like this release"),
    ],
)
def test_releases_that_still_fit_are_counted_as_far_as_anybody_plans(left: Fraction, words: str) -> None:
    assert room_text(left, Fraction(1)) == words
    assert room_text(left, Fraction(0)) == "of which one more like this release takes nothing"
