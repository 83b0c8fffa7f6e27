"""The default on moments is one of the named algorithms, to the last bit, and a fit says which and why."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from benchmarks.common.fits import fit_moments, problem_of
from dprelease.arrays import Floats
from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import Column
from dprelease.errors import InvalidInput
from dprelease.estimators import fit
from dprelease.estimators.methods import choose, resolve
from dprelease.estimators.moments.posterior_fit import fit_posterior
from dprelease.estimators.moments.public_columns import associated, fit_public_features, projected
from dprelease.estimators.moments.spectral_ridge import fit_spectral
from dprelease.estimators.quality import ScaledFit
from dprelease.mechanisms.moments.released import Moments, OutcomeMoments
from dprelease.release.accounting import guarantee
from dprelease.release.release import Release
from tests.dprelease.estimators.outcome_only import outcome_only_of, sides
from tests.dprelease.estimators.public import declared, moments_of, table
from tests.support.joint import compute
from tests.support.noise import SeededNoise
from tests.support.specs import build_spec, numeric, one_block_each

pytestmark = pytest.mark.usefixtures("short_chains")

Given = tuple[Moments, list[int], list[int], Floats]
ROWS = 400


def joint(public: int, private: int, features: range, targets: range) -> Given:
    """Six features first, or last where the public columns are the outcomes."""
    rows = table(6, public + private - 6, rows=ROWS)
    if features.start > 1:
        rows = np.roll(rows, -6, axis=1)
    moments = moments_of(rows, declared(public, private), 0.002, np.random.default_rng(1))
    return moments, list(features), list(targets), rows[:, :public]


def outcome_only(public: str, targets: range = range(7, 11)) -> Given:
    """Six features and four outcome-only columns."""
    rows, (columns, names) = table(6, 4, rows=ROWS), sides(6, 4, public)
    moments = outcome_only_of(rows, columns, names, np.random.default_rng(2), epsilon=200.0)
    return moments, [1, 2, 3], list(targets), rows[:, moments.layout.public[1:]]


CASES: dict[str, tuple[Callable[[], Given], str, str]] = {
    "few variables": (lambda: joint(0, 8, range(1, 7), range(7, 9)), "posterior", "8 of up to 64 variables"),
    "few variables, public targets": (lambda: joint(2, 6, range(3, 9), range(1, 3)), "posterior", "8 of up to 64"),
    "many variables": (lambda: joint(0, 66, range(1, 7), range(7, 67)), "spectral", "66 variables, and up to 64"),
    "many variables, some public": (lambda: joint(3, 63, range(1, 7), range(7, 67)), "spectral", "66 variables"),
    "many variables, public targets": (lambda: joint(60, 6, range(61, 67), range(1, 61)), "projected", "all targets"),
    "public features": (lambda: joint(6, 4, range(1, 7), range(7, 11)), "public_features", "all features are public"),
    "outcome-only columns": (lambda: outcome_only(""), "spectral", "products of two outcomes are not released"),
    "public outcome-only columns": (lambda: outcome_only("y"), "projected", "outcomes of the release are public"),
    "outcome-only columns, public features": (lambda: outcome_only("x"), "public_features", "all features are public"),
    "outcome-only columns, a feature as target": (
        lambda: outcome_only("", range(4, 6)),
        "posterior",
        "6 of up to 64 variables",
    ),
    "outcome-only columns, a public feature as target": (
        lambda: outcome_only("x", range(4, 6)),
        "public_features",
        "all features",
    ),
}


def by_hand(algorithm: str, given: Given, *, intercept: bool) -> ScaledFit:
    """What each algorithm is made of; the targets of a posterior fit are features."""
    moments, x, y, public = given
    if algorithm == "public_features":
        used = moments if not isinstance(moments, OutcomeMoments) or moments.layout.outcome[y].any() else moments.joint
        return fit_public_features(used, x, y, intercept=intercept)
    if algorithm == "posterior":
        return fit_posterior(moments.joint, x, y, intercept=intercept)
    believed = moments
    if algorithm == "projected":
        believed = (
            projected(moments, public)
            if isinstance(moments, OutcomeMoments)
            else associated(moments, intercept=intercept)
        )
    return fit_spectral(believed, x, y, moments, intercept=intercept)


def assert_identical(first: ScaledFit, second: ScaledFit) -> None:
    for name in ("weights", "offsets", "constant", "constant_noise_sd"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    for name, values in vars(first.quality).items():
        np.testing.assert_array_equal(values, getattr(second.quality, name))
    assert first.diagnostics == second.diagnostics


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_the_default_is_the_named_algorithm_to_the_last_bit(case: str, intercept: bool) -> None:
    make, algorithm, reason = CASES[case]
    given = make()
    problem = problem_of(*given, intercept=intercept)
    chosen = choose(problem)
    assert chosen.algorithm == algorithm
    assert reason in chosen.reason
    assert resolve("shrinkage", problem) == chosen
    default = fit_moments(*given, intercept=intercept)
    assert default.weights.any()
    assert_identical(default, fit_moments(*given, intercept=intercept, method=algorithm))
    assert_identical(default, by_hand(algorithm, given, intercept=intercept))


@pytest.mark.parametrize(
    ("case", "method", "why"),
    [
        ("many variables", "posterior", "66 variables, and up to 64 can be drawn together"),
        ("outcome-only columns", "posterior", "products of two outcomes are not released"),
        ("few variables", "public_features", "6 of 6 features are private"),
        ("many variables, some public", "public_features", "3 of 6 features are private"),
        ("few variables", "projected", "2 of 2 targets are private"),
        ("public features", "projected", "all features are public"),
        ("outcome-only columns", "projected", "no outcome of the release is public"),
    ],
)
def test_what_does_not_apply_is_refused_with_its_reason(case: str, method: str, why: str) -> None:
    given = CASES[case][0]()
    with pytest.raises(InvalidInput, match=f"method '{method}' does not apply here: .*{why}"):
        fit_moments(*given, intercept=True, method=method)


def test_any_algorithm_that_applies_may_be_asked_for() -> None:
    few = CASES["few variables, public targets"][0]()
    fits = [fit_moments(*few, intercept=True, method=name).weights for name in ("posterior", "spectral", "projected")]
    assert not any(np.array_equal(fits[first], fits[second]) for first, second in ((0, 1), (0, 2), (1, 2)))
    assert np.isfinite(fit_moments(*CASES["public features"][0](), intercept=True, method="spectral").weights).all()


def test_a_projection_apart_needs_the_public_rows() -> None:
    moments, x, y, _ = outcome_only("y")
    with pytest.raises(InvalidInput, match="public variables of all patients"):
        fit_moments(moments, x, y, intercept=True)


# Through a release.


def released(columns: Mapping[str, tuple[Column, ...]], **spec: Any) -> Release:
    """Joint moments of two columns at the north and one at the south."""
    codes = np.rint(table(2, 1, rows=2000) * 1024).astype(np.int32)
    held = {"north": codes[:, :2], "south": codes[:, 2:]}
    made = build_spec(columns, mechanism="moments", rows=2000, epsilon=8.0, **spec)
    bounded = {name: BoundedRows(held[name], columns[name], 10) for name in columns}
    blocks = compute(made, bounded, {name: SeededNoise(index) for index, name in enumerate(columns)}).blocks
    return one_block_each(made, blocks, guarantee(made).words())


@pytest.fixture(scope="module")
def release() -> Release:
    """Three columns, one of them public."""
    columns = {"north": (numeric("a", public=True), numeric("b")), "south": (numeric("c"),)}
    return released(columns, guarantee="mixed")


@pytest.mark.parametrize(
    ("features", "algorithm", "reason"),
    [
        (["a", "b"], "posterior", "the release has 3 of up to 64 variables that can be drawn together"),
        (["a"], "public_features", "all features are public"),
    ],
)
def test_a_result_says_what_ran_and_why(release: Release, features: list[str], algorithm: str, reason: str) -> None:
    default, named = fit(release, ["c"], features), fit(release, ["c"], features, algorithm)
    assert (default.method, default.algorithm, default.reason) == ("shrinkage", algorithm, reason)
    assert (named.method, named.algorithm, named.reason) == (algorithm, algorithm, "it was asked for by name")
    np.testing.assert_array_equal(default.coef, named.coef)
    np.testing.assert_array_equal(default.intercept, named.intercept)
    said = json.loads(json.dumps(default.document().to_json()))
    assert {name: said[name] for name in ("method", "algorithm", "reason")} == {
        "method": "shrinkage",
        "algorithm": algorithm,
        "reason": reason,
    }
    assert f"\nalgorithm  {algorithm}: {reason}\n" in default.summary()


def test_public_outcomes_apart_are_projected_by_their_released_rows() -> None:
    columns = {"north": tuple(numeric(name) for name in ("a", "b")), "south": (numeric("y", public=True),)}
    release = released(columns, outcomes=("y",))
    default, named = fit(release, ["y"]), fit(release, ["y"], method="projected")
    assert (default.algorithm, default.reason) == ("projected", "outcomes of the release are public")
    np.testing.assert_array_equal(default.coef, named.coef)
    assert not np.array_equal(default.coef, fit(release, ["y"], method="spectral").coef)
