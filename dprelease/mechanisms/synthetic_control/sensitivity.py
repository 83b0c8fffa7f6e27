"""L2 sensitivity of the ridge weights of donors, and of the donors themselves, when one donor's whole series is replaced.

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

WEIGHT_BITS = 24
"""f is released on the grid 2^-24."""


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
