"""The estimator keeps the conventions of scikit-learn, by scikit-learn's own checks: those that need no rows to fit on."""

import warnings

import pytest

from dprelease.estimators import ConvexSet, LinearRegression

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    sklearn = pytest.importorskip("sklearn", reason="scikit-learn comes with the extra dev")
    from sklearn.base import clone, is_regressor
    from sklearn.utils import estimator_checks

CHECKS = (
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_estimators_unfitted",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
    "check_mixin_order",
    "check_valid_tag_types",
)
"""All others fit on rows, and a fit here reads a release."""


@pytest.mark.parametrize("name", CHECKS)
def test_it_passes_the_checks_of_scikit_learn(name: str) -> None:
    getattr(estimator_checks, name)("LinearRegression", LinearRegression())


def test_a_clone_has_the_parameters_and_nothing_fitted() -> None:
    model = LinearRegression("constrained", fit_intercept=False, within=ConvexSet.parse("l1:2"))
    twin = clone(model)
    assert twin is not model
    assert twin.get_params() == model.get_params()
    assert repr(twin) == repr(model)
    assert not [name for name in vars(twin) if name.endswith("_")]
    assert twin.set_params(method=None).method is None
    assert is_regressor(model)
