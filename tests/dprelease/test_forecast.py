"""Forecasts against simulated releases, prices against specs, and the numbers that would suffice."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from benchmarks.common import fits
from dprelease.arrays import Floats
from dprelease.estimators.normal_equations import RegressionRows
from dprelease.estimators.rows.calibrated import calibrated
from dprelease.mechanisms.assumptions import Scenario
from dprelease.mechanisms.expected_error import HALF
from dprelease.mechanisms.moments.entries import EntryKind, Layout
from dprelease.mechanisms.moments.released import NoisyMoments
from dprelease.mechanisms.moments.sensitivity import outcome_sensitivity, sensitivity
from dprelease.mechanisms.moments.terms import JointMoments
from dprelease.mechanisms.noisy_rows.calibration import plan_mixing
from dprelease.mechanisms.noisy_rows.terms import MixedTerms
from dprelease.planning.forecast import epsilon_needed, forecast, proposed, rows_needed
from dprelease.release.accounting import guarantee
from dprelease.spec_base import Target
from tests.support.plans import changed, planned
from tests.support.specs import build_spec, categorical, numeric

WITHIN = 0.15
"""What a forecast may be off by where it says that half of the signal or more is kept."""
BETTER = 0.3
"""What a fit on joint moments may do better than its forecast."""

MECHANISMS = ("mixed", "rows", "moments")
MIXED_KINDS = {
    "north": (numeric("age", 0.0, 120.0), categorical("sex", "female")),
    "south": (categorical("stage", "I", "II", "III"), numeric("glucose", 2.0, 30.0)),
}


def setting(mechanism: str, rows: int, widths: str = "2,2,2", epsilon: float = 1.0, **others: Any) -> Scenario:
    target = Target(scope=others.pop("scope", "joint"), epsilon=epsilon, delta=1e-6)
    return planned(rows, widths, target, mechanism, **others)


def rows_of(where: Scenario) -> int:
    return where.draft.agreed.rows


def truth(where: Scenario, signal: float, random: np.random.Generator) -> tuple[Floats, Floats]:
    """(weights, E[x x^T] of (1, features, outcome)) for numbers, as they are assumed; weights in any direction."""
    assumed = where.fit.assumed(signal)
    weights = random.normal(size=len(assumed.free))
    weights *= math.sqrt(assumed.squares.sum()) / np.linalg.norm(weights)
    moments = np.diag([1.0, *assumed.free, assumed.outcome_variance])
    moments[1:-1, -1] = moments[-1, 1:-1] = assumed.free * weights
    return weights, moments


Fit = Callable[[Scenario, Floats, np.random.Generator], tuple[float, Floats]]


def simulated(where: Scenario, signal: float, draws: int, fit: Fit) -> tuple[float, float]:
    """(error of the coefficients, R^2), both as in `Forecast`, on average over releases."""
    random, errors, misses = np.random.default_rng(5), [], []
    assumed = where.fit.assumed(signal)
    for _ in range(draws):
        weights, moments = truth(where, signal, random)
        offset, found = fit(where, moments, random)
        error = assumed.free @ (found - weights) ** 2
        errors.append(error / assumed.explained)
        misses.append((error + offset**2 + assumed.residual) / assumed.outcome_variance)
    return math.sqrt(np.mean(errors)), 1 - float(np.mean(misses))


def fit_mixed(where: Scenario, moments: Floats, random: np.random.Generator) -> tuple[float, Floats]:
    """Rows of B D / sqrt(k) are as good as normal with covariance D^T D / k (docs/methods.md)."""
    terms = proposed(where).spec.terms
    assert isinstance(terms, MixedTerms)
    k, rho = terms.mixing.outputs, float(terms.rho)
    rows = (
        math.sqrt(rows_of(where) * (1 - rho) / k)
        * random.normal(size=(k, len(moments)))
        @ np.linalg.cholesky(moments).T
    )
    rows = np.vstack([math.sqrt(rho) * rows_of(where) * moments[0], rows])
    return noisy_fit(where, rows, random, anchor=True)


def fit_rows(where: Scenario, moments: Floats, random: np.random.Generator) -> tuple[float, Floats]:
    rows = random.normal(size=(rows_of(where), len(moments))) @ np.linalg.cholesky(moments).T
    rows[:, 0] = 1
    return noisy_fit(where, rows, random, anchor=False)


def noisy_fit(where: Scenario, rows: Floats, random: np.random.Generator, *, anchor: bool) -> tuple[float, Floats]:
    release = proposed(where).noise
    variance = np.array(
        [
            release.variance[name] / where.asked.get("weights", {}).get(column.name, 1) ** 2
            for name, columns in where.draft.columns.items()
            for column in columns
        ]
    )
    rows[:, 1:] += random.normal(size=(len(rows), len(variance))) * np.sqrt(variance)
    released = RegressionRows(
        ones=rows[:, 0],
        x=rows[:, 1:-1],
        y=rows[:, -1:],
        x_variance=variance[:-1],
        y_variance=variance[-1:],
        patients=float(rows_of(where)),
        anchor=anchor,
        mixed=anchor,
    )
    found = calibrated(released, np.full(len(variance) - 1, -1.0), np.full(1, -1.0), intercept=True)
    return float(found.offsets[0]), found.weights[:, 0]


def fit_moments(where: Scenario, moments: Floats, random: np.random.Generator) -> tuple[float, Floats]:
    found = fits.fit_moments(
        noisy_moments(where, moments, random), range(1, len(moments) - 1), [len(moments) - 1], intercept=True
    )
    return float(found.offsets[0]), found.weights[:, 0]


def invert(where: Scenario, moments: Floats, random: np.random.Generator) -> tuple[float, Floats]:
    """Least squares on the noisy matrix as it is."""
    noisy = noisy_moments(where, moments, random).gram / rows_of(where)
    found = np.linalg.solve(noisy[:-1, :-1], noisy[:-1, -1])
    return float(found[0]), found[1:]


def noisy_moments(where: Scenario, moments: Floats, random: np.random.Generator) -> NoisyMoments:
    layout = Layout(where.draft.everything)
    sd = rows_of(where) * math.sqrt(proposed(where).mean_variance())
    smaller = math.sqrt(float(sensitivity(layout.variables).diagonal_weight))
    entries = np.where(layout.diagonal, sd / smaller, sd)
    values = rows_of(where) * moments[layout.rows, layout.cols] + entries * random.normal(size=layout.entries)
    square = float(rows_of(where))
    return NoisyMoments(layout, layout.matrix(values, square), layout.matrix(entries, 0.0), rows_of(where))


@pytest.mark.parametrize(
    ("mechanism", "widths", "rows", "epsilon", "signal", "draws", "fit", "others"),
    [
        ("mixed", "2,2,2", 150_000, 1.0, 0.5, 120, fit_mixed, {}),
        ("mixed", "2,2,2", 1_000_000, 1.0, 0.1, 120, fit_mixed, {}),
        ("mixed", "2,2,2", 300_000, 1.0, 0.9, 100, fit_mixed, {}),
        ("mixed", "5,5,1", 400_000, 1.0, 0.5, 120, fit_mixed, {}),
        ("mixed", "5,5,1", 3_000_000, 0.5, 0.3, 80, fit_mixed, {}),
        ("mixed", "10,10,11", 10_000_000, 1.0, 0.3, 30, fit_mixed, {}),
        ("mixed", "2,2,2", 150_000, 1.0, 0.5, 120, fit_mixed, {"weights": {"x6": 2}}),
        ("mixed", "3,3,3,3,3", 300_000, 1.0, 0.9, 60, fit_mixed, {"scope": "per-party", "weights": {"x15": 2}}),
        ("mixed", "5,5,1", 400_000, 1.0, 0.5, 100, fit_mixed, {"weights": {"x11": 3, "x2": 2}}),
        ("rows", "2,2,2", 2_000, 30.0, 0.5, 60, fit_rows, {}),
        ("rows", "2,2,2", 20_000, 20.0, 0.3, 40, fit_rows, {}),
        ("rows", "2,2,2", 20_000, 20.0, 0.3, 40, fit_rows, {"weights": {"x6": 2}}),
        pytest.param("moments", "3,3,4", 2_500, 1.0, 0.3, 8, fit_moments, {}, marks=pytest.mark.slow),
        ("moments", "5,5,1", 10_000, 1.0, 0.1, 100, invert, {}),
        ("moments", "10,10,11", 20_000, 1.0, 0.5, 40, invert, {}),
    ],
)
def test_forecasts_are_what_simulated_releases_give(
    mechanism: str, widths: str, rows: int, epsilon: float, signal: float, draws: int, fit: Fit, others: dict[str, Any]
) -> None:
    """Fits that draw take `make test-slow`, here and in `test_forecasts_are_what_shrinkage_on_moments_gives`."""
    where = setting(mechanism, rows, widths, epsilon, **others)
    expected = forecast(where, signal)
    assert HALF <= expected.kept < 0.999
    error, r2 = simulated(where, signal, draws, fit)
    assert error == pytest.approx(expected.coefficient_error, rel=WITHIN)
    assert r2 == pytest.approx(expected.r2, rel=WITHIN)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("widths", "rows", "signal", "draws"),
    [
        ("1,2,1", 1_000, 0.1, 150),
        ("2,2,2", 900, 0.5, 90),
        ("2,2,2", 1_500, 0.2, 90),
        ("5,5,1", 1_300, 0.5, 60),
        ("5,5,1", 3_000, 0.1, 60),
        ("5,5,1", 1_300, 0.9, 60),
        ("8,8,9", 8_000, 0.2, 25),
    ],
)
def test_forecasts_are_what_shrinkage_on_moments_gives(widths: str, rows: int, signal: float, draws: int) -> None:
    """With few patients for its columns a fit may do better than its forecast, never worse."""
    where = setting("moments", rows, widths)
    expected = forecast(where, signal)
    assert HALF <= expected.kept < 0.97
    error, r2 = simulated(where, signal, draws, fit_moments)
    assert 1 - BETTER < error / expected.coefficient_error < 1 + WITHIN
    assert 1 - WITHIN < r2 / expected.r2 < 1 + BETTER


@pytest.mark.parametrize("scope", ["joint", "per-party"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_prices_and_noise_are_those_of_the_spec_to_the_last_digit(mechanism: str, scope: str) -> None:
    if mechanism == "moments" and scope == "per-party":
        return
    target = Target.model_validate({"scope": scope, "epsilon": 0.7, "delta": 1e-6})
    where = planned(5000, MIXED_KINDS, target, mechanism, "glucose", ("age",), rows_per_subject=2, grid_bits=14)
    plan = plan_mixing(5000, dict(MIXED_KINDS), target, 2)
    spec = build_spec(
        MIXED_KINDS,
        mechanism=mechanism,
        rows=5000,
        outputs=plan.outputs,
        anchor_weight=str(plan.anchor_weight) if mechanism == "mixed" else None,
        scope=scope,
        epsilon=0.7,
        delta=1e-6,
        grid_bits=14,
        rows_per_subject=2,
    )
    release = proposed(where)
    assert release.prices == {part.party: part.mu2 for part in guarantee(spec).parties}
    for name in MIXED_KINDS:
        if isinstance(spec.terms, JointMoments):
            variance = 2 * (spec.terms.scale / 4**14 / 5000) ** 2
        elif mechanism == "mixed":
            variance = (1 - plan.anchor_weight) / plan.outputs * (spec.terms.noise_of(name).scale / 2**14) ** 2
            assert release.spec.terms.noise == spec.terms.noise
        else:
            variance = (spec.terms.noise_of(name).scale / 2**14) ** 2
        assert release.noise.variance[name] == pytest.approx(variance)


def test_prices_and_noise_of_outcomes_apart_are_those_of_the_spec() -> None:
    target = Target(scope="joint", epsilon=0.7, delta=1e-6)
    outcomes = ("glucose", "stage")
    where = planned(5000, MIXED_KINDS, target, "moments", "glucose", ("age",), outcomes=outcomes)
    spec = build_spec(
        MIXED_KINDS, mechanism="moments", rows=5000, epsilon=0.7, delta=1e-6, grid_bits=16, outcomes=outcomes
    )
    release, moments = proposed(where), spec.terms
    assert moments.association is not None
    assert release.prices == {part.party: part.mu2 for part in guarantee(spec).parties}
    found = [(scale / 4**16 / 5000) ** 2 * 2 for scale in (moments.scale, moments.association.scale)]
    assert [release.noise.variance["south"], release.noise.columns["glucose"]] == pytest.approx(found)
    # age and both sexes are features; glucose and the four stages are outcomes
    assert release.mean_variance() == pytest.approx((3 * found[0] + 5 * found[1]) / 8)


def test_prices_with_a_stated_norm_are_those_of_the_spec() -> None:
    target = Target(scope="joint", epsilon=0.7, delta=1e-6)
    parties = {
        name: tuple(column.model_copy(update={"public": name == "south"}) for column in columns)
        for name, columns in MIXED_KINDS.items()
    }
    outcomes, norm2 = ("glucose", "stage"), Fraction(1, 2)
    where = planned(5000, parties, target, "moments", "glucose", ("age",), outcomes=outcomes, outcome_norm2=str(norm2))
    spec = build_spec(
        parties,
        mechanism="moments",
        rows=5000,
        epsilon=0.7,
        delta=1e-6,
        grid_bits=16,
        outcomes=outcomes,
        public_norm2=norm2,
        guarantee="feature-DP",
    )
    assert proposed(where).prices == {part.party: part.mu2 for part in guarantee(spec).parties}


def fit_apart(where: Scenario, moments: Floats, random: np.random.Generator) -> tuple[float, Floats]:
    """Least squares on moments with one outcome-only column."""
    release, d = proposed(where).noise, len(moments) - 1
    layout = Layout(where.draft.everything, (where.fit.outcome,))
    sd = rows_of(where) * np.sqrt(
        np.where(layout.kinds == EntryKind.ASSOCIATION, release.columns[where.fit.outcome], release.variance["party1"])
    )
    sd[layout.diagonal] /= math.sqrt(float(outcome_sensitivity(layout).diagonal_weight))
    noisy = moments.copy()
    noisy[layout.rows, layout.cols] += sd * random.normal(size=layout.entries) / rows_of(where)
    noisy[layout.cols, layout.rows] = noisy[layout.rows, layout.cols]
    found = np.linalg.solve(noisy[:d, :d], noisy[:d, d])
    return float(found[0]), found[1:]


@pytest.mark.parametrize(("widths", "rows", "signal"), [("5,5,1", 10_000, 0.3), ("1,2,1", 5_000, 0.5)])
def test_forecasts_with_an_outcome_apart_are_what_simulated_releases_give(
    widths: str, rows: int, signal: float
) -> None:
    usual = setting("moments", rows, widths)
    where = usual.asking(outcomes=(usual.fit.outcome,))
    expected = forecast(where, signal)
    assert HALF <= expected.kept < 0.999
    error, r2 = simulated(where, signal, 150, fit_apart)
    assert error == pytest.approx(math.sqrt(expected.error_ratio), rel=WITHIN)
    assert r2 == pytest.approx(expected.r2, rel=WITHIN)


def test_curious_hospitals_cost_what_their_noise_is_worth() -> None:
    one, two = (
        proposed(setting("moments", 1000, collusion_threshold=count)).noise.variance["party1"] for count in (1, 2)
    )
    assert two == pytest.approx(2 * one, rel=1e-6)
    alone = proposed(setting("moments", 1000, "6")).noise.variance["party1"]
    assert one == pytest.approx(1.5 * alone, rel=1e-6)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_is_needed_is_just_enough(mechanism: str) -> None:
    where = setting(mechanism, 3000, "3,3,3")
    rows = rows_needed(where, 0.3)
    assert rows is not None
    assert forecast(changed(where, rows=rows), 0.3).useful
    assert not forecast(changed(where, rows=math.floor(0.98 * rows)), 0.3).useful
    epsilon = epsilon_needed(where, 0.3)
    assert epsilon is not None
    for factor, enough in ((1.0, True), (0.98, False)):
        target = where.draft.target.model_copy(update={"epsilon": factor * epsilon})
        assert forecast(changed(where, target=target), 0.3).useful is enough
    harder = rows_needed(changed(where, spread=0.05), 0.1)
    assert harder is None or harder > 3 * rows


def test_nothing_is_enough_for_five_mixing_rows() -> None:
    where = setting("mixed", 3000, k=5)
    assert rows_needed(where, 0.9) is None
    assert epsilon_needed(where, 0.9) is None
    assert epsilon_needed(setting("moments", 10**9), 0.9) == 1e-3
