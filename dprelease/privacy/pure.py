"""Pure epsilon in the currency of the ledgers: mu^2 that covers an epsilon-differentially private mechanism, in rationals.

The trade-off function of epsilon-differential privacy is convex and piecewise linear, with a kink at a = 1/(1 + e^epsilon) on the
diagonal. That of mu-GDP is convex through (0, 1) and (1, 0), and so lies below it where it does at the kink: for
mu >= 2 z, z = Phi^-1(e^epsilon/(1 + e^epsilon)). Two bounds of z are rational in epsilon:

    mu^2 <= pi/2 epsilon^2,           mu^2 <= 8 ln((1 + e^epsilon)/2) <= 8 epsilon - 5    for epsilon >= 8/3.

Derived in docs/guarantees.md 22. Source: Dong, Roth and Su 2022, "Gaussian differential privacy".
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

HALF_PI = Fraction(355, 226)
"""A rational above pi/2, by 1e-7 of it."""
LARGE = Fraction(8, 3)
"""From here on the second bound holds."""
DIGITS = 10**12
"""Steps of epsilon, as `epsilon_within` rounds it down."""


def mu2_of_epsilon(epsilon: Fraction) -> Fraction:
    """mu^2 >= (2 Phi^-1(e^epsilon/(1 + e^epsilon)))^2.

    Args:
        epsilon: >= 0.
    """
    least = HALF_PI * epsilon**2
    return min(least, 8 * epsilon - 5) if epsilon >= LARGE else least


def epsilon_within(mu2: Fraction) -> Fraction:
    """The largest epsilon, to 12 decimal places, that costs at most mu^2.

    Args:
        mu2: >= 0.
    """
    squared = mu2 / HALF_PI * DIGITS**2
    found = Fraction(isqrt(squared.numerator // squared.denominator), DIGITS)
    linear = (mu2 + 5) / 8
    if linear >= LARGE:
        found = max(found, Fraction(linear.numerator * DIGITS // linear.denominator, DIGITS))
    return found
