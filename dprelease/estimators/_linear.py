"""One symmetric solve: every outcome of a regression from a single factorisation of its Hessian."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dprelease.release import Floats

SINGULAR = 1e-12
"""Ratio of the smallest to the largest |eigenvalue| at or below which a matrix counts as singular."""


@dataclass(frozen=True)
class Solution:
    """What a solve found.

    Attributes:
        weights: (d, l), one column for each right-hand side.
        inverse: (d, d), the inverse that was applied.
        smallest_eigenvalue: of the matrix that was inverted, ridge included; negative when it is indefinite.
        condition_number: largest over smallest |eigenvalue| of that matrix; infinite when one is zero.
        singular: whether the matrix was numerically singular before the ridge.
    """

    weights: Floats
    inverse: Floats
    smallest_eigenvalue: float
    condition_number: float
    singular: bool

    @property
    def indefinite(self) -> bool:
        """Whether the inverted matrix has a direction without curvature, or curved downwards."""
        return self.smallest_eigenvalue <= 0


def solve(matrix: Floats, right: Floats, ridge: float = 0.0) -> Solution:
    """Solve (matrix + ridge I) W = right by one symmetric eigendecomposition, O(d^3 + l d^2).

    An eigendecomposition serves definite and indefinite matrices alike, and shows the small eigenvalues that a
    factorisation would hide. Columns arrive in units of their public half-widths, so the matrix needs no further
    scaling. Directions that are numerically null after the ridge get weight zero: `Solution.singular` tells, and the
    caller decides whether that is an error.

    Args:
        matrix: (d, d) symmetric.
        right: (d, l).
        ridge: added to every diagonal entry.
    """
    values, vectors = np.linalg.eigh(matrix)
    sizes = np.abs(values)
    inverted = values + ridge
    strengths = np.abs(inverted)
    usable = strengths > SINGULAR * strengths.max()
    reciprocal = np.divide(1.0, inverted, out=np.zeros_like(inverted), where=usable)
    inverse = (vectors * reciprocal) @ vectors.T
    return Solution(
        weights=inverse @ right,
        inverse=inverse,
        smallest_eigenvalue=float(inverted.min()),
        condition_number=float(strengths.max() / strengths.min()) if strengths.min() else float("inf"),
        singular=bool(sizes.min() <= SINGULAR * sizes.max()),
    )
