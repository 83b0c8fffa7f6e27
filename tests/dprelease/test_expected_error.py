"""Formulas (1) and (2) and the signal that is left, against published figures, simulation and limits."""

import math
from itertools import product

import numpy as np
import pytest

from dprelease.data.column import EVEN_SPREAD
from dprelease.data.columns import Column
from dprelease.mechanisms.expected_error import AssumedModel, kept, moments_error, rows_error
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.sensitivity import sensitivity
from dprelease.privacy.gaussian import mu_of
from tests.support.specs import categorical, numeric

COLUMNS: tuple[Column, ...] = (
    numeric("a"),
    numeric("b"),
    categorical("sex", "female"),
    categorical("stage", "I", "II"),
    numeric("y"),
)


def even(features: int, signal: float, variance: float = EVEN_SPREAD) -> AssumedModel:
    return AssumedModel(signal, np.full(features, EVEN_SPREAD), np.zeros(features), variance, 0.0)


@pytest.mark.parametrize(
    ("variance", "signal", "epsilon", "n", "k", "published"),
    [
        (1 / 90, 1.0, 1.0, 100_000, 139, 0.168),
        (1 / 90, 1.0, 1.0, 1_000_000, 995, 0.049),
        (1 / 90, 1.0, 0.3, 10_000_000, 1091, 0.0466),
        (0.2, 0.5, 1.0, 1_000_000, 995, 0.0875),
        (0.2, 0.5, 0.3, 10_000_000, 1091, 0.0834),
        (0.2, 0.5, 0.1, 10_000_000, 186, 0.228),
    ],
)
def test_formula_1_without_its_last_sum(
    variance: float, signal: float, epsilon: float, n: int, k: int, published: float
) -> None:
    """Formula (1) of docs/methods.md in figures: ten features, two at a party, the outcome alone."""
    mu = mu_of(epsilon, 1e-5)
    assumed = even(10, signal, variance)
    error = rows_error(assumed, n, k, np.full(10, 8 / mu**2), 4 / mu**2, unknown=1)
    left_out = k / (k - 11) * k / n * (assumed.squares * (8 / mu**2) ** 2 / EVEN_SPREAD).sum() / n
    assert math.sqrt((error - left_out) / EVEN_SPREAD) == pytest.approx(published, rel=0.02)
    assert 0 < left_out < 0.1 * error


def truth(weights: np.ndarray, assumed: AssumedModel) -> np.ndarray:
    """S = E[x x^T] of (1, a, b, sex, stage=II, stage=other, y) with the weights on all but the constant and y."""
    covariance = np.diag([EVEN_SPREAD, EVEN_SPREAD, 1.0, 2 / 9, 2 / 9])
    covariance[3, 4] = covariance[4, 3] = -1 / 9
    across = covariance @ weights
    own = weights @ across + assumed.residual
    whole = np.block([[covariance, across[:, None]], [across[None], np.array([[own]])]])
    mean = np.append(assumed.mean, assumed.outcome_mean)
    return np.block([[np.ones((1, 1)), mean[None]], [mean[:, None], whole + np.outer(mean, mean)]])


ASSUMED = AssumedModel(
    0.6,
    free=np.array([EVEN_SPREAD, EVEN_SPREAD, 1.0, 1 / 6, 1 / 6]),
    mean=np.array([0.0, 0.4, 0.0, 1 / 3, 1 / 3]),
    outcome_variance=0.2,
    outcome_mean=-0.5,
)


USED = [0, 1, 2, 3, 5, 6, 7]
"""Of the coded columns 1, a, b, sex, stage=I, stage=II, stage=other, y all but the reference level."""


def own_entries(v: float) -> np.ndarray:
    """(5,) h_i of formula (2)."""
    guesses = [column.assumption(EVEN_SPREAD, signs=True) for column in COLUMNS[:-1]]
    number = 1 / v + 2 * ASSUMED.mean**2
    found = [number[0], number[1], guesses[2].own, guesses[3].own, guesses[3].own]
    return np.array(found, dtype=float)


@pytest.mark.parametrize("outcome_noise", [1.0, 3.0])
def test_formula_2_is_exact_to_first_order(outcome_noise: float) -> None:
    """Every noisy entry by itself, under every choice of the weights' signs."""
    layout = Layout(COLUMNS)
    v = float(sensitivity(layout.variables).diagonal_weight)
    unit = np.where(layout.diagonal, 1 / math.sqrt(v), 1.0)
    unit[layout.cols == USED[-1]] = outcome_noise
    moves = [layout.matrix(unit * row, 0.0)[np.ix_(USED, USED)] for row in np.eye(layout.entries)]
    variances = []
    for signs in product((-1, 1), repeat=5):
        weights = np.array(signs) * np.sqrt(ASSUMED.squares)
        u = np.array([-(ASSUMED.outcome_mean - ASSUMED.mean @ weights), *-weights, 1.0])
        off = np.array([move @ u for move in moves])[:, :-1]
        variances.append(((off[:, 1:] - ASSUMED.mean * off[:, :1]) ** 2).sum(axis=0))
    expected = (np.mean(variances, axis=0) / ASSUMED.free).sum()
    assert moments_error(ASSUMED, 1.0, own_entries(v), outcome_noise) == pytest.approx(expected, rel=1e-12)


def test_formula_1_is_the_error_of_debiased_least_squares_for_features_that_differ() -> None:
    random = np.random.default_rng(8)
    patients, k, noise, outcome_noise = 100_000, 1000, np.array([9.0, 4.0, 16.0, 3.0, 3.0]), 4.0
    errors = []
    for _ in range(300):
        weights = random.choice([-1, 1], 5) * np.sqrt(ASSUMED.squares)
        whole = truth(weights, ASSUMED)
        mean = whole[0, 1:]
        root = np.linalg.cholesky(whole[1:, 1:] - np.outer(mean, mean))
        rows = math.sqrt(patients / k) * random.normal(size=(k, 6)) @ root.T
        rows += random.normal(size=(k, 6)) * np.sqrt(np.append(noise, outcome_noise))
        xx = rows[:, :-1].T @ rows[:, :-1] - k * np.diag(noise)
        found = np.linalg.solve(xx, rows[:, :-1].T @ rows[:, -1])
        covariance = whole[1:-1, 1:-1] - np.outer(mean[:-1], mean[:-1])
        errors.append((found - weights) @ covariance @ (found - weights))
    predicted = rows_error(ASSUMED, patients, k, noise, outcome_noise, unknown=1)
    assert 0.005 * ASSUMED.explained < predicted < 0.1 * ASSUMED.explained
    assert np.mean(errors) == pytest.approx(predicted, rel=0.12)  # standard error 4 %


def test_formula_1_is_the_error_of_a_regression_on_guessed_signals_for_features_of_a_known_shape() -> None:
    random = np.random.default_rng(10)
    assumed = AssumedModel(0.9, np.array([0.1, 0.2, 0.3, 0.4]), np.zeros(4), 0.3, 0.0)
    patients, k, noise, outcome_noise = 20_000, 500, np.array([4.0, 5.0, 6.0, 3.0]), 0.5
    visible = patients / k * assumed.free
    errors = []
    for _ in range(400):
        weights = random.choice([-1, 1], 4) * np.sqrt(assumed.squares)
        signals = random.normal(size=(k, 4)) * np.sqrt(visible)
        outcome = signals @ weights + random.normal(size=k) * math.sqrt(assumed.residual * patients / k + outcome_noise)
        guessed = (signals + random.normal(size=(k, 4)) * np.sqrt(noise)) * visible / (visible + noise)
        errors.append(assumed.free @ (np.linalg.lstsq(guessed, outcome)[0] - weights) ** 2)
    known = rows_error(assumed, patients, k, noise, outcome_noise, unknown=0)
    assert np.mean(errors) == pytest.approx(known, rel=0.12)  # standard error 4 %
    unknown = rows_error(assumed, patients, k, noise, outcome_noise, unknown=1)
    assert unknown > 1.3 * known
    assert rows_error(assumed, patients, k, noise, outcome_noise) == pytest.approx((known + unknown) / 2)


def test_what_is_kept_is_the_risk_of_the_averaged_ridge() -> None:
    """The integral against draws of the same estimator, written out once more."""
    random, features, signal, error = np.random.default_rng(9), 5, 0.08, 0.03
    theta = np.zeros(features)
    theta[2] = math.sqrt(signal)
    seen = theta + math.sqrt(error / features) * random.normal(size=(20_000, features))
    strengths = np.geomspace(1e-4, 1 / 3, 25) / features
    spread = strengths + error / features
    likelihood = -0.5 * (features * np.log(spread) + (seen**2).sum(axis=1)[:, None] / spread)
    belief = np.exp(likelihood)
    belief /= belief.sum(axis=1)[:, None]
    risk = (((belief @ (strengths / spread))[:, None] * seen - theta) ** 2).sum(axis=1)
    found = 1 - risk / signal
    assert kept(signal, error, features) == pytest.approx(found.mean(), abs=0.01)
    assert found.std() / math.sqrt(len(found)) < 0.003
