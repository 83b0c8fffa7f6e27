"""Poisson regression on the modelled joint against maximum likelihood on the rows, as `benchmarks.logistic` does it.

Counts are the children of Redbook, whose features nearly follow from one another, and the conditions of SUPPORT2's patients.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from benchmarks.common.files import FOLDER, at_hand
from benchmarks.common.report import Results, main
from benchmarks.logistic import SIZES, Regression, banded, measure, redbook
from demo.redbook import survey
from dprelease.analyses import poisson
from dprelease.analyses.weighted_logit import Poisson

POISSON = Regression(poisson, lambda cells: cells.to_numpy(np.float64), Poisson)
DRAWS = 40
HELD = 0.88
"""Least share of intervals that hold the truth."""


def _texts(counts: pd.Series[float]) -> pd.Series[str]:
    return counts.map("{:g}".format)


def _redbook() -> pd.DataFrame:
    return pd.DataFrame({"children": _texts(survey()["children"])}).join(redbook().drop(columns="affair"))


def _support2() -> pd.DataFrame:
    table = pd.read_csv(FOLDER / "survival" / "support2.csv.gz")
    return pd.DataFrame(
        {
            "conditions": _texts(table["num_co"].clip(upper=6)),
            "sex": table["sex"],
            "diabetes": np.where(table["diabetes"] == 1, "yes", "no"),
            "cancer": table["ca"],
            "age": banded(table["age"], 50, 65, 75),
            "heart": banded(table["hrt"], 80, 110),
        }
    )


TABLES: dict[str, tuple[str, Callable[[], pd.DataFrame]]] = {
    "Redbook, children": ("", _redbook),
    "SUPPORT2, conditions": ("survival/support2.csv.gz", _support2),
}
"""Name to file and reader; the outcome is the first column."""


def run(quick: bool) -> Results:
    """Error, slope and coverage of Poisson regressions of released categories, (epsilon, delta) = (1, 1e-5), three hospitals."""
    results = Results()
    for name, (path, read) in TABLES.items():
        if not at_hand(name, path):
            continue
        for n in SIZES[:1] if quick else SIZES:
            found = measure(read(), n, 1 if quick else DRAWS, POISSON)
            about = f"{name}, {n:,} patients"
            results.add(f"{about}: share of releases that are not refused", found.told)
            if found.told:
                results.add(f"{about}: error in standard errors of a fit to rows", found.error)
                results.add(f"{about}: slope of estimates on the truth", found.slope)
                results.add(f"{about}: coverage of 95 % intervals", found.held, None if quick else HELD, ">=")
                results.add(f"{about}: width of intervals over those of rows", found.width)
    return results


if __name__ == "__main__":
    main("poisson", run)
