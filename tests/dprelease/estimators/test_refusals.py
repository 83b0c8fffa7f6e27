"""What is refused, or solved with a warning."""

from __future__ import annotations

import numpy as np
import pytest

from dprelease.errors import InvalidInput
from dprelease.estimators import fit
from dprelease.release import Release
from tests.dprelease.estimators.conftest import (
    every_case,
    every_case_but_dgm,
    exact_codes,
    released,
)
from tests.support.noise import SeededNoise
from tests.support.specs import numeric


@pytest.mark.parametrize(
    ("method", "mechanism", "says"),
    [
        ("bgm", "mixed", "choose one of calibrated, ols, rmgm"),
        ("dgm", "mixed", "choose one of calibrated, ols, rmgm"),
        ("rmgm", "rows", "choose one of calibrated, ols, bgm, dgm"),
        ("ridge", "rows", "choose one of calibrated, shrinkage, ols, rmgm, bgm, dgm"),
    ],
)
def test_a_method_refuses_what_it_does_not_read(noisy: Release, method: str, says: str):
    with pytest.raises(InvalidInput, match=says):
        fit(noisy, ["score"], None, method)


@every_case
def test_bad_names_are_refused_before_anything_is_fitted(noisy: Release, method: str):
    for targets, features in ((["weight"], None), (["score"], ["weight"]), (["score"], ["score"]), (["score"], [])):
        with pytest.raises(InvalidInput):
            fit(noisy, targets, features, method)


@every_case_but_dgm
def test_a_singular_gram_matrix_is_refused_with_the_way_out(method: str, mechanism: str):
    parties = {"north": (numeric("x"), numeric("same"), numeric("y"))}
    column = np.random.default_rng(6).integers(-1000, 1000, 50)
    codes = {"north": np.column_stack([column, column, column // 2])}
    release = released(codes, parties, mechanism=mechanism, outputs=20)
    with pytest.raises(InvalidInput, match=r"2 features over .* fewer features"):
        fit(release, ["y"], ["x", "same"], method)


@pytest.mark.parametrize("method", ["calibrated", "ols", "rmgm"])
def test_more_features_than_mixing_rows_are_refused(method: str):
    release = released(exact_codes(50), outputs=3, noise=SeededNoise(7), noise_sd=0.5)
    with pytest.raises(InvalidInput, match="singular; fit fewer features"):
        fit(release, ["score"], None, method, fit_intercept=False)


def test_dgm_solves_an_indefinite_hessian_and_says_what_it_is_worth():
    """Noise is declared and subtracted but not added: the Hessian is X^T X / n - s^2 I, far below zero at s = 3."""
    release = released(exact_codes(60), mechanism="rows", noise_sd=3.0)
    result = fit(release, ["score"], ["age", "glucose"], "dgm")
    assert result.diagnostics.indefinite
    assert result.diagnostics.smallest_eigenvalue < 0
    assert "not positive definite" in result.diagnostics.warnings[0]
    assert np.isfinite(result.coef).all()
    assert result.verdicts == ("not distinguishable from the constant predictor",)
    assert result.to_json()["quality"]["optimism"] == [None]


@every_case
def test_predicting_needs_one_column_for_each_feature(noisy: Release, method: str):
    result = fit(noisy, ["score"], ["age", "glucose"], method)
    for wrong in (np.zeros((3, 1)), np.zeros(2), np.zeros((3, 3))):
        with pytest.raises(InvalidInput, match="2 columns, in this order: age, glucose"):
            result.predict(wrong)
