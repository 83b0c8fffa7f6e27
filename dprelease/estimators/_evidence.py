"""Many vectors seen through known gains and in known noise, each believed as far as its own numbers bear out.

Of t, r numbers, is seen g_i = s_i t_i + noise of variance sigma^2. t is the part U^T z of a column z of n numbers with
variance V, U the left singular vectors of the public side and s its singular values, so before g is seen

    t_i ~ N(0, v_i),   v_i = V [(1 - e) + e n s_i^2 / sum s^2]:                                                         (1)

a column of which the public side explains the part e by weights all of one size, and whose rest has no direction. e is
log-uniform on `EXPLAINED`; V takes a few values that its own noisy square leaves likely. Given both, t_i is normal with mean
v_i s_i g_i / (v_i s_i^2 + sigma^2); means are averaged by how likely e and V make g. Without noise t = g / s.
"""

from __future__ import annotations

import numpy as np

from dprelease.estimators.projection import PublicSide
from dprelease.release import Floats

EXPLAINED = np.geomspace(1e-2, 0.99, 12)
"""e."""

_LEAST = 1e-12
"""Least V: one millionth of a range for a standard deviation."""
_CELLS = 1 << 18


def believed(
    singular: Floats, seen: Floats, noise: Floats, spread: Floats, rows: int, gain: Floats | None = None
) -> tuple[Floats, Floats]:
    """Mean and variance of t given g, each (r, l).

    Args:
        singular: (r,) s, positive.
        seen: (r, l) g.
        noise: (l,) sigma.
        spread: (k, l) equally likely values of V.
        rows: n.
        gain: (r,) what t is multiplied by in g; s itself unless told.
    """
    gains = singular if gain is None else gain
    energies, squares = gains**2, singular**2
    shapes = 1 - EXPLAINED[:, None] + EXPLAINED[:, None] * (rows * squares / squares.sum())
    mean, variance = np.empty_like(seen), np.empty_like(seen)
    step = max(1, _CELLS // max(1, len(squares)))
    for part in (slice(start, start + step) for start in range(0, seen.shape[1], step)):
        g, s2 = seen[:, part], noise[part] ** 2
        energy, cases = g**2, [(shape, v) for v in np.maximum(spread[:, part], _LEAST) for shape in shapes]
        evidence = np.empty((len(cases), g.shape[1]))
        for index, (shape, v) in enumerate(cases):
            expected = np.outer(shape * energies, v) + s2
            evidence[index] = -0.5 * (np.log(expected) + energy / expected).sum(axis=0)
        weight = np.exp(evidence - evidence.max(axis=0))
        weight /= weight.sum(axis=0)
        first, second = np.zeros_like(g), np.zeros_like(g)
        for (shape, v), share in zip(cases, weight, strict=True):
            prior = np.outer(shape, v)
            expected = prior * energies[:, None] + s2
            likely = prior * gains[:, None] * g / expected
            first += share * likely
            second += share * (prior * s2 / expected + likely**2)
        mean[:, part], variance[:, part] = first, np.maximum(second - first**2, 0.0)
    return mean, variance


def within(side: PublicSide, seen: Floats, likely: Floats, radius: Floats) -> Floats:
    """What is believed, no coordinate further out than in the nearest feasible t, (r, l); hence feasible itself.

    Args:
        side: whose singular values are s.
        seen: (r, l) g.
        likely: (r, l) from `believed`.
        radius: (l,) bounds of |t|.
    """
    furthest = side.shrinkage(side.multipliers(seen, radius)) * np.abs(seen) / side.singular[:, None]
    return np.clip(likely, -furthest, furthest)
