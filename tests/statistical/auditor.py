"""An empirical privacy audit: how well can the best linear attack tell two neighbours' releases apart?"""

import math
from collections.abc import Sequence
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


@dataclass(frozen=True)
class Sighting:
    """One release before an attacker who knows everything but which of two tables it came from.

    Attributes:
        residual: (r,) what was released, minus the exact numbers of the first table, each divided by its declared noise.
        shift: (r,) the exact numbers of the second table minus those of the first, in the same unit.
    """

    residual: Outputs
    shift: Outputs


def audit_known(first: Sequence[Sighting], second: Sequence[Sighting]) -> Audit:
    """Measure mu from few releases of many numbers, for an attacker who knows both tables.

    Each release is projected on its known shift: mu = difference of the two means / standard deviation of the noise,
    which is estimated from all directions together, about r for each release. So the declared noise is believed in its
    ratios between entries (`audit` believes nothing, but takes thousands of releases), and not in its size. With N and N'
    releases and d degrees of freedom, mu has variance 1/N + 1/N' + mu^2/(2 d).

    Args:
        first: releases of the first table; of any number of entries each.
        second: releases of the second table.
    """
    squares, freedom, along = 0.0, -2, []
    for sightings in (first, second):
        projected = []
        for sighting in sightings:
            direction = sighting.shift / np.linalg.norm(sighting.shift)
            projected.append(float(sighting.residual @ direction))
            squares += float(np.sum((sighting.residual - projected[-1] * direction) ** 2))
            freedom += len(direction)
        squares += float(np.sum((np.array(projected) - np.mean(projected)) ** 2))
        along.append(np.mean(projected))
    gap, spread = abs(float(along[1] - along[0])), math.sqrt(squares / freedom)
    if spread <= 1e-9 * gap:
        return Audit(math.inf, 0.0)
    mu = gap / spread
    return Audit(mu, math.sqrt(1 / len(first) + 1 / len(second) + mu**2 / (2 * freedom)))


def audit_alike(exact: Sequence[Outputs], noise: Outputs, first: Outputs, second: Outputs) -> Audit:
    """The same where all releases of a table are of the same exact numbers.

    Args:
        exact: (r,) of each table.
        noise: (r,) its declared standard deviations.
        first: (N, r) releases of the first table.
        second: releases of the second one.
    """
    shift = (exact[1] - exact[0]) / noise
    return audit_known(*([Sighting((row - exact[0]) / noise, shift) for row in found] for found in (first, second)))


@dataclass(frozen=True)
class Failure:
    """A measured lower bound of delta(epsilon), and its standard error."""

    delta: float
    standard_error: float


def audit_delta(first: Outputs, second: Outputs, epsilon: float) -> Failure:
    """Measure P[first in S] - e^epsilon P[second in S] for the best S = {statistic > c}: sees differences of spread as well.

    Half of the outputs choose c, the other half are counted. What is well above a claimed delta refutes the claim.

    Args:
        first: (2N,) a statistic of the outputs on one table.
        second: (2N,) the same on its neighbour.
        epsilon: as claimed.
    """
    half = len(first) // 2
    cuts = np.quantile(np.concatenate([first[:half], second[:half]]), np.linspace(0, 1, 401))
    gains = [np.mean(first[:half] > cut) - math.exp(epsilon) * np.mean(second[:half] > cut) for cut in cuts]
    cut = cuts[int(np.argmax(gains))]
    one, two = float(np.mean(first[half:] > cut)), float(np.mean(second[half:] > cut))
    variance = one * (1 - one) + math.exp(2 * epsilon) * two * (1 - two)
    return Failure(one - math.exp(epsilon) * two, math.sqrt(variance / (len(first) - half)))
