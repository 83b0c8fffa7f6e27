"""The simulated releases of the benchmarks have the law of releases of rows: means and variances, with derived errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks import blocks_utility
from benchmarks.common.block_releases import Blocks, wishart_root
from benchmarks.common.exact_releases import declared, default_model, moments_model, published_models
from dprelease.arrays import Floats
from dprelease.errors import SpecRefused

DRAWS = 2000


def within(found: Floats, expected: Floats | float, error: Floats | float) -> None:
    assert np.all(np.abs(found - expected) <= 5 * np.asarray(error))


@pytest.mark.parametrize("degrees", [2, 3, 40])
def test_a_wishart_root_has_the_mean_and_the_variances_of_the_law(degrees: int) -> None:
    random = np.random.default_rng(1)
    factor = np.array([[2.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.5, -1.0, 0.3]])
    covariance = factor @ factor.T
    grams = []
    for _ in range(DRAWS):
        rows = wishart_root(degrees, factor, random)
        assert len(rows) == min(degrees, 3)
        grams.append(rows.T @ rows)
    diagonal = np.diag(covariance)
    variance = degrees * (covariance**2 + np.outer(diagonal, diagonal))
    within(np.mean(grams, axis=0), degrees * covariance, np.sqrt(variance / DRAWS))
    # The fourth central moment of a chi-square of k degrees of freedom is 12 k (k + 4); no entry's is relatively larger.
    kurtosis = 3 + 12 / degrees
    within(np.var(grams, axis=0), variance, variance * math.sqrt((kurtosis - 1) / DRAWS))


def test_rows_and_mixes_as_published_have_the_moments_of_noisy_rows() -> None:
    random = np.random.default_rng(2)
    n, outputs, parties = 400, 50, declared([2, 1], -1.0)
    blocks = Blocks(n, parties, 1.0)
    table = random.uniform(-1, 1, (n, 3))
    one = np.column_stack([np.ones(n), table])
    moments, noise = one.T @ one / n, blocks.published_variance
    exact = moments[1:3, 1:3]
    rows = np.array([blocks.published_rows(moments, random).xx for _ in range(DRAWS)])
    mixes = np.array([blocks.published_mix(moments, outputs, random).xx for _ in range(DRAWS)])
    assert noise[0] == pytest.approx(8 * blocks.sigma**2)
    # Var of (x + e)^T (z + f), x and z fixed, is s^2 (|x|^2 + |z|^2) + n s^4, on the diagonal twice that.
    twice = 1 + np.eye(2)
    size = np.diag(exact)[:, None] + np.diag(exact)
    variance = twice * (noise[0] * size + noise[0] ** 2) / n
    within(rows.mean(axis=0), exact + np.diag(noise[:2]), np.sqrt(variance / DRAWS))
    within(rows.var(axis=0), variance, variance * math.sqrt(2.5 / DRAWS))
    entry = n / outputs * exact + np.diag(noise[:2])
    spread = outputs * (entry**2 + np.outer(np.diag(entry), np.diag(entry))) / n**2
    within(mixes.mean(axis=0), outputs * entry / n, np.sqrt(spread / DRAWS))
    within(mixes.var(axis=0), spread, spread * math.sqrt((2 + 12 / outputs) / DRAWS))


def test_moments_of_tables_too_large_to_draw_have_the_variances_of_drawn_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    upper = np.triu_indices(blocks_utility.FEATURES + 2)
    drawn = np.array([blocks_utility.raw_moments(300, random)[upper] for _ in range(DRAWS)])
    monkeypatch.setattr(blocks_utility, "MOST_DRAWN", 299)
    limits = np.array([blocks_utility.raw_moments(300, random)[upper] for _ in range(DRAWS)])
    variance = limits.var(axis=0)
    within(drawn.mean(axis=0), limits.mean(axis=0), np.sqrt((variance + drawn.var(axis=0)) / DRAWS))
    within(drawn.var(axis=0), variance, variance * math.sqrt(2 * 2.5 / DRAWS))


def test_a_library_release_with_hardly_any_noise_finds_the_models_of_the_table() -> None:
    random = np.random.default_rng(4)
    weights = np.array([0.4, -0.3])
    table = random.uniform(-1, 1, (300, 3))
    table[:, 2] = table[:, :2] @ weights
    parties = declared([1, 1, 1], -1.0)
    models = (
        default_model(table, parties, 300.0),
        default_model(table, parties, 300.0, {"x2": 5}),
        moments_model(table, parties, 300.0),
    )
    for found in models:
        np.testing.assert_allclose(found[1], weights, atol=0.05)
        assert abs(found[0]) < 0.05


def test_an_outcome_that_is_weighed_gets_the_recommended_weight_and_less_noise_than_its_neighbours() -> None:
    parties = declared([3, 3, 3, 3, 3], -1.0)
    plain, weighed = Blocks(200_000, parties, 1.0), Blocks.for_outcome(200_000, parties, 1.0)
    assert weighed.weights == {"x14": 2}
    grown = (4 + 4 + 4 * 4) / 12
    np.testing.assert_allclose(weighed.variance[:12], plain.variance[:12])
    np.testing.assert_allclose(weighed.variance[12:], plain.variance[12:] * grown / np.array([1, 1, 4]))


def test_noise_as_published_that_breaks_the_target_is_refused() -> None:
    # The classic sigma is proved for epsilon <= 1 only.
    with pytest.raises(SpecRefused, match="target"):
        published_models(np.zeros((50, 3)), declared([1, 1, 1], -1.0), 300.0, ["bgm"])
