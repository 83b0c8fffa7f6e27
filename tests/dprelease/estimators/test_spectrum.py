"""The calibrated regression in its own coordinates."""

from dataclasses import replace

import numpy as np
import pytest

from dprelease.errors import InvalidInput
from dprelease.estimators.normal_equations import RegressionRows
from dprelease.estimators.rows.calibrated import Spectrum, _reliability


def draw(seed: int, count: int, sd: np.ndarray, *, anchor: bool = False, outcomes: int = 2) -> RegressionRows:
    """Correlated features of size about one under noise of the given deviations."""
    random = np.random.default_rng(seed)
    d = len(sd)
    x = random.normal(size=(count, d)) @ random.normal(size=(d, d)) + 0.5
    y = x @ random.normal(size=(d, outcomes)) + random.normal(size=(count, outcomes))
    ones = random.normal(size=count)
    if anchor:
        ones[0] = 1000.0
    return RegressionRows(
        ones=ones,
        x=x + sd * random.normal(size=x.shape),
        y=y,
        x_variance=sd**2,
        y_variance=np.full(outcomes, 0.5),
        patients=float(7 * count),
        anchor=anchor,
        mixed=True,
    )


def centred(rows: RegressionRows, intercept: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """X, Y and k after regressing out the constant column."""
    if not intercept:
        return rows.x, rows.y, len(rows.ones)
    v = rows.ones[:, None]
    hat = np.eye(len(rows.ones)) - v @ v.T / (v.T @ v)
    return hat @ rows.x, hat @ rows.y, len(rows.ones) - 1


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("sd", [[0.01, 0.02, 0.03, 0.02], [0.0, 0.02, 0.0, 0.01], [0.0, 0.0, 0.0, 0.0]])
def test_with_clear_signals_it_is_the_regression_calibration(sd: list[float], intercept: bool):
    """U diag(roots) vectors^T = X L with L = I - k A^-1 S, from the formula; U^T U = I; scores and rest add up to Y^T Y."""
    rows = draw(0, 60, np.array(sd), anchor=intercept)
    x, y, degrees = centred(rows, intercept)
    spectrum = Spectrum.of(rows, intercept=intercept)
    assert spectrum.degrees == degrees
    gram = x.T @ x
    calibration = np.eye(4) - degrees * np.linalg.solve(gram, np.diag(rows.x_variance))
    basis = x @ spectrum.left.T
    np.testing.assert_allclose(basis.T @ basis, np.eye(4), atol=1e-10)
    np.testing.assert_allclose(
        (basis * spectrum.roots) @ spectrum.vectors.T, x @ calibration, atol=1e-9 * np.abs(x).max()
    )
    np.testing.assert_allclose(spectrum.scores, basis.T @ y, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose((spectrum.scores**2).sum(axis=0) + spectrum.rest, (y**2).sum(axis=0))
    np.testing.assert_allclose(spectrum.vectors.T @ spectrum.vectors, np.eye(4), atol=1e-12)


def test_spent_parameters_are_those_of_the_weights_as_a_function_of_the_outcomes():
    """tr(J A) + g^T J g / (k tau^2) with J from the weights of unit outcomes: rows whose X^T y is a unit vector."""
    rows = draw(7, 80, np.full(3, 0.9))
    spectrum = Spectrum.of(rows, intercept=False)
    shrink = np.array([[0.9, 0.2], [0.5, 0.4], [0.3, 1.0]])[: len(spectrum.roots)]
    weights, variance = spectrum.weights(shrink), np.array([2.0, 5.0])
    found = spectrum.spent(shrink, weights, variance)
    gram = rows.x.T @ rows.x
    unit = replace(rows, y=rows.x @ np.linalg.inv(gram), y_variance=np.ones(3))
    of_units = Spectrum.of(unit, intercept=False)
    for target in range(2):
        jacobian = of_units.weights(np.repeat(shrink[:, [target]], 3, axis=1))
        np.testing.assert_allclose(jacobian @ (rows.x.T @ rows.y[:, target]), weights[:, target], rtol=1e-8)
        gradient = rows.x.T @ (rows.y[:, target] - rows.x @ weights[:, target])
        expected = np.trace(jacobian @ gram) + gradient @ jacobian @ gradient / (80 * variance[target])
        assert found[target] == pytest.approx(expected, rel=1e-8)
    np.testing.assert_allclose(spectrum.spent(np.zeros_like(shrink), weights, variance), 0)


def test_reliability_lies_between_none_and_all_and_knows_strong_signals():
    inverse_mu = np.array([0.0, 1e-9, 1e-3, 0.5, 0.8, 1.3, 5.0])
    found = _reliability(inverse_mu, 10**9)
    assert (found >= 0).all()
    assert (found <= 1).all()
    # Many rows: nothing is drawn together.
    np.testing.assert_allclose(found, np.maximum(1 - inverse_mu, 0), atol=1e-6)
    # Few rows: strong signals keep theirs all the same.
    few = _reliability(inverse_mu, 30)
    np.testing.assert_allclose(few[:2], [1, 1], atol=1e-7)
    assert few[2] > 1 - 1.1e-3
    assert (np.diff(few) <= 0).all()


def test_equal_signals_are_told_from_the_scatter_of_few_rows():
    """100 draws of 10 features with signal equal to the noise on 40 rows: after drawing together, reliabilities are near
    the true 1/2, where the plain ones scatter over [0, 0.75]."""
    random = np.random.default_rng(2)
    plain, drawn = [], []
    for _ in range(100):
        x = np.sqrt(2) * random.normal(size=(40, 10))
        inverse_mu = 1 / np.linalg.eigvalsh(x.T @ x / 40)
        plain.append(np.mean((np.maximum(1 - inverse_mu, 0) - 0.5) ** 2))
        drawn.append(np.mean((_reliability(inverse_mu, 40) - 0.5) ** 2))
    assert np.mean(drawn) < 0.1 * np.mean(plain)


def test_the_features_variance_is_estimated_from_the_diagonal():
    """2000 rows of n / k = 7 patients each: the mean of two variances 0.09 and 0.25 under noise of 1 and 4."""
    random = np.random.default_rng(4)
    scale = np.sqrt(7) * np.array([0.3, 0.5])
    x = scale * random.normal(size=(2000, 2)) + np.array([1.0, 2.0]) * random.normal(size=(2000, 2))
    rows = RegressionRows(np.ones(2000), x, x[:, :1], np.array([1.0, 4.0]), np.ones(1), 14000.0, False, True)
    spectrum = Spectrum.of(rows, intercept=True)
    assert abs(spectrum.feature_variance - 0.17) < 4 * spectrum.feature_variance_se
    assert spectrum.feature_variance_se == pytest.approx(
        np.sqrt(2 / 1999) * np.hypot(0.09 + 1 / 7, 0.25 + 4 / 7) / 2, rel=0.2
    )


@pytest.mark.parametrize("case", ["repeated", "few rows", "empty"])
def test_a_singular_gram_matrix_is_refused(case: str):
    rows = draw(5, 3 if case == "few rows" else 40, np.full(4, 0.1))
    x = rows.x.copy()
    if case == "repeated":
        x[:, 1] = x[:, 0]
    elif case == "empty":
        x[:, 1] = 0
    with pytest.raises(InvalidInput, match=r"Gram matrix of 4 features over \d+ released rows is singular"):
        Spectrum.of(
            RegressionRows(rows.ones, x, rows.y, rows.x_variance, rows.y_variance, rows.patients, False, True),
            intercept=True,
        )
