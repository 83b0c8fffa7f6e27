"""Rows beyond the window of the second round: what the noisy counts show of them, and how much they may hide.

A law that is fitted to counts can settle on one heap of rows and forget the others. The window that follows leaves these out, and
sums of clipped rows do not miss them. For rows above an end h of a window about c, and their distribution function F,

    E (x - h)+ = integral of 1 - F from h on,   E [(x - c)^2 - (h - c)^2]+ = integral of 2 (x - c)(1 - F) from h on.

Both are linear in F, so that their noise is known and no law is needed. They are read octave by octave, from 4 to 8 scales, from
8 to 16 and so on: noise from further out would hide the near rows. In an octave with the gain u of the mean and its noise t,
the part 1 - (`SURE` t/u)^4 is shown where u > `SURE` t, and nothing otherwise. The rest may hide.

Lengths are in half-widths of the public bounds. Source: docs/methods.md, "Ranges".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dprelease.arrays import Floats
from dprelease.mechanisms.ranges.released import CELL, EDGES, Distribution
from dprelease.mechanisms.ranges.terms import WINDOW

SURE, DOUBTFUL = 4.0, 3.0
"""Noise standard deviations from which on an octave shows rows, and from which on rows on its side may lie anywhere."""
LONG, DECAY = 4.0, 0.25
"""A long tail hides at most `LONG` sqrt(noise sd of F) of the variance in the first octave, and `DECAY` of that in each next."""

_INNER = EDGES[1:-1]


@dataclass(frozen=True, eq=False)
class Octave:
    """Rows on one side of a window, from one distance to twice as far.

    Attributes:
        place: 0 next to the window, and 1, 2, ... further out.
        start: distance from the centre where it begins.
        gains: (2,) how much these rows move the mean, and add to the mean square about the centre.
        sds: (2,) noise of both.
        noise: (2, K-1) how noise of F moves mean and mean square.
        side: 1 above the window, -1 below.
    """

    place: int
    start: float
    gains: Floats
    sds: Floats
    noise: Floats
    side: int

    @property
    def shown(self) -> float:
        """The part that is told from noise."""
        gain, sd = float(self.gains[0]), float(self.sds[0])
        return 1 - (SURE * sd / gain) ** 4 if gain > SURE * sd else 0.0

    @property
    def doubtful(self) -> bool:
        """True if a long tail of the law is too little for it."""
        return bool(self.gains[0] > DOUBTFUL * self.sds[0])


def octaves(law: Distribution, centre: float, scale: float) -> tuple[Octave, ...]:
    """All octaves on both sides of the window of a centre and a scale."""
    return tuple(_above(law, centre, scale, 1)) + tuple(_above(law, centre, scale, -1))


def _above(law: Distribution, centre: float, scale: float, side: int) -> Iterator[Octave]:
    """The octaves of one side, read upwards from the centre."""
    beyond = (1 - law.noisy) if side > 0 else law.noisy[::-1]
    place, start, centre = 0, WINDOW * scale, side * centre
    while centre + start < _INNER[-1]:
        weights = _weights(centre, centre + start) - _weights(centre, centre + 2 * start)
        noise = np.stack([weights[0], side * weights[1]])[:, ::side]
        yield Octave(place, start, weights @ beyond, law.sd(noise), noise, side)
        place, start = place + 1, 2 * start


def _weights(centre: float, end: float) -> Floats:
    """(2, K-1) weights of 1 - F at the inner edges in both integrals: trapezoids from the first edge beyond the end on.

    Rows may pile up anywhere in the cell of the end itself. There 1 - F counts as at its upper edge.
    """
    found, first = np.zeros((2, len(_INNER))), int(np.searchsorted(_INNER, end))
    if first < len(_INNER):
        offsets = _INNER[first:] - centre
        found[0, first:], found[1, first:] = CELL, 2 * CELL * offsets
        # Half a trapezoid above the first edge, and all from the end to this edge.
        found[:, first] /= 2
        found[:, first] += _INNER[first] - end, offsets[0] ** 2 - (end - centre) ** 2
    return found


def shown(outside: Sequence[Octave], law: Distribution) -> tuple[Floats, Floats]:
    """(2,) what the mean and the mean square gain by rows that are shown, and (2,) the noise of both."""
    gains, noise = np.zeros(2), np.zeros((2, len(_INNER)))
    for each in outside:
        gains += each.shown * each.gains * (each.side, 1)
        noise += each.shown * each.noise
    return gains, law.sd(noise)


def hidden(outside: Sequence[Octave], law: Distribution, variance: float, *, heap: bool) -> Floats:
    """(2,) how far rows that are not shown may move the mean and the mean square, one standard deviation.

    Args:
        outside: all octaves.
        law: of the counts.
        variance: of the rows as clipped to the window.
        heap: whether the window may be about a heap, so that the other rows may lie anywhere. Otherwise they are a long tail,
            on a side without a doubtful octave.
    """
    most = LONG * math.sqrt(float(law.noise_sd.max())) * variance
    found = np.zeros(2)
    for side in (1, -1):
        own = [each for each in outside if each.side == side]
        if heap or any(each.doubtful for each in own):
            rest, noise = np.zeros(2), np.zeros((2, len(_INNER)))
            for each in own:
                rest += (1 - each.shown) * each.gains
                noise += (1 - each.shown) * each.noise
            moved = np.hypot(law.sd(noise), np.maximum(rest, 0.0))
        else:
            moved = np.zeros(2)
            for each in own:
                # A row beyond h adds at least 2 (h - c) times as much to the mean square as to the mean.
                bounds = most * DECAY**each.place * np.array([1 / (2 * each.start), 1.0])
                reach = np.hypot(each.sds, np.maximum((1 - each.shown) * each.gains, 0.0))
                moved += np.minimum(reach, (1 - each.shown) * bounds)
        found = np.hypot(found, moved)
    return found
