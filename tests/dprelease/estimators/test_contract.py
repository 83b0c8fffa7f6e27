"""What every method promises, whatever it computes."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dprelease.canonical import canonical_bytes
from dprelease.document.document import VERSION
from dprelease.estimators import FitResult, fit
from dprelease.estimators.baselines.plain import RIDGE
from dprelease.estimators.quality import BETTER, INDISTINCT
from dprelease.release.release import Release
from tests.dprelease.estimators.conftest import (
    CASES,
    DOSE_WEIGHTS,
    FEATURES,
    SCORE_OFFSET,
    SCORE_WEIGHTS,
    every_case,
    every_least_squares,
    places,
    with_and_without_intercept,
)


def scaled_model(result: FitResult) -> tuple[np.ndarray, np.ndarray]:
    """Predictions at the midpoints and the change for one half-width of each feature, in half-widths of the target."""
    half = {"age": 60.0, "glucose": 14.0, "score": 50.0, "dose": 4.0}
    middle = {"age": 60.0, "glucose": 16.0, "score": 50.0, "dose": -1.0}
    y_half = np.array([half.get(name, 1.0) for name in result.targets])
    y_middle = np.array([middle.get(name, 0.0) for name in result.targets])
    origin = np.array([[middle.get(name, 0.0) for name in result.features]])
    step = np.diag([half.get(name, 1.0) for name in result.features])
    offsets = (result.predict(origin)[0] - y_middle) / y_half
    return (result.predict(origin + step) - result.predict(origin)) / y_half, offsets


@every_case
def test_names_shapes_and_privacy_statement(noisy: Release, method: str):
    result = fit(noisy, ["score", "sex"], ["glucose", "age"], method)
    assert result.method == method
    assert result.targets == ("score", "sex=female", "sex=male", "sex=other")
    assert result.features == ("glucose", "age")
    assert result.coef.shape == (4, 2)
    for value in (result.intercept, result.constant, result.constant_noise_sd, *vars(result.quality).values()):
        assert value.shape == (4,)
    assert len(result.verdicts) == 4
    assert result.predict(np.zeros((7, 2))).shape == (7, 4)
    assert result.promise == noisy.promise
    assert result.release == noisy.digest


@every_case
@with_and_without_intercept
def test_a_result_is_plain_data_with_a_version_and_the_same_every_time(
    noisy: Release, method: str, fit_intercept: bool
):
    first, second = (fit(noisy, ["score"], None, method, fit_intercept).document().to_json() for _ in range(2))
    assert canonical_bytes(first) == canonical_bytes(second)
    assert json.loads(json.dumps(first)) == first
    assert first["version"] == VERSION
    assert first["fit_intercept"] is fit_intercept
    assert first["guarantee"] == list(noisy.guarantee)
    assert first["fit"][0]["verdict"]


@every_least_squares
@pytest.mark.parametrize(
    ("target", "known", "offset"), [("dose", DOSE_WEIGHTS, None), ("score", SCORE_WEIGHTS, SCORE_OFFSET)]
)
def test_without_noise_known_coefficients_come_back(
    exact: Release, method: str, target: str, known: np.ndarray, offset: float | None
):
    """Exact labels are linear in the features after any public linear map. For dgm and calibrated see their own tests."""
    result = fit(exact, [target], FEATURES, method, fit_intercept=None if offset is None else True)
    weights, offsets = scaled_model(result)
    # The ridge moves weights by lambda |H^-1 w| <= lambda |w| / (smallest eigenvalue); the rest is rounding.
    allowed = RIDGE * np.linalg.norm(known) / result.diagnostics.smallest_eigenvalue if method == "rmgm" else 0.0
    assert np.linalg.norm(weights[:, 0] - known) <= allowed + 1e-11
    # One mixing row more or less in v moves the offset by at most |v^T X / v^T v| <= 2 times the weights' error here.
    moved = 0.0 if offset is None else 4 * allowed
    np.testing.assert_allclose(offsets, offset or 0.0, atol=moved + 1e-11)


@pytest.mark.parametrize(("method", "mechanism"), [case for case in CASES if case[0] != "calibrated"])
@with_and_without_intercept
def test_predictions_are_the_scaled_model_in_original_units(noisy: Release, method: str, fit_intercept: bool):
    """Least squares on the scaled rows, written out by another route, and mapped to original units by hand."""
    scaled = noisy.scaled()
    x = scaled.values[:, places(scaled, "age", "glucose")]
    y = scaled.values[:, places(scaled, "score")]
    ones = scaled.ones[:, None]
    if method == "rmgm":
        x, y, ones = x[1:], y[1:], ones[1:]
    mixing_weight = 1 - (scaled.ones[0] / scaled.rows) ** 2 if method == "rmgm" else 1.0
    full = np.hstack([ones, x]) if fit_intercept else x
    penalty = np.array([0.0] * fit_intercept + [1.0, 1.0])
    gram = full.T @ full
    if method == "dgm":
        degrees = len(x) - fit_intercept
        gram -= np.diag(penalty * degrees * scaled.noise_sd[0] ** 2)
    if method in ("dgm", "rmgm"):
        gram += np.diag(penalty * RIDGE * scaled.rows * mixing_weight)
    model = np.linalg.solve(gram, full.T @ y)[:, 0]
    offset, weights = (model[0], model[1:]) if fit_intercept else (0.0, model)

    ages, glucose = np.array([30.0, 60.0, 90.0]), np.array([4.0, 20.0, 29.0])
    expected = 50 + 50 * (offset + weights[0] * (ages - 60) / 60 + weights[1] * (glucose - 16) / 14)
    result = fit(noisy, ["score"], ["age", "glucose"], method, fit_intercept)
    np.testing.assert_allclose(result.predict(np.column_stack([ages, glucose]))[:, 0], expected, rtol=1e-9)


@every_case
@with_and_without_intercept
def test_targets_together_are_targets_one_by_one(noisy: Release, method: str, fit_intercept: bool):
    targets = ["score", "dose", "sex=male"]
    together = fit(noisy, targets, ["age", "glucose"], method, fit_intercept)
    for index, target in enumerate(targets):
        alone = fit(noisy, [target], ["age", "glucose"], method, fit_intercept)
        np.testing.assert_allclose(together.coef[index], alone.coef[0], rtol=1e-10)
        np.testing.assert_allclose(together.intercept[index], alone.intercept[0], rtol=1e-10)
        for name, value in vars(together.quality).items():
            np.testing.assert_allclose(value[index], vars(alone.quality)[name][0], rtol=1e-8)


def test_nothing_is_better_that_uses_features_of_which_nothing_is_known(exact_mixed: Release):
    result = fit(exact_mixed, ["score", "dose"], FEATURES, "ols")
    assert result.verdicts == (BETTER, BETTER)
    blind = replace(result.inference, noise_to_signal=np.inf, unidentified=("sex=male",))
    coef = np.array([[0.5, 0.0, 1.0], [0.5, 2.0, 1.0]])
    guarded = replace(result, view="moments", coef=coef, infer=lambda: blind)
    assert guarded.verdicts == (BETTER, INDISTINCT)


def test_predictions_stay_within_a_width_of_the_range(exact_mixed: Release):
    result = fit(exact_mixed, ["score"], FEATURES, "ols")  # declared 0 to 100
    far = np.array([[1e6, 0.0, 0.0], [-1e6, 0.0, 0.0]])
    np.testing.assert_allclose(result.predict(far)[:, 0], [200.0, -100.0])
    np.testing.assert_allclose(result.predict(far, clip=True)[:, 0], [100.0, 0.0])
