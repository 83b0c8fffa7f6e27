"""Means brought into the public ranges: against quadrature, and at both ends of the noise."""

import math

import numpy as np
import pytest

from dprelease.estimators.bounded_mean import range_means, truncated_mean
from dprelease.estimators.normal_equations import RegressionRows


def by_quadrature(mean: float, sd: float, lower: float) -> float:
    """The same by integration, over where the density is not negligible."""
    top = min(max(mean, lower), 1.0)
    reach = 40 * min(sd, sd**2 / max(abs(mean - top), 1e-300))
    start, stop = max(lower, top - reach), min(1.0, top + reach)
    points, weights = np.polynomial.legendre.leggauss(400)
    x = (start + stop) / 2 + (stop - start) / 2 * points
    density = weights * np.exp(-(x - top) * (x + top - 2 * mean) / (2 * sd**2))
    return float(x @ density / density.sum())


@pytest.mark.parametrize("lower", [-1.0, 0.0])
@pytest.mark.parametrize("sd", [1e-3, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("mean", [-50.0, -1.5, -1.0, -0.3, 0.2, 0.5, 0.999, 1.01, 7.0])
def test_the_truncated_mean_is_that_of_the_truncated_density(mean: float, sd: float, lower: float):
    found = truncated_mean(np.array([mean]), np.array([sd]), np.array([lower]))[0]
    assert lower <= found <= 1
    assert found == pytest.approx(by_quadrature(mean, sd, lower), abs=1e-10)


def test_without_noise_means_are_clipped_and_with_nothing_else_they_are_midpoints():
    mean, lower = np.array([-3.0, 0.25, 2.0, -3.0, 0.25]), np.array([-1.0, -1.0, -1.0, 0.0, 0.0])
    np.testing.assert_array_equal(truncated_mean(mean, np.zeros(5), lower), [-1, 0.25, 1, 0, 0.25])
    for huge in (1e6, 1e300, np.inf):
        np.testing.assert_allclose(
            truncated_mean(mean, np.full(5, huge), lower), [0, 0, 0, 0.5, 0.5], rtol=0, atol=1e-9
        )


def rows(ones: np.ndarray, values: np.ndarray, noise: float, **shape: object) -> RegressionRows:
    """Outcomes only."""
    variances = np.zeros(0), np.full(values.shape[1], noise)
    return RegressionRows(ones, np.zeros((len(ones), 0)), values, *variances, patients=100.0, **shape)  # type: ignore[arg-type]


def test_the_anchor_gives_the_mean_and_its_noise():
    ones = np.array([40.0, 0.5, -0.25, 1.0])
    values = np.outer(ones, [0.3, -0.2]) + np.array([[0.0, 0.0], [5, 1], [3, 2], [-4, 6]])
    given = rows(ones, values, 4.0, anchor=True, mixed=True)
    means, noise_sd = range_means(given, given.y, given.y_variance, np.full(2, -1.0))
    weight = float(ones @ ones)
    centred = values - np.outer(ones, ones @ values / weight)
    spread = (centred**2).sum(axis=0) / 3 - 4.0
    assert (spread > 0).all()
    sd = np.sqrt(4.0 / weight + spread * float(ones[1:] @ ones[1:]) / weight**2)
    np.testing.assert_allclose(means, truncated_mean(ones @ values / weight, sd, np.full(2, -1.0)), rtol=1e-12)
    np.testing.assert_allclose(noise_sd, 2 / math.sqrt(weight))


def test_a_release_that_says_nothing_about_means_leaves_the_midpoint():
    given = rows(np.zeros(2), np.ones((2, 2)), 1.0, anchor=False, mixed=True)
    means, noise_sd = range_means(given, given.y, given.y_variance, np.array([-1.0, 0.0]))
    np.testing.assert_array_equal(means, [0, 0.5])
    assert np.isinf(noise_sd).all()
