"""Fits of public outcomes on private features, and of both kinds: projection helps, and public entries are held to."""

import numpy as np
import pytest

from benchmarks.moments_utility import gram
from dprelease.estimators.evidence.evidence import posterior
from dprelease.estimators.evidence.marginals import Marginals
from dprelease.estimators.moments.public_columns import associated
from tests.dprelease.estimators.public import ROWS, declared, moments_of, table


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


@pytest.mark.usefixtures("short_chains")
def test_draws_hold_to_the_public_entries() -> None:
    rows = table(4, 1)
    noisy = moments_of(rows, declared(3, 2), 0.02, np.random.default_rng(13))
    draws, truth = posterior(noisy), gram(rows) / ROWS
    assert np.sqrt(((draws - truth)[:, :4, :4] ** 2).mean(axis=0)).max() < 0.02 / 3
    assert np.sqrt(((draws - truth)[:, :4, 4:] ** 2).mean(axis=0)).max() > 0.002
