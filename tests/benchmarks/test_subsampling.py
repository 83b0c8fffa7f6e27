"""Amplification by a secret random part of the patients: the true formula, its published numbers, and who may use it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from benchmarks.common.subsampling import (
    amplified,
    base_epsilon,
    delta_of_part,
    mu_of_part,
    sampled_moments,
    secret_part,
)
from dprelease.errors import InvalidInput
from dprelease.privacy.gaussian import delta_of, epsilon_of, mu_of
from tests.support.noise import RecordingNoise, ZeroNoise

parts = st.floats(1e-6, 1.0)
epsilons = st.floats(1e-6, 50.0)


def test_published_numbers() -> None:
    """Balle, Barthe and Gaboardi (2018): ln(1 + gamma (e^eps - 1)) and its inverse, worked out apart from the code."""
    assert base_epsilon(0.5, 0.1) == pytest.approx(2.013196593, abs=1e-8)
    assert base_epsilon(1.0, 0.1) == pytest.approx(2.900477098, abs=1e-8)
    assert mu_of_part(1.0, 1e-5, 0.1, expert=True) == pytest.approx(0.794336617, abs=1e-8)
    assert amplified(5.0, 1e-5, 0.1)[0] == pytest.approx(2.75629, abs=1e-5)
    assert amplified(10.0, 1e-5, 0.1)[0] == pytest.approx(7.698, abs=5e-4)


@pytest.mark.parametrize(
    ("part", "epsilon", "real"),
    [(0.1, 0.5, 17.1), (0.1, 1.0, 49.6), (0.1, 2.0, 153.0), (0.5, 0.5, 0.280), (0.5, 1.0, 0.667), (0.5, 2.0, 1.698)],
)
def test_the_papers_noise_does_not_give_what_it_claims(part: float, epsilon: float, real: float) -> None:
    """sigma = (1/n) 2 sqrt(2 ln(2.5/delta)) R^2 / eps_1, eps_1 = (n/s) eps / 2, where the statistic moves by sqrt 2 R^2 / s."""
    delta = 1e-5
    sigma = 2 * math.sqrt(2 * math.log(2.5 / delta)) / (epsilon / 2 / part) * part  # in units of R^2 / s
    mu = math.sqrt(2) / sigma
    base = epsilon_of(mu, delta / 2 / part)
    assert amplified(base, delta / 2 / part, part)[0] == pytest.approx(real, rel=0.01)


@given(epsilons, parts)
def test_there_and_back_is_the_same_and_rounded_to_the_safe_side(epsilon: float, part: float) -> None:
    base = base_epsilon(epsilon, part)
    again, delta = amplified(base, 1e-6, part)
    assert again == pytest.approx(epsilon, rel=1e-12)
    assert delta >= part * 1e-6
    assert amplified(base_epsilon(epsilon, 1.0), 1e-6, 1.0)[0] == pytest.approx(epsilon, rel=1e-12)
    assert base * (1 - 1e-15) <= math.log1p(math.expm1(epsilon) / part)


@given(epsilons, st.floats(1e-12, 1e-7), parts)
def test_mu_of_a_part_gives_delta_and_no_more(epsilon: float, delta: float, part: float) -> None:
    mu = mu_of_part(epsilon, delta, part, expert=True)
    assert delta_of_part(epsilon, mu, part) <= delta * (1 + 1e-12)
    assert delta_of_part(epsilon, mu * (1 + 1e-6), part) > delta
    assert mu >= mu_of(epsilon, delta) * (1 - 1e-9)


@pytest.mark.parametrize(("part", "mu"), [(0.1, 1.0), (0.5, 0.5), (0.01, 3.0)])
def test_the_bound_is_the_hockey_stick_of_the_mixtures(part: float, mu: float) -> None:
    """By quadrature, for one patient out of n: drawn with chance gamma, else the same law on both sides."""
    grid = np.linspace(-30, 30, 600_001)
    one, other = (norm.pdf(grid, shift) for shift in (mu / 2, -mu / 2))
    for shared in (one, other):  # the law without the patient: anything; its worst is at one of the two
        first, second = part * one + (1 - part) * shared, part * other + (1 - part) * shared
        for epsilon in (0.1, 0.5, 1.0):
            found = np.maximum(first - math.exp(epsilon) * second, 0).sum() * (grid[1] - grid[0])
            assert found <= delta_of_part(epsilon, mu, part) * (1 + 1e-6) + 1e-15
            if shared is other:
                assert found == pytest.approx(delta_of_part(epsilon, mu, part), rel=1e-4, abs=1e-15)
    assert delta_of_part(1.0, mu, 1.0) == pytest.approx(delta_of(1.0, mu), rel=1e-9)


def test_it_is_for_experts_and_says_so() -> None:
    with pytest.raises(InvalidInput, match="for experts"):
        mu_of_part(1.0, 1e-5, 0.1)


@pytest.mark.parametrize("part", [0.0, -0.1, 1.1, math.nan])
def test_a_part_that_is_none_is_refused(part: float) -> None:
    with pytest.raises(InvalidInput, match="part of the patients"):
        base_epsilon(1.0, part)
    with pytest.raises(InvalidInput, match="part of the patients"):
        amplified(1.0, 1e-5, part)


def test_targets_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidInput, match="epsilon lies between"):
        base_epsilon(1000.0, 0.1)
    with pytest.raises(InvalidInput, match="must be below"):
        mu_of_part(1.0, 0.1, 0.1, expert=True)


BITS, N, DRAWN = 10, 200, 50
GENERATOR = np.random.default_rng(3)
FEATURES = GENERATOR.integers(-1024, 1025, (N, 3)).astype(np.int32)
OUTCOMES = GENERATOR.integers(-1024, 1025, (N, 2)).astype(np.int32)
FIRST = np.arange(DRAWN)


def first_rows(count: int, size: int) -> np.ndarray:
    assert (count, size) == (N, DRAWN)
    return FIRST


def test_without_noise_it_is_the_parts_covariance_and_everybodys_association() -> None:
    found = sampled_moments(FEATURES, OUTCOMES, DRAWN, 1.0, 1e-5, BITS, ZeroNoise(), expert=True, draw=first_rows)
    rows = np.column_stack([np.full(N, 1 << BITS, np.int64), FEATURES])
    np.testing.assert_array_equal(found.covariance, rows[:DRAWN].T @ rows[:DRAWN])
    np.testing.assert_array_equal(found.association, rows.T @ OUTCOMES.astype(np.int64))


def test_its_noise_is_calibrated_to_the_part_and_to_half_of_the_target_each() -> None:
    noise = RecordingNoise()
    found = sampled_moments(FEATURES, OUTCOMES, DRAWN, 1.0, 1e-5, BITS, noise, expert=True, draw=first_rows)
    bare = sampled_moments(FEATURES, OUTCOMES, DRAWN, 1.0, 1e-5, BITS, ZeroNoise(), expert=True, draw=first_rows)
    covariance, association = noise.draws
    unit2 = 2.0 ** (2 * BITS)
    mu_part = 4 * unit2 / math.sqrt(covariance.scale**2 - 4)  # moves by 1 + d = 4
    assert delta_of_part(0.5, mu_part, DRAWN / N) <= 0.5e-5 * (1 + 1e-9)
    assert delta_of_part(0.5, mu_part * 1.001, DRAWN / N) > 0.5e-5
    mu_all = 2 * math.sqrt(4 * 2) * unit2 / math.sqrt(association.scale**2 - 4)  # 2 R S
    assert delta_of(0.5, mu_all) <= 0.5e-5 * (1 + 1e-9)
    assert delta_of(0.5, mu_all * 1.001) > 0.5e-5
    assert (found.covariance_scale, found.association_scale) == (covariance.scale, association.scale)
    moved = found.covariance - bare.covariance
    np.testing.assert_array_equal(np.triu(moved)[0, 1:], covariance.values[0, 1:])
    np.testing.assert_array_equal(moved, moved.T)
    assert moved[0, 0] == 0  # s is public
    np.testing.assert_array_equal(found.association - bare.association, association.values)


def test_only_experts_and_only_possible_draws() -> None:
    with pytest.raises(InvalidInput, match="for experts"):
        sampled_moments(FEATURES, OUTCOMES, DRAWN, 1.0, 1e-5, BITS, ZeroNoise())
    with pytest.raises(InvalidInput, match="201 of 200"):
        sampled_moments(FEATURES, OUTCOMES, 201, 1.0, 1e-5, BITS, ZeroNoise(), expert=True)
    with pytest.raises(InvalidInput, match="within their bounds"):
        sampled_moments(2 * FEATURES, OUTCOMES, DRAWN, 1.0, 1e-5, BITS, ZeroNoise(), expert=True)


def test_the_secret_part_is_without_replacement_and_every_row_is_as_likely() -> None:
    drawn = np.array([secret_part(20, 5) for _ in range(4000)])
    assert all(len(set(each.tolist())) == 5 for each in drawn)
    counts = np.bincount(drawn.ravel(), minlength=20)
    # Each of 20 counts has mean 1000 and variance 4000 (1/4)(3/4); eight standard deviations fail once in 1e14.
    assert np.abs(counts - 1000).max() < 8 * math.sqrt(750)
    with pytest.raises(InvalidInput):
        secret_part(5, 6)
