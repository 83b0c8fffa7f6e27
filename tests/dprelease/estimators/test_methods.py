"""What the methods do to noise: the paper's claims, by simulation with derived standard errors."""

import itertools
import math

import numpy as np
import pytest

from dprelease.errors import InvalidInput
from dprelease.estimators import fit
from dprelease.estimators.baselines.plain import RIDGE, debiased, least_squares, mixed_least_squares
from dprelease.estimators.normal_equations import NormalEquations, RegressionRows
from tests.dprelease.estimators.conftest import UNIT, exact_codes, released
from tests.support.noise import SeededNoise
from tests.support.specs import numeric

STANDARD_ERRORS = 5.0


# The paper's synthetic experiment in the layout of its section 5.2, without building n rows.

D = 10
CLASSIC_SIGMA = math.sqrt(2 * math.log(1.25 / 1e-5))  # of (1, 1e-5) and unit sensitivity: 4.845
PAPER_SD = 2 * math.sqrt(2) * CLASSIC_SIGMA  # d_max = 2 attributes in [-1, 1]


def paper_weights(generator: np.random.Generator) -> np.ndarray:
    return generator.uniform(-1 / D, 1 / D, (D, 1))


def rmgm_error(generator: np.random.Generator, n: int) -> float:
    """|w_hat - w*| of one release: rows of B D / sqrt(k) are nearly N(0, D^T D / k), with D^T D = n I / 3 in x."""
    k = round(math.sqrt(n) / CLASSIC_SIGMA)
    w = paper_weights(generator)
    x = generator.normal(0, math.sqrt(n / 3 / k), (k, D))
    p = x + generator.normal(0, PAPER_SD, x.shape)
    y = x @ w + generator.normal(0, PAPER_SD, (k, 1))
    equations = NormalEquations(p.T @ p / n, p.T @ y / n, np.full(D, k * PAPER_SD**2 / n))
    return float(np.linalg.norm(mixed_least_squares(equations).weights - w))


def rows_moments(generator: np.random.Generator, n: int, w: np.ndarray) -> NormalEquations:
    """Normal equations of n noisy rows, drawn exactly from D^T D = n [I w; w^T w^T w] / 3 alone.

    With D = Q R, Q^T N is (d, p) Gaussian and the rest of N^T N is Wishart on n - d degrees, here by Bartlett.
    """
    p = D + 1
    root = math.sqrt(n / 3) * np.hstack([np.eye(D), w])
    inside = PAPER_SD * generator.normal(size=(D, p))
    mixed = root.T @ inside
    bartlett = np.tril(generator.normal(size=(p, p)), -1)
    bartlett[np.diag_indices(p)] = np.sqrt(generator.chisquare(n - D - np.arange(p)))
    gram = root.T @ root + mixed + mixed.T + inside.T @ inside + PAPER_SD**2 * bartlett @ bartlett.T
    return NormalEquations(gram[:D, :D] / n, gram[:D, D:] / n, np.full(D, PAPER_SD**2))


def test_rmgm_at_the_papers_noise_has_its_published_error():
    """S0, eps = 1: mean errors .400, .225, .0747 of rmgm and .180 of the zero vector; each known to about 3 %."""
    generator = np.random.default_rng(20260101)
    means = []
    for n, published in ((30_000, 0.400), (100_000, 0.225), (1_000_000, 0.0747)):
        errors = np.array([rmgm_error(generator, n) for _ in range(200)])
        standard_error = errors.std(ddof=1) / math.sqrt(200)
        assert abs(errors.mean() - published) < STANDARD_ERRORS * math.hypot(standard_error, 0.03 * published)
        means.append((errors.mean(), standard_error))
    zero = np.array([np.linalg.norm(paper_weights(generator)) for _ in range(200)])
    tolerance = STANDARD_ERRORS * math.hypot(zero.std(ddof=1) / math.sqrt(200), 0.03 * 0.180)
    assert abs(zero.mean() - 0.180) < tolerance
    for (larger, wide), (smaller, narrow) in itertools.pairwise(means):
        assert larger - smaller > STANDARD_ERRORS * math.hypot(wide, narrow)


def test_bgm_is_the_zero_vector_and_dgm_is_unstable_at_the_papers_noise():
    """S0, eps = 1, n = 1e5: bgm's mean error is the zero vector's, dgm's median is 3.3 and its Hessian often indefinite."""
    generator = np.random.default_rng(20260102)
    draws, n = 400, 100_000
    bgm, dgm, zero, indefinite = [], [], [], 0
    for _ in range(draws):
        w = paper_weights(generator)
        equations = rows_moments(generator, n, w)
        found = debiased(equations)
        indefinite += found.indefinite
        dgm.append(np.linalg.norm(found.weights - w))
        bgm.append(np.linalg.norm(least_squares(equations).weights - w))
        zero.append(np.linalg.norm(w))
    assert np.mean(bgm) == pytest.approx(np.mean(zero), rel=0.01)
    # Ranks around the median are binomial: sd sqrt(draws) / 2. The published median has as many draws behind it.
    reach = round(STANDARD_ERRORS * math.sqrt(2) * math.sqrt(draws) / 2)
    ordered = np.sort(dgm)
    assert ordered[draws // 2 - reach] < 3.3 < ordered[draws // 2 + reach]
    assert indefinite > draws / 2


# Whole releases.

W = np.array([0.5, -0.25])


def orthogonal_release(rows: int, noise_sd: float, seed: int):
    """x1, x2 in {-1/2, 1/2} in every combination, so D^T D = n I / 4; y = w . x exactly."""
    x = np.tile(np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]]) * (UNIT // 2), (rows // 4, 1))
    codes = {"north": x, "south": np.rint(x @ W)[:, None]}
    parties = {"north": (numeric("x1"), numeric("x2")), "south": (numeric("y"),)}
    return released(codes, parties, mechanism="rows", noise=SeededNoise(seed), noise_sd=noise_sd)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_bgm_shrinks_as_predicted_where_dgm_is_unbiased(fit_intercept: bool):
    """bgm tends to lambda / (lambda + s^2) w, dgm to w.

    To first order in the noise, with Sigma = (lambda + s^2) I the noisy Gram, u = (1, -w) the limit's residual, q its
    noise variance and m its mean square on the private rows, the errors of X^T e / n have covariance

        C = [ (lambda + s^2) q I + s^2 m I + s^4 w w^T ] / n

    and weights move by H^-1 times them. Second-order bias, about w Var(H_ii) / lambda^2 = .0008, is below half a standard
    error.
    """
    rows, variance, power, draws = 6000, 0.36, 0.25, 80
    releases = [orthogonal_release(rows, math.sqrt(variance), seed) for seed in range(draws)]
    shrink = power / (power + variance)
    for method, limit, hessian in (("bgm", shrink * W, power + variance), ("dgm", W, power)):
        found = np.array([fit(release, ["y"], None, method, fit_intercept).coef[0] for release in releases])
        q = variance * (1 + limit @ limit)
        m = power * ((W - limit) ** 2).sum()
        entry = ((power + variance) * q + variance * m + variance**2 * limit**2) / (rows * hessian**2)
        assert (np.abs(found.mean(axis=0) - limit) < STANDARD_ERRORS * np.sqrt(entry / draws)).all(), method
        # and the spread is the derived one: a sample variance of `draws` normals has relative sd sqrt(2 / (draws - 1))
        spread = found.var(axis=0, ddof=1) / entry
        assert (np.abs(spread - 1) < STANDARD_ERRORS * math.sqrt(2 / (draws - 1))).all(), method


def test_each_column_is_debiased_by_its_own_noise():
    """Two parties under a per-party target: one column's noise is sqrt(5) times the other's, both coefficients survive."""
    rows, draws = 4000, 30
    generator = np.random.default_rng(8)
    x = generator.choice([-UNIT, UNIT], (rows, 2))
    y = np.rint(x @ [0.25, 0.5])
    parties = {
        "north": (numeric("a"), *(numeric(f"pad{i}") for i in range(4))),
        "south": (numeric("b"),),
        "west": (numeric("y"),),
    }
    padding = np.zeros((rows, 4), int)
    codes = {"north": np.column_stack([x[:, 0], padding]), "south": x[:, 1:], "west": y[:, None]}
    found, sds = [], ()
    for seed in range(draws):
        release = released(codes, parties, mechanism="rows", noise=SeededNoise(seed), noise_sd=1.0, scope="per-party")
        found.append(fit(release, ["y"], ["a", "b"], "dgm").coef[0])
        sds = release.scaled().noise_sd[[0, 5, 6]]
    s2 = np.asarray(sds) ** 2
    assert s2[0] == pytest.approx(5 * s2[1], rel=1e-3)
    limit = np.array([0.25, 0.5])
    q = s2[2] + (limit**2 * s2[:2]).sum()
    entry = ((1 + s2[:2]) * q + (s2[:2] * limit) ** 2) / rows  # H = I up to sampling of x
    assert (np.abs(np.mean(found, axis=0) - limit) < STANDARD_ERRORS * np.sqrt(entry / draws)).all()


def test_rmgm_is_algorithm_2_on_the_mixing_rows_with_the_anchor_left_out():
    """By hand from the released integers: B D / sqrt(k) + R / sqrt(1 - rho), then (X^T X / n + lambda I)^-1 X^T Y / n."""
    release = released(exact_codes(500), outputs=50, noise=SeededNoise(11), noise_sd=0.5, anchor_weight="1/4")
    grid = float(UNIT)
    rows = np.hstack([release.blocks[party][0].values for party in ("north", "south")])[1:] / grid / math.sqrt(50)
    x, y = rows[:, [0, 2, 4]], rows[:, [5]]
    expected = np.linalg.solve(x.T @ x / 500 + RIDGE * np.eye(3), x.T @ y / 500)[:, 0]
    result = fit(release, ["score"], ["age", "sex=male", "glucose"], "rmgm")
    np.testing.assert_allclose(result.coef[0] * [60, 1, 14] / 50, expected, rtol=1e-9)
    assert result.diagnostics.smallest_eigenvalue == pytest.approx(
        np.linalg.eigvalsh(x.T @ x / 500 + RIDGE * np.eye(3))[0], rel=1e-9
    )


def test_the_intercept_takes_its_degree_of_freedom_from_the_noise():
    """E[X^T X / n] after v is regressed out is the centred signal plus exactly what `noise` says: 5 s.e. over 400 draws."""
    generator = np.random.default_rng(12)
    r, draws, sd = 6, 400, 2.0
    signal = generator.normal(size=(r, 2))
    ones = generator.normal(size=r)
    centred = signal - np.outer(ones, ones @ signal / (ones @ ones))
    diagonals, expected = [], np.zeros(2)
    for _ in range(draws):
        x = signal + sd * generator.normal(size=signal.shape)
        rows = RegressionRows(ones, x, x[:, :1], np.full(2, sd**2), np.full(1, sd**2), 10.0, anchor=False, mixed=False)
        equations = rows.normal_equations(intercept=True)
        diagonals.append(np.diag(equations.xx))
        expected = (centred**2).sum(axis=0) / 10 + equations.noise
    # |m + z|^2 with r - 1 free entries of z: variance 2 (r-1) s^4 + 4 s^2 |m|^2
    variance = (2 * (r - 1) * sd**4 + 4 * sd**2 * (centred**2).sum(axis=0)) / 100
    assert (np.abs(np.mean(diagonals, axis=0) - expected) < STANDARD_ERRORS * np.sqrt(variance / draws)).all()


def test_an_intercept_needs_a_constant_column_that_is_not_zero():
    rows = RegressionRows(
        np.zeros(2), np.ones((2, 1)), np.ones((2, 1)), np.ones(1), np.ones(1), 4.0, anchor=False, mixed=True
    )
    with pytest.raises(InvalidInput, match="without an intercept"):
        rows.normal_equations(intercept=True)
