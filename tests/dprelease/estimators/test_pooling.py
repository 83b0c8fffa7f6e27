"""What outcomes say of one another: by conditioning a joint law, by loops, and on tables where outcomes are alike or not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.common.fits import fit_moments
from dprelease.data.columns import Column
from dprelease.estimators.evidence import marginals as _marginals
from dprelease.estimators.evidence.density import EDGE, SPREAD
from dprelease.estimators.evidence.marginals import COUNT, UNLIKE, Marginals, _others, _posterior, of_others, shares
from dprelease.estimators.moments import public_columns as _public_side
from dprelease.estimators.moments import spectral_ridge as _shared_block
from dprelease.estimators.moments.public_columns import EXPLAINED, Vectors
from dprelease.estimators.moments.spectral_ridge import EXPLAINED as LEAST
from dprelease.estimators.moments.spectral_ridge import PARTS, _Ridges
from tests.dprelease.estimators.outcome_only import outcome_only_of, sides
from tests.dprelease.estimators.public import r_squared, table
from tests.support.kinds import kind_of
from tests.support.specs import categorical, numeric

FLAT = 1e4
"""Variance of the common mean that stands for a flat one."""


def test_a_number_is_suggested_by_the_others_alone_but_for_how_far_numbers_spread():
    generator = np.random.default_rng(1)
    noise = generator.uniform(0.05, 0.3, size=6)
    seen = 0.3 + 0.1 * generator.normal(size=6) + noise * generator.normal(size=6)
    centre, sd = of_others(seen, noise)
    spread = np.geomspace(1e-3, 1, 4001)
    likely = []
    for t in spread:
        law = FLAT + np.diag(t**2 + noise**2)
        likely.append(np.exp(-0.5 * (seen @ np.linalg.solve(law, seen) + np.linalg.slogdet(law)[1])))
    step = np.gradient(spread)
    square = (step * likely) @ spread**2 / (step @ likely)
    for j in range(6):
        others = np.delete(np.arange(6), j)
        law = FLAT + np.diag((square + noise**2)[others])
        with_j = np.full(5, FLAT)
        np.testing.assert_allclose(centre[j], with_j @ np.linalg.solve(law, seen[others]), rtol=0.02)
        np.testing.assert_allclose(sd[j] ** 2, FLAT + square - with_j @ np.linalg.solve(law, with_j), rtol=0.02)


@pytest.mark.parametrize(("spread", "noise"), [(0.02, 0.2), (0.3, 0.2), (0.1, 0.01)])
def test_numbers_lie_about_what_is_suggested_as_far_as_is_said(spread: float, noise: float):
    """400 numbers; the suggested spread errs on the wide side where noise hides it (T is uniform before anything is seen)."""
    generator = np.random.default_rng(2)
    numbers = 0.1 + spread * generator.normal(size=400)
    centre, sd = of_others(numbers + noise * generator.normal(size=400), np.full(400, noise))
    square = (((numbers - centre) / sd) ** 2).mean()
    assert square < 1 + 5 * np.sqrt(2 / 400)
    assert square > 1 - 5 * np.sqrt(2 / 400) or sd.max() < 0.4 * noise


@pytest.mark.parametrize(("outcomes", "sharpness"), [(30, 3.0), (1000, 0.3)])
def test_shares_and_cases_agree(outcomes: int, sharpness: float):
    evidence = np.random.default_rng(3).normal(size=(4, outcomes)) * sharpness
    law = shares(evidence)
    np.testing.assert_allclose(law.sum(axis=0), 1.0)
    likely = law * np.exp(evidence)
    likely /= likely.sum(axis=0)
    for j in range(0, outcomes, 10):
        others = np.delete(np.arange(outcomes), j)
        expected = (COUNT / 4 + likely[:, others].sum(axis=1)) / (COUNT + outcomes - 1)
        np.testing.assert_allclose(law[:, j], expected, atol=1e-4)


def test_how_much_is_explained_is_as_likely_as_integration_says():
    """Beside an outcome of quite another scale, for which most of the ridges make no sense."""
    generator, xi = np.random.default_rng(7), np.linspace(0.01, 0.1, 5)
    r2, whole, s2 = np.array([1e-4, 1e-7, 1e-9]), np.array([0.3, 0.02, 1.0]), 1e-6
    scores = generator.normal(size=(5, 3)) * np.array([0.02, 0.01, 0.05])
    found = _Ridges(xi, scores, s2, r2, whole).explained()
    for place in range(3):
        inside = []
        for e in np.exp(np.log(LEAST) * (1 - (np.arange(PARTS * 400) + 0.5) / (PARTS * 400))) * whole[place]:
            t = e / xi.sum()
            law = xi**2 * t + r2[place] + s2 * 5 * t
            inside.append(-0.5 * (scores[:, place] ** 2 / law + np.log(law)).sum())
        parts = np.array(inside).reshape(PARTS, 400)
        expected = np.log(np.exp(parts - parts.max(axis=1, keepdims=True)).mean(axis=1)) + parts.max(axis=1)
        apart = found[:, place] - found[:, place].max() - (expected - expected.max())
        assert (np.abs(apart) < 0.03 * (1 + expected.max() - expected)).all()


def test_believed_with_shares_is_the_average_by_them():
    singular, noise = np.array([20.0, 5.0, 1.0]), np.array([4.0, 30.0])
    g, spread = np.array([[80.0, -100.0], [10.0, 60.0], [1.0, 20.0]]), np.array([[0.1, 0.2], [0.4, 0.3]])
    law = np.random.default_rng(8).dirichlet(np.ones(len(EXPLAINED)), size=2).T
    evidence = Vectors.of(singular, g, noise, spread, 500)
    mean, _ = evidence.posterior(law)
    for column in range(2):
        likely, weights = np.zeros(3), []
        for place, e in enumerate(EXPLAINED):
            within = 0.0
            for v in spread[:, column]:
                prior = v * (1 - e + e * 500 * singular**2 / (singular**2).sum())
                total = prior * singular**2 + noise[column] ** 2
                seen = np.exp(-0.5 * (g[:, column] ** 2 / total + np.log(total)).sum())
                within += seen
                likely += law[place, column] * seen * prior * singular * g[:, column] / total
            weights.append(within)
        apart = evidence.explained()[:, column] - np.log(weights)
        np.testing.assert_allclose(apart, apart[0], atol=1e-9)
        np.testing.assert_allclose(mean[:, column], likely / (law[:, column] @ weights), rtol=1e-9)


def test_shares_follow_the_law_that_cases_have():
    """1,000 outcomes, whose cases are seen with errors; the least likely to be mistaken first."""
    generator, truth = np.random.default_rng(4), np.array([0.6, 0.3, 0.1])
    cases = generator.choice(3, size=1000, p=truth)
    seen = cases + generator.normal(size=1000)
    evidence = -0.5 * (seen - np.arange(3)[:, None]) ** 2
    np.testing.assert_allclose(shares(evidence).mean(axis=1), truth, atol=0.1)


@pytest.mark.parametrize(
    ("mean", "sd", "others"),
    [(0.2, 0.1, (0.25, 0.03)), (0.9, 0.4, (0.1, 0.02)), (-0.5, 0.02, (0.4, 0.02)), (0.3, 2.0, (-0.7, 0.3))],
)
def test_a_number_beside_others_is_known_as_quadrature_says(mean: float, sd: float, others: tuple[float, float]):
    square, around = mean**2 + 0.05, (others[0] ** 2 + 0.04, 0.05)
    seen = np.array([mean, sd, square, 2 * sd, -1.0])[:, None]
    found = Marginals(*_posterior(seen, np.array([*others, *around])[:, None], numeric=True))
    a, b = np.meshgrid(np.linspace(-25, 25, 2001), np.linspace(-40, 20, 301), indexing="ij")
    inner, part = 1 / (1 + np.exp(-a)), 1 / (1 + np.exp(-b))
    m, variance = 2 * inner - 1, 4 * inner * (1 - inner) * part
    raised = m**2 + variance
    log = EDGE * np.log(inner * (1 - inner)) + SPREAD * np.log(part) + np.log1p(-part)
    log -= ((m - mean) / sd) ** 2 / 2 + ((raised - square) / (2 * sd)) ** 2 / 2
    alike = 2.0
    for values, (centre, width) in ((m, others), (raised, around)):
        alike = alike * np.exp(-(((values - centre) / width) ** 2) / 2) / (np.sqrt(2 * np.pi) * width)
    log += np.log((1 - UNLIKE) * alike + UNLIKE)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    centre = (weight * m).sum()
    spread = np.sqrt((weight * (m - centre) ** 2).sum())
    assert abs(found.mean[0] - centre) < 0.1 * spread
    np.testing.assert_allclose(found.mean_sd[0], spread, rtol=0.1)
    decides = weight / np.sqrt(np.maximum(variance, 1e-3 * (weight * variance).sum()))
    assert abs(found.constant[0] - (decides * m).sum() / decides.sum()) < 0.15 * spread
    np.testing.assert_allclose(found.variance[0], (weight * variance).sum(), rtol=0.15)


def shares_of(outcomes: int, rows: int, public: str) -> Callable[[], float]:
    """The mean share that a fit of so many outcomes explains, with all that is patched when it is called."""
    data, (columns, names) = table(6, outcomes, rows=rows), sides(6, outcomes, public)
    x, y = list(range(1, 7)), list(range(7, 7 + outcomes))
    shown = data[:, :6] if public else np.zeros((rows, 0))
    moments = outcome_only_of(data, columns, names, np.random.default_rng(5))

    def mean_share() -> float:
        found = fit_moments(moments, x, y, shown, intercept=True)
        return float(r_squared(data, x, y, found.offsets, found.weights).mean())

    return mean_share


@pytest.mark.parametrize("public", ["", "x"])
def test_of_alike_outcomes_none_is_lost_in_the_noise(public: str, monkeypatch: pytest.MonkeyPatch):
    """300 outcomes whose means alone would be off by as much as they spread."""
    mean_share = shares_of(300, 2000, public)
    assert mean_share() > -0.1
    monkeypatch.setattr(_marginals, "of_others", lambda seen, noise: (np.zeros_like(seen), np.full_like(seen, np.inf)))
    assert mean_share() < -0.3


@pytest.mark.parametrize("public", ["", "x"])
def test_that_features_explain_much_of_the_others_is_a_reason_to_believe_it(
    public: str, monkeypatch: pytest.MonkeyPatch
):
    mean_share = shares_of(100, 20_000, public)
    together = mean_share()
    for module in (_shared_block, _public_side):
        monkeypatch.setattr(module, "pooled", lambda seen, cases, alike: np.full((cases, len(alike)), 1 / cases))
    assert together > mean_share() + 0.02


def test_only_outcomes_of_a_kind_are_pooled():
    generator, count = np.random.default_rng(9), 400
    numbers: list[Column] = [numeric(name) for name in ("x", "u", "v", "w")]
    kinds: list[Column] = [categorical("ward", "a", "b"), categorical("sex", "f"), categorical("old", "yes")]
    rows = np.column_stack(
        [
            generator.uniform(-1, 1, size=(count, 4)),
            *np.eye(3)[generator.choice(3, size=count)].T,
            *(generator.choice([-1, 1], size=count, p=[0.8, 0.2]) for _ in range(2)),
        ]
    )
    whole = outcome_only_of(
        rows, (*numbers, *kinds), tuple(column.name for column in (*numbers[1:], *kinds)), generator
    )
    kind = np.array([kind_of(variable) for variable in whole.layout.variables])
    suggested = _others(whole)[:, 1:]
    assert not np.isfinite(suggested[1, 0])  # a feature
    assert np.isfinite(suggested[1, 1:]).all()
    for each in ("numeric", "binary", "level"):
        place = np.flatnonzero((kind == each) & whole.layout.outcome[1:]) + 1
        mean, noise = whole.between([0], place)[0] / count, whole.noise_between([0], place)[0] / count
        np.testing.assert_allclose(suggested[:2, place - 1], of_others(mean, noise))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("public", ["", "x", "y", "half of y"])
def test_one_outcome_is_fitted_as_it_is_among_all(public: str, intercept: bool):
    data, (columns, names) = table(4, 30, rows=4000), sides(4, 30, public)
    if public == "half of y":
        columns = (*columns[:4], *(numeric(name, public=place % 2 == 0) for place, name in enumerate(names)))
    moments = outcome_only_of(data, columns, names, np.random.default_rng(6))
    x, y, layout = [1, 2, 3, 4], list(range(5, 35)), moments.layout
    shown = data[:, layout.public[1:]]
    together = fit_moments(moments, x, y, shown, intercept=intercept)
    for place in (0, 17):
        alone = fit_moments(moments, x, [y[place]], shown, intercept=intercept)
        np.testing.assert_allclose(alone.weights[:, 0], together.weights[:, place], rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(alone.offsets[0], together.offsets[place], rtol=1e-9)
        np.testing.assert_allclose(alone.quality.gain[0], together.quality.gain[place], rtol=1e-7, atol=1e-15)
