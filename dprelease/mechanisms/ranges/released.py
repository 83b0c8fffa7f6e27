"""Ranges in a learner's hands: distribution function, margin, reach, mean, spread and quantiles of every column.

The distribution function comes from noisy prefix counts by isotonic regression. How far each column of a hospital reaches, and
what slopes keep of it, follows from published counts:

1. The margin of a column: quantiles of the monotone distribution function. Beyond the share p = max(.002, 2.5 noise sd) a
   generalised Pareto tail of shape 1/4 stands for them, of scale (Q(1 - p) - Q(1 - 4p))/log 4, likewise below, cut at the
   bounds. If p is 1/4 or more, or 3 S is less than a cell, or all but p of the rows on either side are counted in one cell,
   there are no tails to be read. A gamma law from the nearer bound with the published mean and standard deviation then
   stands for the column, and in the last two cases its tail is *unseen*.
2. Public rows: these quantiles in the order of public normal scores, which have correlation 1/2 within the hospital. No row of
   anybody's takes part.
3. Reaches t = 1.25^j of all columns such that no single one of them could be changed for less of

       `EFFECT`^2 sum_e (1 - kept_e)^2 + 2 sum_c (nu_0 t_0 t_c)^2,

   kept_e = E f z_e^2 / E z_e^2 of the public rows z, f what a row is shortened by, nu_0 and t_0 as `dprelease.data.ranges`
   guesses them. No column reaches further than one step beyond its public bounds.
4. kept_e again, by the clipping that a release really has, is the part of a slope that clipping leaves if the slope is the same
   everywhere: an estimate, no bound.

Everything follows from published numbers, the same on every machine but for last digits; a reader accepts reaches that are the best
to within a millionth. Source: docs/methods.md, "Reach".
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from dprelease.arrays import Floats, Integers
from dprelease.data.columns import Number
from dprelease.data.decades import Box
from dprelease.data.ranges import EFFECT, REACH, REACHES, WIDEST, GuessedNoise, Range, radius2, reach_of
from dprelease.errors import InvalidInput
from dprelease.mechanisms.ranges.terms import CELLS, noise_axes, recovery
from dprelease.mechanisms.view import View
from dprelease.one_line import listed
from dprelease.privacy.public_stream import PublicStream

EDGES: Floats = np.linspace(-1.0, 1.0, CELLS + 1)
"""(K+1,) ends of the cells, in half-widths of the public bounds."""
CELL = float(EDGES[1] - EDGES[0])
"""Width of a cell."""
SURE = 2.0
"""Standard deviations of noise within which a quantile is told to lie where it is at most or at least something."""


@dataclass(frozen=True, eq=False)
class Distribution:
    """A noisy empirical distribution function; lengths in half-widths of the public bounds from their midpoint.

    Attributes:
        noisy: (K-1,) shares of rows below the inner edges, as released.
        noise_sd: (K-1,) standard deviations of their noise.
        unit: standard deviation of the noise of a released count, over n.
        monotone: (K+1,) shares below all edges: isotonic regression of the noisy ones, from 0 to 1.
    """

    noisy: Floats
    noise_sd: Floats
    unit: float
    monotone: Floats

    @classmethod
    def of(cls, counts: Integers, rows: int, scale: float) -> Distribution:
        """From what the first round released.

        Args:
            counts: (K-1,) C' h and noise.
            rows: n.
            scale: of the noise.
        """
        inverse = recovery(CELLS)
        noisy = inverse @ counts.astype(np.float64) / rows
        inner, unit = np.clip(isotonic(noisy), 0.0, 1.0), scale / rows
        return cls(noisy, unit * np.sqrt(noise_axes(CELLS).variances), unit, np.concatenate([[0.0], inner, [1.0]]))

    def sd(self, weights: Floats) -> Floats:
        """(k,) standard deviations of the noise of (k, K-1) linear functions of the noisy shares."""
        found: Floats = self.unit * np.linalg.norm(weights @ recovery(CELLS), axis=-1)
        return found

    def quantile(self, share: float) -> float:
        """The point where the monotone function reaches a share, linear within cells; a bound for shares beyond 0 and 1."""
        if share > 1:
            return float(EDGES[-1])
        at = self.cell(share)
        low, high = self.monotone[at - 1], self.monotone[at]
        within = (share - low) / (high - low) if high > low else 0.0
        return float(EDGES[at - 1] + np.clip(within, 0.0, 1.0) * (EDGES[at] - EDGES[at - 1]))

    def cell(self, share: float) -> int:
        """Which cell, from 1 to K, the quantile is in."""
        return int(np.clip(np.searchsorted(self.monotone, share), 1, CELLS))

    def mean_square(self, centre: float) -> tuple[float, float]:
        """The least and the largest mean square distance of rows from a point that counts and bounds leave open.

        Every row counts as if it lay at the near or the far end of its cell. The mean square is then linear in the noisy shares
        and has an error of its own, of which `SURE` are taken off or added.
        """
        ends = np.abs(EDGES - centre)
        inside = (EDGES[:-1] <= centre) & (centre <= EDGES[1:])
        near, far = np.where(inside, 0.0, np.minimum(ends[:-1], ends[1:])), np.maximum(ends[:-1], ends[1:])
        (least, below), (most, above) = (self._mean(each**2) for each in (near, far))
        return max(least - SURE * below, 0.0), min(max(most, 0.0) + SURE * above, float(far.max() ** 2))

    def _mean(self, values: Floats) -> tuple[float, float]:
        """Mean over rows of what (K,) cells are worth, and the standard deviation of its noise."""
        steps = values[:-1] - values[1:]
        return float(values[-1] + steps @ self.noisy), float(self.sd(steps))

    def quantile_error(self, share: float) -> float:
        """Standard deviation of a quantile: half of what lies between the shares one noise sd away, and a cell's roughness."""
        error = self._error(share)
        spread = (self.quantile(share + error) - self.quantile(share - error)) / 2
        return float(np.hypot(spread, CELL / np.sqrt(12)))

    def beyond(self, share: float) -> int | None:
        """-1 or 1 where a quantile of a share up to `SURE` noise sd away is in the first or last cell; otherwise 0.

        Values beyond the bounds count in these cells, so it may lie anywhere on the far side of their inner end. None where it
        may be in either: nothing is known of it.
        """
        low, high = self.ends(share)
        return None if low < EDGES[1] and high > EDGES[-2] else int(high > EDGES[-2]) - int(low < EDGES[1])

    def ends(self, share: float) -> tuple[float, float]:
        """Outer ends of the cells that the quantiles of the shares `SURE` noise sd below and above are in.

        Within a cell rows may pile up anywhere.
        """
        reach = SURE * self._error(share)
        low, high = self.quantile(share - reach), self.quantile(share + reach)
        return float(EDGES[np.searchsorted(EDGES, low, "right") - 1]), float(EDGES[np.searchsorted(EDGES, high)])

    def _error(self, share: float) -> float:
        """Standard deviation of the noise of the distribution function where it reaches a share."""
        return float(np.interp(self.quantile(share), EDGES[1:-1], self.noise_sd))


def isotonic(values: Floats) -> Floats:
    """(k,) nondecreasing numbers nearest to (k,) numbers: of all means of neighbours, the least from here on, the most up to here.

    Source: Barlow, Bartholomew, Bremner and Brunk 1972, Statistical inference under order restrictions (min-max formula).
    """
    k, sums = len(values), np.concatenate([[0.0], np.cumsum(values)])
    first, last = np.arange(k)[:, None], np.arange(k)[None, :]
    means = np.where(last >= first, (sums[last + 1] - sums[first]) / np.maximum(last - first + 1, 1), np.inf)
    least = np.minimum.accumulate(means[:, ::-1], axis=1)[:, ::-1]
    return np.maximum.accumulate(np.where(last >= first, least, -np.inf), axis=0).diagonal().copy()


POINTS = 4000
"""Public rows."""
LEAST_TAIL, MOST_TAIL, TAIL_SDS = 0.002, 0.25, 2.5
"""p: at least, in noise standard deviations of a count, and from where on there is no tail to be read."""
SHAPE, WIDER, MOST_WIDER = 0.25, 4, 0.4
"""The Pareto tail has this shape; its scale is read between p and so many times p, at most the last."""
TOGETHER = 0.5
"""Correlation of normal scores of one hospital's columns."""
TOLERANCE = 1e-6

_GRID: Floats = np.array([reach_of(step) for step in range(REACHES)])
_LEVELS: Floats = (np.arange(POINTS) + 0.5) / POINTS
_SEED = hashlib.sha256(b"dprelease reach 1").digest()
_SHAPES = (0.03, 1e4)
_NOTHING = 1e-12


@dataclass(frozen=True, eq=False)
class Margin:
    """One column, as it is believed to lie.

    Attributes:
        quantiles: (`POINTS`,) at equally spaced levels, from the centre M in units of S.
        scale: S, in half-widths of the public bounds.
        seen: whether counts say anything of its tails.
    """

    quantiles: Floats
    scale: float
    seen: bool = True

    @property
    def mean_square(self) -> float:
        """Mean square distance from the centre, in half-widths of the public bounds."""
        return self.scale**2 * float(np.mean(self.quantiles**2))

    @classmethod
    def of(cls, law: Distribution, centre: float, scale: float) -> Margin:
        """From published counts, M and S, in half-widths of the bounds."""
        tail = max(LEAST_TAIL, TAIL_SDS * float(law.noise_sd.max()))
        # Three S within one cell are a spread that no count can have shown: noise alone told the two quantiles apart.
        seen = REACH * scale >= CELL and law.cell(min(tail, 0.5)) != law.cell(max(1 - tail, 0.5))
        if tail >= MOST_TAIL or not seen:
            return cls(cls.guessed(centre, scale).quantiles, scale, seen)
        found = np.interp(_LEVELS, law.monotone + np.arange(len(law.monotone)) * _NOTHING, EDGES)
        second = min(WIDER * tail, MOST_WIDER)
        for side, far in ((-1, _LEVELS), (1, 1 - _LEVELS)):
            last, before = (law.quantile(each if side < 0 else 1 - each) for each in (tail, second))
            length = max(side * (last - before), 0.0) / math.log(second / tail)
            beyond = last + side * length / SHAPE * ((tail / far) ** SHAPE - 1)
            found = np.where(far < tail, beyond, found)
        return cls((np.clip(found, -1.0, 1.0) - centre) / scale, scale)

    @classmethod
    def guessed(cls, centre: float, scale: float) -> Margin:
        """From M and S alone: a gamma law from the nearer bound, nearly normal where that is far."""
        from scipy.special import gammaincinv  # slow to load

        room = max(1 - abs(centre), _NOTHING)
        shape = min(max((room / scale) ** 2, _SHAPES[0]), _SHAPES[1])
        up = gammaincinv(shape, _LEVELS) * (room / shape) - 1
        places = np.clip(up if centre <= 0 else -up[::-1], -1.0, 1.0)
        return cls((places - centre) / scale, scale)


def public_rows(margins: Sequence[Margin]) -> Floats:
    """(`POINTS`, d) rows of one hospital, in published standard deviations from the centres."""
    orders = _orders(len(margins))
    return np.column_stack([margin.quantiles[order] for margin, order in zip(margins, orders, strict=True)])


@lru_cache(maxsize=16)
def _orders(columns: int) -> Integers:
    """(d, `POINTS`) ranks of public normal scores."""
    from scipy.special import ndtri  # slow to load

    words = np.frombuffer(PublicStream(_SEED).read(0, 8 * POINTS * (columns + 1)), "<u8").reshape(columns + 1, POINTS)
    scores = ndtri(((words >> np.uint64(11)) + 0.5) * 2.0**-53)
    mixed: Floats = math.sqrt(TOGETHER) * scores[:1] + math.sqrt(1 - TOGETHER) * scores[1:]
    return np.argsort(np.argsort(mixed, axis=1), axis=1)


def kept(rows: Floats, reaches: Floats, weights: Floats, squared: float) -> Floats:
    """(d,) E f z^2 / E z^2 of rows clipped to their ranges and to a norm.

    Args:
        rows: (`POINTS`, d) z of one hospital, in published standard deviations.
        reaches: (d,) t.
        weights: (d,) of a reach unit of each column in the norm.
        squared: the largest sum of squares; infinite without a norm.
    """
    found: Floats = _kept(rows, reaches, weights, squared, 0, reaches[:1])[0]
    return found


def _kept(rows: Floats, reaches: Floats, weights: Floats, squared: float, place: int, tried: Floats) -> Floats:
    """(g, d) the same for each of g reaches of one column."""
    inside = np.clip(rows / reaches, -REACH, REACH)
    moved = np.clip(rows[:, place, None] / tried, -REACH, REACH)
    squares = (weights * inside) ** 2
    others = squares.sum(axis=1) - squares[:, place]
    sizes = others[:, None] + (weights[place] * moved) ** 2
    factors = np.sqrt(np.minimum(1.0, squared / np.maximum(sizes, _NOTHING)))
    found: Floats = factors.T @ (inside * reaches * rows)
    found[:, place] = np.einsum("ig,ig,i->g", factors, moved * tried, rows[:, place])
    parts: Floats = found / np.maximum((rows**2).sum(axis=0), _NOTHING)
    return parts


def choose(margins: Sequence[Margin], guessed: GuessedNoise) -> list[int]:
    """j of each column of a hospital: from 0 on, one column after the other is changed until none gains."""
    found, rows = [0] * len(margins), public_rows(margins) if margins else np.zeros((0, 0))
    changed = True
    while changed:
        changed = False
        for place in range(len(found)):
            losses = _losses(rows, margins, found, place, guessed)
            best = int(losses.argmin())
            if losses[best] < losses[found[place]] * (1 - TOLERANCE / 10):
                found[place], changed = best, True
    return found


def follows(published: Sequence[int], margins: Sequence[Margin], guessed: GuessedNoise) -> int | None:
    """None where no column's j could be changed for less, to within `TOLERANCE`; else the place of one that could."""
    rows = public_rows(margins) if margins else np.zeros((0, 0))
    for place, step in enumerate(published):
        losses = _losses(rows, margins, published, place, guessed)
        if not (0 <= step < len(losses) and losses[step] <= losses.min() * (1 + TOLERANCE)):
            return place
    return None


def _losses(rows: Floats, margins: Sequence[Margin], steps: Sequence[int], place: int, guessed: GuessedNoise) -> Floats:
    """(g,) what is to be made least, for j = 0, 1, ... of one column as far as its bounds allow."""
    squared, ones = radius2(len(margins)), np.ones(len(margins))
    far = 2 / (margins[place].scale * math.sqrt(squared))  # cells are within 2 half-widths of the centre
    tried = _GRID[: 1 + int(np.count_nonzero(_GRID[:-1] <= far))]
    lost = 1 - _kept(rows, _GRID[list(steps)], ones, squared, place, tried)
    noise = guessed.noise * guessed.reach * tried
    found: Floats = EFFECT**2 * (lost**2).sum(axis=1) + 2 * noise**2
    return found


SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles that are told."""
HIDDEN = "hidden"
"""Instead of a quantile that noise lets lie beyond either end."""
_WORDS = {0: "", -1: "at most", 1: "at least", None: HIDDEN}

NO_FIT = (
    "a release of ranges says nothing on how columns go together: it has no rows and no moments to fit on, plan for or export; "
    "`learner describe` and `learner report` show what it says of each column"
)


@dataclass(frozen=True, eq=False)
class Summary:
    """One column; lengths in its unit, errors are standard deviations that privacy noise leaves open, hidden rows included.

    Attributes:
        column: its declaration; one without bounds has those of its box.
        mean: M, of cells as bounded.
        mean_error: what noise and hidden rows leave open.
        deviation: posterior median of the standard deviation over rows.
        deviation_error: the same.
        distribution: of cells, in half-widths of the bounds.
        margin: what is believed of its tails.
        range: centre M and half-width 3 t S, in which later releases may code the column.
    """

    column: Number
    mean: float
    mean_error: float
    deviation: float
    deviation_error: float
    distribution: Distribution
    margin: Margin
    range: Range

    @property
    def edges(self) -> Floats:
        """(K+1,) ends of the cells that rows were counted in."""
        return self.column.midpoint + self.column.half_width * EDGES

    @property
    def quantiles(self) -> Floats:
        """(5,) quantiles at `SHARES`; of one that may lie beyond what was counted, `SURE` noise sd to the other side.

        They are in order: an end moves the quantiles beyond it, and never says more than noise allows. So an upper end may exceed
        a lower one, which contradicts nothing.
        """
        places = np.clip([self._told(share) for share in SHARES], EDGES[1], EDGES[-2])
        side = np.array([self.distribution.beyond(share) or 0 for share in SHARES])
        least = np.maximum.accumulate(np.where(side < 0, places, EDGES[0]))
        most = np.minimum.accumulate(np.where(side > 0, places, EDGES[-1])[::-1])[::-1]
        ordered: Floats = np.select([side < 0, side > 0], [least, most], np.clip(places, least, most))
        return self.column.midpoint + self.column.half_width * ordered

    def _told(self, share: float) -> float:
        low, high = self.distribution.ends(share)
        side = self.distribution.beyond(share)
        return high if side == -1 else low if side == 1 else self.distribution.quantile(share)

    @property
    def quantile_words(self) -> tuple[str, ...]:
        """(5,) ``at most`` or ``at least`` of a quantile that may lie beyond what was counted, `HIDDEN` at either end; or empty."""
        return tuple(_WORDS[self.distribution.beyond(share)] for share in SHARES)

    @property
    def quantile_errors(self) -> Floats:
        """(5,) what noise and the width of a cell leave open about them."""
        return self.column.half_width * np.array([self.distribution.quantile_error(share) for share in SHARES])


@dataclass(frozen=True, eq=False)
class Ranges(View):
    """A release of ranges.

    Attributes:
        columns: one for each private number, party after party.
        rows: n, rows of every column.
        kind: what there is to read.
        clipping: none beside that to the bounds.
        coded: nothing is.
    """

    columns: tuple[Summary, ...]
    rows: int
    kind: ClassVar[Literal["ranges"]] = "ranges"
    clipping: ClassVar[None] = None
    coded: ClassVar[tuple[()]] = ()
    no_fit: ClassVar[str] = NO_FIT

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(each.column.name for each in self.columns)

    @property
    def ranges(self) -> tuple[Range, ...]:
        """Centre and half-width of every column, for releases that code columns by them."""
        return tuple(each.range for each in self.columns)

    def of(self, name: str) -> Summary:
        """One column.

        Raises:
            InvalidInput: the release says nothing about a column of this name, with those that it has.
        """
        for each in self.columns:
            if each.column.name == name:
                return each
        raise InvalidInput(f"this release has no range of {name}; it has those of {listed(self.names)}")


def later_range(name: str, centre: int, scale: int, reach: int = 0, box: Box | None = None) -> Range:
    """The range that later releases may use.

    Args:
        name: of the column.
        centre: M.
        scale: S.
        reach: j; 3 t S is rounded down.
        box: of a column without bounds.
    """
    half_width = REACH * scale * 5**reach // 4**reach
    return Range(name=name, centre=centre, half_width=min(half_width, WIDEST), reach=reach, box=box)


def boxes(columns: Sequence[Summary]) -> tuple[str, ...]:
    """A sentence for each number that was declared without bounds, on the bounds that its release found."""
    return tuple(
        f"{each.column.name} was declared without bounds; its box, found from noisy counts, is {each.column.extent} "
        f"{each.column.unit or '1'}"
        for each in columns
        if each.range.box is not None
    )
