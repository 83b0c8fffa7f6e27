"""Means and variances of single variables against plain quadrature, and their limits."""

import numpy as np
import pytest

from dprelease.estimators.evidence.density import EDGE, SHARE, SPREAD
from dprelease.estimators.evidence.marginals import Marginals
from dprelease.mechanisms.moments.released import NoisyMoments
from tests.dprelease.estimators.moments import MIXED, mixed_rows, noisy_moments
from tests.support.specs import numeric

EVERY = np.arange(1, 9)


def single(mean: float, square: float, sd: float) -> NoisyMoments:
    """Moments of one number, as seen; its square has half of the noise."""
    gram, noise = np.array([[1.0, mean], [mean, square]]), np.array([[0.0, sd], [sd, sd / 2]])
    return NoisyMoments(noisy_moments((numeric("z"),), np.zeros((1, 1)), sd).layout, gram * 50, noise * 50, 50)


@pytest.mark.parametrize(
    ("mean", "square", "sd"),
    [(-0.9, 0.85, 0.1), (0.2, 0.1, 0.05), (-0.98, 0.9, 0.03), (-1.05, 0.9, 0.05), (0.5, 0.26, 0.02), (0.3, 0.4, 1.0)],
)
def test_a_number_is_known_as_quadrature_says(mean: float, square: float, sd: float):
    a, b = np.meshgrid(np.linspace(-40, 40, 4001), np.linspace(-45, 25, 301), indexing="ij")
    inner, part = 1 / (1 + np.exp(-a)), 1 / (1 + np.exp(-b))
    m, variance = 2 * inner - 1, 4 * inner * (1 - inner) * part
    log = EDGE * np.log(inner / (1 + np.exp(a))) + SPREAD * np.log(part) - np.log1p(np.exp(b))
    log -= ((m - mean) / sd) ** 2 / 2 + ((m**2 + variance - square) / (sd / 2)) ** 2 / 2
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    found = Marginals.of(single(mean, square, sd), np.array([1]))
    centre, seen = (weight * m).sum(), m**2 + variance
    spread = np.sqrt((weight * (m - centre) ** 2).sum())
    relative = weight / np.maximum(variance, 1e-3 * (weight * variance).sum())
    constant = (relative * m).sum() / relative.sum()
    error = variance + (constant - m) ** 2
    assert abs(found.mean[0] - centre) < 0.05 * spread
    assert abs(found.constant[0] - constant) < 0.1 * spread
    expected = {
        "mean_sd": spread,
        "variance": (weight * variance).sum(),
        "harmonic_variance": (weight / np.sqrt(np.maximum(variance, 1e-3 * (weight * variance).sum()))).sum() ** -2,
        "relative_loss": (relative * (constant - m) ** 2).sum(),
        "error": (weight * error).sum(),
        "error_sd": np.sqrt((weight * error**2).sum() - (weight * error).sum() ** 2),
        "square": (weight * seen).sum(),
        "square_sd": np.sqrt((weight * seen**2).sum() - (weight * seen).sum() ** 2),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(found, name)[0], value, rtol=0.03, err_msg=name)


@pytest.mark.parametrize(("column", "lower"), [(3, -1.0), (4, 0.0)])
def test_an_indicators_variance_follows_from_its_mean(column: int, lower: float):
    moments = noisy_moments(MIXED, mixed_rows(500), 0.1, np.random.default_rng(1))
    found = Marginals.of(moments, np.array([column]))
    p = 1 / (1 + np.exp(-np.linspace(-30, 30, 20001)))
    m = lower + (1 - lower) * p
    seen = moments.gram[0, column] / 500
    weight = (p * (1 - p)) ** SHARE * np.exp(-(((m - seen) / 0.1) ** 2) / 2)
    weight /= weight.sum()
    np.testing.assert_allclose(found.mean[0], weight @ m, atol=0.002)
    np.testing.assert_allclose(found.variance[0], weight @ ((m - lower) * (1 - m)), rtol=0.01)


@pytest.mark.parametrize("sd", [1e-4, 1e-7, 0.0])
def test_with_little_noise_or_none_mean_and_variance_are_those_of_the_rows(sd: float):
    rows = mixed_rows(2000)
    found = Marginals.of(noisy_moments(MIXED, rows, sd, np.random.default_rng(2)), EVERY)
    np.testing.assert_allclose(found.mean, rows.mean(axis=0), atol=5 * sd + 1e-9)
    np.testing.assert_allclose(found.variance, rows.var(axis=0), atol=15 * sd + 1e-9)
    np.testing.assert_allclose(found.constant, found.mean, atol=5 * sd + 1e-9)
    assert found.mean_sd.max() < 1.1 * sd + 1e-9
