"""Slopes where cells of a feature are missing: with its fill, with its indicator as a feature too, and by available cases.

Least squares of an outcome on a feature with gaps, one that goes with it and a third, on noisy moments in public bounds. Available
cases are sums over the patients who have the cell, which follow from the fill and the products of the indicator with one column.
Products of two other columns among these patients are third moments, so those are of all patients. The fill lies 1.3 standard
deviations from the mean, a fifth to a quarter of the cells are missing, and the true slopes are 0.4, 0.3 and 0.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from scipy.special import expit

from benchmarks.common.moment_releases import noisy_moments
from benchmarks.common.report import Results, main
from benchmarks.logistic import DELTA, EPSILON, PARTIES, SEED
from dprelease.arrays import Floats
from dprelease.data.columns import CategoricalColumn, Column, NumericColumn
from dprelease.privacy.gaussian import mu_of
from tests.dprelease.analyses.releases import coded

FILL, REACH, DRAWS = 1.3, 4.0, 300
SIZES = (5_000, 20_000)
TRUE = np.array([0.4, 0.3])
"""Slopes of the feature with gaps and of the one that goes with it."""
GAPPED, NEXT, THIRD, OUTCOME, MISSING = range(1, 6)
COLUMNS: tuple[Column, ...] = (
    *(
        NumericColumn(name=name, lower=-REACH, upper=REACH, fill=FILL)
        for name in ("gapped", "next", "third", "outcome")
    ),
    CategoricalColumn(name="missing", levels=("yes",), fill="yes"),
)
DEPENDS: Mapping[str, Callable[[Floats, Floats], Floats]] = {
    "completely at random": lambda gapped, _: np.full(len(gapped), 0.2),
    "by the next feature": lambda _, other: expit(1.2 * other - 1.72),
    "by its own value": lambda gapped, _: expit(1.2 * gapped - 1.72),
}
"""What cells are missing by, to the probability that they are, of the feature and the next one."""


def _released(n: int, depends: str, random: np.random.Generator) -> Floats:
    """(6, 6) noisy sums of products a patient of the constant and the columns, in original units."""
    other, third = random.normal(size=(2, n))
    gapped = 0.5 * other + np.sqrt(0.75) * random.normal(size=n)
    outcome = np.column_stack([gapped, other, third]) @ [*TRUE, 0.3] + 0.7 * random.normal(size=n)
    missing = random.random(n) < DEPENDS[depends](gapped, other)
    numbers = np.clip([np.where(missing, FILL, gapped), other, third, outcome], -REACH, REACH)
    cells = dict(zip((column.name for column in COLUMNS), numbers, strict=False))
    x = np.column_stack([np.ones(n), coded(COLUMNS, {**cells, "missing": np.where(missing, "yes", "other")})])
    found = noisy_moments(x.T @ x, n, mu_of(EPSILON, DELTA), PARTIES, random, COLUMNS)
    back = np.diag([1.0, *[REACH] * 4, 0.5])
    back[MISSING, 0] = 0.5
    sums: Floats = back @ found.gram @ back.T / n
    sums[MISSING, MISSING] = sums[0, MISSING]
    return sums


def _covariance(sums: Floats) -> Floats:
    found: Floats = sums - np.outer(sums[0], sums[0])
    return found


def _available(sums: Floats) -> Floats:
    """Covariances with those of the feature with gaps among the patients who have it."""
    found, there = _covariance(sums), 1 - sums[0, MISSING]
    among = (sums[GAPPED] - FILL * sums[MISSING]) / there
    mean = (sums[0] - sums[MISSING]) / there
    mean[GAPPED] = among[0]
    among[GAPPED] = (sums[GAPPED, GAPPED] - FILL**2 * sums[0, MISSING]) / there
    found[GAPPED] = found[:, GAPPED] = among - among[0] * mean
    return found


WAYS: Mapping[str, tuple[Callable[[Floats], Floats], list[int]]] = {
    "fill": (_covariance, [GAPPED, NEXT, THIRD]),
    "indicator as a feature": (_covariance, [GAPPED, NEXT, THIRD, MISSING]),
    "available cases": (_available, [GAPPED, NEXT, THIRD]),
}
"""Name to covariances and features."""


def run(quick: bool) -> Results:
    """Errors of slopes where cells of a feature are missing, (epsilon, delta) = (1, 1e-5), three hospitals, five columns."""
    results = Results()
    for depends in DEPENDS:
        for n in SIZES[:1] if quick else SIZES:
            random = np.random.default_rng(SEED)
            errors: dict[str, list[Floats]] = {way: [] for way in WAYS}
            for _ in range(20 if quick else DRAWS):
                sums = _released(n, depends, random)
                for way, (covariance, on) in WAYS.items():
                    of = covariance(sums)
                    slopes = np.linalg.solve(of[np.ix_(on, on)], of[on, OUTCOME])
                    errors[way].append(slopes[:2] - TRUE)
            told = {way: np.sqrt((np.array(each) ** 2).mean(axis=0)) for way, each in errors.items()}
            for at, feature in enumerate(("the feature with gaps", "the next one")):
                for way, each in told.items():
                    about = (
                        f"missing {depends}, {n:,} patients, {way}: root mean square error of the slope of {feature}"
                    )
                    least = told["fill"][at] if way == "indicator as a feature" and n == SIZES[-1] and not at else None
                    results.add(about, each[at], least)
    return results


if __name__ == "__main__":
    main("missing", run)
