"""The classes in the manner of scikit-learn, and what the package exports."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import dprelease.estimators as public
from dprelease.errors import InvalidInput
from dprelease.estimators import METHODS, LinearRegression, fit
from dprelease.estimators.regressors import NotFittedError
from dprelease.release.release import Release
from tests.dprelease.estimators.conftest import (
    MECHANISMS,
    every_case,
    with_and_without_intercept,
)

ON_MOMENTS = {"shrinkage", "primo", "constrained", "posterior", "spectral", "projected", "public_features"}


@every_case
@with_and_without_intercept
def test_the_class_gives_what_the_function_gives(noisy: Release, method: str, fit_intercept: bool):
    made = LinearRegression(method, fit_intercept=fit_intercept)
    assert made.fit(noisy, ["score", "dose"], ["age", "glucose"]) is made
    result = fit(noisy, ["score", "dose"], ["age", "glucose"], method, fit_intercept)
    np.testing.assert_array_equal(made.coef_, result.coef)
    np.testing.assert_array_equal(made.intercept_, result.intercept)
    assert tuple(made.feature_names_in_) == result.features
    assert made.n_features_in_ == 2
    assert made.result_.document().to_json() == result.document().to_json()
    rows = np.array([[40.0, 5.0], [1e5, 5.0]])
    np.testing.assert_array_equal(made.predict(rows), result.predict(rows))
    np.testing.assert_array_equal(made.predict(rows, clip=True), result.predict(rows, clip=True))


@pytest.mark.parametrize("method", METHODS)
def test_parameters_stay_as_given_and_default_as_published(method: str):
    made = LinearRegression(method)
    assert (method in {"calibrated", "ols", *ON_MOMENTS}) is METHODS[method].intercept
    assert made.get_params() == {"method": method, "fit_intercept": None, "within": None}
    assert LinearRegression(**LinearRegression(method, fit_intercept=True).get_params()).fit_intercept is True
    assert (repr(made), repr(LinearRegression())) == (f"LinearRegression(method={method!r})", "LinearRegression()")
    with pytest.raises(NotFittedError, match="call fit first") as refused:
        made.predict(np.zeros((1, 1)))
    assert all(isinstance(refused.value, each) for each in (InvalidInput, ValueError, AttributeError))


def test_a_target_as_text_is_one_number_a_row(noisy_mixed: Release):
    one, listed = (LinearRegression().fit(noisy_mixed, targets, ["age", "dose"]) for targets in ("score", ["score"]))
    rows = np.array([[40.0, 5.0], [50.0, 6.0], [60.0, 4.0]])
    assert (one.coef_.shape, np.ndim(one.intercept_), one.predict(rows).shape) == ((2,), 0, (3,))
    np.testing.assert_array_equal(one.coef_, listed.coef_[0])
    np.testing.assert_array_equal(one.predict(rows), listed.predict(rows)[:, 0])
    assert one.score(rows, [1.0, 2.0, 4.0]) == listed.score(rows, [1.0, 2.0, 4.0])


def test_it_tells_scikit_learn_that_it_is_a_regressor(monkeypatch: pytest.MonkeyPatch):
    """Its own checks are run by hand: the package is no dependency, and its room is asked only by itself."""
    answers = SimpleNamespace(Tags=SimpleNamespace, TargetTags=SimpleNamespace, RegressorTags=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "sklearn", SimpleNamespace(utils=answers))
    monkeypatch.setitem(sys.modules, "sklearn.utils", answers)
    tags = LinearRegression().__sklearn_tags__()
    assert (tags.estimator_type, tags.target_tags.required) == ("regressor", False)


def test_parameters_can_be_set_and_wrong_ones_are_refused(noisy_mixed: Release):
    made = LinearRegression("calibrated")
    assert made.set_params(fit_intercept=False) is made
    assert made.set_params().get_params() == {"method": "calibrated", "fit_intercept": False, "within": None}
    made.fit(noisy_mixed, ["score"], ["age"])
    assert made.result_.fit_intercept is False
    with pytest.raises(InvalidInput, match="no parameter alpha, ridge; it has method, fit_intercept, within"):
        made.set_params(ridge=1.0, alpha=2, fit_intercept=True)
    assert made.fit_intercept is False


def test_a_score_is_r_squared_on_the_callers_rows_in_their_units(noisy_mixed: Release):
    made = LinearRegression("calibrated").fit(noisy_mixed, ["score", "dose"], ["age", "glucose"])
    generator = np.random.default_rng(3)
    rows = np.column_stack([generator.uniform(0, 120, 50), generator.uniform(2, 30, 50)])
    true = made.predict(rows) + generator.normal(size=(50, 2)) * [5.0, 0.5]
    each = [
        1 - np.mean((true[:, place] - made.predict(rows)[:, place]) ** 2) / np.var(true[:, place]) for place in (0, 1)
    ]
    np.testing.assert_allclose(made.score(rows, true, multioutput="raw_values"), each, rtol=1e-12)
    assert made.score(rows, true) == pytest.approx(np.mean(each), rel=1e-12)
    assert max(each) < 1 - 1e-3
    single = LinearRegression("calibrated").fit(noisy_mixed, ["score"], ["age", "glucose"])
    assert single.score(rows, true[:, 0]) == single.score(rows, true[:, :1]) < 1
    assert single.score(rows, single.predict(rows)) == 1.0


def test_a_target_that_does_not_vary_scores_one_or_nothing(noisy_mixed: Release):
    made = LinearRegression("calibrated").fit(noisy_mixed, ["score"], ["age", "glucose"])
    rows = np.tile([[40.0, 5.0]], (3, 1))
    assert made.score(rows, made.predict(rows)) == 1.0
    assert made.score(rows, made.predict(rows) + 1.0) == 0.0


def test_a_score_needs_rows_that_fit_the_model(noisy_mixed: Release):
    made = LinearRegression("calibrated").fit(noisy_mixed, ["score", "dose"], ["age", "glucose"])
    rows = np.array([[40.0, 5.0], [50.0, 6.0]])
    for wrong in (np.zeros(2), np.zeros((2, 1)), np.zeros((3, 2))):
        with pytest.raises(InvalidInput, match="y must have 2 rows and 2 columns"):
            made.score(rows, wrong)
    with pytest.raises(InvalidInput, match="at least two rows, all of finite numbers"):
        made.score(rows[:1], np.zeros((1, 2)))
    with pytest.raises(InvalidInput, match="at least two rows, all of finite numbers"):
        made.score(rows, [[1.0, np.nan], [0.0, 0.0]])
    with pytest.raises(InvalidInput, match="'uniform_average' or 'raw_values', not 'mean'"):
        made.score(rows, np.zeros((2, 2)), multioutput="mean")  # type: ignore[call-overload]
    with pytest.raises(InvalidInput, match="call fit first"):
        LinearRegression("calibrated").score(rows, np.zeros((2, 2)))


def test_the_table_names_every_method_once_and_does_not_change():
    assert set(METHODS) == set(MECHANISMS) | ON_MOMENTS
    with pytest.raises(TypeError):
        METHODS["other"] = METHODS["ols"]  # type: ignore[index]


def test_the_package_imports_light_and_exports_what_it_says():
    check = (
        "import sys, dprelease.estimators; "
        "heavy = {'pyarrow', 'opendp', 'sqlalchemy', 'grpc', 'click', 'sklearn'} & set(sys.modules); "
        "sys.exit(len(heavy))"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
    assert all(hasattr(public, name) for name in public.__all__)
