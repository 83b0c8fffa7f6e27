"""Coverage of 95 % intervals of slopes from clipped rows, of the population as clipped and of the population as it is.

Three hospitals have 1, 3 and 4 numbers, the last of them the outcome, with (epsilon, 1e-6) for the whole row and ranges first.
Features share a factor, all pairs with correlation .3, and the outcome is linear in them with weights that are drawn anew for
each release:

    normal        features and residuals are normal
    lognormal     they are exp(.8 z) of such normal z, of mean 0 and variance 1

What the population is as clipped depends on the ranges of each release: least squares on `REFERENCE` patients more, clipped by
these. Least squares on the same patients unclipped, where the weights are known, tells what their number leaves open.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from benchmarks.common.moment_releases import both_rounds, bounded
from benchmarks.common.report import Results
from dprelease.arrays import Floats
from dprelease.data.columns import Column, NumericColumn
from dprelease.estimators.intervals.estimates import LIMIT
from dprelease.estimators.intervals.of_moments import learned_from_moments
from dprelease.mechanisms.moments.clipping import Clipping
from dprelease.privacy.gaussian import mu_of

WIDTHS = (1, 3, 4)
FEATURES = sum(WIDTHS) - 1
SHARED, TAIL, REACH, EXPLAINED = 0.3, 0.8, 0.4, 0.5
"""Correlation of normal features, spread of logarithms, largest weight, variance of residuals."""
BOUNDS = {"normal": (-6.0, 6.0), "lognormal": (-6.0, 14.0)}
REFERENCE = 100_000
QUANTILE = 1.959964
LEAST, MOST = 0.93, 0.97


@dataclass(frozen=True)
class Clipped:
    """What is simulated.

    Attributes:
        shape: of the population.
        patients: n.
        epsilon: of the whole row: 1, and where patients are few so much that intervals can be claimed.
        k: of the norms; infinite for ranges alone.
    """

    shape: str
    patients: int
    epsilon: float
    k: float

    def __str__(self) -> str:
        how = f"k = {self.k:g}" if math.isfinite(self.k) else "ranges alone"
        return f"clipped rows, {self.shape}, n = {self.patients:,}, epsilon = {self.epsilon:g}, {how}"


CLIPPED = tuple(
    Clipped(shape, patients, epsilon, k)
    for shape in BOUNDS
    for patients, epsilon, tried in (
        (1_600, 4.0, (0.0, 1.0, 2.0, math.inf)),
        (6_400, 1.0, (0.0,)),
        (20_000, 1.0, (0.0, math.inf)),
    )
    for k in tried
)


@dataclass(frozen=True)
class Held:
    """Over all draws of a setting; NaN where nothing is claimed.

    Attributes:
        known: share of draws that claim to know.
        clipped: share of the claimed intervals that hold the slope of the population as clipped.
        unclipped: the same of the population as it is.
        moved: median distance of the two slopes, in standard errors.
        claimed: draws that claim to know.
    """

    known: float
    clipped: float
    unclipped: float
    moved: float
    claimed: int


def held(setting: Clipped, draws: int, seed: int = 1) -> Held:
    """Draw patients, weights and a release of them, and look whether the intervals hold either truth."""
    own = round(8 * min(setting.k, 8))
    random = np.random.default_rng([seed, setting.patients, len(setting.shape), own])
    columns, mu = _declared(setting.shape), mu_of(setting.epsilon, 1e-6)
    inside, outside, moved = [], [], []
    for _ in range(draws):
        weights = random.uniform(-REACH, REACH, FEATURES)
        rows = _outcome(_patients(setting.shape, setting.patients, random), weights)
        held_by = bounded({f"x{place}": cells for place, cells in enumerate(rows.T)}, columns)
        moments, _ = both_rounds(held_by, mu, random, k=setting.k)
        features, target = range(1, FEATURES + 1), [FEATURES + 1]
        found = learned_from_moments(moments, features, target, np.zeros(FEATURES), intercept=True)
        if not found.noise_ratio < LIMIT:
            continue
        seen = moments.layout.columns
        assert moments.clipping is not None  # noqa: S101 - rows are clipped by their ranges at least
        truth = _slopes_as_clipped(setting.shape, weights, seen, moments.clipping)
        whole = _in_units(weights, seen)
        lower, upper = (ends[:, 0] for ends in found.weights.interval(QUANTILE))
        inside.append((lower < truth) & (truth < upper))
        outside.append((lower < whole) & (whole < upper))
        moved.append(np.abs(truth - whole) / found.weights.standard_error[:, 0])
    if not inside:
        return Held(0.0, math.nan, math.nan, math.nan, 0)
    return Held(
        known=len(inside) / draws,
        clipped=float(np.mean(inside)),
        unclipped=float(np.mean(outside)),
        moved=float(np.median(moved)),
        claimed=len(inside),
    )


def note(results: Results, setting: Clipped, found: Held, *, gated: bool) -> None:
    """Figures of one setting; what is reached of the population as it is, is for information."""
    results.details[str(setting)] = vars(found)
    results.add(f"{setting}: share of draws claimed known", found.known, None, ">=")
    if not found.claimed:
        return
    title = f"{setting}: coverage of slopes of the population"
    results.add(f"{title} as clipped", found.clipped, LEAST if gated else None, ">=")
    results.add(f"{title} as clipped", found.clipped, MOST if gated else None)
    results.add(f"{title} as it is", found.unclipped, None, ">=")
    results.add(f"{setting}: distance of the two slopes, median, in standard errors", found.moved)


def _declared(shape: str) -> dict[str, tuple[Column, ...]]:
    (lower, upper), names = BOUNDS[shape], iter(range(sum(WIDTHS)))
    return {
        f"party{place}": tuple(
            NumericColumn(name=f"x{next(names)}", lower=lower, upper=upper, fill=0.0) for _ in range(width)
        )
        for place, width in enumerate(WIDTHS)
    }


def _patients(shape: str, patients: int, random: np.random.Generator) -> Floats:
    """(n, d + 1) features and residuals, of mean 0 and variance 1."""
    z = random.normal(size=(patients, FEATURES + 1))
    z[:, :-1] = math.sqrt(1 - SHARED) * z[:, :-1] + math.sqrt(SHARED) * random.normal(size=(patients, 1))
    if shape == "normal":
        return z
    mean = math.exp(TAIL**2 / 2)
    found: Floats = (np.exp(TAIL * z) / mean - 1) / math.sqrt(math.expm1(TAIL**2))
    return found


@lru_cache(maxsize=1)
def _reference(shape: str) -> Floats:
    return _patients(shape, REFERENCE, np.random.default_rng(7))


def _outcome(patients: Floats, weights: Floats) -> Floats:
    """(n, d + 1) features and outcome."""
    y = patients[:, :-1] @ weights + math.sqrt(EXPLAINED) * patients[:, -1]
    return np.column_stack([patients[:, :-1], y])


def _in_units(weights: Floats, seen: tuple[Column, ...]) -> Floats:
    """(d,) weights in half-widths of ranges."""
    widths = np.array([each.half_width for each in seen if isinstance(each, NumericColumn)])
    found: Floats = weights * widths[:-1] / widths[-1]
    return found


def _slopes_as_clipped(shape: str, weights: Floats, seen: tuple[Column, ...], clipping: Clipping) -> Floats:
    """(d,) least squares on clipped patients of the population, in half-widths of ranges."""
    units = np.array([(each.midpoint, each.half_width) for each in seen if isinstance(each, NumericColumn)])
    whole = (_outcome(_reference(shape), weights) - units[:, 0]) / units[:, 1]
    rows = np.clip(whole, -1, 1)
    places = {each.name: place for place, each in enumerate(seen)}
    for norm in clipping.norms:
        own = [places[name] for name in norm.columns]
        codes = rows[:, own] * np.array([clipping.weights[place] for place in own])
        rows[:, own] *= np.sqrt(np.minimum(1, norm.squared / (codes**2).sum(axis=1)))[:, None]
    by_chance = _slopes(whole) - _in_units(weights, seen)
    return _slopes(rows) - by_chance


def _slopes(rows: Floats) -> Floats:
    """(d,) least squares of the last column on the others."""
    covariance = np.cov(rows, rowvar=False)
    return np.asarray(np.linalg.solve(covariance[:-1, :-1], covariance[:-1, -1]), np.float64)
