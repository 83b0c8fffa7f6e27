"""Observations in a released Gram matrix, and their precision: its noisy entries, and what is exact about the others."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Floats

_EXACT = 0.25
"""Standard deviation, in that of the least noisy entry, at which an exact entry counts as observed."""


def precisions(
    noise_sd: Floats,
    level: npt.NDArray[np.bool_],
    left_out: npt.NDArray[np.bool_],
    owner: npt.NDArray[np.int64],
    public: npt.NDArray[np.bool_],
) -> Floats:
    """1/variance of every entry that is an observation of its own, (p+1, p+1); 0 for the others."""
    positive = noise_sd > 0
    weight = np.divide(1.0, noise_sd**2, out=np.zeros_like(noise_sd), where=positive)
    exact = 1 / (_EXACT * noise_sd[positive].min()) ** 2
    weight[np.ix_(public, public)] = exact
    weight[0, 0] = 0.0  # the constant's square is no observation
    inside = level[:, None] & (owner[:, None] == owner) & ~left_out[:, None] & ~left_out
    weight[1:, 1:][inside] = exact
    weight[1:, 1:][np.diag(level)] = 0.0  # a level's own entry repeats its entry with the constant
    return weight


def commonest(mean: Floats, level: npt.NDArray[np.bool_], owner: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """(p,) whether a variable is that level of its category whose released mean is the largest.

    Args:
        mean: (p,) released.
        level: (p,) whether a variable is a level.
        owner: (p,) position of its declared column.
    """
    found = np.zeros(len(mean), np.bool_)
    for column in np.unique(owner[level]):
        group = np.flatnonzero(level & (owner == column))
        found[group[mean[group].argmax()]] = True
    return found
