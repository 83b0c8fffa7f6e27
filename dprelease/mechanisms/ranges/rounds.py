"""One column's row of a block: what each of two rounds publishes, and the location and scale that follow from its noisy integers.

A hospital and whoever verifies compute the same here, the former from its own noisy integers before it makes the next round.
Location and scale are posterior means on a grid.

Round 1 reads noisy prefix counts F as those of a normal law of centre m and log scale l on the cells, clipped to the public
bounds as cells are. Counts of real columns differ from it by `MISFIT` of the rows. With the prior m ~ N(0, 1/4) on [-1, 1]
and l ~ Laplace(log .3, .6), its mean and standard deviation after clipping have posterior means and standard deviations.
The tails of Laplace's law leave the counts the last word where bounds are far too wide. A normal law misses the tail of
counts and costs, so the scale is at least `TAIL` times that read off the tail of the counts themselves. If both disagree,
the scale is no better known than that, up to the width of its prior.

Round 2 has sums of z and z^2 for z = (x - m_1) / (4 s_1), clipped to [-1, 1], which say m and s without any law:
E z = (m - m_1)/(4 s_1), E z^2 = (s^2 + (m - m_1)^2)/(4 s_1)^2. Round 1 is their prior, with standard deviations of at least
`LEAST_LOG` of log s and `LEAST_CENTRE` s of m, for its law may be wrong, and no cell's width counts as known. Rows beyond the
window that the counts show are added (`beyond`). The final scale lies `CAUTION` posterior standard
deviations above the posterior mean of log s: too small a scale clips more than a large one costs.

Lengths are in half-widths of the public bounds from their midpoint. Everything follows from published numbers, the same on every
machine but for the last digits of its arithmetic. Source: docs/methods.md, "Ranges".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from dprelease.arrays import Floats, Integers
from dprelease.data.columns import Number
from dprelease.data.ranges import REACHES, STEPS, Range
from dprelease.errors import IntegrityError
from dprelease.mechanisms.ranges.beyond import hidden, octaves, shown
from dprelease.mechanisms.ranges.released import CELL, EDGES, Distribution, Margin
from dprelease.mechanisms.ranges.terms import CELLS, LARGEST_CODE, WINDOW, Scales, noise_axes

PRIOR = ((0.0, math.log(0.3)), (0.5, 0.6))
"""Before anything is known: centres of m and log s, standard deviation of m, and mean absolute deviation of log s."""
MISFIT = 0.02
"""Share of the rows by which prefix counts differ from a normal law's, one standard deviation."""
TAIL, LEAST_SHARE, MOST_SHARE, SURE_SHARE = 0.9, 0.04, 0.2, 2.2
"""The tail's scale counts so far; it is read at this share of the rows at least, at so many noise sd, and not beyond the most."""
LEAST_LOG, LEAST_CENTRE = 0.25, 0.2
CAUTION = 0.3

HEAP, HEAP_SD = 2.0, 1.5
"""A normal law may have settled on a heap where its scale, less so many posterior sd of its logarithm, is below so many cells."""

_GRIDS, _NODES, _REACH, _CLOSER = 16, 13, 5.0, 0.5
"""Grids at most, nodes of an axis, spreads from the middle to an end, and a spread at least, in spacings of the grid before."""
_LEAST_VARIANCE = 1e-14
_CERTAIN = 8.3
"""Standard deviations beyond which a normal law's distribution function is 0 or 1 in double precision."""
_SETTLED = 1e-8
"""Grids that differ by less than this give numbers that differ by a hundredth of what readers tolerate."""

LEAST_WINDOW = 2 * STEPS // CELLS // WINDOW
"""S1 at least: the second round's range reaches a cell from its centre, for a heap may be anywhere in its cell."""
_WIDEST = WINDOW * STEPS
_TOLERANCE = 1e-6

Density = Callable[[Floats, Floats], Floats]
Numbers = Callable[[Floats, Floats], tuple[Floats, Floats]]


@dataclass(frozen=True)
class Location:
    """Posterior of a column's centre and scale.

    Attributes:
        centre: posterior mean of the column's mean.
        log_scale: of the logarithm of its standard deviation.
        centre_sd: posterior standard deviation.
        log_scale_sd: the same.
        hidden: how far rows that counts do not show may move the mean and the variance, one standard deviation.
    """

    centre: float
    log_scale: float
    centre_sd: float
    log_scale_sd: float
    hidden: tuple[float, float] = (0.0, 0.0)

    @property
    def mean_error(self) -> float:
        """The error that noise and hidden rows leave in the mean, one standard deviation."""
        return math.hypot(self.centre_sd, self.hidden[0])

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return math.exp(self.log_scale)

    @property
    def deviation_error(self) -> float:
        """The error that noise and hidden rows leave in it: its growth with a variance that is one error larger."""
        variance = self.deviation**2
        return math.sqrt(variance + math.hypot(2 * variance * self.log_scale_sd, self.hidden[1])) - self.deviation


@dataclass(frozen=True, eq=False)
class Counted:
    """The result of round 1.

    Attributes:
        law: the noisy distribution function.
        found: centre and scale.
        heap: whether the normal law may have settled on one heap of rows, so that the others may lie anywhere.
    """

    law: Distribution
    found: Location
    heap: bool


@lru_cache(maxsize=256)
def _after_counts(counts: bytes, rows: int, scale: float) -> Counted:
    """Kept, for who reads a release recomputes it several times."""
    found = Distribution.of(np.frombuffer(counts, np.int64), rows, scale)
    axes = noise_axes(CELLS)
    whiten = axes.directions / np.sqrt(found.unit**2 * axes.along + MISFIT**2)
    seen = found.noisy @ whiten
    (centre, log_scale), (centre_sd, log_scale_deviation) = PRIOR

    def log_density(m: Floats, log_s: Floats) -> Floats:
        # Edges that no law of the grid tells from 0 or from 1 are left out: most of them, if a column is narrow.
        reach = _CERTAIN * np.exp(log_s)
        begin, end = np.searchsorted(EDGES[1:-1], ((m - reach).min(), (m + reach).max()))
        law = ndtr((EDGES[1 + begin : 1 + end] - m.reshape(-1, 1)) * np.exp(-log_s).reshape(-1, 1))
        # One product: many small ones are slow, and slower on several threads.
        misfit = seen - whiten[end:].sum(axis=0) - law @ whiten[begin:end]
        prior = ((m - centre) / centre_sd) ** 2 + 2 * np.abs(log_s - log_scale) / log_scale_deviation
        density: Floats = -0.5 * (np.sum(misfit * misfit, axis=1).reshape(m.shape) + prior)
        return density

    around = Location(centre, log_scale, centre_sd, 2 * log_scale_deviation)
    first = posterior(log_density, around, clipped)
    heap = math.exp(first.log_scale - HEAP_SD * first.log_scale_sd) < HEAP * CELL
    tail = _tail(found, first.centre)
    if tail is not None and tail > first.log_scale:
        doubt = min(tail - first.log_scale, log_scale_deviation)
        first = Location(first.centre, tail, first.centre_sd, max(first.log_scale_sd, doubt))
    return Counted(found, first, heap)


def _tail(found: Distribution, centre: float) -> float | None:
    """Log of the larger tail's scale; None where noise leaves none to be read, or it is empty."""
    share = max(LEAST_SHARE, SURE_SHARE * float(found.noise_sd.max()))
    if share >= MOST_SHARE:
        return None
    reach = max(found.quantile(1 - share) - centre, centre - found.quantile(share))
    return math.log(TAIL * reach / -float(ndtri(share))) if reach > 0 else None


def after_sums(counted: Counted, used: Placed, total: int, squares: int, rows: int, scales: Scales) -> Location:
    """The result of both rounds; `final` makes M and S of it.

    Args:
        counted: what the first round says.
        used: M1 and S1 as published, which the second round's range came from.
        total: sum T and noise.
        squares: sum T^2 and noise.
        rows: n.
        scales: of the noise.
    """
    centre, scale = used.centre / STEPS, used.scale / STEPS
    mean, mean_sd = total / (rows * LARGEST_CODE), scales.total / (rows * LARGEST_CODE)
    square, square_sd = squares / (rows * LARGEST_CODE**2), scales.squares / (rows * LARGEST_CODE**2)
    prior = Location(
        centre,
        math.log(scale),
        max(counted.found.centre_sd, LEAST_CENTRE * scale, CELL / math.sqrt(12)),
        max(counted.found.log_scale_sd, LEAST_LOG),
    )

    def log_density(m: Floats, log_s: Floats) -> Floats:
        moved, spread = (m - centre) / scale, np.exp(2 * (log_s - prior.log_scale))
        seen = ((mean - moved / WINDOW) / mean_sd) ** 2 + ((square - (spread + moved**2) / WINDOW**2) / square_sd) ** 2
        believed = ((m - centre) / prior.centre_sd) ** 2 + ((log_s - prior.log_scale) / prior.log_scale_sd) ** 2
        return -0.5 * (seen + believed)

    inside = posterior(log_density, prior, lambda m, log_s: (m, log_s))
    return _with_rows_beyond(counted, inside, centre, scale)


def _with_rows_beyond(counted: Counted, inside: Location, centre: float, scale: float) -> Location:
    """Mean and spread of all rows, from those of rows as clipped to the window."""
    law, variance = counted.law, inside.deviation**2
    outside = octaves(law, centre, scale)
    gains, sds = shown(outside, law)
    mean = inside.centre + float(gains[0])
    square = variance + (inside.centre - centre) ** 2 + float(gains[1])
    whole = max(square - (mean - centre) ** 2, variance)  # clipping makes no variance larger
    error = math.hypot(2 * variance * inside.log_scale_sd, float(sds[1]))
    missing = hidden(outside, law, variance, heap=counted.heap)
    return Location(
        centre=mean,
        log_scale=math.log(whole) / 2,
        centre_sd=math.hypot(inside.centre_sd, float(sds[0])),
        log_scale_sd=error / (2 * whole),
        hidden=(float(missing[0]), float(missing[1])),
    )


def clipped(m: Floats, log_s: Floats) -> tuple[Floats, Floats]:
    """Mean and log standard deviation of a normal law's numbers once they are clipped to [-1, 1]."""
    s = np.exp(log_s)
    low, high = (-1 - m) / s, (1 - m) / s
    below, above = ndtr(low), ndtr(-high)
    inside, at_low, at_high = 1 - below - above, _normal(low), _normal(high)
    mean = above - below + m * inside + s * (at_low - at_high)
    square = above + below + (m**2 + s**2) * inside + s * ((m - 1) * at_low - (m + 1) * at_high)
    return mean, np.log(np.maximum(square - mean**2, _LEAST_VARIANCE)) / 2


def _normal(at: Floats) -> Floats:
    return np.exp(-0.5 * at**2) / math.sqrt(2 * math.pi)


def posterior(log_density: Density, around: Location, numbers: Numbers) -> Location:
    """Means and standard deviations on grids that close in on where the density is.

    Centres stay within [-1, 1].

    Args:
        log_density: of m and log s, up to a constant.
        around: where to begin.
        numbers: of m and log s, what is asked for.
    """
    m = log_s = weight = np.zeros((1, 1))
    for _ in range(_GRIDS):
        reach, log_reach = _REACH * around.centre_sd, _REACH * around.log_scale_sd
        ends = max(around.centre - reach, -1.0), min(around.centre + reach, 1.0)
        axes = (
            np.linspace(*ends, _NODES),
            np.linspace(around.log_scale - log_reach, around.log_scale + log_reach, _NODES),
        )
        m, log_s = np.meshgrid(*axes, indexing="ij")
        density = log_density(m, log_s)
        weight = np.exp(density - density.max())
        weight /= weight.sum()
        found, least, last = _moments(weight, m, log_s), _CLOSER * 2 * _REACH / (_NODES - 1), around
        around = Location(
            found.centre,
            found.log_scale,
            max(found.centre_sd, least * around.centre_sd),
            max(found.log_scale_sd, least * around.log_scale_sd),
        )
        if np.allclose(_numbers(around), _numbers(last), rtol=0, atol=_SETTLED):  # every further grid is this one
            break
    return _moments(weight, *numbers(m, log_s))


def _numbers(found: Location) -> tuple[float, float, float, float]:
    return found.centre, found.log_scale, found.centre_sd, found.log_scale_sd


def _moments(weight: Floats, first: Floats, second: Floats) -> Location:
    one, other = (float((weight * each).sum()) for each in (first, second))
    spreads = (float((weight * (each - mean) ** 2).sum()) for each, mean in ((first, one), (second, other)))
    sd, other_sd = map(math.sqrt, spreads)
    return Location(one, other, sd, other_sd)


@dataclass(frozen=True)
class Placed:
    """Centre and scale as published, in steps of 2^-24 of the half-width of the public bounds.

    Attributes:
        centre: M.
        scale: S.
    """

    centre: int
    scale: int

    @classmethod
    def of(cls, found: Location, caution: float, least: int = 1) -> Placed:
        """The nearest to a posterior, and the scale so many of its standard deviations larger, but not below the least."""
        scale = math.exp(min(found.log_scale + caution * found.log_scale_sd, math.log(WINDOW)))
        return cls(round(STEPS * min(max(found.centre, -1.0), 1.0)), min(max(round(STEPS * scale), least), _WIDEST))

    def follows(self, published: Placed) -> bool:
        """True if published numbers are these, but for the rounding of a machine's arithmetic."""
        return (
            abs(self.centre - published.centre) <= 1 + _TOLERANCE * STEPS
            and abs(self.scale - published.scale) <= 1 + _TOLERANCE * self.scale
        )

    @property
    def sound(self) -> bool:
        """True if the numbers are such as a column can have."""
        return abs(self.centre) <= STEPS and 1 <= self.scale <= _WIDEST


def after_counts(counts: Integers, rows: int, scales: Scales) -> Counted:
    """The result of the first round; `first` makes M1 and S1 of it.

    Args:
        counts: (K-1,) C' h and noise.
        rows: n.
        scales: of the noise.
    """
    return _after_counts(counts.astype(np.int64).tobytes(), rows, scales.counts)


def first(counted: Counted) -> Placed:
    """M1 and S1."""
    return Placed.of(counted.found, 0.0, LEAST_WINDOW)


def window(column: Number, first: Placed) -> Range:
    """The range whose codes the second round adds up."""
    return Range(name=column.name, centre=first.centre, half_width=WINDOW * first.scale)


def final(found: Location) -> Placed:
    """M and S."""
    return Placed.of(found, CAUTION)


@dataclass(frozen=True, eq=False)
class Row:
    """One column's published integers.

    Attributes:
        counts: (K-1,) C' h and noise.
        first: M1 and S1.
        total: sum T and noise.
        squares: sum T^2 and noise.
        last: M and S.
        reach: j, how far the column reaches in later releases (`reach`).
    """

    counts: Integers
    first: Placed
    total: int
    squares: int
    last: Placed
    reach: int

    @classmethod
    def of(cls, integers: Integers) -> Row:
        """From (`terms.WIDTH`,) integers of a block."""
        *_, centre1, scale1, total, squares, centre, scale, reach = (int(each) for each in integers)
        return cls(integers[: CELLS - 1], Placed(centre1, scale1), total, squares, Placed(centre, scale), reach)

    def margin(self, law: Distribution) -> Margin:
        """The estimated margin of the column."""
        return Margin.of(law, self.last.centre / STEPS, self.last.scale / STEPS)

    def to_integers(self) -> Integers:
        """(`terms.WIDTH`,) integers of a block."""
        first, last = self.first, self.last
        tail = [first.centre, first.scale, self.total, self.squares, last.centre, last.scale, self.reach]
        return np.concatenate([self.counts, np.array(tail, np.int64)])

    def check(self, name: str, largest: tuple[int, int, int], rows: int, scales: Scales) -> Location:
        """Refuse numbers that no honest hospital publishes; what both rounds say otherwise.

        Args:
            name: of the column.
            largest: absolute values of a count, sum T and sum T^2.
            rows: n.
            scales: of the noise.

        Raises:
            IntegrityError: a number is out of range, or centre and scale are not what the noisy integers give.
        """
        within = bool(np.all((self.counts <= largest[0]) & (self.counts >= -largest[0])))
        if not (within and abs(self.total) <= largest[1] and abs(self.squares) <= largest[2]):
            raise IntegrityError(
                f"{name}: a noisy number of its range is larger than any that {rows} patients could give"
            )
        if not (self.first.sound and self.last.sound and 0 <= self.reach < REACHES):
            raise IntegrityError(f"{name}: a centre, scale or reach lies outside what its public bounds allow")
        counted = after_counts(self.counts, rows, scales)
        if not first(counted).follows(self.first):
            raise IntegrityError(f"{name}: the centre and scale of the first round do not follow from its noisy counts")
        found = after_sums(counted, self.first, self.total, self.squares, rows, scales)
        if not final(found).follows(self.last):
            raise IntegrityError(f"{name}: the centre and scale do not follow from the noisy numbers")
        return found
