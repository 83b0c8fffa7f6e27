"""Intervals are the values that a test keeps, whatever the parabola of the variance looks like."""

import numpy as np
import pytest

from dprelease.estimators.intervals.estimates import ProfiledEstimates


def estimates(count: int = 2000, most_bend: float = 0.5) -> ProfiledEstimates:
    """Parabolas that are positive throughout, most of them lopsided."""
    generator = np.random.default_rng(0)
    value, variance = generator.normal(0, 2, count), generator.uniform(0.01, 4, count)
    bend = generator.uniform(0, most_bend, count)
    return ProfiledEstimates(value, variance, generator.uniform(-2, 2, count) * np.sqrt(bend * variance) * 0.999, bend)


def kept(found: ProfiledEstimates, at: np.ndarray, quantile: float) -> np.ndarray:
    """Whether |value - at| <= t sqrt(V(at))."""
    off = at - found.value
    return off**2 <= quantile**2 * (found.variance + found.lean * off + found.bend * off**2)


@pytest.mark.parametrize("quantile", [0.5, 1.96, 3.0])
def test_ends_are_where_the_test_begins_to_reject(quantile: float):
    found = estimates()
    for end, sign in zip(found.interval(quantile), (-1, 1), strict=True):
        some = np.isfinite(end)
        assert some.sum() > 100
        assert (sign * (end - found.value) > 0).all()
        for outside in (False, True):
            at = np.where(some, end, 0.0)
            at += (sign if outside else -sign) * 1e-7 * (1 + np.abs(at))
            assert (kept(found, at, quantile) ^ outside)[some].all()
        assert kept(found, found.value + sign * 1e9, quantile)[~some].all()


@pytest.mark.parametrize("quantile", [0.5, 1.96, 3.0])
def test_zero_is_left_out_exactly_where_it_is_rejected(quantile: float):
    found = estimates()
    lower, upper = found.interval(quantile)
    assert (((lower > 0) | (upper < 0)) == (np.abs(found.ratio) > quantile)).all()
    assert (np.isinf(lower) | np.isinf(upper)).any() is np.bool_(quantile > 1.5)


def test_a_ratio_of_two_normal_numbers_by_hand():
    """3 / 2 with errors of 0.5 and 0.8: all b with (3 - 2 b)^2 <= t^2 (0.25 + 0.64 b^2); none above for t >= 2.5."""
    value = 1.5
    ratio = ProfiledEstimates(
        np.array([value]),
        np.array([(0.25 + 0.64 * value**2) / 4]),
        np.array([2 * 0.64 * value / 4]),
        np.array([0.64 / 4]),
    )
    lower, upper = ratio.interval(1.0)
    np.testing.assert_allclose(sorted(np.roots([4 - 0.64, -12, 9 - 0.25])), [lower[0], upper[0]])
    assert ratio.ratio[0] == pytest.approx(6)
    lower, upper = ratio.interval(3.0)
    assert upper[0] == np.inf
    roots = np.roots([4 - 9 * 0.64, -12, 9 - 9 * 0.25])
    np.testing.assert_allclose(lower, roots[roots > 0])
    assert [end[0] for end in ratio.interval(7.0)] == [-np.inf, np.inf]
