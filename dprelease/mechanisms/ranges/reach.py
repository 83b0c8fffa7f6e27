"""How far each column of a hospital reaches, and what slopes keep of it, from its published counts.

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

import numpy as np

from dprelease.arrays import Floats, Integers
from dprelease.data.ranges import EFFECT, REACH, REACHES, GuessedNoise, radius2, reach_of
from dprelease.mechanisms.ranges.distribution import CELL, EDGES, Distribution
from dprelease.privacy.public_stream import PublicStream

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
    found: Floats = np.column_stack([margin.quantiles[order] for margin, order in zip(margins, orders, strict=True)])
    return found


@lru_cache(maxsize=16)
def _orders(columns: int) -> Integers:
    """(d, `POINTS`) ranks of public normal scores."""
    from scipy.special import ndtri  # slow to load

    words = np.frombuffer(PublicStream(_SEED).read(0, 8 * POINTS * (columns + 1)), "<u8").reshape(columns + 1, POINTS)
    scores = ndtri(((words >> np.uint64(11)) + 0.5) * 2.0**-53)
    mixed: Floats = math.sqrt(TOGETHER) * scores[:1] + math.sqrt(1 - TOGETHER) * scores[1:]
    found: Integers = np.argsort(np.argsort(mixed, axis=1), axis=1)
    return found


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
