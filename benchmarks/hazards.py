"""Hazard ratios of several covariates on simulated releases, for (epsilon, delta) = (1, 1e-5): intervals and tests.

Patients and releases are those of `benchmarks.survival.covariates`.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict

from benchmarks.common.report import Results, main
from benchmarks.survival.covariates import SHAPES, FoundOf, measure, told
from tests.support.covariates import Patients

RELEASES, OF_TWENTY, QUICK = 200, 100, 1
"""Releases of a shape; of twenty levels, which take ten times as long; and in a quick run."""


def run(quick: bool) -> Results:
    """Coverage of intervals of log hazard ratios, and size of the tests of a ratio and of a covariate."""
    results = Results()
    many = [QUICK if quick else OF_TWENTY if each.shape == "twenty levels" else RELEASES for each in SHAPES]
    with ProcessPoolExecutor() as pool:
        for people, found in zip(SHAPES, pool.map(measure, SHAPES, many), strict=True):
            _note(results, people, found, quick)
    return results


def _note(results: Results, people: Patients, found: FoundOf, quick: bool) -> None:
    title = told(people)
    results.details[title] = asdict(found)
    results.add(f"{title}: share of releases that are answered", found.answered)
    results.add(f"{title}: bias of log ratios, in standard errors", found.bias)
    results.add_between(f"{title}: coverage of log ratios", found.held, None if quick else (0.92, 0.985))
    if not people.effect:
        reach = None if quick else (0.02, 0.075)
        results.add_between(f"{title}: share of ratios with P below 0.05", found.below, reach)
        results.add_between(f"{title}: size of the tests at 5 %", found.joint, reach)


if __name__ == "__main__":
    main("hazards", run)
