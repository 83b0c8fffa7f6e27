"""What a release says about the population's coefficients, in scaled units, and whether it says anything.

Both kinds of release give the features' second moments M with an error E that the privacy noise makes. In a direction w of
length one where M is the identity, |E w|^2 has the mean w^T E[E M^-1 E] w; `doubt` is the root of it in the worst direction.
Formulas of first and second order hold while it is small. Where it is larger, some direction of the features is more noise than
signal, and through it any coefficient may be. The criterion is worked out from released numbers alone. For one weak direction
among strong ones it asks for a signal of 1 / `LIMIT` = 2 standard errors of its noise in the mean square, which about 2 % of
features of noise alone have, in moments as in mixed rows (1.3 to 2.3 % of one to three of them, at most 0.4 % of ten); for d weak
directions, for some sqrt(d) times that.

`LIMIT` is no promise of coverage. Of 95 % intervals 95 to 96 % hold the truth at a doubt of 0.12 to 0.49 where ten features are
seen alike and slopes are at most 0.3 (benchmarks/coverage.py), and 94 to 95 % at 0.1 for slopes up to 4 (moments, one feature).
Near the threshold an interval of a steep slope on a weakly seen feature misses far more often, as the variance is worked out at
the fitted slope, which is attenuated in just those releases that pass. The share of intervals of slope 1 that hold it, of those
that are claimed (slopes in units of outcome noise by feature noise):

    signal in standard errors of its noise      1     2     3     4
    mixed, 4 features, 1000 rows              .30   .54   .83   .92
    moments, 1 feature                        .55   .80   .89   .92
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dprelease.release import Floats

LIMIT = 0.5
"""Doubt from which on nothing is said about coefficients."""


@dataclass(frozen=True, eq=False)
class Learned:
    """Population least squares of l targets on d features, scaled units; NaN where the features cannot be told from noise.

    Attributes:
        weights: (d, l).
        weight_variance: (d, l) of their errors.
        offsets: (l,) at the point that was asked for.
        offset_variance: (l,).
        degrees: degrees of freedom of the variances; infinite for moments.
        doubt: how far noise moves the features' moments in the worst direction; infinite where they cannot be told from it.
        hidden: the features to leave out, those that noise hides most first, for doubt about the others to be below `LIMIT`;
            none where it is for all.
    """

    weights: Floats
    weight_variance: Floats
    offsets: Floats
    offset_variance: Floats
    degrees: float
    doubt: float
    hidden: tuple[int, ...]


def nothing(features: int, targets: int, hidden: tuple[int, ...]) -> Learned:
    """What a release says when its features cannot be told from noise."""
    unknown = np.full((features, targets), np.nan)
    offset = np.full(targets, np.nan)
    return Learned(unknown, unknown, offset, offset, np.inf, np.inf, hidden)


def hidden_features(
    count: int, doubted: tuple[float, int], look: Callable[[list[int]], tuple[float, int]]
) -> tuple[int, ...]:
    """The features to leave out, found by taking off the worst again and again.

    Args:
        count: d.
        doubted: what `look` finds for all of them.
        look: some features to (the doubt about them, the position among them of the one that noise hides most).
    """
    kept, left_out = list(range(count)), []
    while doubted[0] >= LIMIT:
        left_out.append(kept.pop(doubted[1]))
        if not kept:
            break
        doubted = look(kept)
    return tuple(left_out)
