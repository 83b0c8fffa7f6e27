"""Thousands of outcomes on one noisy matrix in closed form: its limits, its symmetries, its safety, its one factorisation."""

import math

import numpy as np
import pytest

from benchmarks import moments_utility as utility
from dprelease.errors import InvalidInput
from dprelease.estimators.evidence.marginals import Marginals
from dprelease.estimators.moments import spectral_ridge as _shared_block
from dprelease.estimators.moments.gain import STEP_LENGTHS
from dprelease.estimators.moments.spectral_ridge import EXPLAINED, fit_spectral
from dprelease.mechanisms.moments.released import NoisyMoments
from tests.dprelease.estimators.moments import MIXED, mixed_rows, noisy_moments
from tests.support.specs import numeric

ROWS = mixed_rows(3000)
OUTCOME = 8


def seen(sd: float, seed: int = 0) -> NoisyMoments:
    """Noisy moments of every kind of column."""
    return noisy_moments(MIXED, ROWS, sd, np.random.default_rng(seed))


@pytest.mark.parametrize("intercept", [True, False])
def test_it_tends_to_least_squares_as_the_noise_falls(intercept: bool):
    """Errors of the weights fall in proportion: below twice the noise sd over the least curvature, 1/500 for tight."""
    x = [1, 2, 3, 5, 6, 7]
    full = np.column_stack([np.ones(3000)] * intercept + [ROWS[:, index - 1] for index in x])
    expected = np.linalg.lstsq(full, ROWS[:, 7], rcond=None)[0]
    for sd in (1e-5, 1e-7, 1e-9):
        found = fit_spectral(seen(sd), x, [OUTCOME, 1], intercept=intercept)
        assert np.abs(found.weights[:, 0] - expected[-6:]).max() < 1000 * sd
        assert abs(found.offsets[0] - (expected[0] if intercept else 0)) < 1000 * sd
        np.testing.assert_allclose(found.constant, ROWS[:, [7, 0]].mean(axis=0), atol=5 * sd)
        mse = ((ROWS[:, 7] - full @ expected) ** 2).mean()
        np.testing.assert_allclose(found.quality.mse[0], mse, atol=20 * sd)
        np.testing.assert_allclose(found.quality.constant_mse[0], ROWS[:, 7].var(), atol=20 * sd)


def by_the_book(moments: NoisyMoments, x: list[int], y: int, *, intercept: bool) -> np.ndarray:
    """Weights of one outcome, one of 4000 strengths after another, in a basis of the vectors orthogonal to (1, m)."""
    n, d = moments.rows, len(x)
    own, outcome = Marginals.of(moments, np.array(x)), Marginals.of(moments, np.array([y]))
    centre = own.mean if intercept else np.zeros(d)
    whole = outcome.harmonic_variance[0] if intercept else outcome.square[0]
    basis = np.linalg.svd(np.append(1.0, centre)[None])[2][1:].T
    noisy = moments.gram[np.ix_([0, *x], [0, *x])] / n
    inner = np.array(noisy)
    inner[0, 1:] = inner[1:, 0] = centre
    inner[1:, 1:][np.diag_indices(d)] = own.variance + centre**2 if intercept else own.square
    matrix, g = basis.T @ inner @ basis, basis.T @ moments.gram[[0, *x], y] / n
    s2 = (moments.noise_sd[np.ix_(x, x)] ** 2).mean() / n**2
    r2 = (moments.noise_sd[x, y] ** 2).mean() / n**2
    values, vectors = np.linalg.eigh(matrix)
    pulls = [2 * s2 * sum((value - u) / ((value - u) ** 2 + 4 * s2) for u in values) for value in values]
    xi = np.maximum(values - pulls, 0)
    g = vectors.T @ g
    likelihood, candidates, variances = [], [], []
    for share in (np.arange(4000) + 0.5) / 4000:
        t = EXPLAINED ** (1 - share) * whole / xi.sum()
        v = r2 + s2 * d * t
        total = xi**2 * t + v
        likelihood.append(-0.5 * (g**2 / total + np.log(total)).sum())
        candidates.append(xi * t / total * g)
        variances.append(t * v / total)
    belief = np.exp(np.array(likelihood) - max(likelihood))
    belief /= belief.sum()
    u = belief @ candidates
    sums = candidates @ (u * xi)
    doubt = belief @ variances @ (u * xi) ** 2 + belief @ (sums - belief @ sums) ** 2
    curve = xi @ u**2
    spread = np.sqrt(4 * STEP_LENGTHS**2 * doubt + 2 * s2 * STEP_LENGTHS**4 * (u @ u) ** 2)
    cautious = (2 * STEP_LENGTHS - STEP_LENGTHS**2) * curve - 0.8416212335729143 * spread
    alpha = STEP_LENGTHS[cautious >= 0.95 * cautious.max()].max()
    return np.asarray(alpha * (basis @ vectors @ u)[1:])


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("sd", [0.002, 0.02, 0.06])
def test_the_weights_are_those_of_the_book(sd: float, intercept: bool):
    x = [1, 3, 5, 6]
    moments = seen(sd, 3)
    found = fit_spectral(moments, x, [OUTCOME, 2], intercept=intercept)
    for place, y in enumerate((OUTCOME, 2)):
        weights = by_the_book(moments, x, y, intercept=intercept)
        np.testing.assert_allclose(found.weights[:, place], weights, atol=1e-3 * np.abs(weights).max())


def test_eigenvalues_are_freed_of_what_symmetric_noise_adds():
    """40 dimensions, half of them empty: nearer to the true matrix than what is seen, and than that without its negative part."""
    generator = np.random.default_rng(1)
    turn = np.linalg.qr(generator.normal(size=(40, 40)))[0]
    truth = turn * np.repeat([0.4, 0.1, 0.0], [5, 15, 20]) @ turn.T
    errors = []
    for _ in range(5):
        noise = 0.02 * generator.normal(size=(40, 40))
        noisy = truth + np.triu(noise) + np.triu(noise, 1).T
        values, vectors = np.linalg.eigh(noisy)
        xi, found = _shared_block._denoised(noisy, 0.02**2)
        guesses = (noisy, (vectors * np.maximum(values, 0)) @ vectors.T, (found * xi) @ found.T)
        errors.append([np.linalg.norm(guess - truth) for guess in guesses])
        assert xi.min() >= 0
    raw, clipped, freed = np.mean(errors, axis=0)
    assert freed < 0.75 * clipped < clipped < raw


def test_eigenvalues_are_alike_where_noise_hides_them_and_untouched_where_it_does_not():
    generator = np.random.default_rng(2)
    noise = generator.normal(size=(60, 60))
    flat = 8 * np.eye(60) + np.triu(noise) + np.triu(noise, 1).T
    hidden = _shared_block._denoised(flat, 1.0)[0]
    assert np.ptp(np.linalg.eigvalsh(flat)) > 25
    assert np.ptp(hidden) < 12
    assert hidden.mean() == pytest.approx(np.trace(flat) / 60, rel=1e-9)
    np.testing.assert_allclose(_shared_block._denoised(np.diag([1.0, 2.0, 3.0]), 1e-8)[0], [1, 2, 3], atol=1e-7)


def test_a_clear_relation_is_kept_and_its_errors_are_known():
    """Over 12 releases: the true errors lie within the stated standard errors as a normal law would have it."""
    truth = utility.gram(ROWS) / 3000
    ratios = []
    for seed in range(12):
        found = fit_spectral(seen(0.01, seed), [1, 3, 5], [OUTCOME], intercept=True)
        assert found.quality.verdicts() == ("better than the constant predictor",)
        spread = truth[OUTCOME, OUTCOME] - truth[0, OUTCOME] ** 2
        model = np.append(found.offsets, found.weights[:, 0])
        error = (1 - utility.r_squared(truth, OUTCOME, [1, 3, 5], model)) * spread
        flat = (1 - utility.r_squared(truth, OUTCOME, [], found.constant)) * spread
        ratios.append((found.quality.mse[0] - error) / found.quality.mse_se[0])
        ratios.append((found.quality.gain[0] - (flat - error)) / found.quality.gain_se[0])
    assert np.abs(ratios).max() < 4
    assert 0.3 < math.sqrt(np.mean(np.square(ratios))) < 1.6


@pytest.mark.parametrize(("epsilon", "least"), [(1.0, -0.05), (0.1, -0.25)])
@pytest.mark.parametrize("table", [utility.demo_table, utility.long_tailed_table], ids=["demo", "long-tailed"])
def test_it_is_safe_where_plain_inversion_is_not(table, epsilon: float, least: float):
    """All columns over 8 releases: all but the worst of each column."""
    rows = table()
    exact, columns = utility.gram(rows), range(1, rows.shape[1] + 1)
    generator = np.random.default_rng(11)
    found = np.empty((8, len(columns)))
    for draw in range(8):
        moments = utility.noisy_moments(exact, len(rows), epsilon, 3, generator)
        for target in columns:
            x = [column for column in columns if column != target]
            fit = fit_spectral(moments, x, [target], intercept=True)
            model = np.append(fit.offsets, fit.weights[:, 0])
            found[draw, target - 1] = utility.r_squared(exact / len(rows), target, x, model)
    assert np.sort(found, axis=0)[1].min() > least
    if table is utility.demo_table:
        assert np.median(found[:, [0, 3]], axis=0).min() > (0.75 if epsilon == 1 else 0.4)


def test_pure_noise_is_rarely_called_better():
    moments = noisy_moments(
        tuple(numeric(f"x{index}") for index in range(100)),
        np.random.default_rng(1).uniform(-1, 1, (20_000, 100)),
        0.01,
        np.random.default_rng(2),
    )
    found = fit_spectral(moments, range(1, 41), range(41, 101), intercept=True)
    assert sum(text.startswith("better") for text in found.quality.verdicts()) <= 3


def test_many_outcomes_are_one_factorisation(decompositions: list[tuple[str, tuple[int, ...]]]):
    columns = tuple(numeric(f"x{index}") for index in range(400))
    moments = noisy_moments(columns, np.random.default_rng(3).uniform(-1, 1, (500, 400)), 0.01)
    assert fit_spectral(moments, range(1, 71), range(71, 401), intercept=True).weights.shape == (70, 330)
    assert decompositions == [("eigh", (70, 70))]


def test_all_levels_of_a_category_and_an_intercept_are_refused():
    with pytest.raises(InvalidInput, match="the 5 features determine each other"):
        fit_spectral(seen(0.02), [1, 4, 5, 6, 7], [OUTCOME], intercept=True)
    assert np.isfinite(fit_spectral(seen(0.02), [1, 4, 5, 6, 7], [OUTCOME], intercept=False).weights).all()
