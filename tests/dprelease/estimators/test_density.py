"""The density over moments: its gradient, and that it knows no impossible moments."""

import numpy as np
import pytest

from dprelease.estimators.evidence.density import Density
from dprelease.mechanisms.moments.released import NoisyMoments
from tests.dprelease.estimators.moments import MIXED, mixed_rows, noisy_moments
from tests.support.specs import numeric

NUMBERS = tuple(numeric(f"z{index}") for index in range(4))


@pytest.fixture(params=["mixed", "numbers"])
def moments(request: pytest.FixtureRequest) -> NoisyMoments:
    generator = np.random.default_rng(1)
    if request.param == "mixed":
        return noisy_moments(MIXED, mixed_rows(500), 0.02, generator)
    return noisy_moments(NUMBERS, generator.uniform(-1, 1, (500, 4)), 0.02, generator)


def points(density: Density, spread: float, count: int = 5) -> np.ndarray:
    start = density.start(count)
    return start + spread * np.random.default_rng(2).normal(size=start.shape) * density.used


def test_the_gradient_is_that_of_the_value(moments: NoisyMoments):
    density = Density(moments)
    theta = points(density, 0.5)
    gradient = density.potential(theta)[1]
    step = 1e-6
    for row, column in np.argwhere(density.used):
        ahead, behind = theta.copy(), theta.copy()
        ahead[:, row, column] += step
        behind[:, row, column] -= step
        slope = (density.potential(ahead)[0] - density.potential(behind)[0]) / (2 * step)
        np.testing.assert_allclose(gradient[:, row, column], slope, rtol=1e-5, atol=1e-4)
    assert (gradient[:, ~density.used] == 0).all()


def test_the_metric_bends_as_the_density_does_where_the_noise_is_small():
    """Gauss and Newton's matrix is the Hessian where the data fit: each variable's block by differences of gradients."""
    density = Density(noisy_moments(NUMBERS, np.random.default_rng(3).uniform(-1, 1, (500, 4)), 1e-4))
    theta = density.start(1)
    blocks, step = density.metric(theta), 1e-6
    for row in range(4):
        free = np.flatnonzero(density.used[row])
        hessian = np.empty((len(free), len(free)))
        for index, column in enumerate(free):
            ahead, behind = theta.copy(), theta.copy()
            ahead[0, row, column] += step
            behind[0, row, column] -= step
            hessian[index] = (density.potential(ahead)[1] - density.potential(behind)[1])[0, row, free] / (2 * step)
        np.testing.assert_allclose(blocks[row][np.ix_(free, free)], hessian, atol=2e-3 * np.abs(hessian).max())


def test_the_metric_can_be_inverted_whatever_the_noise():
    for sd in (1.0, 1e-4, 1e-10):
        density = Density(noisy_moments(MIXED, mixed_rows(2000), sd))
        np.linalg.cholesky(density.metric(points(density, 0.1)))


def test_an_entry_is_as_likely_as_its_noise_says():
    """One number: the value differs between two points as the noise's law and the prior written out say."""
    moments = noisy_moments((numeric("z"),), np.array([[0.5], [-0.25], [0.0]]), 0.1)
    theta = np.array([[[0.3, -0.4, 0.2]], [[-0.5, 0.7, -0.1]]])

    def by_hand(a: float, b: float, t: float) -> float:
        inner, part = 1 / (1 + np.exp(-a)), 1 / (1 + np.exp(-b))
        mean = 2 * inner - 1
        square = mean**2 + (1 - mean**2) * part
        gram = moments.gram / 3
        data = ((mean - gram[0, 1]) / 0.1) ** 2 / 2 + ((square - gram[1, 1]) / 0.05) ** 2 / 2
        place = -0.2 * np.log(inner * (1 - inner))
        spread = -0.5 * np.log(part) - np.log(1 - part)
        return data + place + spread + 2.0 * (np.exp(2 * t) / (2 * 6.0 * 2) - t)

    values = Density(moments).potential(theta)[0]
    assert values[0] - values[1] == pytest.approx(by_hand(0.3, -0.4, 0.2) - by_hand(-0.5, 0.7, -0.1), rel=1e-10)


def test_points_keep_their_moments_where_an_outcome_comes_last(moments: NoisyMoments):
    before, outcome = Density(moments), 1
    after, theta = Density(moments, outcome), points(before, 0.5)
    moved = after.reordered(theta, before)
    np.testing.assert_allclose(after.matrices(moved), before.matrices(theta), atol=1e-12)
    assert (moved[:, ~after.used] == 0).all()


def test_an_outcome_that_comes_last_depends_on_the_others_by_its_own_regression(moments: NoisyMoments):
    """The prior differs between two points, which differ in the outcome's row of T, as Cauchy's law of its slopes does."""
    density = Density(moments, 1)
    theta = np.repeat(points(density, 0.5, 1), 2, axis=0)
    theta[1, -1, 2:-1] *= 3
    parts = density._parts(theta)
    value = parts.related.value()
    slopes = np.linalg.solve(parts.triangle[:, :-1, :-1].mT, parts.triangle[:, -1, :-1, None])[..., 0]
    psi = slopes * parts.related.length[:, :-1]
    own = np.log1p(psi**2).sum(axis=1)
    assert value[1] - value[0] == pytest.approx(own[1] - own[0])
