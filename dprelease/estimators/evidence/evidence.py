"""Evidence on the second moments S = (1/n) sum x x^T of a release's rows, x = (1, columns): draws and errors.

Fits, descriptions, exports and analyses are functions of it. Up to `WIDEST` variables all entries help to find each, and S is
drawn. In a wider release draws would take too long: the nearest matrix within bounds stands for them, or columns are left out.

**Draws** of the true moments given the noisy ones: Hamiltonian Monte Carlo on `Density`, many short chains side by side.

The randomness is public (it protects nothing) and expanded from the released numbers, so the same release gives the same
draws on the same machine; another machine's rounding may lead to other draws of the same law. How far that moves a fit is far
below what the privacy noise leaves open.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Floats
from dprelease.data.column import Variable
from dprelease.errors import InvalidInput
from dprelease.estimators.evidence.density import Density
from dprelease.mechanisms.moments.released import Moments, NoisyMoments
from dprelease.privacy.public_stream import PublicNormals

WARM_UP = 80
KEPT = 50
LEAPS = 10
"""Steps of a trajectory on average; their number is drawn between half and one and a half times of it."""
ACCEPTANCE = 0.75
REFIT = (10, 25, 40, 60)
"""Turns at which the masses are worked out again."""
AGAIN = 20
"""Turns that warm up chains which go on with the variables in another order."""
DRAWS = 600
"""Draws that are handed on at most: all chains, at every turn or every few."""

_LABEL = b"dprelease posterior 1"


@dataclass(frozen=True)
class _Key:
    """Moments that are equal when their bytes are."""

    digest: bytes
    moments: NoisyMoments = field(compare=False)


class Turns(NamedTuple):
    """How long chains are.

    Attributes:
        warm_up: turns that are not kept.
        refit: those at which the masses are worked out again.
        kept: turns after them.
    """

    warm_up: int
    refit: tuple[int, ...]
    kept: int


class _Drawn(NamedTuple):
    """Draws, and where the chains ended.

    Attributes:
        matrices: (T, p+1, p+1).
        density: of the points.
        theta: (J, q, q + 2) the last points.
        step: length of a leap.
    """

    matrices: Floats
    density: Density
    theta: Floats
    step: float


def posterior(moments: NoisyMoments, outcome: int | None = None) -> Floats:
    """Draws of S = (1/n) sum x x^T, (T, p+1, p+1) with T <= `DRAWS`; the last few results are kept.

    A matrix without noise is known, and is the only draw. Time grows like p^3: half a second to a second for 10 to 20 variables,
    and a third of it for each outcome of the same release.

    Args:
        moments: as released.
        outcome: index in the matrix of the variable whose regression on all others the prior is about; None for all alike.
    """
    if not moments.noise_sd.any():
        return (moments.gram / moments.rows)[None]
    named = ", ".join(map(seeding, moments.layout.variables))
    content = (_LABEL, f"({moments.rows}, ({named}))".encode(), moments.gram, moments.noise_sd)
    key = _Key(hashlib.sha256(b"".join(bytes(part) for part in content)).digest(), moments)
    return _draw(key).matrices if outcome is None else _draw_with_last(key, outcome)


def seeding(variable: Variable) -> str:
    """Text of a variable in the seed of all draws: another one would move every fit within its Monte Carlo error."""
    kind = "numeric" if variable.measured else "level" if variable.level else "binary"
    return f"Variable(name={variable.name!r}, kind={kind!r}, column={variable.column}, public={variable.public})"


@lru_cache(maxsize=4)
def _draw(key: _Key) -> _Drawn:
    density = Density(key.moments)
    variables = len(key.moments.names)
    chains = 24 if variables <= 16 else 12 if variables <= 40 else 8
    return _drawn(density, density.start(chains), 0.1, Turns(WARM_UP, REFIT, KEPT), PublicNormals(key.digest))


@lru_cache(maxsize=16)
def _draw_with_last(key: _Key, outcome: int) -> Floats:
    """Chains that go on from where those of no outcome ended."""
    drawn, density = _draw(key), Density(key.moments, outcome)
    seed = hashlib.sha256(key.digest + outcome.to_bytes(2, "big")).digest()
    start = density.reordered(drawn.theta, drawn.density)
    turns = Turns(min(AGAIN, WARM_UP), (AGAIN // 2,), min(KEPT, -(-DRAWS // len(start))))
    return _drawn(density, start, drawn.step, turns, PublicNormals(seed)).matrices


def _drawn(density: Density, start: Floats, step: float, turns: Turns, normals: PublicNormals) -> _Drawn:
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a wild trajectory is refused, not an error
        points, step = _chains(density, start, step, turns, normals)
    every = -(-len(points) * len(start) // DRAWS)
    draws = density.matrices(np.concatenate(points[::every]))
    draws.flags.writeable = False
    return _Drawn(draws, density, points[-1], step)


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


def _chains(
    density: Density, start: Floats, step: float, turns: Turns, normals: PublicNormals
) -> tuple[list[Floats], float]:
    """Points of all chains at every turn after warming up, (J, q, q + 2) each, and the length of a leap.

    While warming up, the masses follow the density's curvature where the chains are, and the step the rate of acceptance.

    Args:
        density: of the points.
        start: (J, q, q + 2).
        step: length of a leap to begin with.
        turns: how many.
        normals: public ones.
    """
    theta, chains = start, len(start)
    value, slope = density.potential(theta)
    metric = _Metric(density.metric(theta), density.used)
    kept: list[Floats] = []
    for turn in range(turns.warm_up + turns.kept):
        if turn in turns.refit:
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
        if turn < turns.warm_up:
            step *= float(np.exp(0.2 * (chance.mean() - ACCEPTANCE)))
        else:
            kept.append(theta)
    return kept, step


WIDEST = 64
"""Variables of which the moments are drawn all together; beyond, `spectral_ridge` does without draws."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Released moments, and what follows from them."""

    moments: Moments

    @property
    def wide(self) -> bool:
        """Tells whether there are too many variables to draw their moments; without noise they are known, and never too many."""
        return len(self.moments.joint.names) > WIDEST and bool(self.moments.joint.noise_sd.any())

    def draws(self, outcome: int | None = None) -> Floats:
        """Draws of S, (T, p+1, p+1), as of `posterior`; where there are too many variables the one of `likely`.

        Args:
            outcome: index in the matrix of the variable whose regression on all others the prior is about; None for all alike.
        """
        return nearest(self.moments.joint)[None] if self.wide else posterior(self.moments.joint, outcome)

    def likely(self) -> Floats:
        """A matrix that rows within their bounds can have, close to the released one, (p+1, p+1).

        Positive semidefinite; means are within their ranges and variances within what their means allow. An indicator's own entry
        is what its mean says, which for the one level of a group that follows from the others, as for the zeros within it, holds
        nearly. Least squares on it are the slopes of method `shrinkage` before its last step. Without noise it is the released
        matrix itself.
        """
        found: Floats = self.draws().mean(axis=0)
        return found

    def narrowed(self, names: Collection[str]) -> Evidence:
        """The evidence on some declared columns alone, where there are too many to draw all.

        Raises:
            InvalidInput: even these are too many.
        """
        if not self.wide:
            return self
        moments, layout = self.moments.joint, self.moments.joint.layout
        kept = [place for place, each in enumerate(layout.variables, 1) if layout.columns[each.column].name in names]
        if len(kept) > WIDEST:
            raise InvalidInput(f"an analysis takes up to {WIDEST} variables, not {len(kept)}; name fewer columns")
        within = np.ix_([0, *kept], [0, *kept])
        narrow = replace(layout, columns=tuple(column for column in layout.columns if column.name in names))
        return Evidence(NoisyMoments(narrow, moments.gram[within], moments.noise_sd[within], moments.rows))


def nearest(moments: NoisyMoments) -> Floats:
    """(p+1, p+1) `Evidence.likely` without draws: released means, clipped, beside the nearest covariance within bounds."""
    lower = moments.layout.lower[1:]
    mean = np.clip(moments.gram[0, 1:] / moments.rows, lower, 1.0)
    covariance = moments.gram[1:, 1:] / moments.rows - np.outer(mean, mean)
    values, vectors = np.linalg.eigh(covariance)
    covariance = (vectors * np.maximum(values, 0.0)) @ vectors.T
    variance, most = np.diag(covariance), (mean - lower) * (1 - mean)
    wanted = np.where(moments.layout.measured[1:], np.minimum(variance, most), most)
    scale = np.sqrt(np.divide(wanted, variance, out=np.zeros_like(wanted), where=variance > 0))
    covariance = covariance * np.outer(scale, scale)
    covariance[np.diag_indices_from(covariance)] = wanted
    x = np.append(1.0, mean)
    matrix: Floats = np.outer(x, x)
    matrix[1:, 1:] += covariance
    return matrix
