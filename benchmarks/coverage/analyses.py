"""Coverage of 95 % intervals of analyses in ranges, of the true rows: the tables of `reaches`, every family of analyses.

Releases are those of `reaches`. The truth is the same analysis of the same patients within their public bounds, without noise.
Binaries and levels are explained by the four numbers that go with them most, leaving out those that are nearly the same, and
categories compare five numbers. Three numbers in turn are correlated, and make a mediation, a scale and a regression. An
analysis that a release refuses counts as not answered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.common.report import Results
from benchmarks.coverage.reaches import ALIKE, LEAST, LEAST_HARD, World
from dprelease import analyses
from dprelease.analyses.estimates import Estimates
from dprelease.arrays import Floats
from dprelease.data.columns import Column, NumericColumn
from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.released import NoisyMoments
from dprelease.privacy.gaussian import mu_of
from dprelease.release.release import Release
from tests.dprelease.analyses.releases import viewed

SETTINGS = tuple((name, n) for name in ("stays", "costs", "doctor contacts", "nhefs") for n in (1000, 5000, 20_000))
FEATURES, COMPARED, LEVELS = 4, 5, 2
FEWEST = 100
"""Quantities from which on a coverage is judged; releases share their noise among them."""
FLAT = "inflation"
"""For information: it is 1 for unrelated numbers and has no first derivative there, so that w misses what clipping does."""
CHANCE = 2.0
"""Standard errors that a coverage may lie below its reach."""
Question = Callable[[Release], Estimates]


@dataclass(frozen=True)
class Answered:
    """Over all releases of a setting and all quantities of a family.

    Attributes:
        held: share of the intervals that hold the rows' value.
        uncertain: a standard error of that, between releases, whose quantities share their noise.
        told: share of quantities with an interval.
        count: of quantities.
    """

    held: float
    uncertain: float
    told: float
    count: int


def answered(name: str, patients: int, releases: int, seed: int = 1) -> dict[str, Answered]:
    """Family of analyses to its intervals.

    Args:
        name: of a table.
        patients: n.
        releases: how many, each at epsilon = 1 and delta = 1e-6.
        seed: of everything.
    """
    world, random = World.of(name), np.random.default_rng([seed, patients, len(name)])
    found: dict[str, list[list[tuple[bool, bool]]]] = {}
    for _ in range(releases):
        sample = world.released(world.choose(patients, random), mu_of(1.0, 1e-6), random)
        columns, rows = world.layout.columns, sample.rows
        release, exact = viewed(columns, sample.moments, sample.reaches), viewed(columns, exact_moments(columns, rows))
        own: dict[str, list[tuple[bool, bool]]] = {}
        for family, ask in _questions(world, rows):
            with suppress(InvalidInput):  # rows that no analysis can be of
                own.setdefault(family, []).extend(_compared(ask, release, ask(exact)))
        for family, each in own.items():
            found.setdefault(family, []).append(each)
    return {family: _answered(each) for family, each in found.items()}


def exact_moments(columns: tuple[Column, ...], rows: Floats) -> NoisyMoments:
    """Moments of rows in scaled units without noise."""
    x = np.column_stack([np.ones(len(rows)), rows])
    return NoisyMoments(Layout(columns), x.T @ x, np.zeros((x.shape[1],) * 2), len(rows))


def _compared(ask: Question, release: Release, truth: Estimates) -> Iterator[tuple[bool, bool]]:
    """Of each quantity: whether it is told, and whether its interval holds the truth."""
    told = None
    with suppress(InvalidInput):
        told = ask(release)
    for name in truth.names:
        if told is None or name not in told.names:
            yield False, False
            continue
        lower, upper = (end[0] for end in told[name].interval())
        known = bool(np.isfinite(upper - lower))
        yield known, known and bool(lower <= truth[name].estimate[0] <= upper)


def _answered(releases: Sequence[Sequence[tuple[bool, bool]]]) -> Answered:
    """Out of (told, held) of each quantity, release after release."""
    told, held = (np.array([np.sum([one[part] for one in each]) for each in releases]) for part in (0, 1))
    asked, count = sum(map(len, releases)), int(told.sum())
    if not count:
        return Answered(math.nan, math.nan, 0.0, 0)
    share = float(held.sum() / count)
    # A ratio of sums over independent releases.
    spread = float(np.sqrt(((held - share * told) ** 2).sum()) / count)
    return Answered(share, spread, count / asked, count)


def _questions(world: World, rows: Floats) -> Iterator[tuple[str, Question]]:
    """Family to an analysis of columns that vary."""
    kinds, spread = world.layout.variables, rows.std(axis=0)
    declared = world.layout.columns
    places = {each.name: place for place, each in enumerate(kinds) if spread[place] > 0}
    numbers = [name for name in places if isinstance(declared[kinds[places[name]].column], NumericColumn)]
    numbers = [name for name in numbers if len(np.unique(rows[:, places[name]])) > 2]  # 0/1 are no amounts
    alike = dict(zip(places, np.abs(np.corrcoef(rows[:, list(places.values())], rowvar=False)), strict=True))
    order = list(places)
    for category in (column for column in declared if column.indicators):
        levels = [name for name in category.released if name in places and not name.endswith("=other")]
        for level in levels[len(category.released) > 2 :][:LEVELS]:
            near: list[str] = []
            for name in sorted(numbers, key=lambda name: -alike[level][order.index(name)]):
                if all(alike[name][order.index(other)] < ALIKE for other in near[:FEATURES]):
                    near.append(name)
            yield "logistic", partial(_table, analyses.logistic, (level, near[:FEATURES]), "coefficients")
        for name in numbers[:COMPARED]:
            others = [other for other in numbers if other != name][:LEVELS]
            yield "means", partial(_groups, name, category.name, (), 0)
            yield "differences", partial(_groups, name, category.name, (), 1)
            yield "differences, adjusted", partial(_groups, name, category.name, others, 1)
        yield "rates", partial(_table, analyses.rates, (numbers[-1], numbers[0], category.name), "rate ratios")
    for place in range(0, len(numbers) - 2, 2):
        three = numbers[place : place + 3]
        yield "correlations", partial(_table, analyses.correlations, (three,), "correlations")
        yield "correlations", partial(_table, analyses.correlations, (three[:2], three[2:]), "correlations")
        yield "mediation", partial(_table, analyses.mediation, three, "effects")
        yield "scales", partial(_table, analyses.cronbach_alpha, (three,), "reliability")
        yield "components", partial(_table, analyses.principal_components, (three,), "share of variance")
        yield "inflation", partial(_table, analyses.nested, (three[0], three[1:]), "variance inflation")


def _table(family: Callable[..., analyses.Analysis], asked: Sequence[object], caption: str, of: Release) -> Estimates:
    return family(of, *asked).tables[caption]


def _groups(outcome: str, by: str, adjust: Sequence[str], table: int, of: Release) -> Estimates:
    return list(analyses.compare_groups(of, outcome, [by], adjust).tables.values())[table]


def note(results: Results, setting: tuple[str, int], found: Mapping[str, Answered], *, gated: bool) -> None:
    """Figures of one table."""
    title = f"analyses in ranges, {setting[0]}, n = {setting[1]:,}, epsilon = 1"
    results.details[title] = {family: vars(each) for family, each in found.items()}
    least = LEAST_HARD if setting[0] == "costs" else LEAST
    for family, each in found.items():
        if each.count >= FEWEST:
            reach = least - CHANCE * each.uncertain if gated and family != FLAT else None
            results.add(f"{title}: coverage of {family} of the rows", each.held, reach, ">=")
        results.add(f"{title}: {family} that are told", each.told, None, ">=")
