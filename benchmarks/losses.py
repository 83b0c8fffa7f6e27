"""AUC that models of synthetic rows lose, beside what `coordinator plan` quotes at the nearest ratio of patients to noise.

Releases, rows and logistic models are those of `benchmarks.tables`.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

import numpy as np

from benchmarks.common.files import at_hand
from benchmarks.common.report import Results, main
from benchmarks.tables.data import SOURCES
from benchmarks.tables.mixture import lost
from dprelease.planning.tables import quoted_loss

SETTINGS = (
    ("Adult", 2000),
    ("Adult", 6000),
    ("Adult", 16_000),
    ("Adult", 36_000),
    ("SUPPORT2", 2000),
    ("SUPPORT2", 6000),
)
DRAWS = 3


def run(quick: bool) -> Results:
    """Part of its distance from 1/2 that the AUC of logistic models loses; three draws of a table and size, one when quick."""
    results, outside = Results(), []
    there = [name for name, (path, _) in SOURCES.items() if at_hand(name, path)]
    settings = [each for each in (SETTINGS[4:5] if quick else SETTINGS) if each[0] in there]
    with ProcessPoolExecutor() as pool:
        found = (
            pool.map(lost, *zip(*settings, strict=True), [1 if quick else DRAWS] * len(settings)) if settings else ()
        )
        for (name, rows), (ratio, draws) in zip(settings, found, strict=True):
            quote = quoted_loss(ratio)
            title = f"{name}, n = {rows:,}, {ratio:.0f} patients for each of noise"
            results.details[title] = draws
            results.add_between(
                f"{title}: part that the AUC loses", float(np.mean(draws)), None if quick else quote[1:]
            )
            outside += [max(quote[1] - each, each - quote[2], 0.0) for each in draws]
    if outside:
        results.add("share of draws outside of what is quoted", float(np.mean(np.array(outside) > 0)))
        results.add("farthest outside", max(outside))
    return results


if __name__ == "__main__":
    main("losses", run)
