"""The estimated errors, their standard errors and what is said about them."""

import math

import numpy as np
import pytest

from dprelease.estimators import fit
from dprelease.estimators.baselines.plain import debiased, least_squares, mixed_least_squares
from dprelease.estimators.normal_equations import RegressionRows
from dprelease.estimators.quality import BETTER, Quality
from dprelease.estimators.rows.errors import effective_parameters, estimate, for_being_fitted
from tests.dprelease.estimators.conftest import exact_codes, released
from tests.support.noise import SeededNoise

STANDARD_ERRORS = 5.0


def noisy_rows(
    generator: np.random.Generator,
    ones: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    sd: tuple[float, float],
    **shape: object,
) -> RegressionRows:
    """[v X Y] with noise of sd[0] on the features and sd[1] on the outcome."""
    return RegressionRows(
        ones=ones,
        x=x + sd[0] * generator.normal(size=x.shape),
        y=(y + sd[1] * generator.normal(size=y.shape))[:, None],
        x_variance=np.full(x.shape[1], sd[0] ** 2),
        y_variance=np.full(1, sd[1] ** 2),
        **{"patients": float(len(ones)), "anchor": False, "mixed": False, **shape},  # type: ignore[arg-type]
    )


FORMULAS = {"ols": least_squares, "bgm": least_squares, "dgm": debiased, "rmgm": mixed_least_squares}


def judged(rows: RegressionRows, method: str) -> tuple[Quality, np.ndarray]:
    """A fit without intercept beside the constant 0: its quality and its weights."""
    equations = rows.normal_equations(intercept=False)
    solution = FORMULAS[method](equations)
    offsets = np.zeros(1)
    squares = rows.residual_squares(solution.weights, offsets, np.zeros(1))
    spent = effective_parameters(equations, solution, rows, squares[0] / len(rows.ones))
    return estimate(rows, squares, solution.weights, spent, 0), solution.weights[:, 0]


def test_the_estimate_is_the_square_of_the_residual_less_its_noise():
    generator = np.random.default_rng(0)
    ones, x, y = np.full(7, 2.0), generator.normal(size=(7, 3)), generator.normal(size=(7, 2))
    variances = np.array([0.1, 0.2, 0.3]), np.array([0.4, 0.5])
    rows = RegressionRows(ones, x, y, *variances, patients=20.0, anchor=False, mixed=False)
    weights, offsets, constant = generator.normal(size=(3, 2)), np.array([0.3, -0.1]), np.array([0.2, 0.6])
    quality = estimate(rows, rows.residual_squares(weights, offsets, constant), weights, np.zeros(2), 0)
    for target in range(2):
        residual = y[:, target] - 2.0 * offsets[target] - x @ weights[:, target]
        noise = variances[1][target] + (weights[:, target] ** 2 * variances[0]).sum()
        assert quality.mse[target] == pytest.approx(((residual**2).sum() - 7 * noise) / 20)
        flat = y[:, target] - 2.0 * constant[target]
        assert quality.constant_mse[target] == pytest.approx(((flat**2).sum() - 7 * variances[1][target]) / 20)
    np.testing.assert_allclose(quality.gain, quality.constant_mse - quality.mse)
    np.testing.assert_allclose(quality.in_units(np.array([3.0, 5.0])).mse, quality.mse * [9, 25])


@pytest.mark.parametrize("sd", [(1.5, 1.0), (0.2, 0.3)])
@pytest.mark.parametrize("mixed", [False, True])
def test_for_a_fixed_model_the_estimate_is_unbiased_and_spreads_as_stated(mixed: bool, sd: tuple[float, float]):
    """1000 draws of the noise (and of the mixing rows). Sample means within 5 s.e. of the truth; a sample variance of
    nearly normal values with excess kurtosis 12 / r has relative sd sqrt((2 + 12 / r) / draws). The stated variances use
    plug-in signals, whose own bias is 2 / r: allowed for.
    """
    generator = np.random.default_rng(1)
    r, draws, n = 200, 1000, 1000
    private_x, private_y = generator.uniform(-1, 1, (n, 2)), generator.uniform(-1, 1, n)
    weights, offsets, constant = np.array([[0.4], [-0.3]]), np.array([0.1]), np.array([0.05])
    moments = np.column_stack([np.ones(n), private_x, private_y])
    root = np.linalg.cholesky(moments.T @ moments)
    private = moments if mixed else moments[:r]
    qualities = []
    for _ in range(draws):
        # rows of B D / sqrt(k) are nearly N(0, D^T D / k)
        mapped = generator.normal(size=(r, 4)) @ root.T / math.sqrt(r) if mixed else private
        rows = noisy_rows(
            generator, mapped[:, 0], mapped[:, 1:3], mapped[:, 3], sd, patients=float(len(private)), mixed=mixed
        )
        qualities.append(estimate(rows, rows.residual_squares(weights, offsets, constant), weights, np.zeros(1), 0))
    truth = np.mean((private[:, 3] - 0.1 - private[:, 1:3] @ weights[:, 0]) ** 2)
    constant_truth = np.mean((private[:, 3] - 0.05) ** 2)
    slack = STANDARD_ERRORS * math.sqrt((2 + 12 / r) / draws) + 2 / r
    for value, stated, true in (
        ("mse", "mse_se", truth),
        ("constant_mse", "constant_mse_se", constant_truth),
        ("gain", "gain_se", constant_truth - truth),
    ):
        found = np.array([vars(quality)[value][0] for quality in qualities])
        variance = np.mean([vars(quality)[stated][0] ** 2 for quality in qualities])
        assert abs(found.mean() - true) < STANDARD_ERRORS * found.std() / math.sqrt(draws), value
        assert abs(found.var() / variance - 1) < slack, value


@pytest.mark.parametrize(
    ("method", "mixed", "r", "d", "weight", "sd"),
    [
        ("rmgm", True, 93, 30, 0.2, 13.7),
        ("rmgm", True, 303, 100, 0.2, 13.7),
        ("ols", True, 3000, 10, 0.2, 13.7),
        ("bgm", False, 1000, 10, 0.2, 2.0),
        ("dgm", False, 1000, 3, 0.2, 0.6),
        pytest.param("dgm", False, 4000, 3, 0.2, 1.2, marks=pytest.mark.slow),
        ("dgm", False, 1000, 1, 3.0, 0.6),
    ],
)
def test_with_its_optimism_added_the_estimate_is_unbiased_for_the_fitted_model(method, mixed, r, d, weight, sd):
    """150 to 700 releases: mean of (estimate + optimism - true error) of the fitted weights within 5 s.e. of 0.

    The same difference for the weights that the method tends to, which did not see the noise, has mean 0 and most of
    the same noise in it; it is taken off, so that the standard error is small against the optimism. For ``rows``,
    where formula (3) errs on the safe side, the mean may be above by another 15 % of the optimism. Half the rows have twice the
    optimism and differences that spread sqrt(2) times as far, so that half the releases show it as clearly.
    """
    generator = np.random.default_rng(2)
    n = 100_000 if mixed else r
    w, tau, draws = np.full(d, weight), 0.4, 150 if mixed else min(r, 700)
    power = n / r / 3
    limit = w if method == "dgm" else w * power / (power + sd**2)
    differences, corrections = [], []
    for _ in range(draws):
        if mixed:
            x = generator.normal(0, math.sqrt(n / 3 / r), (r, d))
            y = x @ w + generator.normal(0, tau * math.sqrt(n / r), r)
        else:
            x = generator.uniform(-1, 1, (r, d))
            y = x @ w + generator.normal(0, tau, r)
        rows = noisy_rows(generator, np.zeros(r), x, y, (sd, sd), patients=float(n), mixed=mixed)
        quality, found = judged(rows, method)
        truth = ((found - w) ** 2).sum() / 3 + tau**2 if mixed else np.mean((y - x @ found) ** 2)
        fixed_truth = ((limit - w) ** 2).sum() / 3 + tau**2 if mixed else np.mean((y - x @ limit) ** 2)
        squares = rows.residual_squares(limit[:, None], np.zeros(1), np.zeros(1))
        fixed = estimate(rows, squares, limit[:, None], np.zeros(1), 0)
        differences.append(quality.mse[0] + quality.optimism[0] - truth - (fixed.mse[0] - fixed_truth))
        corrections.append(quality.optimism[0])
    allowed = STANDARD_ERRORS * np.std(differences, ddof=1) / math.sqrt(draws)
    assert -allowed < np.mean(differences) < allowed + (0.0 if mixed else 0.15 * np.mean(corrections))
    assert np.mean(corrections) > 2 * allowed


def test_no_signal_is_seldom_taken_for_one_even_with_a_hundred_features():
    """Two standard errors, one side: 2.3 % if the gain is normal around zero or below; 200 releases, 5 s.e."""
    generator = np.random.default_rng(3)
    r, d, n = 303, 100, 100_000
    better = 0
    for _ in range(200):
        x, y = generator.normal(0, math.sqrt(n / 3 / r), (r, d)), generator.normal(0, 0.5 * math.sqrt(n / r), r)
        quality, _ = judged(noisy_rows(generator, np.zeros(r), x, y, (13.7, 13.7), patients=n, mixed=True), "rmgm")
        better += quality.verdicts() == (BETTER,)
    assert better / 200 < 0.023 + STANDARD_ERRORS * math.sqrt(0.023 * 0.977 / 200)


@pytest.mark.parametrize(("r", "d", "weight"), [(40, 10, 0.0), (40, 10, 0.3), (100, 15, 0.1), (400, 4, 0.3)])
def test_standard_errors_are_those_of_a_fitted_model(r: int, d: int, weight: float):
    """500 releases fitted by least squares. The mean of stated variances and the variance of the errors agree to 5 s.e. of
    the latter, whose excess kurtosis is worked out from the sample, and 5 % for what (4) and (5) leave out.

    Without what comes from being fitted the stated variances of the gain are a fifth to three quarters where r < 7 d.
    """
    generator = np.random.default_rng(4)
    n, sd, tau, draws = 10_000, 3.0, 0.5, 500
    w, root = np.full(d, weight), math.sqrt(n / r)
    errors, stated = [], []
    for _ in range(draws):
        x = root * generator.normal(0, math.sqrt(1 / 3), (r, d))
        y = x @ w + root * generator.normal(0, tau, r)
        quality, found = judged(noisy_rows(generator, np.zeros(r), x, y, (sd, sd), patients=n, mixed=True), "ols")
        truth = tau**2 + ((found - w) ** 2).sum() / 3
        constant_truth = tau**2 + (w**2).sum() / 3
        errors.append((quality.mse[0] + quality.optimism[0] - truth, quality.gain[0] - constant_truth + truth))
        stated.append((quality.mse_se[0] ** 2, quality.gain_se[0] ** 2))
    centred = np.array(errors) - np.mean(errors, axis=0)
    variance = (centred**2).mean(axis=0)
    kurtosis = (centred**4).mean(axis=0) / variance**2 - 1
    allowed = 0.05 + STANDARD_ERRORS * np.sqrt(kurtosis / draws)
    assert (np.abs(np.mean(stated, axis=0) / variance - 1) < allowed).all()
    selection = for_being_fitted(np.full(1, 1.0), np.full(1, 0.0), r)
    assert [part[0] for part in selection] == pytest.approx([0, 0])


def test_the_share_explained_is_the_gain_in_the_constants_error():
    numbers = (np.array([each, 1.0]) for each in (2.0, 0.3, 1.0, 9.0, 0.8, 7.0, 0.6))
    quality = Quality(*numbers)  # the constant's corrected error is 7 + 2 + 1 = 10
    assert quality.explained[0] == pytest.approx(0.7)
    shared = (0.8**2 + 0.6**2 - 0.3**2) / 2
    variance = 0.6**2 - 2 * 0.7 * shared + (0.7 * 0.8) ** 2
    assert quality.explained_se[0] == pytest.approx(math.sqrt(variance) / 10)
    hopeless = Quality(*(np.array([each]) for each in (-2.0, np.inf, np.inf, 1.0, 0.3, -np.inf, np.inf)))
    hidden = Quality(*(np.array([each]) for each in (-2.0, 0.3, 0.0, -1.0, 0.3, 1.0, 0.3)))
    for each in (hopeless, hidden):
        assert np.isnan(each.explained).all()
        assert np.isnan(each.explained_se).all()


def test_what_the_intercept_and_the_anchor_spend():
    """The optimism shows the parameters spent on the mixing rows: d + 1 without an anchor, d with one that is fitted on."""
    cases = [
        ("mixed", "1/5", "ols", True, 2),
        ("mixed", "1/5", "ols", False, 2),
        ("mixed", "0", "ols", True, 3),
        ("mixed", "1/5", "rmgm", True, 3),
        ("mixed", "1/5", "rmgm", False, 2),
        ("rows", "0", "bgm", True, 3),
    ]
    for mechanism, weight, method, fit_intercept, spent in cases:
        release = released(
            exact_codes(40), mechanism=mechanism, anchor_weight=weight, outputs=20, noise=SeededNoise(41)
        )
        quality = fit(release, ["score"], ["age", "glucose"], method, fit_intercept).quality
        r = 20 if mechanism == "mixed" else 40
        patients = 40 * (1 - (0.2 if weight == "1/5" else 0.0))
        scaled = release.scaled()
        noise = 50**2 * scaled.noise_sd[0] ** 2
        coef = fit(release, ["score"], ["age", "glucose"], method, fit_intercept).coef[0] * [60, 14] / 50
        square = quality.mse[0] * patients + r * noise * (1 + coef @ coef)
        expected = (r * (r - 1) / ((r - spent) * (r - spent - 1)) - 1) * square / patients
        assert quality.optimism[0] == pytest.approx(expected, rel=1e-3), (mechanism, weight, method, fit_intercept)
        # the constant, too, spends one parameter where no anchor row gives the mean
        flat_square = quality.constant_mse[0] * patients + r * noise
        flat = 0.0 if weight == "1/5" else (r / (r - 2) - 1) * flat_square / patients
        assert quality.gain[0] == pytest.approx(quality.constant_mse[0] + flat - quality.mse[0] - expected, rel=1e-3)
