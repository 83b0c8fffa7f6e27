"""Published private synthetic control, as written: Rho, Cummings and Misra 2023, Differentially private synthetic control.

Objective perturbation (Algorithm 3) is NOT PRIVATE: its proof bounds |f|_1 by 1, which the minimiser does not keep to. It is here
to be measured and caught, and nowhere else. Output perturbation (Algorithm 2) is private with 8 to 29 times the noise it needs.
`tight_output` has the sensitivity of docs/guarantees.md 21 under either law. Everything is in scaled units, |x|, |y| <= 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from dprelease.arrays import Floats
from dprelease.mechanisms.synthetic_control.ridge import squared_weights
from dprelease.privacy.gaussian import mu_of

Law = Literal["laplace", "gaussian"]


@dataclass(frozen=True, eq=False)
class Pool:
    """Donors and the target before the intervention, and donors after it, scaled.

    Attributes:
        donors: (n, T0).
        target: (T0,).
        after: (n, T1).
    """

    donors: Floats
    target: Floats
    after: Floats


def ridge(pool: Pool, penalty: float) -> Floats:
    """(n,) f without noise."""
    return _solve(pool.donors, pool.donors @ pool.target, penalty)


def high_dimensional_laplace(scale: float, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Noise of density proportional to exp(-|v|/scale), drawn as a whole: uniform direction, radius Gamma(dimension, scale).

    Args:
        scale: a > 0.
        shape: draws, then the shape of one.
        rng: source.
    """
    normal = rng.standard_normal(shape)
    axes = tuple(range(1, len(shape)))
    radius = rng.gamma(math.prod(shape[1:]), scale, (shape[0],) + (1,) * len(axes))
    return np.asarray(normal / np.sqrt(np.sum(normal**2, axis=axes, keepdims=True)) * radius)


def published_output(pool: Pool, penalty: float, epsilon: float, runs: int, rng: np.random.Generator) -> Floats:
    """(runs, n) f of Algorithm 2, with the paper's sensitivity 4 T0 sqrt(8 + n)/lambda.

    Args:
        pool: scaled.
        penalty: lambda.
        epsilon: epsilon_1.
        runs: draws.
        rng: source.
    """
    donors, before = pool.donors.shape
    scale = 4 * before * math.sqrt(8 + donors) / penalty / epsilon
    return ridge(pool, penalty) + high_dimensional_laplace(scale, (runs, donors), rng)


@dataclass(frozen=True)
class Objective:
    """Parameters of Algorithm 3, step 1. NOT PRIVATE.

    Attributes:
        extra: Delta, added to lambda.
        scale: beta, of the noise in the objective.
    """

    extra: float
    scale: float

    @classmethod
    def of(cls, donors: int, before: int, penalty: float, epsilon: float, delta: float) -> Objective:
        """As published, with c = (1 + sqrt(16 n - 15)) T0 of its appendix B.

        Args:
            donors: n.
            before: T0.
            penalty: lambda.
            epsilon: epsilon_1, as claimed.
            delta: as claimed; 0 for Laplace noise.
        """
        c = (1 + math.sqrt(16 * donors - 15)) * before
        spent = 2 * math.log1p(c / penalty)
        left = epsilon - spent if epsilon > spent else epsilon / 2
        extra = 0.0 if epsilon > spent else c / math.expm1(epsilon / 4) - penalty
        first = 4 * before * math.sqrt(8 + donors)
        if delta:
            return cls(extra, first * math.sqrt(2 * math.log(2 / delta) + left) / left)
        return cls(extra, min(first, c * math.sqrt(donors) + 4 * before) / left)


def published_objective(
    pool: Pool, penalty: float, epsilon: float, delta: float, runs: int, rng: np.random.Generator
) -> Floats:
    """(runs, n) f of Algorithm 3. NOT PRIVATE; arguments as of `Objective.of`, and a source of runs draws."""
    donors, before = pool.donors.shape
    how = Objective.of(donors, before, penalty, epsilon, delta)
    shape = runs, donors
    noise = how.scale * rng.standard_normal(shape) if delta else high_dimensional_laplace(how.scale, shape, rng)
    moved = pool.donors @ pool.target - noise / 2
    return _solve(pool.donors, moved.T, penalty + how.extra).T


def published_after(pool: Pool, epsilon: float, runs: int, rng: np.random.Generator) -> Floats:
    """(runs, n, T1) donors afterwards with the noise of either published algorithm, drawn as a whole."""
    times = pool.after.shape[1]
    return pool.after + high_dimensional_laplace(2 * math.sqrt(times) / epsilon, (runs, *pool.after.shape), rng)


def tight_sds(pool: Pool, penalty: float, epsilon: float, delta: float) -> tuple[float, float]:
    """Gaussian noise sd of a weight and of a donor's value, with the tight sensitivity and equal shares of mu^2.

    Args:
        pool: scaled; its target's length is public.
        penalty: lambda.
        epsilon: of both together.
        delta: the same.
    """
    half = mu_of(epsilon, delta) / math.sqrt(2)
    return _moved(pool, penalty) / half, 2 * math.sqrt(pool.after.shape[1]) / half


def tight_output(
    pool: Pool, penalty: float, epsilon: float, delta: float, runs: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """(runs, n) f and (runs, n, T1) donors of one release with the tight sensitivity and equal shares.

    Args:
        pool: scaled.
        penalty: lambda.
        epsilon: of both together.
        delta: the same; 0 for Laplace noise of epsilon/2 each.
        runs: draws.
        rng: source.
    """
    shape = runs, len(pool.donors)
    if not delta:
        noise = high_dimensional_laplace(2 * _moved(pool, penalty) / epsilon, shape, rng)
        return ridge(pool, penalty) + noise, published_after(pool, epsilon / 2, runs, rng)
    weight_sd, donor_sd = tight_sds(pool, penalty, epsilon, delta)
    after = pool.after + donor_sd * rng.standard_normal((runs, *pool.after.shape))
    return ridge(pool, penalty) + weight_sd * rng.standard_normal(shape), after


def _moved(pool: Pool, penalty: float) -> float:
    norm2 = Fraction(float(pool.target @ pool.target))
    return math.sqrt(squared_weights(norm2, len(pool.target), Fraction(penalty)))


def _solve(donors: Floats, right: Floats, penalty: float) -> Floats:
    return np.asarray(np.linalg.solve(donors @ donors.T + penalty / 2 * np.eye(len(donors)), right), np.float64)
