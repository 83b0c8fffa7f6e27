"""Fits of public outcomes on private features, and of both kinds: projection helps, and public entries are held to."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.common.fits import fit_moments
from benchmarks.moments_utility import gram
from dprelease.estimators.evidence.evidence import posterior
from dprelease.estimators.evidence.marginals import Marginals
from dprelease.estimators.moments.public_columns import associated
from dprelease.estimators.moments.spectral_ridge import fit_spectral
from dprelease.mechanisms.moments.entries import Layout
from tests.dprelease.estimators.public import ROWS, declared, least_squares, moments_of, r_squared, table


@pytest.mark.parametrize(("sd", "factor"), [(1e-5, 1.0), (0.01, 0.7), (0.1, 0.3), (1.0, 0.1)])
def test_an_association_with_many_public_columns_is_believed_closer_to_the_truth(sd: float, factor: float) -> None:
    outcomes = 150
    rows = np.roll(table(6, outcomes), -6, axis=1)
    noisy = moments_of(rows, declared(outcomes, 6), sd, np.random.default_rng(9))
    helped = associated(noisy, intercept=True)
    centre, across = rows.mean(axis=0), np.ix_(range(1, outcomes + 1), range(outcomes + 1, outcomes + 7))
    truth = (rows - centre).T[:outcomes] @ (rows - centre)[:, outcomes:]
    means = Marginals.of(helped, np.arange(outcomes + 1, outcomes + 7)).mean  # what `associated` put back in
    before = np.linalg.norm(noisy.gram[across] - np.outer(centre[:outcomes], noisy.gram[0, -6:]) - truth)
    after = np.linalg.norm(helped.gram[across] - ROWS * np.outer(centre[:outcomes], means) - truth)
    assert after <= factor * before * 1.001
    if sd < 0.1:  # beyond, the prior decides
        assert 0.5 < after / np.linalg.norm(helped.noise_sd[across]) < 1.5
    untouched = np.ones(noisy.gram.shape, bool)
    untouched[across] = untouched.T[across] = False
    untouched &= untouched.T
    np.testing.assert_array_equal(helped.gram[untouched], noisy.gram[untouched])
    np.testing.assert_array_equal(helped.gram, helped.gram.T)


def test_without_an_intercept_the_noise_of_means_counts_as_well() -> None:
    rows = np.roll(table(6, 20), -6, axis=1)
    noisy = moments_of(rows, declared(20, 6), 0.01, np.random.default_rng(9))
    across = np.ix_(range(1, 21), range(21, 27))
    with_, without = (associated(noisy, intercept=intercept).noise_sd[across] ** 2 for intercept in (True, False))
    means = Marginals.of(noisy, np.arange(21, 27))
    np.testing.assert_allclose(
        without - with_, np.outer(rows[:, :20].mean(axis=0), ROWS * means.mean_sd) ** 2, rtol=1e-6
    )


def test_many_public_outcomes_are_fitted_better_than_without_projection() -> None:
    outcomes, features = 150, 6
    rows = np.roll(table(features, outcomes), -features, axis=1)
    x, y = list(range(outcomes + 1, outcomes + features + 1)), list(range(1, outcomes + 1))
    for sd, least in ((0.005, 0.3), (0.02, 0.1)):
        noisy = moments_of(rows, declared(outcomes, features), sd, np.random.default_rng(10))
        fits = [each(noisy, x, y, intercept=True) for each in (fit_moments, fit_spectral)]
        helped, raw = (r_squared(rows, x, y, found.offsets, found.weights) for found in fits)
        assert np.median(helped) > max(np.median(raw), least)
        assert helped.min() > -0.02


def test_without_an_intercept_many_public_outcomes_are_fitted_as_well() -> None:
    rows = np.roll(table(6, 80), -6, axis=1)
    noisy = moments_of(rows, declared(80, 6), 0.002, np.random.default_rng(11))
    x, y = list(range(81, 87)), list(range(1, 81))
    found = fit_moments(noisy, x, y, intercept=False)
    exact = least_squares(rows, x, y, intercept=False)
    assert not found.offsets.any()
    lost = ((rows[:, 80:] @ (found.weights - exact)) ** 2).mean(axis=0) / (rows[:, :80] ** 2).mean(axis=0)
    assert lost.max() < 0.1


def test_a_private_outcome_beside_some_private_features_is_shrunken_once() -> None:
    """80 features, 70 of them public: what they have to do with the outcome is not first shrunken by `associated`."""
    features, outcomes = 80, 20
    rows = table(features, outcomes)
    noisy = moments_of(rows, declared(70, 30), 0.003, np.random.default_rng(17))
    x, y = list(range(1, 81)), list(range(81, 101))
    found, once = (each(noisy, x, y, intercept=True) for each in (fit_moments, fit_spectral))
    np.testing.assert_array_equal(found.weights, once.weights)
    np.testing.assert_array_equal(found.quality.gain, once.quality.gain)
    assert np.median(r_squared(rows, x, y, found.offsets, found.weights)) > 0.1


@pytest.mark.usefixtures("short_chains")
def test_few_columns_are_drawn_together_and_hold_to_what_is_public() -> None:
    """Two private features beside three public ones: much better than if the public ones counted for nothing."""
    rows = table(5, 1)
    columns = declared(3, 3)
    noisy = moments_of(rows, columns, 0.005, np.random.default_rng(12))
    x = [1, 2, 3, 4, 5]
    found = fit_moments(noisy, x, [6], intercept=True)
    best = least_squares(rows, x, [6], intercept=True)
    reached = r_squared(rows, x, [6], found.offsets, found.weights)
    assert reached > 0.85 * r_squared(rows, x, [6], best[0], best[1:])
    unheld = replace(noisy, layout=Layout(declared(0, 6)))  # its public entries count as derived, and say nothing
    ignored = fit_moments(unheld, x, [6], intercept=True)
    assert reached > 1.2 * r_squared(rows, x, [6], ignored.offsets, ignored.weights)


@pytest.mark.usefixtures("short_chains")
def test_draws_hold_to_the_public_entries() -> None:
    rows = table(4, 1)
    noisy = moments_of(rows, declared(3, 2), 0.02, np.random.default_rng(13))
    draws, truth = posterior(noisy), gram(rows) / ROWS
    assert np.sqrt(((draws - truth)[:, :4, :4] ** 2).mean(axis=0)).max() < 0.02 / 3
    assert np.sqrt(((draws - truth)[:, :4, 4:] ** 2).mean(axis=0)).max() > 0.002
