"""Least squares on the noisy matrix as it is: the estimated errors, by simulation with derived standard errors."""

import numpy as np
import pytest

from dprelease.errors import InvalidInput
from dprelease.estimators.baselines.inverted import inverted, plug_in_quality
from dprelease.estimators.quality import MARGIN
from dprelease.mechanisms.moments.released import NoisyMoments
from tests.dprelease.estimators.moments import MIXED, mixed_rows, noisy_moments
from tests.dprelease.estimators.outcome_only import outcome_only_of, sides
from tests.dprelease.estimators.public import table

ROWS = mixed_rows(2000)
X, Y = [1, 3, 5], 8  # wide, smoker=yes, ward=south
TRUTH = np.column_stack([np.ones(len(ROWS)), ROWS])
TRUTH = TRUTH.T @ TRUTH / len(ROWS)


def true_error(model: np.ndarray, features: list[int]) -> float:
    """Mean squared error on the private rows of (offset, weights)."""
    used = [0, *features]
    return float(TRUTH[Y, Y] - 2 * model @ TRUTH[used, Y] + model @ TRUTH[np.ix_(used, used)] @ model)


def by_fitting(moments: NoisyMoments, features: list[int], target: int, model: np.ndarray) -> float:
    """Formula (3), entry by entry, of a model (offset, weights, minus the target's 1)."""
    used, sd = [0, *features], moments.noise_sd / moments.rows
    inverse = np.linalg.inv(moments.gram[np.ix_(used, used)] / moments.rows)
    shifts = [sum((model[j] * sd[i, k]) ** 2 for j, k in enumerate([*used, target])) for i in used]
    places = range(len(used))
    return sum(4 * shifts[i] * inverse[i, j] ** 2 * shifts[j] for i in places for j in places)


@pytest.mark.parametrize("intercept", [True, False])
def test_without_noise_it_is_least_squares_on_the_rows(intercept: bool):
    found = inverted(noisy_moments(MIXED, ROWS, 0.0), X, [Y, 2], intercept=intercept)
    rows = ROWS[:, [index - 1 for index in X]]
    full = np.column_stack([np.ones(len(ROWS)), rows]) if intercept else rows
    expected = np.linalg.lstsq(full, ROWS[:, [7, 1]], rcond=None)[0]
    np.testing.assert_allclose(found.weights, expected[-3:], atol=1e-9)
    np.testing.assert_allclose(found.offsets, expected[0] if intercept else 0, atol=1e-9)
    np.testing.assert_allclose(
        found.quality.mse, ((ROWS[:, [7, 1]] - full @ expected) ** 2).mean(axis=0), rtol=1e-8, atol=1e-12
    )
    np.testing.assert_allclose(found.quality.constant_mse, ROWS[:, [7, 1]].var(axis=0), rtol=1e-8)
    assert (found.quality.mse_se == 0).all()


def test_errors_of_fixed_models_are_unbiased_and_their_standard_errors_right():
    """Models on every kind of column, fixed in advance: mean and variance over 400 releases, within five standard errors."""
    generator, draws = np.random.default_rng(3), 400
    features = [1, 2, 3, 5, 6]
    fixed, constant = np.array([0.1, 0.4, -0.5, 0.2, 0.3, -0.2]), 0.05
    estimates, added = [], []
    for _ in range(draws):
        moments = noisy_moments(MIXED, ROWS, 0.02, generator)
        used = np.linalg.inv(moments.gram[np.ix_([0, *features], [0, *features])] / moments.rows)
        quality = plug_in_quality(moments, features, [Y], -fixed[:, None], np.array([-constant]), used, intercept=True)
        estimates.append([value[0] for value in vars(quality).values()])
        added.append(by_fitting(moments, features, Y, np.append(fixed, -1.0)))
    mse, mse_se, too_low, flat, flat_se, gain, gain_se = np.array(estimates).T
    mse_se, gain_se = (np.sqrt(stated**2 - added) for stated in (mse_se, gain_se))
    model = true_error(fixed, features)
    still = true_error(np.array([constant]), [])
    for values, expected, sd in ((mse, model, mse_se[0]), (flat, still, flat_se[0])):
        assert abs(values.mean() - expected) < 5 * sd / np.sqrt(draws)
        assert abs(values.std() / sd - 1) < 5 / np.sqrt(2 * draws)
    plain = gain + too_low - (2 * (0.02) ** 2)
    assert abs(plain.mean() - (still - model)) < 5 * gain_se[0] / np.sqrt(draws)
    assert abs(plain.std() / gain_se[0] - 1) < 5 / np.sqrt(2 * draws)


@pytest.mark.parametrize("intercept", [True, False])
def test_optimism_is_what_a_fit_gains_from_the_noise_that_it_saw(intercept: bool):
    generator, draws = np.random.default_rng(4), 400
    gaps, optimism = [], []
    for _ in range(draws):
        found = inverted(noisy_moments(MIXED, ROWS, 0.01, generator), X, [Y], intercept=intercept)
        model = np.append(found.offsets, found.weights[:, 0])
        gaps.append(true_error(model, X) - found.quality.mse[0])
        optimism.append(found.quality.optimism[0])
    error = np.std(gaps, ddof=1) / np.sqrt(draws)
    assert abs(np.mean(gaps) - np.mean(optimism)) < 4 * error + 0.1 * np.mean(optimism)
    assert np.mean(gaps) > 3 * error


@pytest.mark.parametrize("rows", [1_000, 10_000])
def test_with_the_papers_ridge_optimism_is_what_the_fit_gained_and_better_is_rarely_said_wrongly(rows: int):
    """Of 20 outcomes on 6 features at (1, 1e-5); two standard errors are to be passed by chance in 2.3 % of fits."""
    data, generator, draws = table(6, 20, rows=rows, seed=3), np.random.default_rng(1), 30
    columns, names = sides(6, 20)
    x, y = list(range(1, 7)), list(range(7, 27))
    used, full = [0, *x], np.column_stack([np.ones(rows), data])
    truth = full.T @ full / rows
    gaps, optimism, wrong, squares = [], [], [], []
    for _ in range(draws):
        moments = outcome_only_of(data, columns, names, generator)
        found = inverted(moments, x, y, intercept=True, ridge=True)
        model = np.vstack([found.offsets, found.weights])
        error = truth[y, y] + (model * (truth[np.ix_(used, used)] @ model - 2 * truth[np.ix_(used, y)])).sum(axis=0)
        flat = truth[y, y] + found.constant * (found.constant - 2 * truth[0, y])
        gaps.append((error - found.quality.mse).mean())
        optimism.append(found.quality.optimism.mean())
        wrong.append((found.quality.gain > MARGIN * found.quality.gain_se) & (error >= flat))
        squares.append((((found.quality.gain - (flat - error)) / found.quality.gain_se) ** 2).mean())
    spread = np.std(gaps, ddof=1) / np.sqrt(draws)
    assert abs(np.mean(gaps) - np.mean(optimism)) < 4 * spread + 0.1 * np.mean(optimism)
    assert np.mean(gaps) > 3 * spread
    assert np.mean(wrong) < 0.023
    assert abs(np.mean(squares) - 1) < 4 * np.std(squares, ddof=1) / np.sqrt(draws)


def test_noise_that_drowns_the_matrix_is_told():
    found = inverted(noisy_moments(MIXED, ROWS, 2.0, np.random.default_rng(1)), [1, 2, 5], [Y], intercept=True)
    assert found.diagnostics.indefinite
    assert "Use method 'shrinkage'" in found.diagnostics.warnings[0]
    assert np.isinf(found.quality.optimism).all()
    assert found.quality.gain[0] == -np.inf


def test_features_that_repeat_each_other_are_refused():
    with pytest.raises(InvalidInput, match="singular"):
        inverted(noisy_moments(MIXED, ROWS, 0.0), [4, 5, 6, 7], [Y], intercept=True)


@pytest.mark.parametrize(("features", "target"), [([1, 3, 5, 6], Y), ([1, 2, Y], 5), ([1, 5, Y], 3), ([4, 5], 1)])
def test_standard_errors_follow_from_every_noisy_entry_by_itself(features: list[int], target: int):
    """By how much an error of 1 in one released entry moves what is estimated, squared and summed."""
    moments = noisy_moments(MIXED, ROWS, 0.01, np.random.default_rng(8))
    layout, found = moments.layout, inverted(moments, features, [target], intercept=True)
    model, flat = np.zeros(9), np.zeros(9)
    model[features], model[0], flat[0] = -found.weights[:, 0], -found.offsets[0], -found.constant[0]
    model[target] = flat[target] = 1.0
    moved = [layout.matrix(entry, 0.0) for entry in np.eye(layout.entries)]
    by_model, by_flat = ([u @ matrix @ u for matrix in moved] for u in (model, flat))
    sd = moments.noise_sd[layout.rows, layout.cols] / moments.rows
    quality, fitted = found.quality, np.append(model[[0, *features]], 1.0)
    added = 0.0 if found.diagnostics.indefinite else by_fitting(moments, features, target, fitted)
    for value, moves, more in (
        (quality.mse_se, by_model, added),
        (quality.constant_mse_se, by_flat, 0.0),
        (quality.gain_se, np.subtract(by_flat, by_model), added),
    ):
        np.testing.assert_allclose(value[0] ** 2, ((moves * sd) ** 2).sum() + more, rtol=1e-9)
