"""Default of lambda, from public numbers alone: the pull of ridge regression against privacy noise in the path.

Let n donors follow the target y, whose mean square over T0 times is v in scaled units. Then c = lambda/2 draws the path to the
middle of the bounds by the share b = c/(n v T0 + c), about kappa/(2 v) with kappa = lambda/(n T0). Noise of the weights comes
through their sum, with variance n s_f^2, and through the donors' noise, together n s_f^2 (v + s_Z^2). With mu^2 split evenly
s_Z^2 = 8 T1/mu^2, and s_f^2 is about 32 v/(kappa^2 n^2 mu^2) where lambda is large. If the donors' noise is above their values,
the sum of v b^2 and of this is least at

    kappa = 4 sqrt(2 v) (T1/n)^(1/4) / mu,    lambda = 4 sqrt(2 v) T0 n^(3/4) T1^(1/4) / mu.

`SHARE` stands for 4 sqrt(2 v), and is measured: with v itself lambda would depend on the target's level, and readers take some of
the noise off. kappa is at most 1/2, where donors and target of an even spread, v = 1/3, are drawn by 3/7: more would answer the
middle of the bounds whatever the donors are. Measured in docs/methods.md, "Synthetic control".
"""

from __future__ import annotations

import math
from fractions import Fraction

from dprelease.mechanisms.synthetic_control.terms import Law

SHARE = 4 / 3
"""lambda mu / (T0 n^(3/4) T1^(1/4))."""
LAPLACE = 4 * math.pi**2
"""At the same price Laplace noise has 2 pi n times the variance in a weight, 2 pi T1 times in a donor's value; kappa^4 grows so."""
MOST = 1 / 2
"""Largest lambda/(n T0)."""
LARGEST = 4e9
"""Largest lambda that the terms can hold, with two digits."""


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
