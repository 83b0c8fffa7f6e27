"""Continual sums of streams that end nobody knows when: what not knowing T costs, beside a factorisation that knows it.

    segments     [2^k, 2^(k+1)), each with a normalised square root of its own for its prefix sums, and a noisy total of the whole
                 segment. A step is in one segment. Of its squared norm, 1, the total has b and the factor 1 - b. With p_k(i) the
                 variance of prefix i of the factor of length 2^k, step i of segment k errs by

                     sum_(j<k) 1 / (b + (1 - b)/p_j(2^j)) + p_k(i)/(1 - b),                                               (1)

                 a total being read from its own row and from the last prefix of its segment, by inverse variances. Segment 0 is
                 one step, and spends everything on it.
    unbounded    one lower triangular factor with columns of norm 1 however long the stream is (`_incremental_factors.unbounded`).

Both are compared by the largest variance up to T over that of the normalised square root of length T. No matrix can be good at
every T: `least_possible` says how far any is from knowing T.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize_scalar

from benchmarks.paper_incremental.factors import normalised
from dprelease.arrays import Floats

STEPS = 300
"""Of the search for the dual."""


@cache
def _variances(length: int) -> Floats:
    return normalised(length).deviations ** 2


def segments(length: int, weight: float) -> Floats:
    """(T,) variances by formula (1), in units of (Delta/mu)^2.

    Args:
        length: T.
        weight: b, in (0, 1).
    """
    found, carried = np.empty(length), 0.0
    for k in range(length.bit_length()):
        start, prefixes = (1 << k) - 1, _variances(1 << k)
        inside = prefixes / (1 - weight) if k else prefixes
        total = 1 / (weight + (1 - weight) / prefixes[-1]) if k else 1.0
        inside = np.append(inside[:-1], total)
        found[start : start + (1 << k)] = carried + inside[: max(length - start, 0)]
        carried += total
    return found


def beside_known(variances: Floats, lengths: Sequence[int]) -> Floats:
    """(K,) largest variance up to T over that of the normalised square root of length T, for some T."""
    largest = np.maximum.accumulate(variances)
    return np.array([largest[length - 1] / _variances(length).max() for length in lengths])


def lengths(most: int) -> list[int]:
    """T to compare at: powers of two, one step before them, and halfway between them."""
    powers = [1 << k for k in range(most.bit_length())]
    return sorted({each for power in powers for each in (power, power - 1, 3 * power // 2) if 1 <= each <= most})


def best_weight(most: int) -> float:
    """b at which the worst of `beside_known` over T up to `most` is least."""
    chosen = lengths(most)
    found = minimize_scalar(
        lambda weight: beside_known(segments(most, weight), chosen).max(),
        bounds=(0.05, 0.9),
        method="bounded",
        options={"xatol": 1e-3},
    )
    return float(found.x)


def least_possible(length: int) -> float:
    """A lower bound on the worst ratio over all T up to `length` of any C with columns of norm 1, by duality.

    With X = C'C prefix t has variance a_t' X^-1 a_t, a_t being t ones. For weights p of T that add up to 1, V = sum p_T a_T
    a_T'/known_T and any d >= 0,

        worst ratio >= tr(V X^-1) >= 2 tr (D^(1/2) V D^(1/2))^(1/2) - sum d,   D = diag(d),

    because tr(V X^-1) + tr(D X) is at least the first term on the right, and X has ones on its diagonal. p and d are found by
    multiplicative steps; whatever they are, the bound holds.
    """
    known = np.array([_variances(each).max() for each in range(1, length + 1)])
    prefixes = np.tril(np.ones((length, length)))
    p, d, best = np.full(length, 1 / length), np.ones(length), 0.0
    for _ in range(STEPS):
        scale = np.sqrt(d)
        values, vectors = eigh(scale[:, None] * (prefixes.T @ ((p / known)[:, None] * prefixes)) * scale)
        roots = np.sqrt(np.maximum(values, 0.0))
        best = max(best, 2 * float(roots.sum()) - float(d.sum()))
        x = (vectors * roots) @ vectors.T / np.outer(scale, scale)
        d = d * np.diag(x)
        norms = np.sqrt(np.diag(x))
        ratios = (
            np.linalg.norm(np.linalg.solve(np.linalg.cholesky(x / np.outer(norms, norms)), prefixes.T), axis=0) ** 2
            / known
        )
        p = p * np.exp(ratios / ratios.max())
        p /= p.sum()
    return best
