"""What clipping takes from slopes: how it is carried from covariances, and intervals and p-values with a bias of known size."""

import numpy as np
import pytest
from scipy.special import ndtr

from dprelease.arrays import Floats
from dprelease.estimators.intervals.clipped import Clipped
from dprelease.estimators.intervals.estimates import ProfiledEstimates, ends, less, p_values
from dprelease.release.reaches import LEAST_KEPT


def covariances(features: int, targets: int) -> Floats:
    """Those of as many rows as make none of them certain."""
    return np.cov(np.random.default_rng(3).normal(size=(features + targets + 2, features + targets)), rowvar=False)


def split(square: Floats, features: int) -> Clipped:
    own = square.diagonal()[features:]
    return Clipped(square[:features, :features], square[features:, :features], own)


def slopes(square: Floats, features: int) -> Floats:
    found: Floats = square[features:, :features] @ np.linalg.inv(square[:features, :features])
    return found


def test_features_that_go_together_move_one_anothers_slopes() -> None:
    """Only x matters, and its tail is clipped: what goes with x seems to matter, by more than its own covariance loses."""
    random = np.random.default_rng(1)
    x = random.exponential(size=20_000)
    rows = np.column_stack([x, 0.8 * x + random.exponential(0.6, size=x.size), x + random.normal(size=x.size)])
    reach = np.array([2.0, 4.0, np.inf])
    clipped = np.clip(rows, -reach, reach)
    kept = np.array([np.cov(one, other)[0, 1] / one.var() for one, other in zip(rows.T, clipped.T, strict=True)])
    truth, square = slopes(np.cov(rows, rowvar=False), 2), np.cov(clipped, rowvar=False)
    found = slopes(square, 2)
    assert kept.min() > LEAST_KEPT
    off = np.abs(found - truth)[0]
    assert off[1] > 3 * np.abs(found[0, 1]) * (1 / (kept[1] * kept[2]) - 1)
    assert np.all(off < split(square, 2).lost(found, kept[2:], kept[:2], np.ones(1))[0])


def test_what_is_carried_is_the_root_of_the_sum_of_squared_derivatives() -> None:
    square, features, targets, step = covariances(3, 2), 3, 2, 1e-6
    kept = np.array([0.9, 0.75, 1.0, 0.8, 0.95])
    lost = np.abs(square) * (1 / np.outer(kept, kept) - 1)
    squares = np.zeros((targets, features))
    for row, col in zip(*np.triu_indices(features + targets), strict=True):
        if row < features:
            moved = np.zeros_like(square)
            moved[row, col] = moved[col, row] = step
            derivative = (slopes(square + moved, features) - slopes(square - moved, features)) / (2 * step)
            squares += (derivative * lost[row, col]) ** 2
    found = split(square, features).lost(slopes(square, features), kept[features:], kept[:features], np.ones(targets))
    np.testing.assert_allclose(found, np.sqrt(squares), rtol=1e-6)


def test_a_slope_of_one_feature_moves_by_its_covariance_and_its_variance() -> None:
    square = np.array([[2.0, 1.0], [1.0, 3.0]])
    found = split(square, 1).lost(np.array([[0.5]]), np.array([0.8]), np.array([0.5]), np.ones(1))
    assert found[0, 0] == pytest.approx(0.5 * np.hypot(1 / 0.4 - 1, 1 / max(0.25, LEAST_KEPT) - 1))


def profiles(count: int) -> tuple[ProfiledEstimates, Floats]:
    """Estimates whose errors depend on the truth, among them some without a bound, and biases of 0 to 30 errors."""
    random = np.random.default_rng(5)
    value, bend = 3 * random.normal(size=count), 3 * random.random(count) ** 3
    variance = random.exponential(size=count) + 0.05
    lean = random.uniform(-1, 1, size=count) * 2 * np.sqrt(variance * bend)
    wider = np.sqrt(variance) * random.choice([0.0, 0.1, 0.5, 1.0, 3.0, 30.0], size=count)
    return ProfiledEstimates(value, variance, lean, bend), wider


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.999])
def test_p_is_below_exactly_where_the_interval_leaves_0_out(level: float) -> None:
    of, wider = profiles(20_000)
    lower, upper = ends(of, level, wider)
    out, p = (lower > 0) | (upper < 0), p_values(of, wider)
    sure = np.abs(p - (1 - level)) > 1e-9
    np.testing.assert_array_equal(out[sure], p[sure] < 1 - level)
    assert 0.02 < out.mean() < 0.98
    assert np.isinf(upper - lower).any()
    assert np.all((p >= 0) & (p <= 1))
    assert np.all(less(of, wider)[np.abs(of.value) <= wider] == 0)


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_worst_bias_is_held_as_often_as_the_level_says(level: float) -> None:
    value, wider = np.zeros(6), np.array([0.0, 0.1, 0.5, 1.0, 3.0, 1000.0])
    lower, upper = ends(ProfiledEstimates(value, value + 1, value, value), level, wider)
    np.testing.assert_allclose(ndtr(upper - wider) - ndtr(lower - wider), level, rtol=1e-12)
    np.testing.assert_allclose(lower, -upper)
