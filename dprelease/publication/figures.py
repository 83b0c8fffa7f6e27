"""Figures of a release that are the same on every machine: each is a few exact operations on its released numbers.

Sums of many terms would depend on a processor, and draws of a posterior on more. So a mean is a released sum over the number of
patients, and a spread and a correlation follow from three such numbers. `learner describe` says more of the same release: it
draws whole matrices that patients can have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch

from dprelease.document.cells import Estimate
from dprelease.estimators.quality import WIDTHS, is_hidden
from dprelease.mechanisms.moments.released import Moments
from dprelease.mechanisms.noisy_rows.released import NoisyRows
from dprelease.mechanisms.ranges.released import Ranges
from dprelease.mechanisms.view import View
from dprelease.release.release import Release


@dataclass(frozen=True)
class ColumnFigure:
    """One column by itself, in original units; None where the release does not show it, or noise hides it.

    Attributes:
        mean: of the column, and the standard deviation of its noise.
        deviation: standard deviation over patients, the same.
    """

    mean: Estimate | None = None
    deviation: Estimate | None = None


@dataclass(frozen=True)
class ReleasedCorrelations:
    """Correlations of some columns as released.

    Attributes:
        names: (c,).
        values: (c, c) in [-1, 1]; NaN where noise hides one.
        noise_sd: (c, c) to first order.
    """

    names: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    noise_sd: tuple[tuple[float, ...], ...]


def figures(release: Release) -> Mapping[str, ColumnFigure]:
    """Released name to its figure, of all columns that the release says something of by themselves."""
    return _of(release.view, release)


@singledispatch
def _of(view: View, release: Release) -> dict[str, ColumnFigure]:
    return {}


@_of.register
def _of_ranges(view: Ranges, release: Release) -> dict[str, ColumnFigure]:
    return {
        each.column.name: ColumnFigure(
            Estimate(each.mean, each.mean_error, unit=each.column.unit),
            Estimate(each.deviation, each.deviation_error, unit=each.column.unit),
        )
        for each in release.ranges().columns
    }


@_of.register
def _of_rows(view: NoisyRows, release: Release) -> dict[str, ColumnFigure]:
    ones, found = view.ones.tolist(), {}
    weight = ones[0] if view.anchor else math.fsum(one * one for one in ones)
    for name in release.columns if weight else ():
        index, middle, half = view.lookup(name)
        values, noise = view.values[:, index].tolist(), float(view.noise_sd[index])
        total = values[0] if view.anchor else math.fsum(map(float.__mul__, ones, values))
        error = abs(half) * noise / (weight if view.anchor else math.sqrt(weight))
        found[name] = ColumnFigure(_mean(release, name, float(middle + half * (total / weight)), float(error)))
    return found


@_of.register
def _of_moments(moments: Moments, release: Release) -> dict[str, ColumnFigure]:
    seen, found = _Seen(moments), {}
    for name in release.columns:
        index, middle, half = moments.lookup(name)
        mean, noise = seen.mean(index)
        spread, error = seen.deviation(index)
        shown = _mean(release, name, float(middle + half * mean), float(abs(half) * noise))
        unit, scale = release.column(name).released_unit, abs(float(half))
        hidden = spread <= 0 or spread < WIDTHS / 2 * error or (shown is None and release.column(name).indicators)
        found[name] = ColumnFigure(shown, None if hidden else Estimate(scale * spread, scale * error, unit=unit))
    return found


def _mean(release: Release, name: str, mean: float, error: float) -> Estimate | None:
    if is_hidden(error, release.width(name)):
        return None
    return Estimate(mean, error, unit=release.column(name).released_unit)


def correlations(release: Release, most: int) -> ReleasedCorrelations | None:
    """Correlations of the first columns of a release of joint moments; None where there is nothing to correlate."""
    moments = release.view.joint
    if moments is None or min(len(moments.names), most) < 2:
        return None
    names, seen = moments.names[:most], _Seen(moments)
    places = range(1, len(names) + 1)
    pairs = [[seen.correlation(row, column) for column in places] for row in places]
    values, noise = (tuple(tuple(pair[part] for pair in line) for line in pairs) for part in (0, 1))
    return ReleasedCorrelations(names, values, noise)


class _Seen:
    """Moments of scaled columns, with noise; what noise adds to a square on average is taken off."""

    def __init__(self, moments: Moments) -> None:
        every, n = range(len(moments.names) + 1), moments.rows
        self._moments, self._n = moments, n
        self._mean = [each / n for each in moments.between([0], every)[0].tolist()]
        self._noise = [each / n for each in moments.noise_between([0], every)[0].tolist()]
        self._own = [each / n for each in moments.own(every).tolist()]
        self._own_noise = [each / n for each in moments.noise_own(every).tolist()]
        self._level = moments.layout.level.tolist()

    def mean(self, index: int) -> tuple[float, float]:
        return self._mean[index], self._noise[index]

    def deviation(self, index: int) -> tuple[float, float]:
        """A standard deviation and its noise to first order; zeros where noise leaves no variance."""
        mean, first = self._mean[index], self._noise[index] ** 2
        variance = self._own[index] - mean * mean + first
        own = 0.0 if self._level[index] else self._own_noise[index] ** 2
        noise = math.sqrt(own + (self._level[index] - 2 * mean) ** 2 * first)
        spread = math.sqrt(variance) if variance > 0 else 0.0
        return (spread, noise / (2 * spread)) if spread else (0.0, 0.0)

    def correlation(self, row: int, column: int) -> tuple[float, float]:
        if row == column:
            return 1.0, 0.0
        means, firsts = (self._mean[row], self._mean[column]), (self._noise[row] ** 2, self._noise[column] ** 2)
        product = self.deviation(row)[0] * self.deviation(column)[0]
        if not product:
            return math.nan, math.nan
        entry = float(self._moments.between([row], [column])[0, 0]) / self._n
        among = (float(self._moments.noise_between([row], [column])[0, 0]) / self._n) ** 2
        noise = math.sqrt(among + means[0] ** 2 * firsts[1] + means[1] ** 2 * firsts[0]) / product
        found = (entry - means[0] * means[1]) / product
        return (max(-1.0, min(1.0, found)), noise) if noise * WIDTHS < 2 else (math.nan, math.nan)
