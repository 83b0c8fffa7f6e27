"""Means, spreads and correlations out of joint moments, and the repaired matrix."""

import numpy as np
import pytest

from dprelease.estimators.evidence import evidence
from dprelease.estimators.evidence.evidence import Evidence
from dprelease.estimators.evidence.summary import summarise
from tests.dprelease.estimators.moments import mixed_rows, noisy_moments
from tests.support.specs import categorical, numeric

ROWS = mixed_rows(3000)
COLUMNS = (
    numeric("wide", 0.0, 120.0),
    numeric("tight", 0.0, 400.0),
    categorical("smoker", "yes"),
    categorical("ward", "north", "south", "west"),
    numeric("outcome", -10.0, 30.0),
)
MIDPOINT = np.array([60, 200, 0.5, 0, 0, 0, 0, 10])
HALF_WIDTH = np.array([60, 200, 0.5, 1, 1, 1, 1, 20])
ORIGINAL = MIDPOINT + HALF_WIDTH * ROWS


@pytest.fixture(params=["drawn", "too wide to draw"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "too wide to draw":
        monkeypatch.setattr(evidence, "WIDEST", 3)
    return request.param


@pytest.mark.usefixtures("either_way")
def test_without_noise_a_summary_is_that_of_the_rows():
    found = summarise(noisy_moments(COLUMNS, ROWS, 0.0))
    assert found.names[:4] == ("wide", "tight", "smoker=yes", "ward=north")
    np.testing.assert_allclose(found.mean, ORIGINAL.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.standard_deviation, ORIGINAL.std(axis=0), rtol=1e-7)
    np.testing.assert_allclose(found.standard_deviation**2, ORIGINAL.var(axis=0), rtol=1e-7)
    np.testing.assert_allclose(found.correlation, np.corrcoef(ORIGINAL.T), atol=1e-7)
    np.testing.assert_array_equal(found.mean_sd, 0)


@pytest.mark.usefixtures("half_chains")
def test_what_noise_leaves_open_covers_the_truth():
    """Errors over their stated sd, over 3 releases: root mean square near 1, none beyond 5."""
    ratios = []
    for seed in range(3):
        found = summarise(noisy_moments(COLUMNS, ROWS, 0.01, np.random.default_rng(seed)))
        upper = np.triu_indices(8, 1)
        truth = np.corrcoef(ORIGINAL.T)
        ratios += [
            (found.mean - ORIGINAL.mean(axis=0)) / found.mean_sd,
            (found.standard_deviation - ORIGINAL.std(axis=0)) / found.standard_deviation_sd,
            ((found.correlation - truth) / np.where(found.correlation_sd > 0, found.correlation_sd, 1))[upper],
        ]
    flat = np.concatenate(ratios)
    assert 0.55 < np.sqrt(np.mean(flat**2)) < 1.4
    assert np.abs(flat).max() < 5


@pytest.mark.usefixtures("short_chains", "either_way")
def test_a_wide_release_says_how_far_spreads_are_known():
    """Sixteen errors over their stated sd have a mean square of 1, give or take 4 times the root of 2/16."""
    found = [summarise(noisy_moments(COLUMNS, ROWS, 0.01, np.random.default_rng(seed))) for seed in (5, 6)]
    away = [(each.standard_deviation - ORIGINAL.std(axis=0)) / each.standard_deviation_sd for each in found]
    assert 0 < np.mean(np.square(away)) < 1 + 4 * np.sqrt(2 / 16)


@pytest.mark.usefixtures("short_chains")
@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("sd", [0.0, 0.02, 0.5])
def test_a_repaired_matrix_is_one_that_rows_can_have(sd: float):
    moments = noisy_moments(COLUMNS, ROWS, sd, np.random.default_rng(9) if sd else None)
    matrix = moments.rows * Evidence(moments).likely()
    assert matrix[0, 0] == pytest.approx(3000, rel=1e-12)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-9)
    assert np.linalg.eigvalsh(matrix / 3000).min() > -1e-10
    mean, square = matrix[0, 1:] / 3000, np.diag(matrix)[1:] / 3000
    assert (np.abs(mean) <= 1 + 1e-12).all()
    assert (square <= 1 + 1e-12).all()
    assert square[2] == pytest.approx(1, rel=1e-9)
    off = np.abs(square[3:7] - mean[3:7])  # levels of one group: all but the one that follows from the others
    assert (off > 1e-9).sum() <= 1
    assert off.max() <= sd / 2 + 1e-9
    if sd == 0:
        np.testing.assert_allclose(matrix, moments.gram, rtol=1e-9, atol=1e-6)


@pytest.mark.usefixtures("either_way", "short_chains")
def test_correlations_stay_correlations_under_any_noise():
    for seed in range(2):
        found = summarise(noisy_moments(COLUMNS, ROWS, 0.5, np.random.default_rng(seed)))
        assert (np.abs(found.correlation) <= 1).all()
        np.testing.assert_array_equal(np.diag(found.correlation), 1)
        assert np.linalg.eigvalsh(found.correlation).min() > -1e-8
        assert (found.mean >= MIDPOINT - HALF_WIDTH - 1e-9).all()
        assert (found.mean <= MIDPOINT + HALF_WIDTH + 1e-9).all()


@pytest.mark.usefixtures("half_chains")
def test_shares_and_their_spreads_are_those_of_indicators_where_noise_hides_them():
    found = summarise(noisy_moments(COLUMNS, ROWS[:10], 5.0, np.random.default_rng(1)))
    levels = ["ward=" in name for name in found.names]
    share, spread = found.mean[levels], found.standard_deviation[levels]
    assert ((share >= 0) & (share <= 1)).all()
    assert (found.mean_sd[levels] <= 0.5).all()
    assert (spread <= 0.5).all()


@pytest.mark.usefixtures("half_chains")
def test_strong_correlations_that_the_prior_draws_to_0_are_held_all_the_same():
    """Six columns of which each two have the correlation .9; their released correlations have noise of 1.

    Over three releases the root mean square of the errors in the stated sd is near 1. In the draws' own spreads it is 2.
    """
    columns, ratios = tuple(numeric(f"x{place}", -5, 5) for place in range(6)), []
    for seed in range(3):
        random = np.random.default_rng(seed)
        rows = (np.sqrt(0.9) * random.normal(size=(300, 1)) + np.sqrt(0.1) * random.normal(size=(300, 6))) / 5
        found = summarise(noisy_moments(columns, rows, 0.2**2, random))
        upper = np.triu_indices(6, 1)
        ratios.append((found.correlation - np.corrcoef(rows.T))[upper] / found.correlation_sd[upper])
    assert np.sqrt(np.mean(np.square(ratios))) < 1.4
