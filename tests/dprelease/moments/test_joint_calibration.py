"""One calibration for covariance and association: what each moves, what both cost, and how they are split."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.mechanisms.moments.calibration import joint, parts, split
from dprelease.mechanisms.moments.sensitivity import association_bound

ONE = Fraction(1)
positive = st.fractions(min_value=Fraction(1, 10**6), max_value=10**6)


def test_label_privacy_moves_by_the_longest_row() -> None:
    """X public: one patient's outcomes from y to y'."""
    generator = np.random.default_rng(4)
    features = generator.uniform(-1, 1, (30, 4)) * np.array([1.0, 1.0, 0.1, 0.01])
    change = np.array([2.0, 0.0])  # y = (1, 0), y' = (-1, 0), |y| <= 1
    moved = max(float(np.linalg.norm(np.outer(row, change))) for row in features)
    longest2 = Fraction(float((features**2).sum(axis=1).max()))
    assert moved == pytest.approx(math.sqrt(association_bound(longest2, ONE)), rel=1e-12)


@pytest.mark.parametrize(
    ("features", "outcomes", "explained"), [(1, 1, "1/2"), (100, 1, "1"), (10, 1000, "1/3"), (5, 5, "0")]
)
def test_the_split_has_the_least_predicted_error(features: int, outcomes: int, explained: str) -> None:
    part = Fraction(explained)
    kappa = float(part * (features + 1) / outcomes)
    chosen = float(split(features, outcomes, part))
    tried = np.linspace(1e-3, 1, 100_000)
    errors = (1 + tried) ** 2 * (kappa + 1 / tried)
    assert (1 + chosen) ** 2 * (kappa + 1 / chosen) <= errors.min() * (1 + 1e-8)
    assert 0 < chosen <= 1


def test_the_predicted_error_is_what_simulation_gives() -> None:
    """|E_2 - E_1 w|^2 on average: s2^2 d + s1^2 |w|^2 (d + 1)/2, the s2^2 + omega s1^2 of the derivation times d."""
    generator = np.random.default_rng(1)
    d, s1, s2 = 6, 1.5, 0.7
    w = generator.normal(size=d)
    square = generator.normal(size=(40_000, d, d)) * s1 / math.sqrt(2)
    noise = np.triu(square, 1) + np.triu(square, 1).transpose(0, 2, 1) + np.eye(d) * square * math.sqrt(2)
    errors = ((s2 * generator.normal(size=(40_000, d)) - noise @ w) ** 2).sum(axis=1)
    expected = d * (s2**2 + s1**2 * float(w @ w) * (d + 1) / (2 * d))
    assert abs(errors.mean() - expected) < 5 * errors.std() / 200


def test_more_outcomes_take_more_of_the_noise_off_the_association() -> None:
    found = [split(50, outcomes) for outcomes in (1, 10, 100, 10_000)]
    assert found == sorted(found)
    assert found[0] < Fraction(1, 5)
    assert found[-1] > Fraction(99, 100)


@given(positive, positive)
def test_the_joint_number_lies_between_either_and_the_sum(first: Fraction, second: Fraction) -> None:
    assert max(first, second) <= joint(first, second) <= first + second
    assert joint(first, Fraction(0)) == first
    assert joint(first, 4 * first) == 4 * first  # where its two branches meet


@given(positive, st.fractions(min_value=Fraction(1, 1000), max_value=1, max_denominator=1000))
def test_parts_make_up_the_whole(mu2: Fraction, share: Fraction) -> None:
    first, second = parts(mu2, share)
    assert joint(first, second) == mu2
    assert second / (4 * first) == share
