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

WARM_UP = 120
KEPT = 100
LEAPS = 10
"""Steps of a trajectory on average; their number is drawn between half and one and a half times of it."""
ACCEPTANCE = 0.75
REFIT = (15, 35, 60, 85)
"""Turns at which the masses are worked out again."""
WIDEST = 64
"""Variables of which the moments are drawn all together; beyond, `spectral_ridge` does without draws."""
DRAWS = 600
"""Draws that are handed on, out of chains * KEPT."""

_LABEL = b"dprelease posterior 1"


@dataclass(frozen=True)
class _Key:
    """Moments that are equal when their bytes are."""

    digest: bytes
    moments: NoisyMoments = field(compare=False)


def posterior(moments: NoisyMoments) -> Floats:
    """Draws of S = (1/n) sum x x^T, (T, p+1, p+1) with T <= `DRAWS`; the last few results are kept.

    A matrix without noise is known, and is the only draw. Time grows like p^3: about half a second for 10 variables, half a
    minute for 100.
    """
    if not moments.noise_sd.any():
        return (moments.gram / moments.rows)[None]
    content = (_LABEL, repr((moments.rows, moments.layout.variables)).encode(), moments.gram, moments.noise_sd)
    return _draw(_Key(hashlib.sha256(b"".join(bytes(part) for part in content)).digest(), moments))


@lru_cache(maxsize=4)
def _draw(key: _Key) -> Floats:
    density = Density(key.moments)
    variables = len(key.moments.names)
    chains = 24 if variables <= 16 else 12 if variables <= 40 else 4
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a wild trajectory is refused, not an error
        points = _chains(density, chains, PublicNormals(key.digest))
    step = -(-len(points) // DRAWS)
    draws = density.matrices(points[::step])
    draws.flags.writeable = False
    return draws


class _Metric:
    """Kinetic energy with one mass matrix for each variable's coordinates.

    Args:
        masses: (q, k, k) positive definite.
        used: (q, k) coordinates that move.
    """

    def __init__(self, masses: Floats, used: npt.NDArray[np.bool_]) -> None:
        self._root = np.linalg.cholesky(masses)
        self._inverse = np.linalg.inv(masses)
        self._used = used

    def momentum(self, chains: int, normals: PublicNormals) -> Floats:
        """(J, q, k)."""
        standard = normals.normal(chains, *self._used.shape) * self._used
        drawn: Floats = (self._root @ standard[..., None])[..., 0]
        return drawn

    def velocity(self, momentum: Floats) -> Floats:
        """(J, q, k)."""
        found: Floats = np.matmul(self._inverse, momentum[..., None])[..., 0]
        return found

    def energy(self, momentum: Floats) -> Floats:
        """(J,)."""
        found: Floats = 0.5 * np.einsum("jab,jab->j", momentum, self.velocity(momentum))
        return found


def _chains(density: Density, chains: int, normals: PublicNormals) -> Floats:
    """Points of all chains after warming up, (KEPT * chains, q, q + 2).

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
        moved, moved_slope = theta, slope
        for _ in range(int(LEAPS * (0.5 + float(normals.uniform(1)[0]))) + 1):
            momentum = momentum - 0.5 * step * moved_slope
            moved = moved + step * metric.velocity(momentum)
            moved_value, moved_slope = density.potential(moved)
            momentum = momentum - 0.5 * step * moved_slope
        change = moved_value + metric.energy(momentum) - energy
        chance = np.where(np.isfinite(change), np.exp(-np.maximum(change, 0)), 0.0)
        taken = normals.uniform(chains) < chance
        theta, slope = (np.where(taken[:, None, None], *pair) for pair in ((moved, theta), (moved_slope, slope)))
        value = np.where(taken, moved_value, value)
        if turn < WARM_UP:
            step *= float(np.exp(0.2 * (chance.mean() - ACCEPTANCE)))
        else:
            kept.append(theta)
    return np.concatenate(kept)
