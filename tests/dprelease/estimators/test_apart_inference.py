"""Intervals of coefficients on releases whose outcomes are apart: they hold the truth as often as they say."""

from __future__ import annotations

import numpy as np
import pytest

from dprelease.estimators._learned import Learned
from dprelease.estimators._leverage_inference import learned_by_leverage
from dprelease.estimators._moment_inference import learned_from_moments
from tests.dprelease.estimators.apart import apart_of, sides
from tests.dprelease.estimators.public import least_squares, table

FEATURES, OUTCOMES, ROWS = 3, 20, 4_000
X, Y = list(range(1, FEATURES + 1)), list(range(FEATURES + 1, FEATURES + OUTCOMES + 1))
WEIGHTS = np.random.default_rng(8).uniform(-0.3, 0.3, (FEATURES, OUTCOMES))
OFFSETS = np.random.default_rng(9).uniform(-0.2, 0.2, OUTCOMES)
Z = 1.959964


def learned(public: str, seed: int, epsilon: float) -> Learned:
    """From fresh patients and fresh noise."""
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (ROWS, FEATURES))
    data = np.column_stack([x, OFFSETS + x @ WEIGHTS + random.uniform(-0.1, 0.1, (ROWS, OUTCOMES))])
    columns, names = sides(FEATURES, OUTCOMES, public.replace("basis", "x"))
    basis = "orthonormal" if public == "basis" else "columns"
    moments = apart_of(data, columns, names, random, epsilon, basis=basis)
    origin = np.zeros(FEATURES)
    if moments.by_leverage is not None:
        return learned_by_leverage(moments, moments.by_leverage, X, Y, origin, intercept=True)
    return learned_from_moments(moments, X, Y, origin, intercept=True)


@pytest.mark.parametrize(("public", "epsilon"), [("", 8.0), ("x", 2.0), ("basis", 2.0)])
def test_intervals_hold_the_truth_as_often_as_they_say(public: str, epsilon: float) -> None:
    """Draws are independent of one another; within one the 60 intervals share patients, so draws are what is counted by."""
    slopes, intercepts = [], []
    for seed in range(40):
        found = learned(public, seed, epsilon)
        lower, upper = found.weights.interval(Z)
        slopes.append(((lower < WEIGHTS) & (upper > WEIGHTS)).mean())
        lower, upper = found.offsets.interval(Z)
        intercepts.append(((lower < OFFSETS) & (upper > OFFSETS)).mean())
    for held, intervals in ((slopes, FEATURES * OUTCOMES), (intercepts, OUTCOMES)):
        error = max(np.std(held) / np.sqrt(40), np.sqrt(0.05 * 0.95 / (40 * intervals)))
        assert abs(np.mean(held) - 0.95) < 4 * error + 0.005


def test_on_a_basis_estimates_are_least_squares_and_their_errors_those_of_the_noise() -> None:
    data = np.round(table(FEATURES, 2, rows=500) * 2**12) / 2**12
    columns, names = sides(FEATURES, 2, "x")
    moments = apart_of(data, columns, names, epsilon=1e5, basis="orthonormal")
    assert moments.by_leverage is not None
    best = least_squares(data, X, [4, 5], intercept=True)
    found = learned_by_leverage(moments, moments.by_leverage, X, [4, 5], np.zeros(FEATURES), intercept=True)
    np.testing.assert_allclose(found.weights.value, best[1:], atol=0.02)
    np.testing.assert_allclose(found.offsets.value, best[0], atol=0.02)
    p = np.column_stack([np.ones(500), data[:, :FEATURES]])
    residual = ((data[:, FEATURES:] - p @ best) ** 2).sum(axis=0) / (500 - FEATURES - 1)
    noise = moments.by_leverage.noise_sd[[4, 5]] ** 2
    shape = np.diag(np.linalg.inv(p.T @ p))
    np.testing.assert_allclose(found.weights.variance, np.outer(shape[1:], residual + noise), rtol=0.05)
    np.testing.assert_allclose(found.offsets.variance, shape[0] * (residual + noise), rtol=0.05)
