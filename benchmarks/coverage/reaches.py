"""Coverage of 95 % intervals of slopes in ranges, of the true rows: tables of `accuracy` and two with long tails.

Every release has ranges first, for three hospitals of which one may be curious. Patients are drawn anew for each, without
putting back where there are enough. The truth is least squares on these patients within the public bounds. Each number is
regressed on the two numbers that go with it most, leaving out those that are nearly the same, and each of the table's usual
outcomes on all columns.
Slopes of a release share its noise, so that a coverage of 40 releases is uncertain by about .01.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from benchmarks.accuracy.problem import Problem
from benchmarks.accuracy.ranges import bounded_rows
from benchmarks.accuracy.tables import TABLES
from benchmarks.common.moment_releases import GRID_BITS, both_rounds
from benchmarks.common.report import Results
from benchmarks.coverage.long_tails import TABLES as LONG
from benchmarks.coverage.long_tails import drawn
from dprelease.arrays import Floats
from dprelease.data.bounding import BoundedRows
from dprelease.document.cells import LEVEL
from dprelease.estimators.intervals.clipped import Clipped
from dprelease.estimators.intervals.estimates import LIMIT, ends
from dprelease.estimators.intervals.of_moments import learned_from_moments
from dprelease.mechanisms.moments.entries import Layout, code
from dprelease.mechanisms.moments.released import NoisyMoments
from dprelease.privacy.gaussian import mu_of
from dprelease.release.reaches import LEAST_KEPT, Reach, reaches_of

SIZES = (1000, 5000, 20_000, 60_000)
HARD = {"stays": ("medications", "stay"), "costs": ("hospital", "visits")}
"""Made-up tables, and their outcomes."""
LEAST, LEAST_HARD, LEAST_KNOWN, FEW = 0.93, 0.90, 0.90, 5000
"""Coverage, that of `costs`, and the share of slopes with an interval from so many patients on."""
ALIKE = 0.95
"""Correlation from which on two numbers are nearly the same."""


Places = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Sample:
    """Patients of a table, and their release.

    Attributes:
        rows: (n, p) variables in scaled units of the public bounds.
        moments: released, in ranges of a first round.
        reaches: how far these reach.
    """

    rows: Floats
    moments: NoisyMoments
    reaches: tuple[Reach, ...]


@dataclass(frozen=True, eq=False)
class World:
    """A table that patients are drawn from.

    Attributes:
        bounded: party to its rows.
        outcomes: names of usual ones.
    """

    bounded: Mapping[str, BoundedRows]
    outcomes: tuple[str, ...]

    @classmethod
    def of(cls, name: str) -> World:
        """By its name."""
        if name not in LONG:
            table = next(each for each in TABLES if each.name == name)
            return cls(bounded_rows(Problem.of(table)), table.targets)
        cells, columns = drawn(LONG[name], np.random.default_rng([11, len(name)])), LONG[name].columns
        codes = np.rint(np.ldexp(cells, GRID_BITS)).astype(np.int32)
        ends = np.cumsum([len(column.released) for column in columns])
        bounded = {}
        for party, own in enumerate(np.array_split(np.arange(len(columns)), 3)):
            first, last = own[0], own[-1]
            part = codes[:, ends[first] - len(columns[first].released) : ends[last]]
            bounded[f"party{party}"] = BoundedRows(part, columns[first : last + 1], GRID_BITS)
        return cls(bounded, HARD[name])

    @cached_property
    def layout(self) -> Layout:
        """Variables of all parties."""
        return Layout(tuple(column for rows in self.bounded.values() for column in rows.columns))

    @cached_property
    def rows(self) -> Floats:
        """(N, p) variables in scaled units of the public bounds."""
        return variables(self.bounded)

    def choose(self, count: int, random: np.random.Generator) -> Places:
        """(count,) places of patients, each once as long as there are enough."""
        whole = len(self.rows)
        return random.permutation(whole)[:count] if count <= whole else random.integers(0, whole, count)

    def released(self, chosen: Places, mu: float, random: np.random.Generator) -> Sample:
        """A release of the patients at these places."""
        bounded = {party: BoundedRows(own.codes[chosen], own.columns, GRID_BITS) for party, own in self.bounded.items()}
        moments, ranges = both_rounds(bounded, mu, random)
        assert moments.clipping is not None  # noqa: S101 - there are ranges
        parties = {party: own.columns for party, own in bounded.items()}
        return Sample(variables(bounded), moments, reaches_of(moments.clipping, parties, ranges))

    @cached_property
    def models(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """(outcome, features), places among the variables."""
        kinds, spread = self.layout.variables, self.rows.std(axis=0)
        numbers = [i for i, each in enumerate(kinds) if each.measured and spread[i] > 0]
        found, alike = [], np.abs(np.corrcoef(self.rows[:, numbers], rowvar=False))
        for y, near in zip(numbers, alike, strict=True):
            chosen: list[int] = []
            for at in np.argsort(-near):
                if numbers[at] != y and near[at] < ALIKE and all(alike[at, other] < ALIKE for other in chosen):
                    chosen.append(int(at))
            found.append((y, tuple(numbers[at] for at in chosen[:2])))
        left_out = self.layout.first_level
        names = [each.name for each in kinds]
        for outcome in self.outcomes:
            y = names.index(outcome)
            features = [
                i
                for i, each in enumerate(kinds)
                if each.column != kinds[y].column and spread[i] > 0 and not (each.level and left_out[i])
                if not each.name.endswith("=other")
            ]
            found.append((y, tuple(features)))
        return tuple(found)


def variables(bounded: Mapping[str, BoundedRows]) -> Floats:
    """(n, p) variables of all parties in scaled units of the public bounds."""
    codes = np.hstack([code(rows.codes, rows.columns) for rows in bounded.values()])
    found: Floats = np.ldexp(codes.astype(np.float64), -GRID_BITS)
    return found


@dataclass(frozen=True)
class Held:
    """Over all releases of a setting.

    Attributes:
        held: share of the intervals with two ends that hold the slope of the rows.
        estimated: the same of those that are wider by an estimate; the others are bounded by counts and public bounds alone.
        bounded: share of slopes with one of these others.
        known: share of slopes with such an interval; regressions on all columns that noise hides are left out.
        length: median length of all intervals, in standard deviations.
        widest: the same of those that counts and public bounds alone bound; NaN without any.
    """

    held: float
    estimated: float
    bounded: float
    known: float
    length: float
    widest: float


def held(name: str, patients: int, epsilon: float, releases: int, seed: int = 1) -> Held:
    """Intervals of all slopes of a table.

    Args:
        name: of the table.
        patients: n.
        epsilon: of the whole row, with delta = 1e-6.
        releases: how many.
        seed: of everything.
    """
    world, mu, slopes = World.of(name), mu_of(epsilon, 1e-6), []
    random = np.random.default_rng([seed, patients, round(10 * epsilon), len(name)])
    for _ in range(releases):
        slopes += _slopes(world, world.released(world.choose(patients, random), mu, random))
    shown, bounded, inside, length = (np.array(each) for each in zip(*slopes, strict=True))
    return Held(
        held=float(inside[shown].mean()),
        estimated=float(inside[shown & ~bounded].mean()),
        bounded=float((shown & bounded).mean()),
        known=float(shown.mean()),
        length=float(np.median(length[shown])),
        widest=float(np.median(length[shown & bounded])) if (shown & bounded).any() else math.nan,
    )


def _slopes(world: World, sample: Sample) -> list[tuple[bool, bool, bool, float]]:
    """Of each slope: whether it has an interval, whether counts alone bound it, whether it holds the truth, and how long it is."""
    rows, moments, found = sample.rows, sample.moments, []
    reaches = {each.name: each for each in sample.reaches}
    kept = np.array([reaches[each.name].kept if each.name in reaches else 1.0 for each in world.layout.variables])
    new, old = (
        np.array([layout.columns[each.column].half_width for each in world.layout.variables])
        for layout in (moments.layout, world.layout)
    )
    half = new / old
    spreads = np.array([reaches[e.name].spread if e.name in reaches else np.inf for e in world.layout.variables]) / new
    for y, x in world.models:
        features = list(x)
        if min(rows[:, [y, *features]].std(axis=0)) < 1e-6:
            continue
        fit = learned_from_moments(moments, [i + 1 for i in features], [y + 1], np.zeros(len(x)), intercept=True)
        if not fit.noise_ratio < LIMIT:
            found += [(False, False, False, 0.0)] * len(x) if len(x) == 2 else []
            continue
        units = half[y] / half[features][None]
        weights = fit.weights.transposed.in_units(units)
        places = [i + 1 for i in features]
        clipped = Clipped.of(moments, [y + 1], places, intercept=True)
        wider = units * clipped.lost(weights.value / units, kept[[y]], kept[features], spreads[[y]])
        lower, upper = (end[0] for end in ends(weights, LEVEL, wider))
        design = np.column_stack([np.ones(len(rows)), rows[:, features]])
        truth = np.linalg.lstsq(design.T @ design, design.T @ rows[:, y], rcond=None)[0][1:]
        scale = rows[:, y].std() / rows[:, features].std(axis=0)
        found += zip(
            np.isfinite(upper - lower).tolist(),
            (kept[y] * kept[features] < LEAST_KEPT).tolist(),
            ((lower <= truth) & (truth <= upper)).tolist(),
            ((upper - lower) / scale).tolist(),
            strict=True,
        )
    return found


SETTINGS = tuple(
    (name, patients, 1.0)
    for name in (*(each.name for each in TABLES if each.name != "superconductivity"), *HARD)
    for patients in SIZES
)


def note(results: Results, setting: tuple[str, int, float], found: Held, *, gated: bool) -> None:
    """Figures of one setting."""
    name, patients, epsilon = setting
    title = f"ranges first, {name}, n = {patients:,}, epsilon = {epsilon:g}"
    results.details[title] = vars(found)
    least = LEAST_HARD if name == "costs" else LEAST
    results.add(f"{title}: coverage of slopes of the rows", found.held, least if gated else None, ">=")
    results.add(f"{title}: coverage where w is an estimate", found.estimated, least if gated else None, ">=")
    results.add(f"{title}: slopes that counts and public bounds alone bound", found.bounded)
    results.add(
        f"{title}: slopes with an interval", found.known, LEAST_KNOWN if gated and patients >= FEW else None, ">="
    )
    results.add(f"{title}: median length of an interval, in standard deviations", found.length)
