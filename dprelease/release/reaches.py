"""How far each number of a release in ranges reaches, and what slopes keep of it: about all rows, from clipped ones.

The kept part of a slope on a number is read off the hospital's published counts (`dprelease.mechanisms.ranges.released`) and
the clipping of the release. A covariance of y and x with the kept parts s_y and s_x is off by about its value times
1/(s_x s_y) - 1 at most, which intervals of slopes hold. It is an estimate and no bound: it leaves out relations that are
others in the tail, and tails that no count shows. Counts may show that rows lie further from the centre than the margin
says; slopes keep less by the ratio of the two mean squares. If it is below `LEAST_KEPT`, most of the slope would be a guess,
and the spread that counts and public bounds leave open bounds it instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dprelease.data.columns import Column, Number, numbers
from dprelease.data.ranges import REACH, STEPS, Range, reach_of
from dprelease.mechanisms.moments.clipping import Clipping
from dprelease.mechanisms.ranges.released import Margin, Ranges, kept, public_rows

LEAST_KEPT = 0.4
"""Kept part of a slope, over both its columns, below which counts and public bounds alone bound it."""


@dataclass(frozen=True)
class Reach:
    """One private number.

    Attributes:
        name: of the column.
        unit: of its values, as declared.
        lower: end of what is not clipped where the hospital's other numbers are at their centres.
        upper: the other end.
        kept: part of slopes that clipping leaves; 0 where counts do not show the tail.
        counted: whether it comes from counts of the column, or is guessed from its mean and spread.
        centre: mean before clipping, as published.
        error: standard deviation of what noise and hidden rows leave open of the centre; 0 where it is not published.
        shift: how far clipping moves the mean at most, if rows lie as the margin says.
        narrower: whether values within the public bounds lie beyond an end.
        spread: the largest root mean square distance from the centre that counts and public bounds leave open.
    """

    name: str
    unit: str
    lower: float
    upper: float
    kept: float
    counted: bool
    centre: float
    error: float
    shift: float
    spread: float
    narrower: bool

    @property
    def hidden(self) -> bool:
        """True where too little of it is kept, or known to be, for an estimate of what clipping takes from its slopes."""
        return self.kept < LEAST_KEPT

    @property
    def clips(self) -> bool:
        """True where values within the public bounds are clipped, or counts do not rule it out."""
        return self.narrower or self.kept < 1

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        found = f"{self.name}: reaches {self.lower:.3g} to {self.upper:.3g}{unit}"
        return f"{found}; {'hides in its tail' if self.hidden else f'slopes keep {self.kept:.0%}'}"


def reaches_of(
    clipping: Clipping, parties: Mapping[str, tuple[Column, ...]], published: Ranges | None
) -> tuple[Reach, ...]:
    """How far all private numbers reach, party after party.

    Args:
        clipping: of the release.
        parties: party to its columns.
        published: what a first round says of them; None where only their centres and standard deviations are known.
    """
    ranges = {each.name: each for each in clipping.ranges}
    weights = clipping.number_weights(tuple(column for own in parties.values() for column in own))
    norms = {norm.columns: float(norm.squared) for norm in clipping.norms}
    found: list[Reach] = []
    for own in map(numbers, parties.values()):
        if not own:
            continue
        within = [ranges[column.name] for column in own]
        margins = [_margin(each, published) for each in within]
        units = np.array([weights[column.name] / REACH for column in own])
        squared = norms.get(tuple(column.name for column in own), math.inf)
        steps = np.array([reach_of(each.reach) for each in within])
        parts = kept(public_rows(margins), steps, units, squared)
        found += [
            _reach(column, each, min(REACH, math.sqrt(squared) / unit), margin, part, published)
            for column, each, unit, margin, part in zip(own, within, units, margins, parts.tolist(), strict=True)
        ]
    return tuple(found)


def _margin(within: Range, published: Ranges | None) -> Margin:
    if published is not None:
        return published.of(within.name).margin
    return Margin.guessed(within.centre / STEPS, within.half_width * within.deviation / STEPS)


def _reach(column: Number, within: Range, units: float, margin: Margin, part: float, published: Ranges | None) -> Reach:
    seen, centre = within.seen(column), within.centre / STEPS
    far, (lower, upper) = seen.half_width * units / REACH, column.boxed(within.box).ends
    reached = max(seen.midpoint - far, lower), min(seen.midpoint + far, upper)
    least, most = (
        (0.0, (1 + abs(centre)) ** 2)
        if published is None
        else published.of(column.name).distribution.mean_square(centre)
    )
    # Rounds disagree where counts leave no mean square as small as the believed one: what is beyond it is not kept.
    square = max(margin.mean_square, least)
    left = min(part, 1.0) * margin.mean_square / square if margin.seen and square else 0.0
    return Reach(
        name=column.name,
        unit=column.unit,
        lower=reached[0],
        upper=reached[1],
        kept=left,
        counted=published is not None,
        centre=seen.midpoint,
        error=0.0 if published is None else published.of(column.name).mean_error,
        # (1 - f) grows with |z|, so that E (1 - f) <= 1 - kept, and Cauchy's inequality bounds E (1 - f) z.
        shift=(1 - left) * math.sqrt(square) * (upper - lower) / 2,
        spread=(upper - lower) / 2 * math.sqrt(most),
        narrower=reached != column.ends,
    )
