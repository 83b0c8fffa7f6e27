"""Intervals and tests on simulated releases, with fresh patients and fresh noise each time."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom

from dprelease.analyses import (
    compare_groups,
    contingency_table,
    correlations,
    logistic,
    mediation,
    rates,
    two_stage_least_squares,
)
from dprelease.analyses.estimates import Estimates
from dprelease.release.release import Release
from tests.dprelease.analyses.releases import category, released
from tests.support.specs import numeric

CHANCE = 1e-4
"""Probability of a false alarm, of one number."""

COLUMNS = (
    category("ill", "yes"),
    category("smoker", "yes"),
    category("arm", "a", "b"),
    *(numeric(name) for name in ("z", "x", "m", "y")),
    numeric("years", 0, 10),
    numeric("falls", 0, 8),
)


def patients(n: int, seed: int) -> dict[str, np.ndarray]:
    """z acts on x, x on m and y, m on y; u on x and y; smoking on illness and m; the arm on falls alone."""
    generator = np.random.default_rng(seed)
    smokes = generator.uniform(size=n) < 0.4
    ill = generator.uniform(size=n) < np.where(smokes, 0.4, 0.25)
    arm = generator.choice(["a", "b"], n)
    z, u = generator.uniform(-0.6, 0.6, (2, n))
    x = 0.6 * z + 0.5 * u + generator.uniform(-0.1, 0.1, n)
    m = 0.5 * x + 0.15 * smokes + generator.uniform(-0.3, 0.3, n)
    y = 0.4 * m + 0.3 * x + 0.1 * ill - 0.2 * u + generator.uniform(-0.2, 0.2, n)
    years = generator.uniform(2, 8, n)
    falls = generator.poisson(np.where(arm == "a", 0.15, 0.3) * years).clip(0, 8)
    words = {"ill": np.where(ill, "yes", "no"), "smoker": np.where(smokes, "yes", "no"), "arm": arm}
    return words | {"z": z, "x": x, "m": m, "y": y, "years": years, "falls": falls}


def estimates(release: Release) -> dict[str, Estimates]:
    table = contingency_table(release, "smoker", "ill").tables
    return {
        "odds ratio": table["ratios"]["odds ratio"],
        "risk ratio": table["ratios"]["risk ratio"],
        "risk difference": table["difference"],
        "adjusted difference": compare_groups(release, "m", ["smoker"], ["x"]).tables[
            "differences of smoker to smoker=other"
        ],
        "two-stage": two_stage_least_squares(release, "y", ["x"], ["z"]).tables["coefficients"],
        "correlation": correlations(release, ["z", "m"]).tables["correlations"],
        "partial correlation": correlations(release, ["z", "m"], ["x"]).tables["correlations"],
        "indirect": mediation(release, "y", "x", "m").tables["effects"]["indirect"],
        "rate ratio": rates(release, "falls", "years", "arm").tables["rate ratios"],
    }


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_intervals_hold_the_population_values() -> None:
    """Of 60 intervals at 95 % fewer than 49 hold the truth with a probability of `CHANCE` at most; sampling alone would not do."""
    count, n, sd = 60, 3000, 0.005
    truth = {
        name: float(each.estimate[0]) for name, each in estimates(released(COLUMNS, patients(10**6, 10**6))).items()
    }
    held: Counter[str] = Counter()
    without: Counter[str] = Counter()
    for seed in range(count):
        for name, each in estimates(released(COLUMNS, patients(n, seed), sd, seed)).items():
            lower, upper = (end[0] for end in each.interval())
            held[name] += lower <= truth[name] <= upper
            only = Estimates(
                each.names, np.median(each.location, axis=0)[None], each.scale.mean(axis=0)[None], link=each.link
            )
            lower, upper = (end[0] for end in only.interval())
            without[name] += lower <= truth[name] <= upper
    least = binom.ppf(CHANCE, count, 0.95)
    assert {name: held[name] for name in truth if held[name] < least} == {}
    assert min(without.values()) < least


@pytest.mark.usefixtures("half_chains")
@pytest.mark.parametrize("count", [12, pytest.param(60, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])
def test_independence_is_refused_no_more_often_than_its_level(count: int) -> None:
    """With noise of 2.2 times sampling's deviation Pearson's test on noisy counts refuses where a normal is beyond .8: 42 %."""
    columns, refused, naive = COLUMNS[1:3], 0, 0
    for seed in range(count):
        table = {name: patients(3000, seed)[name] for name in ("smoker", "arm")}
        release = released((columns[0], category("arm", "a")), table, 0.04, seed)
        found = contingency_table(release, "smoker", "arm")
        refused += found.tests["rows and columns are independent"].p_value < 0.05
        cells = found.tables["counts"].estimate.reshape(2, 2)
        expected = cells.sum(axis=1, keepdims=True) * cells.sum(axis=0) / cells.sum()
        naive += ((cells - expected) ** 2 / expected).sum() > 3.841
    assert refused <= binom.isf(CHANCE, count, 0.05)
    assert naive > binom.isf(0.01, count, 0.05)


@pytest.mark.usefixtures("half_chains")
@pytest.mark.parametrize("count", [6, pytest.param(40, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])
def test_logistic_coefficients_of_normal_features(count: int) -> None:
    """Classes are normal with one covariance, so that the approximation is none; features reach 5 deviations."""
    beta, held = np.array([0.8, -0.4]), np.zeros(2)
    columns = (category("y", "yes"), numeric("one", -5, 6), numeric("other", -6, 5))
    for seed in range(count):
        generator = np.random.default_rng(seed)
        y = generator.uniform(size=4000) < 0.3
        x = np.clip(generator.normal(size=(4000, 2)) + np.outer(y, beta), -5, 5)
        cells = {"y": np.where(y, "yes", "no"), "one": x[:, 0], "other": x[:, 1]}
        found = logistic(released(columns, cells, 0.002, seed), "y", ["one", "other"])
        lower, upper = found.tables["coefficients"].interval()
        held += (lower <= beta) & (beta <= upper)
    assert held.min() >= binom.ppf(CHANCE, count, 0.95)
