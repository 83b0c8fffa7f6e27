"""Ridge weights in integers, their sensitivity, and the default of lambda.

Weights are solved in doubles, certified by an exact residual, and rounded onto a grid.
For codes Q (n, T0) of donors and p (T0,) of the target, f = Q a with (Q'Q + c G^2) a = p, c = lambda/2. Doubles only guess a: it is
kept as integers over 2^S, and r = p - (Q'Q + c G^2) a is exact. The weights of this a are then off by |Q M^-1 r|, M the matrix, and

    |Q M^-1 r| <= |r| / (2 G sqrt c) = |r| / (G sqrt(2 lambda)),

whatever Q is. Refinement goes on until this is at most half a step of the grid of f; it converges because the condition of M is at
most 1 + 2 n T0/lambda, a public number that `terms` bounds. Source: Higham 2002, Accuracy and stability of numerical
algorithms, chapter 12.

Default of lambda, from public numbers alone: the pull of ridge regression against privacy noise in the path.

Let n donors follow the target y, whose mean square over T0 times is v in scaled units. Then c = lambda/2 draws the path to the
middle of the bounds by the share b = c/(n v T0 + c), about kappa/(2 v) with kappa = lambda/(n T0). Noise of the weights comes
through their sum, with variance n s_f^2, and through the donors' noise, together n s_f^2 (v + s_Z^2). With mu^2 split evenly
s_Z^2 = 8 T1/mu^2, and s_f^2 is about 32 v/(kappa^2 n^2 mu^2) where lambda is large. If the donors' noise is above their values,
the sum of v b^2 and of this is least at

    kappa = 4 sqrt(2 v) (T1/n)^(1/4) / mu,    lambda = 4 sqrt(2 v) T0 n^(3/4) T1^(1/4) / mu.

`SHARE` stands for 4 sqrt(2 v), and is measured: with v itself lambda would depend on the target's level, and readers take some of
the noise off. kappa is at most 1/2, where donors and target of an even spread, v = 1/3, are drawn by 3/7: more would answer the
middle of the bounds whatever the donors are. Measured in docs/methods.md, "Synthetic control".

*Sensitivity*, in L2, of the ridge weights of donors, and of the donors themselves, when one donor's whole series is replaced.
With donors X (n, T0) and a public target y (T0,) in scaled units, f = argmin |y - X'f|^2 + (lambda/2) |f|^2, that is
f = X (X'X + lambda/2)^-1 y. As s/(s^2 + c) <= 1/(2 sqrt c), no X gives |f| above |y|/sqrt(2 lambda), and so

    Delta_f^2 = 2 |y|^2 / lambda,

however many donors change; it is attained. If lambda >= 2 T0 a donor's series, which is bounded too, moves f less:

    Delta_f^2 <= 16 T0 |y|^2 (1 + T0/(2 lambda)) / (lambda + 2 T0)^2,

and q of them q times as far. The less of the two counts. It does not grow with n. Derived in docs/guarantees.md 21.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Codes, Integers

Law = Literal["gaussian", "laplace"]
"""The law of the noise."""

WEIGHT_BITS = 24
"""f is released on the grid 2^-24."""

SHARE = 4 / 3
"""lambda mu / (T0 n^(3/4) T1^(1/4))."""
LAPLACE = 4 * math.pi**2
"""At the same price Laplace noise has 2 pi n times the variance in a weight, 2 pi T1 times in a donor's value; kappa^4 grows so."""
MOST = 1 / 2
"""Largest lambda/(n T0)."""
LARGEST = 4e9
"""Largest lambda that the terms can hold, with two digits."""

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


def default_penalty(donors: int, before: int, after: int, mu2: Fraction, law: Law = "gaussian") -> Fraction:
    """lambda of a request that says none, with two significant digits.

    Args:
        donors: n.
        before: T0.
        after: T1, times from the intervention on.
        mu2: mu^2 of the whole release, positive.
        law: of the noise.
    """
    best = SHARE * before * donors**0.75 * after**0.25 / math.sqrt(mu2)
    if law == "laplace":
        best *= (LAPLACE * donors * after) ** 0.25
    return Fraction(f"{min(best, MOST * donors * before, LARGEST):.1e}")


def squared_weights(norm2: Fraction, before: int, penalty: Fraction, series_per_donor: int = 1) -> Fraction:
    """Delta_f^2, exactly.

    Args:
        norm2: |y|^2 of the target before the intervention, scaled units.
        before: T0, times before the intervention.
        penalty: lambda > 0.
        series_per_donor: q, series that one person may have.
    """
    least = 2 * norm2 / penalty
    if penalty < 2 * before:
        return least
    near = 16 * before * norm2 * (1 + Fraction(before) / (2 * penalty)) / (penalty + 2 * before) ** 2
    return min(least, series_per_donor**2 * near)


def squared_weights_on_grid(squared: Fraction, donors: int) -> int:
    """Delta_int^2 >= ((Delta_f + 2 eta)/g + sqrt n)^2: of weights known to eta = g/2, then rounded, in squared steps of the grid.

    Args:
        squared: Delta_f^2.
        donors: n, each rounded by half a step at most, in either of two neighbours.
    """
    return (root_up(squared * 4**WEIGHT_BITS) + root_up(Fraction(donors)) + 1) ** 2


def squared_donors(after: int, series_per_donor: int, grid_bits: int) -> int:
    """Squared sensitivity of the donors' codes after the intervention: q series, each over its whole range at all times.

    Args:
        after: T - T0, times from the intervention on.
        series_per_donor: q.
        grid_bits: b.
    """
    return 4 * series_per_donor * after << (2 * grid_bits)


def root_up(value: Fraction) -> int:
    """The least integer whose square is at least `value` (>= 0)."""
    whole = -(-value.numerator // value.denominator)
    return math.isqrt(whole - 1) + 1 if whole else 0
