"""Analyses about all rows out of moments of clipped ones: what clipping may have taken is an error of each moment, of known size.

M is the published centre of a number, S its published standard deviation, and s the part of a slope that clipping leaves
(`dprelease.release.reaches`), 1 for categories. With m and C the means and covariances of the clipped rows, clipping has moved

    a mean by about M - m_i,    a covariance by about |C_ij| (1 / (s_i s_j) - 1),

s_i being at most sqrt(C_ii) / S_i, so that no error is smaller than what the two rounds disagree by. Noise makes M - m_i and C_ij
uncertain themselves, so both count with their root mean squares over what is left open (`moved_by`; that of C_ij over the draws).
The mean of draws would not do: what noise hides falls towards 0 in it, and what clipping takes does not. The part of n rows that
is lost goes with other columns by chance, which adds the error sqrt(C_ii C_jj (1 - s_i s_j) / n) / (s_i s_j). The tail of a number
hides where s is below `LEAST_KEPT`. The spread that counts and public bounds leave open then adds to the error of its mean, and
Cauchy's inequality bounds its covariances. Derivatives at the mean of the draws carry each error e to what an analysis g makes of
the moments. Errors may be independent. They may also go together: all covariances of a column shrink alike, and a mean moves
away from the published centre. Errors by chance never go together. So one more error is that of all others at once:

    w^2 = sum (dg/de e)^2 + (sum dg/de e)^2,

with the sign of M - m_i for means and of C_ij for covariances in the second sum, which leaves out errors by chance. Errors of
which some go together, and whose effects have opposite signs, may exceed w. Intervals are wider by w on either side. Steps of
derivatives are small, so that hardly any matrix leaves the semidefinite cone, as whole errors would make it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dprelease.analyses.draws import Draws
from dprelease.analyses.estimates import Estimates
from dprelease.arrays import Floats
from dprelease.estimators.intervals.clipped import lost, moved_by

STEP = 1e-4
"""Step of derivatives, in standard deviations of a column, or a product of two."""
Tables = Mapping[str, Estimates]


class Taken(NamedTuple):
    """About the largest loss of moments by clipping, original units; a loss by chance counts with its standard deviation.

    Attributes:
        mean: (k,) of means, all of which go together; with signs.
        covariance: (k, k) of covariances, sizes.
        together: (k, k) the part of these that goes together; with signs.
    """

    mean: Floats
    covariance: Floats
    together: Floats


def taken(draws: Draws) -> Taken | None:
    """About the largest loss by clipping; None where it took nothing."""
    reaches = {each.name: each for each in draws.release.reaches if each.name in draws.names and each.clips}
    if not reaches:
        return None
    mean, covariance = draws.mean.mean(axis=0), draws.covariance.mean(axis=0)
    clipped = np.sqrt(np.diag(covariance))
    kept, far, moved = np.ones(len(mean)), clipped.copy(), np.zeros(len(mean))
    published = _published(draws)
    for name, reach in reaches.items():
        (at,) = draws.places([name])
        whole = published.get(name, clipped[at])
        kept[at] = min(reach.kept, clipped[at] / whole)
        far[at] = reach.spread if reach.hidden else max(clipped[at] / reach.kept, whole)
        moved[at] = np.copysign(moved_by(reach, mean[at]), reach.centre - mean[at])
    both, parts = np.outer(far, far), np.outer(kept, kept)
    by_chance = both * np.sqrt((1 - parts) / draws.patients)
    size = np.sqrt((draws.covariance**2).mean(axis=0))
    together = np.copysign(lost(size, kept, kept, both), covariance)
    return Taken(moved, np.hypot(together, by_chance), together)


def _published(draws: Draws) -> dict[str, float]:
    """Number to its published standard deviation, original units."""
    moments = draws.release.moments()
    return {each.name: moments.lookup(each.name)[2] * each.deviation for each in moments.ranges}


def tables_of(draws: Draws, work: Callable[[Draws], Tables]) -> dict[str, Estimates]:
    """Tables of an analysis, whose intervals hold what clipping may have taken.

    Args:
        draws: of the columns.
        work: what is worked out on draws; the same quantities on any of the same columns.
    """
    tables, off = dict(work(draws)), taken(draws)
    if off is None:
        return tables
    moved, alone, together = _moved(draws, off)
    for caption, each in work(moved).items():
        ahead, behind = np.split(each.location, 2)
        per_step = (ahead - behind) / 2
        single = alone[:, None] * per_step
        tables[caption] = replace(tables[caption], taken=np.vstack([together @ per_step, single]))
    return tables


def _moved(draws: Draws, off: Taken) -> tuple[Draws, Floats, Floats]:
    """2 P moments, a single one moved ahead in the first half and behind in the other, and (P,) how many steps it may be off.

    These are two: by itself, and together with all others.
    """
    mean, covariance = draws.mean.mean(axis=0), draws.covariance.mean(axis=0)
    spread = np.sqrt(np.diag(covariance))
    (means,), (rows, cols) = np.nonzero(off.mean), np.nonzero(np.triu(off.covariance))
    steps = STEP * np.concatenate([spread[means], spread[rows] * spread[cols]])
    moved, turned = np.zeros((len(steps), len(mean))), np.zeros((len(steps), *covariance.shape))
    first, others = np.arange(len(means)), np.arange(len(means), len(steps))
    moved[first, means] = steps[first]
    turned[others, rows, cols] = turned[others, cols, rows] = steps[others]
    both = replace(
        draws,
        mean=np.concatenate([mean + moved, mean - moved]),
        covariance=np.concatenate([covariance + turned, covariance - turned]),
    )
    alone, together = (np.concatenate([off.mean[means], own[rows, cols]]) / steps for own in off[1:])
    return both, alone, together
