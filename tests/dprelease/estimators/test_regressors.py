"""The classes in the manner of scikit-learn, and what the package exports."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import dprelease.estimators as public
from dprelease.errors import InvalidInput
from dprelease.estimators import BGM, DGM, METHODS, OLS, RMGM, Calibrated, Shrinkage, fit
from dprelease.release import Release
from tests.dprelease.estimators.conftest import (
    MECHANISMS,
    every_case,
    with_and_without_intercept,
)

CLASSES = {
    "calibrated": Calibrated,
    "shrinkage": Shrinkage,
    "ols": OLS,
    "rmgm": RMGM,
    "bgm": BGM,
    "dgm": DGM,
}


@every_case
@with_and_without_intercept
def test_a_class_gives_what_the_function_gives(noisy: Release, method: str, fit_intercept: bool):
    made = CLASSES[method](fit_intercept=fit_intercept)
    assert made.fit(noisy, ["score", "dose"], ["age", "glucose"]) is made
    result = fit(noisy, ["score", "dose"], ["age", "glucose"], method, fit_intercept)
    np.testing.assert_array_equal(made.coef_, result.coef)
    np.testing.assert_array_equal(made.intercept_, result.intercept)
    assert made.feature_names_in_ == result.features
    assert made.result_.to_json() == result.to_json()
    rows = np.array([[40.0, 5.0], [1e5, 5.0]])
    np.testing.assert_array_equal(made.predict(rows), result.predict(rows))
    np.testing.assert_array_equal(made.predict(rows, clip=True), result.predict(rows, clip=True))


@pytest.mark.parametrize("method", CLASSES)
def test_parameters_stay_as_given_and_default_as_published(method: str):
    made = CLASSES[method]()
    published = {"fit_intercept": method in ("calibrated", "ols", "shrinkage")}
    assert made.get_params() == published == {"fit_intercept": METHODS[method].intercept}
    assert type(made)(**CLASSES[method](fit_intercept=True).get_params()).fit_intercept is True
    with pytest.raises(InvalidInput, match="call fit first"):
        made.predict(np.zeros((1, 1)))


def test_the_table_and_the_classes_name_the_same_methods():
    assert set(METHODS) == set(CLASSES) == set(MECHANISMS) | {"shrinkage"}
    assert {name: made.method for name, made in CLASSES.items()} == {name: name for name in CLASSES}
    with pytest.raises(TypeError):
        METHODS["other"] = METHODS["ols"]  # type: ignore[index]


def test_the_package_imports_light_and_exports_what_it_says():
    check = (
        "import sys, dprelease.estimators; "
        "heavy = {'pyarrow', 'opendp', 'sqlalchemy', 'grpc', 'click', 'sklearn'} & set(sys.modules); "
        "sys.exit(len(heavy))"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
    assert set(public.__all__) == {*(made.__name__ for made in CLASSES.values()), "METHODS", "FitResult", "fit"}
    assert all(hasattr(public, name) for name in public.__all__)
