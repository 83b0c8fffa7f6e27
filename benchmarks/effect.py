"""Adjusted effects on releases of real tables, three hospitals, (epsilon, delta) = (1, 1e-5): intervals and tests of both ways.

Rows are drawn with replacement, as in `benchmarks.logistic`. The truth is what the same estimators give on all rows of a table.
Tables of no effect have its features. Treatment and outcome are drawn from logistic regressions on these, each without the other.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit

from benchmarks.common.files import at_hand
from benchmarks.common.report import Results, main
from benchmarks.logistic import SEED, SIZES, TABLES, adult, columns_of, nhefs, redbook, releases, support2
from dprelease.analyses import effect
from dprelease.analyses.weighted_logit import Logit
from dprelease.arrays import Floats
from dprelease.errors import InvalidInput

ROWS, DRAWS = 1_000_000, 300
"""Of a table without an effect, so many that chance makes none; and releases of a table."""
WAYS = ("standardised", "weighted")
HELD, SIZE = (0.92, 0.985), (0.02, 0.075)
"""Reaches of a coverage of 95 % intervals, and of a test at 5 %."""


class Asked(NamedTuple):
    """A table, the file it comes from, and what is asked of it; all features are adjusted for."""

    path: str
    read: Callable[[], pd.DataFrame]
    treatment: str
    outcome: str
    features: tuple[str, ...]

    def table(self, *, null: bool) -> pd.DataFrame:
        """Its columns, or made-up ones without an effect."""
        table = self.read()[[self.treatment, self.outcome, *self.features]]
        if not null:
            return table
        random, x = np.random.default_rng(SEED), _features(table)
        chances = {name: expit(x @ _fit(x, table[name]).coef) for name in table.columns[:2]}
        places = random.integers(len(table), size=ROWS)
        drawn = {name: np.where(random.random(ROWS) < chance[places], "yes", "no") for name, chance in chances.items()}
        return table.iloc[places].reset_index(drop=True).assign(**drawn)


ASKED = {
    "NHEFS, quitting and death": Asked(TABLES["NHEFS"][0], nhefs, "qsmk", "death", ("age", "sex", "race")),
    "SUPPORT2, diabetes and death": Asked(
        TABLES["SUPPORT2"][0], support2, "diabetes", "death", ("age", "sex", "cancer", "heart")
    ),
    "Adult, capital gains and income": Asked(
        TABLES["Adult"][0], adult, "gain", "income", ("age", "sex", "education", "married")
    ),
    "Redbook, religion and affairs": Asked("", redbook, "religious", "affair", ("age", "years", "happy")),
}


def _features(table: pd.DataFrame) -> Floats:
    """(n, q) the constant, and indicators of all levels but the first of all columns but the first two."""
    of = [table[column.name] == level for column in columns_of(table)[2:] for level in column.values[1:]]
    return np.column_stack([np.ones(len(table)), *of]).astype(float)


def _fit(x: Floats, cells: pd.Series[str]) -> Logit:
    return Logit.of(x, np.full(len(x), 1 / len(x)), np.asarray(cells == "yes") / len(x))


def effects(table: pd.DataFrame) -> dict[str, Floats]:
    """Way to (2,) risk difference and log risk ratio on rows; treatment and outcome are the first columns."""
    x, (treated, yes) = _features(table), (np.asarray(table[name] == "yes", float) for name in table.columns[:2])
    coef = _fit(np.column_stack([treated, x]), table.iloc[:, 1]).coef
    given = expit(x @ _fit(x, table.iloc[:, 0]).coef)
    with_it, without = treated / given, (1 - treated) / (1 - given)
    risks = (
        (expit(x @ coef[1:]).mean(), expit(coef[0] + x @ coef[1:]).mean()),
        (without @ yes / without.sum(), with_it @ yes / with_it.sum()),
    )
    return {way: np.array([b - a, np.log(b / a)]) for way, (a, b) in zip(WAYS, risks, strict=True)}


@dataclass
class Measured:
    """What came out of all draws, a (2,) array for difference and ratio of each way.

    Attributes:
        held: share of intervals that hold the truth.
        below: share of P below 0.05.
        told: share of draws that are not refused.
    """

    held: dict[str, Floats]
    below: dict[str, Floats]
    told: float


def measure(asked: Asked, n: int, draws: int, *, null: bool) -> Measured:
    """Release as many samples of n rows, and ask for the effect."""
    table = asked.table(null=null)
    truth = {way: np.zeros(2) for way in WAYS} if null else effects(table)
    held: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    below: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    for _, release in releases(table, n, draws):
        try:
            tables = effect(release, asked.treatment, asked.outcome, asked.features).tables
        except InvalidInput:
            continue
        for way in WAYS:
            both = tables["differences"][f"risk difference, {way}"], tables["ratios"][f"risk ratio, {way}"]
            ends = [np.ravel(one.interval()) for one in both]
            true = truth[way][0], np.exp(truth[way][1])
            held[way].append([float(low <= value <= high) for (low, high), value in zip(ends, true, strict=True)])
            below[way].append([float(one.p_value[0] < 0.05) for one in both])
    told = len(held[WAYS[0]]) / draws
    means = [{way: np.mean(of[way] or [[np.nan] * 2], axis=0) for way in WAYS} for of in (held, below)]
    return Measured(means[0], means[1], told)


def run(quick: bool) -> Results:
    """Coverage of risk differences and ratios by standardisation and weighting, and size of the tests of no effect."""
    results, draws = Results(), 2 if quick else DRAWS
    with ProcessPoolExecutor() as pool:
        made = {
            (name, n, null): pool.submit(measure, asked, n, draws, null=null)
            for name, asked in ASKED.items()
            if at_hand(name, asked.path)
            for n in (SIZES[:1] if quick else SIZES)
            for null in (False, True)
        }
        for (name, n, null), waited in made.items():
            found, about = waited.result(), f"{name}, {'no effect, ' if null else ''}{n:,} patients"
            results.add(f"{about}: share of releases that are not refused", found.told)
            for way in WAYS if found.told else ():
                for told, held, below in zip(("difference", "ratio"), found.held[way], found.below[way], strict=True):
                    of = f"{about}: risk {told}, {way}"
                    results.add_between(f"{of}: coverage of 95 % intervals", held, None if quick else HELD)
                    if null:
                        results.add_between(f"{of}: share with P below 0.05", below, None if quick else SIZE)
    return results


if __name__ == "__main__":
    main("effect", run)
