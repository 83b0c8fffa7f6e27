"""From a privacy target to the mu^2 that may be spent, to the least noise scales, and back to what scales spend.

All of it is rational arithmetic; scales are doubles rounded up, whose exact squares are the variances.

Pure epsilon has its price in mu^2, too. The trade-off function of epsilon-differential privacy is convex and piecewise linear,
with a kink at a = 1/(1 + e^epsilon) on the diagonal. That of mu-GDP is convex through (0, 1) and (1, 0), and so lies below it
where it does at the kink: for mu >= 2 z, z = Phi^-1(e^epsilon/(1 + e^epsilon)). Two bounds of z are rational in epsilon:

    mu^2 <= pi/2 epsilon^2,           mu^2 <= 8 ln((1 + e^epsilon)/2) <= 8 epsilon - 5    for epsilon >= 8/3.

Derived in docs/guarantees.md 22. Source: Dong, Roth and Su 2022, "Gaussian differential privacy".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import isqrt

from dprelease.privacy.gaussian import mu_of
from dprelease.spec_base import Target

GRID_VARIANCE = 4
"""Variance that the discrete grid costs, in squared grid units."""

UNBOUNDED = Fraction(10**30)
"""mu^2 of scales that give no guarantee: too large for any budget."""

_DIGITS = Context(prec=12, rounding=ROUND_FLOOR)


def budget(target: Target) -> Fraction:
    """mu^2 of a target, rounded down to 12 significant digits after a relative margin of 1e-11.

    The margin lets every machine confirm, with its own rounding, that the number does not exceed the target.
    """
    exact = Fraction(mu_of(target.epsilon, target.delta)) ** 2 * (1 - Fraction(1, 10**11))
    decimal = _DIGITS.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    return Fraction(decimal)


@lru_cache(maxsize=1024)
def root_up(value: Fraction) -> float:
    """The smallest double whose exact square is at least `value` (> 0)."""
    root = math.sqrt(value)
    while Fraction(root) ** 2 >= value:
        root = math.nextafter(root, 0.0)
    while Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    return root


def least_scale(squared: Fraction | int, mu2: Fraction, weight: Fraction = Fraction(1)) -> float:
    """The least noise scale for integers that move by a given length: its square is weight (squared / mu^2 + 4), rounded up.

    Args:
        squared: squared sensitivity, grid units; where it is 0 no noise is needed, and the scale is 0.
        mu2: mu^2, positive where anything moves.
        weight: what the variance is multiplied by, such as 1/h where h noises of this scale add up.
    """
    return root_up((squared / mu2 + GRID_VARIANCE) * weight) if squared else 0.0


def mu2_of_scales(
    parts: Iterable[tuple[Fraction | int, float]], together: Callable[[Sequence[Fraction]], Fraction], noises: int = 1
) -> Fraction:
    """mu^2 that declared noise scales really give, exactly; `UNBOUNDED` where one leaves nothing beyond the grid's variance.

    Args:
        parts: squared sensitivity and scale, grid units; of a part whose sensitivity is 0 the scale plays no role.
        together: mu^2 of all parts from that of each, in order.
        noises: how many noises of a part's scale add up.
    """
    found = []
    for squared, scale in parts:
        room = noises * Fraction(scale) ** 2 - GRID_VARIANCE if squared else Fraction(1)
        if room <= 0:
            return UNBOUNDED
        found.append(squared / room)
    return together(found)


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
