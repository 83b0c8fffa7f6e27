"""Ridges averaged over their strengths: what those of rows and of moments share.

The ratio of a ridge's strength to the noise alone decides how much it leaves of each score, so that outcomes share a lattice of
its logarithm, and matrix products do the work. The strength is log-uniform between two ends that differ between outcomes. Its
prior mass at a point of the lattice is that of the cell around it, and fits are averaged by how likely they make the outcome.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from dprelease.arrays import Floats

STEP = 0.05
"""Step of the lattice."""
_AT_ONCE = 1 << 21


def lattice(low: float, high: float) -> Floats:
    """(m,) logarithms of the ratio, even, from below `low` to above `high`."""
    return STEP * np.arange(math.floor(low / STEP) - 1, math.ceil(high / STEP) + 2, dtype=np.float64)


def ends_of_cells(points: Floats, low: float, high: float) -> Floats:
    """(l, m + 1) ends of the cells around points, (l, m) and ascending, within [low, high], which they fill."""
    inner = np.clip((points[:, 1:] + points[:, :-1]) / 2, low, high)
    ends = (np.full((len(inner), 1), each) for each in (low, high))
    return np.hstack([next(ends), inner, next(ends)])


def belief(prior: Floats, log_likelihood: Floats) -> Floats:
    """(l, m) how likely each strength is, given what is seen; rows add up to 1.

    Args:
        prior: (l, m) masses; a strength without any is ruled out, however likely it makes what is seen.
        log_likelihood: (l, m) up to a constant for each row.
    """
    possible = np.where(prior > 0, log_likelihood, -np.inf)
    found: Floats = prior * np.exp(possible - possible.max(axis=1, keepdims=True))
    found /= found.sum(axis=1, keepdims=True)
    return found


def chunks(outcomes: int, points: int) -> Iterator[slice]:
    """Outcomes that are worked on at a time, for matrices of so many points to fit into memory."""
    step = max(1, _AT_ONCE // points)
    return (slice(start, start + step) for start in range(0, outcomes, step))
