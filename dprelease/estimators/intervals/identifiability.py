"""Identifiability of the population's coefficients from a release, and their estimates in scaled units.

Both kinds of release give the features' second moments M with an error E that the privacy noise makes. In a direction w of
length one where M is the identity, |E w|^2 has the mean w^T E[E M^-1 E] w; `noise_ratio` is the root of it in the worst direction.
Formulas of first and second order hold while it is small. If it is larger, some direction of the features is more noise than
signal, and through it any coefficient may be. The criterion is worked out from released numbers alone. For one weak direction
among strong ones it asks for a signal of 1 / `LIMIT` = 2 standard errors of its noise in the mean square, which about 2 % of
features of noise alone have, in moments as in mixed rows (1.3 to 2.3 % of one to three of them, at most 0.4 % of ten); for d weak
directions, for some sqrt(d) times that. With less signal a 95 % interval of a slope often has no end.

`LIMIT` is no promise of coverage, which depends on how often a draw is claimed. Draws in which noise makes the signal look small
are not claimed. If these are few, they are mostly the 2.5 % in which the interval misses on one side, so coverage among claimed
draws rises to 1 - 0.025 / 0.975 = 97.4 %. If most draws are not claimed, the claimed ones have a signal that looks too large,
and steep slopes that look too flat. Whatever the signal, at most 5 % of all draws claim an interval that misses, give or take
what the normal law is off. 95 % intervals of the slope of one weakly seen feature
among ten, correlated by one half with another (benchmarks/coverage, 800 draws; slopes in units of the outcome's noise by the
feature's):

    signal in standard errors of its noise           2     3     4     6
    mixed, share of draws claimed                  .09   .33   .63   .96
           of these hold a slope of 1              .89   .96   .97   .96
                         a slope of 5              .78   .93   .97   .97
    moments, share of draws claimed                .14   .37   .65   .96
           of these hold a slope of 1              .87   .95   .97   .97
                         a slope of 5              .88   .95   .97   .98

The slopes of the other nine are held in 92 to 96 % of cases, intercepts in 96 to 98 % at 4 and 6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dprelease.estimators.intervals.fieller import Estimates

LIMIT = 0.5
"""Noise ratio from which on nothing is said about coefficients."""


@dataclass(frozen=True, eq=False)
class PopulationFit:
    """Population least squares of l targets on d features, scaled units; NaN where the features cannot be told from noise.

    Attributes:
        weights: (d, l).
        offsets: (l,) at the point that was asked for.
        degrees: degrees of freedom of the variances; infinite for moments.
        noise_ratio: how far noise moves the features' moments in the worst direction; infinite where they cannot be told from it.
        dropped: the features to leave out, those that noise hides most first, for the noise ratio of the others to be below
            `LIMIT`; none where it is for all.
    """

    weights: Estimates
    offsets: Estimates
    degrees: float
    noise_ratio: float
    dropped: tuple[int, ...]


def unidentified(features: int, targets: int, dropped: tuple[int, ...]) -> PopulationFit:
    """Answer of a release whose features cannot be told from noise."""
    unknown = np.full((features + 1, targets), np.nan)
    estimates = Estimates(unknown, unknown, unknown, unknown)
    return PopulationFit(estimates[:-1], estimates[-1], np.inf, np.inf, dropped)


def dropped_features(
    count: int, worst: tuple[float, int], look: Callable[[list[int]], tuple[float, int]]
) -> tuple[int, ...]:
    """The features to leave out, found by taking off the worst again and again.

    Args:
        count: d.
        worst: what `look` finds for all of them.
        look: some features to (their noise ratio, the position among them of the one that noise hides most).
    """
    kept, left_out = list(range(count)), []
    while worst[0] >= LIMIT:
        left_out.append(kept.pop(worst[1]))
        if not kept:
            break
        worst = look(kept)
    return tuple(left_out)
