"""Ridge weights in integers: solved in doubles, certified by an exact residual, rounded onto a grid.

For codes Q (n, T0) of donors and p (T0,) of the target, f = Q a with (Q'Q + c G^2) a = p, c = lambda/2. Doubles only guess a: it is
kept as integers over 2^S, and r = p - (Q'Q + c G^2) a is exact. The weights of this a are then off by |Q M^-1 r|, M the matrix, and

    |Q M^-1 r| <= |r| / (2 G sqrt c) = |r| / (G sqrt(2 lambda)),

whatever Q is. Refinement goes on until this is at most half a step of the grid of f; it converges because the condition of M is at
most 1 + 2 n T0/lambda, a public number that `terms` bounds. Source: Higham 2002, Accuracy and stability of numerical
algorithms, chapter 12.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Codes, Integers
from dprelease.mechanisms.synthetic_control.sensitivity import WEIGHT_BITS

Exact = npt.NDArray[np.object_]

WORST_CONDITION = 1 << 30
"""Largest 2 n T0/lambda: beyond it doubles could be too coarse to refine from."""

_SPARE_BITS = 64
_MOST_STEPS = 200
_CHUNK = 4096
"""Donors at a time: exact numbers of all of them would need too much memory."""


def ridge_weights(donors: Codes, target: tuple[int, ...], penalty: Fraction, grid_bits: int) -> Integers:
    """(n,) weights in steps of 2^-24, each within a step of the exact one; together within 2^-25 before they are rounded.

    Args:
        donors: (n, T0) codes before the intervention, |code| <= G = 2^b.
        target: (T0,) codes of the target.
        penalty: lambda, with 2 n T0/lambda <= `WORST_CONDITION`.
        grid_bits: b.
    """
    codes = donors.astype(np.int64)
    numerator, twice = penalty.numerator, 2 * penalty.denominator
    matrix: Exact = twice * (codes.T @ codes).astype(object)
    matrix[np.diag_indices(len(target))] += numerator << (2 * grid_bits)
    scaled = [twice * code for code in target]
    bits = int(matrix.trace()).bit_length() + _SPARE_BITS
    solution = _solve(matrix, np.array([each << bits for each in scaled], object), _allowed(penalty, grid_bits, bits))
    half = 1 << (bits - WEIGHT_BITS - 1)
    found: list[int] = []
    for start in range(0, len(donors), _CHUNK):
        exact: Exact = donors[start : start + _CHUNK].astype(object) @ solution
        found += [(int(each) + half) >> (bits - WEIGHT_BITS) for each in exact]
    return np.array(found, np.int64)


def _allowed(penalty: Fraction, grid_bits: int, bits: int) -> Fraction:
    """Largest squared residual, in units of 2^-S and 1/(2 denominator of lambda), with which f is off by half a step."""
    residual2 = Fraction(4**grid_bits, 4 * 4**WEIGHT_BITS) * 2 * penalty
    return residual2 * Fraction(4**bits * (2 * penalty.denominator) ** 2)


def _solve(matrix: Exact, right: Exact, allowed: Fraction) -> Exact:
    """(d,) integers x with |right - matrix x|^2 <= allowed, by iterative refinement."""
    from scipy.linalg import cho_factor, cho_solve  # slow to load, and only hospitals ask

    factor = cho_factor(matrix.astype(np.float64), lower=True)
    solution: Any = np.zeros(len(right), object)
    for _ in range(_MOST_STEPS):
        residual = right - matrix @ solution
        if sum(int(each) ** 2 for each in residual) <= allowed:
            return np.asarray(solution)
        size = max(int(abs(each)).bit_length() for each in residual)
        shift = max(size - 500, 0)  # so that doubles hold it
        step = cho_solve(factor, np.array([float(int(each) >> shift) for each in residual]))
        solution = solution + np.array([round(each) << shift for each in step.tolist()], object)
    raise AssertionError("refinement did not converge, which the bound on the condition excludes")
