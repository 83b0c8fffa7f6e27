"""The classes in the manner of scikit-learn, and what the package exports."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import dprelease.estimators as public
from dprelease.errors import InvalidInput
from dprelease.estimators import METHODS, LinearRegression, fit
from dprelease.release.release import Release
from tests.dprelease.estimators.conftest import MECHANISMS, every_case, with_and_without_intercept

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
