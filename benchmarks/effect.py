"""Adjusted effects on releases of real tables, three hospitals, (epsilon, delta) = (1, 1e-5): intervals and tests of both ways.

Rows are drawn with replacement, as in `benchmarks.logistic`. The truth is what the same estimators give on all rows of a table.
Tables of no effect have its features. Treatment and outcome are drawn from logistic regressions on these, each without the other.
Laws of interactions have the pairs of a table, and each release one of its own: log odds of three columns are drawn as intervals
allow for.

Two laws with the same pairs give the same releases. So intervals that hold for such interactions are too long for a law without:
real tables and those of no effect fall short of the upper end. Intervals without the allowance show that nothing else makes them
long: they are right on tables of no effect, and only there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd
from scipy.special import expit

from benchmarks.common.files import at_hand
from benchmarks.common.moment_releases import noisy_moments
from benchmarks.common.report import Results, main
from benchmarks.logistic import (
    DELTA,
    EPSILON,
    PARTIES,
    SEED,
    SIZES,
    TABLES,
    adult,
    columns_of,
    nhefs,
    redbook,
    releases,
    support2,
)
from dprelease.analyses import effect
from dprelease.analyses.weighted_logit import Logit
from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.estimators import log_linear
from dprelease.privacy.gaussian import mu_of
from dprelease.release.release import Release
from tests.dprelease.analyses.releases import released, viewed

ROWS, DRAWS = 1_000_000, 300
"""Of a table without an effect, so many that chance makes none; and releases of a table."""
WAYS = ("standardised", "weighted")
ALLOWED = log_linear.THREE
HELD, SIZE = (0.92, 0.985), (0.02, 0.075)
"""Reaches of a coverage of 95 % intervals, and of a test at 5 %."""
Kind = Literal["", "no effect, ", "interactions, "]
Truth = dict[str, Floats]
KINDS: tuple[tuple[Kind, float], ...] = (
    ("", ALLOWED),
    ("no effect, ", ALLOWED),
    ("no effect, ", 0.0),
    ("interactions, ", ALLOWED),
)
"""Laws that patients come from, and what intervals allow three columns for."""


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
        same = np.full(len(x), 1 / len(x))
        yes = {name: np.asarray(table[name] == "yes", float) for name in table.columns[:2]}
        chances = {name: expit(x @ _fit(x, each, same).coef) for name, each in yes.items()}
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


def _fit(x: Floats, yes: Floats, share: Floats) -> Logit:
    return Logit.of(x, share, share * yes)


def effects(table: pd.DataFrame, share: Floats | None = None) -> Truth:
    """Way to (2,) risk difference and log risk ratio on rows, of equal shares if left out; treatment and outcome come first."""
    share = np.full(len(table), 1 / len(table)) if share is None else share
    x, (treated, yes) = _features(table), (np.asarray(table[name] == "yes", float) for name in table.columns[:2])
    coef = _fit(np.column_stack([treated, x]), yes, share).coef
    given = expit(x @ _fit(x, treated, share).coef)
    with_it, without = share * treated / given, share * (1 - treated) / (1 - given)
    risks = (
        (share @ expit(x @ coef[1:]), share @ expit(coef[0] + x @ coef[1:])),
        (without @ yes / without.sum(), with_it @ yes / with_it.sum()),
    )
    return {way: np.array([b - a, np.log(b / a)]) for way, (a, b) in zip(WAYS, risks, strict=True)}


def drawn(asked: Asked, n: int, draws: int, kind: Kind) -> Iterator[tuple[Truth, Release]]:
    """Truths, and releases of as many samples of n rows."""
    table = asked.table(null=kind == "no effect, ")
    if kind == "interactions, ":
        yield from _of_interactions(table, n, draws)
        return
    truth = {way: np.zeros(2) for way in WAYS} if kind else effects(table)
    for _, release in releases(table, n, draws):
        yield truth, release


def _of_interactions(table: pd.DataFrame, n: int, draws: int) -> Iterator[tuple[Truth, Release]]:
    columns, random, mu = columns_of(table), np.random.default_rng(SEED), mu_of(EPSILON, DELTA)
    exact = released(columns, {column.name: table[column.name].to_numpy() for column in columns})
    law = log_linear.LogLinear.of(exact.products, columns, outcomes=2)
    triples = [
        np.unique(law.cells[:, of], axis=0, return_inverse=True)[1] for of in combinations(range(len(columns)), 3)
    ]
    named = {column.name: np.array(column.values)[law.cells[:, at]] for at, column in enumerate(columns)}
    for _ in range(draws):
        share = law.on(sum(random.normal(0, ALLOWED, at.max() + 1)[at] for at in triples)).shares
        x = law.coding * np.sqrt(random.multinomial(n, share))[:, None]
        yield (
            effects(pd.DataFrame(named), share),
            viewed(columns, noisy_moments(x.T @ x, n, mu, PARTIES, random, columns)),
        )


@dataclass
class Measured:
    """What came out of all draws, a (2,) array for difference and ratio of each way.

    Attributes:
        held: share of intervals that hold the truth.
        below: share of P below 0.05.
        told: share of draws that are not refused.
    """

    held: Truth
    below: Truth
    told: float


def measure(asked: Asked, n: int, draws: int, kind: Kind, allowed: float = ALLOWED) -> Measured:
    """Release as many samples of n rows, and ask for the effect; `allowed` is what intervals allow three columns for."""
    found: dict[str, list[list[list[float]]]] = {way: [] for way in WAYS}
    for truth, release in drawn(asked, n, draws, kind):
        try:
            with patch.object(log_linear, "THREE", allowed):
                tables = effect(release, asked.treatment, asked.outcome, asked.features).tables
        except InvalidInput:
            continue
        for way in WAYS:
            both = tables["differences"][f"risk difference, {way}"], tables["ratios"][f"risk ratio, {way}"]
            ends = [np.ravel(one.interval()) for one in both]
            true = truth[way][0], np.exp(truth[way][1])
            held = [float(low <= value <= high) for (low, high), value in zip(ends, true, strict=True)]
            found[way].append([held, [float(one.p_value[0] < 0.05) for one in both]])
    means = [{way: np.mean([each[at] for each in of], axis=0) for way, of in found.items() if of} for at in range(2)]
    return Measured(means[0], means[1], len(found[WAYS[0]]) / draws)


def run(quick: bool) -> Results:
    """Coverage of risk differences and ratios by standardisation and weighting, and size of the tests of no effect."""
    results, draws = Results(), 2 if quick else DRAWS
    with ProcessPoolExecutor() as pool:
        made = {
            (name, n, kind, allowed): pool.submit(measure, asked, n, draws, kind, allowed)
            for name, asked in ASKED.items()
            if at_hand(name, asked.path)
            for n in (SIZES[:1] if quick else SIZES)
            for kind, allowed in KINDS
        }
        for (name, n, kind, allowed), waited in made.items():
            found = waited.result()
            about = f"{name}, {kind}{n:,} patients" + ("" if allowed else ", without the allowance")
            results.add(f"{about}: share of releases that are not refused", found.told)
            for way in WAYS if found.told else ():
                for told, share, below in zip(("difference", "ratio"), found.held[way], found.below[way], strict=True):
                    of = f"{about}: risk {told}, {way}"
                    results.add_between(f"{of}: coverage of 95 % intervals", share, None if quick else HELD)
                    if kind == "no effect, ":
                        results.add_between(f"{of}: share with P below 0.05", below, None if quick else SIZE)
    return results


if __name__ == "__main__":
    main("effect", run)
