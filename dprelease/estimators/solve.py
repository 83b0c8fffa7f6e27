"""One symmetric solve: every outcome of a regression from a single factorisation of its Hessian."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dprelease.arrays import Floats

SINGULAR = 1e-12
"""A direction counts as null when its curvature is at most this part of what its columns would have there one by one."""


@dataclass(frozen=True)
class Solution:
    """Result of a solve.

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
        """Tells whether the inverted matrix has a direction without curvature, or curved downwards."""
        return self.smallest_eigenvalue <= 0


def solve(matrix: Floats, right: Floats, ridge: float = 0.0) -> Solution:
    """Solve (matrix + ridge I) W = right by one symmetric eigendecomposition, O(d^3 + l d^2).

    An eigendecomposition serves definite and indefinite matrices alike, and shows the small eigenvalues that other
    factorisations hide. A direction z (|z| = 1) with eigenvalue c is null when |c| <= `SINGULAR` sum_i z_i^2 |a_ii|, a
    comparison in which the scale of the columns cancels: a column that fills a small part of its public range is
    small, not singular. Directions that are null even after the ridge get weight zero. `Solution.singular` tells of
    null directions, and the caller decides whether they are an error.

    Args:
        matrix: (d, d) symmetric.
        right: (d, l).
        ridge: added to every diagonal entry.
    """
    values, vectors = np.linalg.eigh(matrix)
    inverted = values + ridge
    threshold = SINGULAR * (np.abs(np.diag(matrix)) @ vectors**2)
    null = np.abs(values) <= threshold
    usable = np.abs(inverted) > threshold
    reciprocal = np.divide(1.0, inverted, out=np.zeros_like(inverted), where=usable)
    inverse = (vectors * reciprocal) @ vectors.T
    sizes = np.abs(inverted)
    return Solution(
        weights=inverse @ right,
        inverse=inverse,
        smallest_eigenvalue=float(inverted.min()),
        condition_number=float(sizes.max() / sizes.min()) if sizes.min() else float("inf"),
        singular=bool(null.any()),
    )
