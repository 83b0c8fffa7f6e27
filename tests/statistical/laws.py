"""How likely are these draws under the stated law? p-values for tests without a seed, whose threshold is extreme."""

import numpy as np
import numpy.typing as npt
from scipy import stats

from dprelease.arrays import Floats

Draws = npt.NDArray[np.int64]


def p_of_scale(draws: Draws, scale: float) -> float:
    """Two-sided test of the sum of squares; at scales far above 1, N_Z has variance scale^2 to many digits."""
    total = float(np.sum((draws / scale) ** 2))
    return 2 * float(min(stats.chi2.cdf(total, draws.size), stats.chi2.sf(total, draws.size)))


def p_of_too_little(draws: Draws, scale: float) -> float:
    """One-sided test: small when the draws spread less than the scale says."""
    return float(stats.chi2.cdf(float(np.sum((draws / scale) ** 2)), draws.size))


def p_of_independence(draws: Floats) -> float:
    """Test of the largest correlation between columns, and between a column and any column one row later.

    The correlation r of n independent pairs of normals has r sqrt((n - 2)/(1 - r^2)) ~ t with n - 2 degrees of freedom.
    The p-value is the smallest one times the number of correlations.

    Args:
        draws: (n, columns), every column normal.
    """
    standard = draws - draws.mean(axis=0)
    same = _correlations(standard, standard)[np.triu_indices(draws.shape[1], 1)]
    later = _correlations(standard[1:], standard[:-1]).ravel()
    largest = max(np.abs(same).max(), np.abs(later).max())
    if largest >= 1 - 1e-9:
        return 0.0
    freedom = len(draws) - 3
    statistic = largest * np.sqrt(freedom / (1 - largest**2))
    return min(1.0, 2 * float(stats.t.sf(statistic, freedom)) * (same.size + later.size))


def _correlations(one: Floats, two: Floats) -> Floats:
    norms = np.sqrt(np.outer(np.sum(one**2, axis=0), np.sum(two**2, axis=0)))
    found: Floats = one.T @ two / norms
    return found


def p_of_uniformity(words: npt.NDArray[np.uint64], bits: int = 8) -> float:
    """Chi-square test of the highest bits of 64-bit words against the uniform law."""
    counts = np.bincount((words.ravel() >> np.uint64(64 - bits)).astype(np.int64), minlength=1 << bits)
    expected = words.size / (1 << bits)
    return float(stats.chi2.sf(np.sum((counts - expected) ** 2) / expected, (1 << bits) - 1))
