"""The box of a column without bounds: quantiles of its noisy counts on the decade scale, out to the ends of their cells.

Released is C' h and noise, equal and independent. The counts that make it most likely are the h >= 0 of sum n with the least
squares of the residuals. The box reaches from the cell of their quantile q to that of 1 - q, with

    q = min(1/4, max(3 %, 2.5 noise standard deviations of a prefix count)),

so that noise alone rarely looks like rows: where there is more noise less of the tails can be told from it. A hospital publishes
the box beside the counts, and a reader accepts one that agrees with them up to the last digits of a machine's arithmetic.
Source: docs/methods.md, "Numbers without bounds".
"""

from __future__ import annotations

import numpy as np

from dprelease.arrays import Floats, Integers
from dprelease.data.decades import CELLS, Box
from dprelease.errors import IntegrityError
from dprelease.mechanisms.ranges.terms import factor, largest_error

LEAST_TAIL, MOST_TAIL, SURE = 0.03, 0.25, 2.5
"""q: at least, at most, and in noise standard deviations of a prefix count."""
TOTAL = 1000.0
"""Weight of the residual of sum h / n = 1 beside those of C' h, which are in noise standard deviations."""
WIDTH = CELLS - 1 + 2
"""Integers of a column without bounds in the block of decades: the counts, and the places of the box's bounds."""

_TOLERANCE = 1e-6
_MOST_STEPS = 100_000


def box_of(counts: Integers, rows: int, scale: float) -> Box:
    """The box that follows from noisy counts.

    Args:
        counts: (120,) C' h and noise, h the histogram on the decade scale.
        rows: n.
        scale: of the noise.
    """
    below, tail = _distribution(counts, rows, scale)
    low, high = np.searchsorted(below, tail, "right"), np.searchsorted(below, 1 - tail, "left")
    return Box(low=int(low), high=int(high) + 1)


def read_box(name: str, integers: Integers, rows: int, scale: float) -> Box:
    """The box that a hospital published.

    Args:
        name: of the column.
        integers: (`WIDTH`,) its row of the block of decades.
        rows: n.
        scale: of the noise.

    Raises:
        IntegrityError: it does not follow from the counts.
    """
    below, tail = _distribution(integers[: CELLS - 1], rows, scale)
    low, high = (int(each) for each in integers[CELLS - 1 :])
    # Shares at all ends of cells, of which the first and the last are known.
    shares = np.concatenate([[-1.0], below, [2.0]])
    if not (
        0 <= low < high <= CELLS
        and shares[low] <= tail + _TOLERANCE
        and shares[low + 1] > tail - _TOLERANCE
        and shares[high - 1] < 1 - tail + _TOLERANCE
        and shares[high] >= 1 - tail - _TOLERANCE
    ):
        raise IntegrityError(f"{name}: its box does not follow from the noisy counts of decades")
    return Box(low=low, high=high)


def _distribution(counts: Integers, rows: int, scale: float) -> tuple[Floats, float]:
    """(120,) shares of rows below the inner ends of the cells, and q."""
    from scipy.optimize import nnls  # slow to load

    error = scale / rows  # of C' h / n
    known = np.vstack([factor(CELLS) / error, np.full(CELLS, TOTAL)])
    shares, _ = nnls(known, np.append(counts / rows / error, TOTAL), maxiter=_MOST_STEPS)
    below: Floats = np.cumsum(shares)[:-1]
    return below, min(MOST_TAIL, max(LEAST_TAIL, SURE * error * largest_error(CELLS)))
