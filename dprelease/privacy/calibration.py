"""From a privacy target to the mu^2 that may be spent, and exact square roots for noise scales.

All of it is rational arithmetic; scales are doubles rounded up, whose exact squares are the variances.
"""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from dprelease.privacy.gaussian import mu_of
from dprelease.spec_base import Target

GRID_VARIANCE = 4
"""What the discrete grid costs in variance, in squared grid units."""

_DIGITS = Context(prec=12, rounding=ROUND_FLOOR)


def budget(target: Target) -> Fraction:
    """mu^2 of a target, rounded down to 12 significant digits after a relative margin of 1e-11.

    The margin lets every machine confirm, with its own rounding, that the number does not exceed the target.
    """
    exact = Fraction(mu_of(target.epsilon, target.delta)) ** 2 * (1 - Fraction(1, 10**11))
    decimal = _DIGITS.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    return Fraction(decimal)


def root_up(value: Fraction) -> float:
    """The smallest double whose exact square is at least `value` (> 0)."""
    root = math.sqrt(value)
    while Fraction(root) ** 2 >= value:
        root = math.nextafter(root, 0.0)
    while Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    return root
