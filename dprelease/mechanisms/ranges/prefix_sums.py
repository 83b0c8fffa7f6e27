"""The square-root factor of prefix sums in integers: which sums of a histogram are released, and how far one patient moves them.

Let A be the lower triangular matrix of ones, so that A h are the prefix sums of a histogram h of K cells, and C the lower
triangular Toeplitz matrix with C C = A, whose entries are c_0 = 1, c_k = c_(k-1) (2k-1)/(2k). Released is C h with equal noise;
prefix sums follow by A C^-1 = C. Their noise then grows like log K, where noise on counts of cells would add up to sqrt(K)
(Fichtenberger, Henzinger and Upadhyay 2023, Constant matters). The last row is left out, since n is public.

In use is C' = round(2^12 C), and everything follows from C' itself: its rounding is in the sensitivity and in the reading
alike. Derived in docs/guarantees.md 18.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dprelease.arrays import Floats, Integers

FRACTION_BITS = 12
"""Binary digits of the factor behind the point."""


@lru_cache(maxsize=8)
def factor(cells: int) -> Integers:
    """C', (K-1, K) integers; the last cell is counted nowhere."""
    entries = [Fraction(1)]
    for k in range(1, cells - 1):
        entries.append(entries[-1] * Fraction(2 * k - 1, 2 * k))
    rounded = [round(entry * 2**FRACTION_BITS) for entry in entries]
    found = np.zeros((cells - 1, cells), np.int64)
    for row in range(cells - 1):
        found[row, : row + 1] = rounded[row::-1]
    found.flags.writeable = False
    return found


@lru_cache(maxsize=8)
def squared_sensitivity(cells: int) -> int:
    """D1^2: the largest |C' e_i - C' e_j|^2 over all pairs of cells, which is how far C' h moves with one patient's row.

    The worst pair is the first cell and one inside, so that no pair may be left out.
    """
    columns = factor(cells).T
    products = columns @ columns.T  # below 2^62 up to K = 2^38
    squares = np.diag(products)
    return int((squares[:, None] + squares[None, :] - 2 * products).max())


@lru_cache(maxsize=8)
def recovery(cells: int) -> Floats:
    """(K-1, K-1) what C' h is multiplied by to give the prefix sums of h: A C'^-1, without the last cell."""
    used = factor(cells)[:, :-1].astype(np.float64)
    found = np.tril(np.ones_like(used)) @ np.linalg.inv(used)
    found.flags.writeable = False
    return found


@dataclass(frozen=True, eq=False)
class Axes:
    """The noise of prefix sums by uncorrelated axes, where a released count has noise of variance 1.

    Attributes:
        variances: (K-1,) of the prefix sums themselves.
        along: (K-1,) variances along the axes.
        directions: (K-1, K-1) an axis in each column.
    """

    variances: Floats
    along: Floats
    directions: Floats


@lru_cache(maxsize=8)
def noise_axes(cells: int) -> Axes:
    """Axes of the noise of recovered prefix sums."""
    covariance = recovery(cells) @ recovery(cells).T
    found = Axes(np.diag(covariance).copy(), *np.linalg.eigh(covariance))
    for each in (found.variances, found.along, found.directions):
        each.flags.writeable = False
    return found


@lru_cache(maxsize=8)
def largest_error(cells: int) -> float:
    """Largest standard deviation of the noise of a prefix sum, in noise scales of an entry of C' h."""
    return float(np.sqrt(noise_axes(cells).variances.max()))
