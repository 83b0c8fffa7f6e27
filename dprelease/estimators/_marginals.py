"""What noisy moments say of each variable by itself: its mean and its variance, by quadrature, thousands at a time.

The prior is that of `_density` for one variable: with l the lower end of its range, whose upper end is 1,

    p = (m - l)/(1 - l) ~ Beta(EDGE, EDGE),   variance = (m - l)(1 - m) g,   g ~ Beta(SPREAD, 1), or 1 for an indicator,

and its noisy sum and noisy square sum, the latter for numbers only, are what is seen of m and of m^2 + variance. Where a
variable keeps to a small part of its range near an end, its square tells the mean better than its sum does. Sums are over a
grid that is even in the logits of p and g and covers what the noise leaves likely.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from dprelease.estimators._density import EDGE, SPREAD
from dprelease.moments.released import Moments
from dprelease.release import Floats

REACH = 6.0
"""Standard deviations of the noise that the grid covers."""
PLACES, SPREADS = 64, 32
"""Points of the grid for p and for g."""
ENDS = 14.0
"""Largest logit; what lies beyond is taken to be there."""

_AT_ONCE = 256
_TINY = 1e-12
_LEAST = 1e-3
"""Least variance, in the mean one, that a relative loss is measured by."""


@dataclass(frozen=True, eq=False)
class Marginals:
    """Posterior moments of q variables, each (q,), scaled units.

    Attributes:
        mean: of the mean m.
        mean_sd: standard deviation of m.
        variance: mean of the variance.
        modest: square of the harmonic mean of the standard deviation: less where the variance is not known well.
        constant: c that minimises the expected (c - m)^2 / variance: where little is known of a variable with a small
            spread, what would be a gross error for it decides.
        excess: what that minimum is.
        error: mean of the squared error of the constant c, variance + (c - m)^2.
        error_sd: its standard deviation.
        square: mean of m^2 + variance.
        square_sd: its standard deviation.
    """

    mean: Floats
    mean_sd: Floats
    variance: Floats
    modest: Floats
    constant: Floats
    excess: Floats
    error: Floats
    error_sd: Floats
    square: Floats
    square_sd: Floats

    @classmethod
    def of(cls, moments: Moments, wanted: npt.NDArray[np.int64]) -> Marginals:
        """Those of some variables.

        Args:
            moments: as released.
            wanted: (q,) indices in the matrix.
        """
        kinds = np.array([variable.kind for variable in moments.layout.variables])[wanted - 1]
        n = moments.rows
        seen = np.array(
            [
                moments.between([0], wanted)[0] / n,
                np.maximum(moments.noise_between([0], wanted)[0] / n, _TINY),
                moments.own(wanted) / n,
                np.maximum(moments.noise_own(wanted) / n, _TINY),
                np.where(kinds == "level", 0.0, -1.0),
            ]
        )
        found = np.empty((len(fields(cls)), len(wanted)))
        for numeric in (True, False):
            group = np.flatnonzero((kinds == "numeric") == numeric)
            for start in range(0, len(group), _AT_ONCE):
                part = group[start : start + _AT_ONCE]
                found[:, part] = _posterior(*seen[:, part], numeric=numeric)
        return cls(*found)

    def take(self, places: npt.NDArray[np.int64]) -> Marginals:
        """Those of some of the variables."""
        return Marginals(*(value[places] for value in vars(self).values()))


def _posterior(
    mean: Floats, mean_sd: Floats, square: Floats, square_sd: Floats, lower: Floats, *, numeric: bool
) -> Floats:
    """(10, q): the fields of `Marginals`. Arrays in it are (q, places, spreads)."""
    mean, mean_sd, square, square_sd, lower = (each[:, None] for each in (mean, mean_sd, square, square_sd, lower))
    width, reach = 1 - lower, REACH * mean_sd
    place = _grid((mean - reach - lower) / width, (mean + reach - lower) / width, PLACES)[:, 0]
    m, most = lower + width * expit(place), width**2 * expit(place) * expit(-place)
    log = (EDGE * np.log(most) + _cells(place, EDGE, EDGE) - 0.5 * ((m - mean) / mean_sd) ** 2)[:, :, None]
    variance = most[:, :, None]
    if numeric:
        free = square - m**2
        spread = _grid((free - REACH * square_sd) / most, (free + REACH * square_sd) / most, SPREADS)
        part = expit(spread)
        variance = most[:, :, None] * part
        # log(1 - g) = log g - logit g
        log = log + (SPREAD + 1) * np.log(part) - spread + _cells(spread, SPREAD, 1.0)
        log -= 0.5 * ((variance - free[:, :, None]) / square_sd[:, :, None]) ** 2
    m = m[:, :, None]
    weight = np.exp(log - log.max(axis=(1, 2), keepdims=True))
    weight /= weight.sum(axis=(1, 2), keepdims=True)

    def average(values: Floats) -> Floats:
        found: Floats = (weight * values).sum(axis=(1, 2), keepdims=True)
        return found

    def scatter(values: Floats, centre: Floats) -> Floats:
        return np.sqrt(average((values - centre) ** 2))

    centre, typical = average(m), average(variance)
    relative = 1 / np.maximum(variance, _LEAST * typical)
    constant = average(relative * m) / average(relative)
    error, seen = variance + (constant - m) ** 2, variance + m**2
    of_error, of_square = average(error), average(seen)
    means = [centre, scatter(m, centre), typical, 1 / average(np.sqrt(relative)) ** 2, constant]
    means.append(average(relative * (constant - m) ** 2))
    return np.array([*means, of_error, scatter(error, of_error), of_square, scatter(seen, of_square)])[:, :, 0, 0]


def _grid(low: Floats, high: Floats, count: int) -> Floats:
    """(..., count) points even in the logit between two places in [0, 1], at least a hair apart."""
    first = np.clip(logit(np.clip(low, 0, 1)), -ENDS, ENDS - 1)
    last = np.maximum(np.clip(logit(np.clip(high, 0, 1)), 1 - ENDS, ENDS), first + _TINY)
    grid: Floats = first[..., None] + (last - first)[..., None] * np.linspace(0, 1, count)
    return grid


def _cells(grid: Floats, low: float, high: float) -> Floats:
    """Logarithms of what the points stand for, (..., count): a step, and beyond the ends the tails, which fall by these rates."""
    cells = np.broadcast_to(grid[..., 1:2] - grid[..., :1], grid.shape).copy()
    cells[..., 0] += (grid[..., 0] <= -ENDS) / low
    cells[..., -1] += (grid[..., -1] >= ENDS) / high
    return np.log(cells)
