"""The default method on rows: its limits, its factorisations, its average over ridges, and what it says of itself."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dprelease.errors import InvalidInput
from dprelease.estimators import fit
from dprelease.estimators.normal_equations import RegressionRows
from dprelease.estimators.quality import ScaledFit
from dprelease.estimators.rows.calibrated import Spectrum, averaged, calibrated
from dprelease.estimators.rows.errors import optimism
from dprelease.mechanisms.expected_error import EXPLAINED
from dprelease.release.release import Release
from tests.dprelease.estimators.conftest import places

STANDARD_ERRORS = 5.0


def release(
    seed: int,
    *,
    d: int = 4,
    k: int = 60,
    n: int = 20_000,
    outcomes: int = 1,
    x_sd: float | np.ndarray = 1.0,
    y_sd: float = 1.0,
    residual: float = 0.1,
    weights: np.ndarray | None = None,
    anchor: float = 0.04,
    mixed: bool = True,
) -> tuple[RegressionRows, np.ndarray]:
    """Rows of a release and the true weights; of mechanism ``rows`` when not `mixed`, k = n and no anchor.

    Features have variance 1/3 and means of their own; outcome = 0.2 + x w + residual. Rows of B D / sqrt(k) are drawn
    from the normal law that they nearly have.
    """
    random = np.random.default_rng(seed)
    w = random.uniform(-0.3, 0.3, (d, outcomes)) if weights is None else weights
    mean = random.uniform(-0.3, 0.3, d)
    spread = math.sqrt(n * (1 - anchor) / k)
    ones = spread * random.normal(size=k) if mixed else np.ones(k)
    x = np.outer(ones, mean) + spread / math.sqrt(3) * random.normal(size=(k, d))
    y = 0.2 * ones[:, None] + x @ w + spread * residual * random.normal(size=(k, w.shape[1]))
    if anchor:
        top = math.sqrt(anchor) * n
        ones = np.append(top, ones)
        x, y = np.vstack([top * mean, x]), np.vstack([top * (0.2 + mean @ w), y])
    x_sd = np.broadcast_to(np.asarray(x_sd, dtype=float), d)
    return RegressionRows(
        ones=ones,
        x=x + x_sd * random.normal(size=x.shape),
        y=y + y_sd * random.normal(size=y.shape),
        x_variance=x_sd**2,
        y_variance=np.full(w.shape[1], y_sd**2),
        patients=float(n),
        anchor=bool(anchor),
        mixed=mixed,
    ), w


def fitted(rows: RegressionRows, *, intercept: bool = True) -> ScaledFit:
    """The method with every column's range [-1, 1]."""
    return calibrated(rows, np.full(rows.x.shape[1], -1.0), np.full(rows.y.shape[1], -1.0), intercept=intercept)


def least_squares(rows: RegressionRows, *, intercept: bool) -> np.ndarray:
    used = rows if intercept else rows.mixing_only()
    design = np.column_stack([used.ones, used.x]) if intercept else used.x
    return np.linalg.lstsq(design, used.y, rcond=None)[0][-used.x.shape[1] :]


# Limits.


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("anchor", [0.0, 0.04])
def test_without_noise_and_residual_it_is_least_squares_on_the_mixing_rows(intercept: bool, anchor: float):
    """Noise 1e-6 of a row's size: the ridge left over is below d v / (3e-4 c_i), v = s_y^2 = 1e-12, c_i > 1e5."""
    rows, true = release(1, outcomes=3, x_sd=1e-6, y_sd=1e-6, residual=0.0, anchor=anchor)
    if not intercept:
        rows = replace(rows, y=rows.x @ true)
    found = fitted(rows, intercept=intercept)
    np.testing.assert_allclose(found.weights, least_squares(rows, intercept=intercept), rtol=0, atol=1e-7)
    np.testing.assert_allclose(found.weights, true, rtol=0, atol=1e-6)
    assert np.abs(found.quality.mse + found.quality.optimism).max() < 1e-10


@pytest.mark.parametrize("mixed", [True, False])
def test_with_many_rows_the_attenuation_is_gone_whatever_each_columns_noise(mixed: bool):
    """20000 rows under noise of 0.5 to 2 times the features' size: weights within 5 s.e. of the truth, where least squares
    is off by twice that. The s.e. is that of (A - k S)^-1 (c - (A - k S) w), by its moments."""
    sd = np.array([0.5, 1.0, 1.5, 2.0]) / math.sqrt(3)
    w = np.array([[0.3], [-0.3], [0.25], [0.3]])
    rows, _ = release(3, k=20_000, n=20_000, x_sd=sd, y_sd=0.1, weights=w, anchor=0.0, mixed=mixed)
    found = fitted(rows)
    residual = 0.1**2 + 0.1**2 + float((w[:, 0] * sd) @ (w[:, 0] * sd))
    error = np.sqrt((residual * (1 / 3 + sd**2) + (w[:, 0] * sd**2) ** 2) / 20_000) * 3
    assert (np.abs(found.weights - w)[:, 0] < STANDARD_ERRORS * error).all()
    assert (np.abs(least_squares(rows, intercept=True) - w)[:, 0] > 2 * STANDARD_ERRORS * error)[1:].all()


@pytest.mark.parametrize("k", [15, 60, 600])
def test_an_outcome_that_is_all_noise_gets_weights_near_zero(k: int):
    """200 outcomes without any relation to the features: mean squared weights far below those of the unshrunk fit."""
    rows, _ = release(5, k=k, x_sd=10.0, y_sd=10.0, residual=0.0, weights=np.zeros((4, 200)))
    spectrum = Spectrum.of(rows, intercept=True)
    unshrunk = spectrum.weights(np.ones_like(spectrum.scores))
    found = fitted(rows).weights
    assert (found**2).mean() < 0.15 * (unshrunk**2).mean()
    # Weights of 0.08 explain a variance of 4 * 0.08^2 / 3 = 0.0085, where 1/3 is possible.
    assert math.sqrt((found**2).mean()) < 0.08


# Factorisations.


def one(rows: RegressionRows, target: int) -> RegressionRows:
    return replace(rows, y=rows.y[:, [target]], y_variance=rows.y_variance[[target]])


def test_ten_thousand_outcomes_need_no_more_factorisations_than_one(decompositions: list[tuple[str, tuple[int, ...]]]):
    random = np.random.default_rng(10)
    rows, _ = release(10, d=100, k=310, outcomes=10_000, weights=random.uniform(-0.1, 0.1, (100, 10_000)))
    assert fitted(rows).weights.shape == (100, 10_000)
    assert decompositions == [("eigh", (100, 100)), ("eigh", (100, 100)), ("svd", (100, 100))]


# The average over ridges.


def by_the_book(spectrum: Spectrum, target: int, noise: float) -> np.ndarray:
    """docs/methods.md, "Calibrated ridge", for one outcome and 2000 strengths; v by iteration until it stands still."""
    c, z = spectrum.roots**2, spectrum.roots * spectrum.scores[:, target]
    h, rest, k, d = z**2 / c, float(spectrum.rest[target]), spectrum.degrees, len(spectrum.xx)
    likely = spectrum.feature_variance + 2 * spectrum.feature_variance_se
    steps = (np.arange(2000) + 0.5) / 2000
    t = EXPLAINED[0] ** (1 - steps) * EXPLAINED[-1] ** steps / (d * min(1 / 3, max(1 / 9, likely)))
    v = np.full(2000, max(rest / max(k - len(c), 1), noise))
    for _ in range(200):
        fit = (h / (1 + np.outer(t / v, c))).sum(axis=1) + rest
        v = np.maximum(fit / k, noise)
    likelihood = -0.5 * (np.log(1 + np.outer(t / v, c)).sum(axis=1) + k * np.log(v) + fit / v)
    belief = np.exp(likelihood - likelihood.max())
    return spectrum.vectors @ (z / (c + (v / t)[:, None])).T @ belief / belief.sum()


@pytest.mark.parametrize(("x_sd", "y_sd"), [(1.0, 1.0), (8.0, 4.0), (20.0, 30.0)])
def test_the_weights_are_those_of_the_book(x_sd: float, y_sd: float):
    """But for the lattice, whose cells are a twentieth wide in log(t / v): of second order within, and cut at the ends."""
    rows, _ = release(11, outcomes=2, x_sd=x_sd, y_sd=y_sd)
    spectrum = Spectrum.of(rows, intercept=True)
    found = fitted(rows).weights
    for target in range(2):
        expected = by_the_book(spectrum, target, y_sd**2)
        np.testing.assert_allclose(found[:, target], expected, rtol=0, atol=1e-3 * np.abs(expected).max())


# Intercept and anchor.


def test_no_intercept_can_be_fitted_to_a_constant_column_of_zeros():
    rows, _ = release(15, anchor=0.0)
    empty = replace(rows, ones=np.zeros(60))
    with pytest.raises(InvalidInput, match="fit without an intercept"):
        fitted(empty)
    assert np.isinf(fitted(empty, intercept=False).constant_noise_sd).all()


# Whole releases.


@pytest.mark.parametrize("mechanism", ["mixed", "rows"])
@pytest.mark.parametrize("intercept", [False, True])
def test_it_is_the_default_and_answers_in_original_units(noisy: Release, intercept: bool):
    """Scaled rows, each column's own range, and units by hand; an indicator's range is [0, 1]."""
    result = fit(noisy, ["score", "sex=male"], ["age", "glucose"], fit_intercept=intercept)
    assert result.method == "calibrated"
    scaled = noisy.scaled()
    rows = RegressionRows.of(
        scaled,
        places(scaled, "age", "glucose"),
        places(scaled, "score", "sex=male"),
        mixed=noisy.spec.mechanism == "mixed",
    )
    found = calibrated(rows, np.array([-1.0, -1.0]), np.array([-1.0, 0.0]), intercept=intercept)
    ages, glucose = np.array([30.0, 60.0, 90.0]), np.array([4.0, 20.0, 29.0])
    at = found.offsets + np.column_stack([(ages - 60) / 60, (glucose - 16) / 14]) @ found.weights
    expected = np.array([50.0, 0.0]) + np.array([50.0, 1.0]) * at
    np.testing.assert_allclose(result.predict(np.column_stack([ages, glucose])), expected, rtol=1e-9)
    np.testing.assert_allclose(result.constant, [50 + 50 * found.constant[0], found.constant[1]], rtol=1e-12)
    np.testing.assert_allclose(result.constant_noise_sd, [50, 1] * found.constant_noise_sd, rtol=1e-12)
    np.testing.assert_allclose(result.quality.gain, [2500, 1] * found.quality.gain, rtol=1e-9)


# What it says of itself.


@pytest.mark.parametrize(("x_sd", "y_sd", "k"), [(4.0, 4.0, 60), (15.0, 15.0, 60)])
def test_with_its_optimism_added_the_estimated_error_is_unbiased(x_sd: float, y_sd: float, k: int):
    """300 releases: mean of (estimate + optimism - true error) within 5 s.e. of 0, or within 15 % of the optimism."""
    differences, added = [], []
    for seed in range(300):
        rows, w = release(1000 + seed, k=k, x_sd=x_sd, y_sd=y_sd)
        found = fitted(rows)
        mean = rows.ones[0]
        exact = (rows.x[0] / mean, rows.y[0] / mean)  # anchor: the private means, up to noise of no account here
        slope = found.weights[:, 0] - w[:, 0]
        level = found.offsets[0] - exact[1][0] + exact[0] @ found.weights[:, 0]
        true = 0.01 + slope @ slope / 3 + level**2
        differences.append(found.quality.mse[0] + found.quality.optimism[0] - true)
        added.append(found.quality.optimism[0])
    error = np.std(differences) / math.sqrt(300)
    assert abs(np.mean(differences)) < STANDARD_ERRORS * error + 0.15 * np.mean(added)
    assert np.mean(added) > STANDARD_ERRORS * error


@pytest.mark.parametrize(("anchor", "intercept", "level"), [(0.04, True, 0), (0.0, True, 1), (0.0, False, 0)])
def test_an_intercept_costs_a_parameter_unless_the_anchor_pays(anchor: float, intercept: bool, level: int):
    rows, _ = release(18, x_sd=4.0, anchor=anchor)
    found, mixing = fitted(rows, intercept=intercept), rows.mixing_only()
    spectrum = Spectrum.of(rows, intercept=intercept)
    residuals = mixing.y - mixing.x @ found.weights - np.outer(mixing.ones, found.offsets)
    shrink = averaged(spectrum, rows.y_variance)
    spent = spectrum.spent(shrink, found.weights, (residuals**2).mean(axis=0)) + level
    square = (residuals**2).sum(axis=0)
    np.testing.assert_allclose(found.quality.optimism, optimism(square, spent, 60, mixing.patients), rtol=1e-9)


def test_pure_noise_does_not_pass_for_a_good_model():
    """2000 outcomes that are all noise: by two standard errors at most 5 % of them seem better than the constant."""
    rows, _ = release(16, k=90, x_sd=8.0, y_sd=8.0, residual=0.0, weights=np.zeros((4, 2000)))
    better = np.array(["better" in verdict for verdict in fitted(rows).quality.verdicts()])
    assert better.mean() < 0.05
