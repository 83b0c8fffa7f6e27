"""Intervals of coefficients on releases with outcome-only columns: they hold the truth as often as they say."""

import numpy as np
import pytest

from dprelease.estimators.intervals.estimates import PopulationFit
from dprelease.estimators.intervals.of_moments import learned_from_moments
from tests.dprelease.estimators.outcome_only import outcome_only_of, sides
from tests.support.specs import categorical

FEATURES, OUTCOMES, ROWS = 3, 20, 4_000
X, Y = list(range(1, FEATURES + 1)), list(range(FEATURES + 1, FEATURES + OUTCOMES + 1))
WEIGHTS = np.random.default_rng(8).uniform(-0.3, 0.3, (FEATURES, OUTCOMES))
OFFSETS = np.random.default_rng(9).uniform(-0.2, 0.2, OUTCOMES)
Z, DRAWS = 1.959964, 24


def learned(public: str, seed: int, epsilon: float, *, spread: float = 0.1, category: bool = False) -> PopulationFit:
    """From fresh patients and fresh noise.

    Args:
        public: side that is.
        seed: of both.
        epsilon: of all columns.
        spread: of the residuals, at most this far from 0.
        category: whether the last feature is the second level of one, without effect of the other two.
    """
    random = np.random.default_rng(seed)
    x, chosen, y = random.uniform(-1, 1, (ROWS, FEATURES)), X, Y
    columns, names = sides(FEATURES, OUTCOMES, public)
    coded = x
    if category:
        levels = np.eye(3)[random.choice(3, ROWS, p=[0.4, 0.4, 0.2])]
        x[:, -1] = levels[:, 1]
        coded = np.column_stack([x[:, :-1], levels])
        ward = categorical("ward", "south", "north", public=public == "x")
        columns = (*columns[: FEATURES - 1], ward, *columns[FEATURES:])
        chosen, y = [*X[:-1], FEATURES + 1], [place + 2 for place in Y]
    data = np.column_stack([coded, OFFSETS + x @ WEIGHTS + random.uniform(-spread, spread, (ROWS, OUTCOMES))])
    moments = outcome_only_of(data, columns, names, random, epsilon)
    return learned_from_moments(moments, chosen, y, np.zeros(FEATURES), intercept=True)


def shares_held(found: PopulationFit) -> tuple[float, float]:
    """Of the 95 % intervals of slopes and of intercepts, those that hold the truth."""
    shares = []
    for estimates, truth in ((found.weights, WEIGHTS), (found.offsets, OFFSETS)):
        lower, upper = estimates.interval(Z)
        shares.append(float(((lower < truth) & (upper > truth)).mean()))
    return shares[0], shares[1]


@pytest.mark.parametrize("category", [False, True])
@pytest.mark.parametrize(("public", "epsilon"), [("", 8.0), ("x", 2.0), ("y", 8.0)])
def test_intervals_hold_the_truth_as_often_as_they_say(public: str, epsilon: float, category: bool) -> None:
    """Draws are independent of one another; within one the 60 intervals share patients, so draws are what is counted by."""
    held = np.array([shares_held(learned(public, seed, epsilon, category=category)) for seed in range(DRAWS)])
    for shares, intervals in zip(held.T, (FEATURES * OUTCOMES, OUTCOMES), strict=True):
        error = max(np.std(shares) / np.sqrt(DRAWS), np.sqrt(0.05 * 0.95 / (DRAWS * intervals)))
        assert abs(np.mean(shares) - 0.95) < 4 * error + 0.005


def test_intervals_are_not_too_short_where_noise_hides_how_far_residuals_spread() -> None:
    """Public outcomes near their fits: residual variances of 0.0003 with noise of about as much."""
    held = np.array([shares_held(learned("y", seed, 32.0, spread=0.03)) for seed in range(DRAWS)])
    error = np.maximum(held.std(axis=0) / np.sqrt(DRAWS), np.sqrt(0.0475 / (OUTCOMES * DRAWS)))
    assert (held.mean(axis=0) > 0.95 - 4 * error).all()
