"""What outcomes say of one another: by conditioning a joint law, by loops, and on tables where outcomes are alike or not."""

from __future__ import annotations

import numpy as np
import pytest

from dprelease.estimators import _marginals
from dprelease.estimators._apart import on_apart
from dprelease.estimators._density import EDGE, SPREAD
from dprelease.estimators._marginals import Marginals, _posterior
from dprelease.estimators._pooling import COUNT, UNLIKE, of_others, pooled, shares
from tests.dprelease.estimators.apart import apart_of, sides
from tests.dprelease.estimators.public import r_squared, table

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


def test_one_alone_is_told_nothing():
    centre, sd = of_others(np.array([0.3]), np.array([0.1]))
    assert (centre[0], sd[0]) == (0.0, np.inf)
    np.testing.assert_array_equal(shares(np.array([[5.0], [0.0], [-5.0]])), 1 / 3)
    law = pooled(np.array([[9.0, 9.0, 9.0], [0.0, 0.0, 0.0]]), np.array([True, False, True]))
    np.testing.assert_array_equal(law[:, 1], 0.5)
    assert (law[0, [0, 2]] > 0.5).all()


def test_shares_and_cases_agree():
    evidence = np.random.default_rng(3).normal(size=(4, 30)) * 3
    law = shares(evidence)
    np.testing.assert_allclose(law.sum(axis=0), 1.0)
    likely = law * np.exp(evidence)
    likely /= likely.sum(axis=0)
    for j in range(30):
        others = np.delete(np.arange(30), j)
        expected = (COUNT / 4 + likely[:, others].sum(axis=1)) / (COUNT + 29)
        np.testing.assert_allclose(law[:, j], expected, atol=1e-4)


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
    a, b = np.meshgrid(np.linspace(-25, 25, 6001), np.linspace(-40, 20, 601), indexing="ij")
    inner, part = 1 / (1 + np.exp(-a)), 1 / (1 + np.exp(-b))
    m, variance = 2 * inner - 1, 4 * inner * (1 - inner) * part
    raised = m**2 + variance
    log = EDGE * np.log(inner * (1 - inner)) + SPREAD * np.log(part) + np.log1p(-part)
    log -= ((m - mean) / sd) ** 2 / 2 + ((raised - square) / (2 * sd)) ** 2 / 2
    for values, (centre, width), length in ((m, others, 2.0), (raised, around, 1.0)):
        alike = np.exp(-(((values - centre) / width) ** 2) / 2) / (np.sqrt(2 * np.pi) * width)
        log += np.log((1 - UNLIKE) * length * alike + UNLIKE)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    centre = (weight * m).sum()
    spread = np.sqrt((weight * (m - centre) ** 2).sum())
    assert abs(found.mean[0] - centre) < 0.1 * spread
    np.testing.assert_allclose(found.mean_sd[0], spread, rtol=0.1)
    decides = weight / np.sqrt(np.maximum(variance, 1e-3 * (weight * variance).sum()))
    assert abs(found.constant[0] - (decides * m).sum() / decides.sum()) < 0.1 * spread
    np.testing.assert_allclose(found.variance[0], (weight * variance).sum(), rtol=0.15)


@pytest.mark.parametrize("public", ["", "x"])
def test_of_alike_outcomes_none_is_lost_in_the_noise(public: str, monkeypatch: pytest.MonkeyPatch):
    """300 outcomes whose means alone would be off by as much as they spread."""
    data, (columns, names) = table(6, 300, rows=2000), sides(6, 300, public)
    x, y = list(range(1, 7)), list(range(7, 307))
    shown = data[:, :6] if public else np.zeros((2000, 0))

    def mean_share() -> float:
        found = on_apart(apart_of(data, columns, names, np.random.default_rng(5)), x, y, shown, intercept=True)
        return float(r_squared(data, x, y, found.offsets, found.weights).mean())

    assert mean_share() > -0.1
    monkeypatch.setattr(_marginals, "of_others", lambda seen, noise: (np.zeros_like(seen), np.full_like(seen, np.inf)))
    assert mean_share() < -0.3


@pytest.mark.parametrize("public", ["", "x", "y"])
def test_one_outcome_is_fitted_as_it_is_among_all(public: str):
    data, (columns, names) = table(4, 30, rows=4000), sides(4, 30, public)
    moments = apart_of(data, columns, names, np.random.default_rng(6))
    x, y, layout = [1, 2, 3, 4], list(range(5, 35)), moments.layout
    shown = data[:, layout.public[1:]]
    together = on_apart(moments, x, y, shown, intercept=True)
    for place in (0, 17):
        alone = on_apart(moments, x, [y[place]], shown, intercept=True)
        np.testing.assert_allclose(alone.weights[:, 0], together.weights[:, place], rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(alone.offsets[0], together.offsets[place], rtol=1e-9)
        np.testing.assert_allclose(alone.quality.gain[0], together.quality.gain[place], rtol=1e-7, atol=1e-15)
