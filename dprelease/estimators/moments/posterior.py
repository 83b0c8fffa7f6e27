"""Draws of the true moments given the noisy ones: Hamiltonian Monte Carlo on `Density`, many short chains side by side.

The randomness is public (it protects nothing) and expanded from the released numbers, so the same release gives the same
draws on the same machine; another machine's rounding may lead to other draws of the same law. How far that moves a fit is far
below what the privacy noise leaves open.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dprelease.estimators.moments.density import Density
from dprelease.estimators.moments.public_normals import PublicNormals
from dprelease.mechanisms.moments.released import NoisyMoments
from dprelease.release.release import Floats

WARM_UP = 80
KEPT = 50
LEAPS = 10
"""Steps of a trajectory on average; their number is drawn between half and one and a half times of it."""
ACCEPTANCE = 0.75
REFIT = (10, 25, 40, 60)
"""Turns at which the masses are worked out again."""
WIDEST = 64
"""Variables of which the moments are drawn all together; beyond, `spectral_ridge` does without draws."""
DRAWS = 600
"""Draws that are handed on at most: all chains, at every turn or every few."""

_LABEL = b"dprelease posterior 1"


@dataclass(frozen=True)
class _Key:
    """Moments that are equal when their bytes are."""

    digest: bytes
    moments: NoisyMoments = field(compare=False)


def posterior(moments: NoisyMoments) -> Floats:
    """Draws of S = (1/n) sum x x^T, (T, p+1, p+1) with T <= `DRAWS`; the last few results are kept.

    A matrix without noise is known, and is the only draw. Time grows like p^3: half a second to a second for 10 to 20 variables.

    Args:
        moments: as released.
    """
    if not moments.noise_sd.any():
        return (moments.gram / moments.rows)[None]
    content = (_LABEL, repr((moments.rows, moments.layout.variables)).encode(), moments.gram, moments.noise_sd)
    return _draw(_Key(hashlib.sha256(b"".join(bytes(part) for part in content)).digest(), moments))


@lru_cache(maxsize=4)
def _draw(key: _Key) -> Floats:
    density = Density(key.moments)
    variables = len(key.moments.names)
    chains = 24 if variables <= 16 else 12 if variables <= 40 else 8
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a wild trajectory is refused, not an error
        points = _chains(density, chains, PublicNormals(key.digest))
    step = -(-len(points) * chains // DRAWS)
    draws = density.matrices(np.concatenate(points[::step]))
    draws.flags.writeable = False
    return draws


class _Metric:
    """Kinetic energy with one mass matrix for each variable's coordinates.

    Args:
        masses: (q, k, k) positive definite.
        used: (q, k) coordinates that move.
    """

    def __init__(self, masses: Floats, used: npt.NDArray[np.bool_]) -> None:
        self._root = np.asarray(np.linalg.cholesky(masses), np.float64)
        self._inverse = np.asarray(np.linalg.inv(masses), np.float64)
        self._used = used

    def momentum(self, chains: int, normals: PublicNormals) -> Floats:
        """(J, q, k)."""
        standard = np.zeros((chains, *self._used.shape))
        standard[:, self._used] = normals.normal(chains, int(self._used.sum()))
        return _by_row(standard, self._root.mT)

    def velocity(self, momentum: Floats) -> Floats:
        """(J, q, k)."""
        return _by_row(momentum, self._inverse)

    def energy(self, momentum: Floats) -> Floats:
        """(J,)."""
        found: Floats = 0.5 * np.einsum("jab,jab->j", momentum, self.velocity(momentum))
        return found


def _by_row(values: Floats, matrices: Floats) -> Floats:
    """(J, q, k) from (J, q, k), each variable's times a matrix of its own, (q, k, k): one product for all chains."""
    found = np.empty_like(values)
    np.matmul(values.transpose(1, 0, 2), matrices, out=found.transpose(1, 0, 2))
    return found


def _chains(density: Density, chains: int, normals: PublicNormals) -> list[Floats]:
    """Points of all chains at every turn after warming up, KEPT of (J, q, q + 2).

    While warming up, the masses follow the density's curvature where the chains are, and the step the rate of acceptance.
    """
    theta = density.start(chains)
    value, slope = density.potential(theta)
    metric = _Metric(density.metric(theta[:1]), density.used)
    step = 0.1
    kept: list[Floats] = []
    for turn in range(WARM_UP + KEPT):
        if turn in REFIT:
            metric = _Metric(density.metric(theta), density.used)
        momentum = metric.momentum(chains, normals)
        energy = value + metric.energy(momentum)
        leaps = int(LEAPS * (0.5 + float(normals.uniform(1)[0]))) + 1
        momentum -= 0.5 * step * slope
        moved = theta + step * metric.velocity(momentum)
        for _ in range(leaps - 1):
            momentum -= step * density.slope(moved)
            moved += step * metric.velocity(momentum)
        moved_value, moved_slope = density.potential(moved)
        momentum -= 0.5 * step * moved_slope
        change = moved_value + metric.energy(momentum) - energy
        chance = np.where(np.isfinite(change), np.exp(-np.maximum(change, 0)), 0.0)
        taken = normals.uniform(chains) < chance
        theta, slope = (np.where(taken[:, None, None], *pair) for pair in ((moved, theta), (moved_slope, slope)))
        value = np.where(taken, moved_value, value)
        if turn < WARM_UP:
            step *= float(np.exp(0.2 * (chance.mean() - ACCEPTANCE)))
        else:
            kept.append(theta)
    return kept
