"""Standard errors of coefficients out of rows: the textbook's without noise, Fuller's with it, none where noise hides them."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dprelease.estimators.intervals.estimates import LIMIT
from dprelease.estimators.intervals.of_rows import learned_from_rows
from dprelease.estimators.normal_equations import RegressionRows


def rows_of(
    generator: np.random.Generator, count: int = 400, sd: float = 0.5, *, mixed: bool = False
) -> RegressionRows:
    """Three correlated features that explain two outcomes; as mixing rows, of ten patients each, behind an anchor."""
    x = generator.normal(size=(count, 3)) @ np.array([[1.0, 0.4, 0.0], [0.0, 0.8, 0.3], [0.0, 0.0, 0.6]])
    y = x @ np.array([[0.4, 0.0], [-0.2, 0.3], [0.1, 0.5]]) + 0.3 * generator.normal(size=(count, 2))
    ones = generator.normal(size=count) if mixed else np.ones(count)
    if mixed:
        weight = math.sqrt(10 * 0.8)  # rho = 0.2; the columns' means are 0.3 and -0.1
        x, y, ones = weight * (x + 0.3 * ones[:, None]), weight * (y - 0.1 * ones[:, None]), weight * ones
        anchor = math.sqrt(0.2) * 10 * count
        ones = np.append(anchor, ones)
        x, y = np.vstack([np.full(3, 0.3 * anchor), x]), np.vstack([np.full(2, -0.1 * anchor), y])
    return RegressionRows(
        ones=ones,
        x=x + sd * generator.normal(size=x.shape),
        y=y + sd * generator.normal(size=y.shape),
        x_variance=np.full(3, sd**2),
        y_variance=np.full(2, sd**2),
        patients=float(10 * count if mixed else count),
        anchor=mixed,
        mixed=mixed,
    )


@pytest.mark.parametrize("intercept", [True, False])
def test_without_noise_patients_rows_give_the_textbooks_standard_errors(intercept: bool):
    rows, origin = rows_of(np.random.default_rng(0), sd=0.0), np.array([0.5, -2.0, 1.0])
    found = learned_from_rows(rows, 400, origin, intercept=intercept)
    full = np.column_stack([np.ones(400), rows.x]) if intercept else rows.x
    expected = np.linalg.lstsq(full, rows.y, rcond=None)[0]
    sigma2 = ((rows.y - full @ expected) ** 2).sum(axis=0) / (400 - full.shape[1])
    inverse = np.linalg.inv(full.T @ full)
    point = np.append(1.0, origin) if intercept else origin
    np.testing.assert_allclose(found.weights.value, expected[-3:], rtol=1e-9)
    np.testing.assert_allclose(found.weights.variance, np.outer(np.diag(inverse)[-3:], sigma2), rtol=1e-9)
    np.testing.assert_allclose(found.offsets.value, point @ expected, rtol=1e-9)
    np.testing.assert_allclose(found.offsets.variance, point @ inverse @ point * sigma2, rtol=1e-9)
    assert found.degrees == 400 - full.shape[1]
    assert found.noise_ratio == 0
    assert found.noise_ratio < LIMIT


def test_mixing_rows_without_noise_add_the_sampling_of_their_patients():
    """Least squares on k rows is off by sigma^2 W^-1 from the patients' own, which is off by sigma^2 Cov^-1 / n."""
    rows = rows_of(np.random.default_rng(1), sd=0.0, mixed=True)
    found = learned_from_rows(rows, 4000, np.zeros(3), intercept=True)
    full = np.column_stack([rows.ones, rows.x])
    expected = np.linalg.lstsq(full, rows.y, rcond=None)[0]
    residual = ((rows.y - full @ expected) ** 2).sum(axis=0) / (401 - 4)
    gram = np.linalg.inv(np.linalg.inv(full.T @ full)[1:, 1:])  # the constant regressed out
    per_row = 4000 * 0.8 / 400
    covariance = gram / 400 / per_row
    expected_variance = np.outer(np.diag(np.linalg.inv(gram)), residual)
    expected_variance += np.outer(np.diag(np.linalg.inv(covariance)), residual / per_row) / 4000
    np.testing.assert_allclose(found.weights.value, expected[1:], rtol=1e-8)
    np.testing.assert_allclose(found.weights.variance, expected_variance, rtol=1e-8)


@pytest.mark.parametrize("mixed", [True, False])
def test_rows_of_a_patient_add_the_sampling_of_rows_that_are_alike(mixed: bool):
    """Three for each patient: three times what sampling adds, sigma^2 / n and sigma^2 Cov^-1 / n."""
    rows, patients = rows_of(np.random.default_rng(1), sd=0.0, mixed=mixed), 4000 if mixed else 400
    one, three = (learned_from_rows(rows, patients, np.zeros(3), intercept=True, repeats=q) for q in (1, 3))
    full = np.column_stack([rows.ones, rows.x])
    residual = ((rows.y - full @ np.linalg.lstsq(full, rows.y, rcond=None)[0]) ** 2).sum(axis=0) / (len(full) - 4)
    gram = np.linalg.inv(np.linalg.inv(full.T @ full)[1:, 1:])
    added = 2 * np.outer(np.diag(np.linalg.inv(gram)), residual) * (len(full) - 1) / patients
    np.testing.assert_allclose(three.weights.variance - one.weights.variance, added, rtol=1e-8)
    assert (three.offsets.variance > one.offsets.variance).all()


def test_one_feature_by_hand():
    """Formulas (1) to (3) with every matrix a number; no intercept, no mixing."""
    generator = np.random.default_rng(2)
    count, noise, outcome_noise = 300, 0.6, 0.2
    x, y = generator.normal(1.0, 1.5, count), generator.normal(0.3, 1.0, count)
    rows = RegressionRows(
        np.ones(count), x[:, None], y[:, None], np.array([noise]), np.array([outcome_noise]), count, False, False
    )
    found = learned_from_rows(rows, count, np.array([2.0]), intercept=False)
    mu = x @ x / count / noise
    factor = mu / (mu - 1)
    solved = x @ x - count * noise
    weight = x @ y / solved
    left = ((y - x @ y / (x @ x) * x) ** 2).sum() / (count - 1)
    bend = 2 * count * noise**2 / solved**2
    variance = left * x @ x / solved**2 + bend * weight**2
    assert found.weights.value[0, 0] == pytest.approx(weight)
    assert found.weights.variance[0, 0] == pytest.approx(variance)
    assert found.weights.lean[0, 0] == pytest.approx(2 * bend * weight)
    assert found.weights.bend[0, 0] == pytest.approx(bend)
    assert found.offsets.value[0] == pytest.approx(2 * weight)
    assert found.offsets.variance[0] == pytest.approx(4 * variance)
    assert found.offsets.bend[0] == pytest.approx(bend)
    assert found.noise_ratio == pytest.approx(math.sqrt((2 * factor**2 - 2) / count))


def test_the_variance_follows_what_is_tested_and_what_goes_with_it():
    """Formula (2) with whole matrices, along the errors that the other weights have in common with the tested one."""
    rows, slopes = rows_of(np.random.default_rng(9), sd=0.4), np.array([[2.0], [-1.0], [3.0]])
    rows = replace(rows, y=rows.y[:, :1] + (rows.x @ slopes), y_variance=rows.y_variance[:1])
    found = learned_from_rows(rows, 400, np.zeros(3), intercept=False).weights
    gram, outcome, noise = rows.x.T @ rows.x, rows.y[:, 0], np.diag(rows.x_variance)
    inverse = np.linalg.inv(gram - 400 * noise)
    residual = outcome - rows.x @ np.linalg.solve(gram, rows.x.T @ outcome)

    def covariance(model: np.ndarray) -> np.ndarray:
        pulled = noise @ model
        tau2 = residual @ residual / (400 - 3) + 400 * pulled @ np.linalg.solve(gram, pulled)
        return inverse @ (tau2 * gram + 400 * np.outer(pulled, pulled)) @ inverse

    fitted = found.value[:, 0]
    for place in range(3):
        path = covariance(fitted)[place] / covariance(fitted)[place, place]
        stretched = covariance(fitted)[place, place] / found.variance[place, 0]
        assert 1 <= stretched < 1.1
        for off in (-1.0, 2.0):
            parabola = found.variance[place, 0] + off * found.lean[place, 0] + off**2 * found.bend[place, 0]
            expected = covariance(fitted + off * path)[place, place]
            assert parabola * stretched == pytest.approx(expected, rel=1e-9)


def test_features_drowned_in_noise_are_unknown_and_the_worst_is_named():
    generator = np.random.default_rng(5)
    rows = rows_of(generator, sd=0.05)
    drowned = replace(rows, x=rows.x.copy(), x_variance=rows.x_variance.copy())
    drowned.x[:, 1], drowned.x_variance[1] = generator.normal(0, 3.0, 400), 9.1
    found = learned_from_rows(drowned, 400, np.zeros(3), intercept=True)
    assert found.noise_ratio > LIMIT
    assert found.dropped == (1,)
    noisier = [rows_of(generator, sd=sd) for sd in (0.1, 0.5, 1.2)]
    seen = [learned_from_rows(rows, 400, np.zeros(3), intercept=True).noise_ratio for rows in noisier]
    assert seen == sorted(seen)
    assert seen[0] < LIMIT < seen[-1]


@pytest.mark.parametrize("intercept", [True, False])
def test_where_nothing_can_be_solved_nothing_is_known(intercept: bool):
    rows = rows_of(np.random.default_rng(6), sd=0.1)
    for bad in (
        replace(rows, ones=rows.ones[:4], x=rows.x[:4], y=rows.y[:4]),
        replace(rows, x=rows.x[:, [0, 0, 1]]),
        replace(rows, x=rows.x * [1.0, 0.0, 1.0]),
    ):
        found = learned_from_rows(bad, 400, np.zeros(3), intercept=intercept)
        assert found.noise_ratio == np.inf
        assert np.isnan(found.weights.value).all()
    cancelled = replace(rows, ones=np.zeros(400))
    cancelled = learned_from_rows(cancelled, 400, np.zeros(3), intercept=intercept)
    assert (cancelled.noise_ratio < LIMIT) is not intercept


@pytest.mark.parametrize("constant", [0.3, -0.7, 1e-3])
def test_what_rounding_leaves_of_a_public_constant_is_no_signal(constant: float):
    """A public column of one value is a multiple of v, without noise: all of it goes with the constant."""
    rows = rows_of(np.random.default_rng(7), sd=0.1, mixed=True)
    x, variance = rows.x.copy(), rows.x_variance.copy()
    x[:, 1], variance[1] = constant * rows.ones, 0.0
    left = x[:, 1] - rows.ones * (rows.ones @ x[:, 1] / (rows.ones @ rows.ones))
    assert np.linalg.norm(left) > 0
    found = learned_from_rows(replace(rows, x=x, x_variance=variance), 4000, np.zeros(3), intercept=True)
    assert found.noise_ratio == np.inf
    assert found.dropped == (1,)
