"""An empirical privacy audit: how well can the best linear attack tell two neighbours' releases apart?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Outputs = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Audit:
    """A measured mu and its standard error."""

    mu: float
    standard_error: float

    def agrees(self, nominal: float, errors: float) -> bool:
        """Whether mu lies within so many standard errors of nominal, or below it by at most 5 %.

        Too little noise shows above, too much below. The attack is learned from finitely many outputs and so loses a
        little (a part r / (N mu^2) for r released numbers), hence the 5 %.
        """
        allowed = errors * self.standard_error
        return nominal - max(allowed, 0.05 * nominal) <= self.mu <= nominal + allowed


def audit(first: Outputs, second: Outputs) -> Audit:
    """Measure mu of a mechanism from its outputs on two neighbours, without knowing anything about it.

    Half of the outputs choose a direction: S^-1 (difference of means), with S the covariance, is the best linear
    attack on Gaussian outputs (Fisher's discriminant), and finds noise that is missing or shared between entries by
    itself. The other half is projected on it and measured: mu = |difference of means| / standard deviation. A
    measured mu much above the nominal one proves a breach; one that agrees proves nothing, it is a smoke test.

    Args:
        first: (2N, r) outputs on one table, r released numbers each.
        second: (2N, r) outputs on its neighbour.
    """
    half = len(first) // 2
    scale = np.vstack([first, second]).std(axis=0).max() or 1.0
    train_one, train_two = first[:half] / scale, second[:half] / scale
    covariance = (np.cov(train_one.T) + np.cov(train_two.T)) / 2
    # A tiny ridge keeps singular covariances solvable and points the attack at directions without any noise.
    ridge = 1e-12 * np.eye(first.shape[1])
    direction = np.linalg.solve(np.atleast_2d(covariance) + ridge, train_two.mean(axis=0) - train_one.mean(axis=0))
    one, two = first[half:] / scale @ direction, second[half:] / scale @ direction
    gap = abs(float(two.mean() - one.mean()))
    spread = math.sqrt((float(one.var(ddof=1)) + float(two.var(ddof=1))) / 2)
    if spread <= 1e-9 * gap:
        return Audit(math.inf, 0.0)
    mu = gap / spread if spread else 0.0
    size = len(one)
    return Audit(mu, math.sqrt(2 / size + mu**2 / (4 * size)))
