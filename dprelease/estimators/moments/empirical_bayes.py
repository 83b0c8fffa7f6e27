"""Empirical-Bayes estimates of many vectors that are observed through known gains and in known noise.

Observed of t, r numbers, is g_i = s_i t_i + noise of variance sigma^2. t is the part U^T z of a column z of n numbers with
variance V, U the left singular vectors of the public side and s its singular values, so before g is seen

    t_i ~ N(0, v_i),   v_i = V [(1 - e) + e n s_i^2 / sum s^2]:                                                         (1)

a column of which the public side explains the part e by weights all of one size, and whose rest has no direction. e is
log-uniform on `EXPLAINED`, unless many columns together tell more of its law (`pooling`); V takes a few values that its own
noisy square leaves likely. Given both, t_i is normal with mean v_i s_i g_i / (v_i s_i^2 + sigma^2); means are averaged by how
likely e and V make g. Without noise t = g / s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from dprelease.arrays import Floats
from dprelease.estimators.moments.projection import PublicSide

EXPLAINED = np.geomspace(1e-2, 0.99, 12)
"""e."""

_LEAST = 1e-12
"""Least V: one millionth of a range for a standard deviation."""
_CELLS = 1 << 18


@dataclass(frozen=True, eq=False)
class Evidence:
    """Noisy coordinates of l vectors.

    Attributes:
        singular: (r,) s, positive.
        seen: (r, l) g.
        noise: (l,) sigma.
        spread: (k, l) equally likely values of V.
        rows: n.
    """

    singular: Floats
    seen: Floats
    noise: Floats
    spread: Floats
    rows: int

    @classmethod
    def of(cls, singular: Floats, seen: Floats, noise: Floats, spread: Floats, rows: int) -> Evidence:
        """With a variance of at least `_LEAST`."""
        return cls(singular, seen, noise, np.maximum(spread, _LEAST), rows)

    def take(self, places: npt.NDArray[np.int64]) -> Evidence:
        """The same of some of the vectors."""
        return replace(self, seen=self.seen[:, places], noise=self.noise[places], spread=self.spread[:, places])

    def explained(self) -> Floats:
        """(12, l) logarithm of how likely each e makes g, up to a constant for each vector."""
        found = np.empty((len(EXPLAINED), self.seen.shape[1]))
        for places, chunk in self._chunks():
            found[:, places] = logsumexp(chunk._cases(), axis=0)
        return found

    def believed(self, shares: Floats | None = None) -> tuple[Floats, Floats]:
        """Mean and variance of t given g, each (r, l).

        Args:
            shares: (12, l) how likely each e is before g is seen; equally unless told.
        """
        mean, variance = np.empty_like(self.seen), np.empty_like(self.seen)
        for places, chunk in self._chunks():
            cases = chunk._cases()
            log = cases if shares is None else cases + np.log(shares[:, places])
            mean[:, places], variance[:, places] = chunk._average(np.exp(log - log.max(axis=(0, 1))))
        return mean, variance

    def _chunks(self) -> Iterator[tuple[npt.NDArray[np.int64], Evidence]]:
        count, step = self.seen.shape[1], max(1, _CELLS // max(1, len(self.singular)))
        for start in range(0, count, step):
            places = np.arange(start, min(start + step, count))
            yield places, self.take(places)

    def _shapes(self) -> Floats:
        """(12, r) v / V for each e."""
        squares = self.singular**2
        found: Floats = 1 - EXPLAINED[:, None] + EXPLAINED[:, None] * (self.rows * squares / squares.sum())
        return found

    def _cases(self) -> Floats:
        """(k, 12, l) logarithms of how likely V and e make g."""
        energies, energy, s2 = self.singular[:, None] ** 2, self.seen**2, self.noise**2
        found = np.empty((len(self.spread), len(EXPLAINED), len(s2)))
        for place, v in enumerate(self.spread):
            for index, shape in enumerate(self._shapes()):
                expected = shape[:, None] * energies * v + s2
                found[place, index] = -0.5 * (np.log(expected) + energy / expected).sum(axis=0)
        return found

    def _average(self, weight: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of t over the cases, which weigh so much, (k, 12, l)."""
        gains, s2 = self.singular[:, None], self.noise**2
        weight = weight / weight.sum(axis=(0, 1))
        first, second = np.zeros_like(self.seen), np.zeros_like(self.seen)
        for place, v in enumerate(self.spread):
            for index, shape in enumerate(self._shapes()):
                prior, share = np.outer(shape, v), weight[place, index]
                expected = prior * gains**2 + s2
                likely = prior * gains * self.seen / expected
                first += share * likely
                second += share * (prior * s2 / expected + likely**2)
        return first, np.maximum(second - first**2, 0.0)


def within(side: PublicSide, seen: Floats, likely: Floats, radius: Floats) -> Floats:
    """The posterior mean, no coordinate further out than in the nearest feasible t, (r, l); hence feasible itself.

    Args:
        side: whose singular values are s.
        seen: (r, l) g.
        likely: (r, l) from `Evidence.believed`.
        radius: (l,) bounds of |t|.
    """
    furthest = side.shrinkage(side.multipliers(seen, radius)) * np.abs(seen) / side.singular[:, None]
    return np.clip(likely, -furthest, furthest)
