"""Fits on releases with outcome-only columns: one covariance for all outcomes, and what public sides are good for."""

import numpy as np
import pytest

from benchmarks.common.fits import fit_moments
from dprelease.errors import InvalidInput
from dprelease.estimators import fit
from dprelease.estimators.baselines.inverted import inverted, primo_ridge
from dprelease.estimators.moments.public_columns import projected
from dprelease.estimators.moments.spectral_ridge import fit_spectral
from dprelease.privacy.noise import NoiseSource
from dprelease.release.release import Release
from tests.dprelease.estimators.outcome_only import outcome_only_of, sides
from tests.dprelease.estimators.public import least_squares, r_squared, table
from tests.support.joint import compute
from tests.support.noise import SeededNoise
from tests.support.specs import build_spec, numeric, one_block_each, random_rows

FEATURES = 6
X = list(range(1, FEATURES + 1))


@pytest.mark.parametrize("public", ["", "x", "y"])
def test_with_many_patients_every_outcome_is_fitted_as_without_privacy(public: str) -> None:
    y = list(range(FEATURES + 1, FEATURES + 13))
    data = table(FEATURES, 12, rows=40_000, seed=0)
    columns, names = sides(FEATURES, 12, public)
    moments = outcome_only_of(data, columns, names, np.random.default_rng(2))
    found = fit_moments(moments, X, y, data[:, moments.layout.public[1:]], intercept=True)
    best = least_squares(data, X, y, intercept=True)
    limit = r_squared(data, X, y, best[0], best[1:])
    assert (r_squared(data, X, y, found.offsets, found.weights) > limit - 0.02).all()


def test_many_public_outcomes_are_fitted_far_better_with_the_projection_than_without() -> None:
    data = table(FEATURES, 150, rows=5_000, seed=1)
    columns, names = sides(FEATURES, 150, "y")
    moments = outcome_only_of(data, columns, names, np.random.default_rng(3))
    y, public = list(range(7, 157)), data[:, moments.layout.public[1:]]
    with_, without = (
        r_squared(data, X, y, found.offsets, found.weights)
        for found in (fit_moments(moments, X, y, public, intercept=True), fit_spectral(moments, X, y, intercept=True))
    )
    assert np.median(with_) > np.median(without) + 0.1
    assert with_.min() > -0.01


def test_a_projected_association_is_closer_and_knows_by_how_much() -> None:
    data = table(FEATURES, 150, rows=3_000, seed=1)
    columns, names = sides(FEATURES, 150, "y")
    moments = outcome_only_of(data, columns, names, np.random.default_rng(4))
    helped, truth = projected(moments, data[:, FEATURES:]), data[:, :FEATURES].T @ data[:, FEATURES:]
    y = list(range(7, 157))
    before, after = (np.linalg.norm(each.between(X, y) - truth) for each in (moments, helped))
    assert after < 0.3 * before
    assert 0.5 < after / np.linalg.norm(helped.noise_between(X, y)) < 1.5
    assert np.array_equal(helped.joint.gram, moments.joint.gram)


def test_without_noise_the_inverse_is_least_squares() -> None:
    data = np.round(table(FEATURES, 3, rows=400) * 2**12) / 2**12
    columns, names = sides(FEATURES, 3)
    moments = outcome_only_of(data, columns, names)
    found = inverted(moments, X, [7, 8, 9], intercept=True)
    best = least_squares(data, X, [7, 8, 9], intercept=True)
    np.testing.assert_allclose(np.vstack([found.offsets, found.weights]), best, atol=1e-8)


def released(noise: NoiseSource, rows: int = 400) -> Release:
    parties = {"a": (numeric("y1"), numeric("x1", 0.0, 10.0)), "b": (numeric("x2"), numeric("y2", 0.0, 50.0))}
    spec = build_spec(parties, mechanism="moments", rows=rows, outcomes=("y1", "y2"), grid_bits=14)
    tables = {part.party: random_rows(spec, part.party, place) for place, part in enumerate(spec.parties)}
    return one_block_each(spec, compute(spec, tables, dict.fromkeys(tables, noise)).blocks, ())


def test_features_are_the_columns_that_are_no_outcomes() -> None:
    found = fit(released(SeededNoise(1)), ["y1", "y2"])
    assert found.features == ("x1", "x2")
    assert found.coef.shape == (2, 2)
    with pytest.raises(InvalidInput, match="y1 cannot be a feature: it is an outcome of this release"):
        fit(released(SeededNoise(1)), ["y2"], ["x1", "y1"])


def test_the_papers_ridge_is_safe_where_the_inverse_is_wild_and_ours_better_once_signal_is_strong_not_before() -> None:
    y, found = list(range(7, 47)), {}
    for rows in (3_000, 8_000, 20_000):
        data = table(FEATURES, 40, rows=rows, seed=3)
        columns, names = sides(FEATURES, 40)
        moments = outcome_only_of(data, columns, names, np.random.default_rng(7))
        fits = [inverted(moments, X, y, intercept=True, ridge=ridge) for ridge in (False, True)]
        fits.append(fit_spectral(moments, X, y, intercept=True))
        found[rows] = [r_squared(data, X, y, each.offsets, each.weights).mean() for each in fits]
    assert found[3_000][0] < -1
    assert min(found[3_000][1:]) > -0.1
    assert found[8_000][1] > found[8_000][2] > 0.05  # ours goes no further than it can be sure of
    assert found[8_000][0] < 0
    assert found[20_000][2] > found[20_000][1] > 0.3


def test_the_papers_ridge_follows_from_public_numbers() -> None:
    # d L (s1^2 + 2 s2^2) with d = 10 and L = log(200 / 0.05)
    assert primo_ridge(10, 4.0, 8.0) == pytest.approx(np.sqrt(10 * np.log(4000) * 20))
    found = [
        fit(released(SeededNoise(seed)), ["y1"], method="primo").diagnostics.smallest_eigenvalue for seed in (1, 2)
    ]
    assert min(found) > 0
