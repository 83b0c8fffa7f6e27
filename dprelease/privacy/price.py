"""Prices of releases, as text: every plan, card, ledger line and report prints a price through here.

A ledger adds exact rationals, so whoever states a price states the one that is charged, to the last digit that is shown;
JSON carries the rational itself, ``"p/q"``.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

from dprelease.privacy.gaussian import MARGIN, epsilon_of

DIGITS = 15
"""Significant digits of mu^2 for people."""

FIGURES = 6
"""Significant digits of epsilon and delta for people."""

MOST_COUNTED = 1000
"""Further releases that are counted one by one: of more, nobody plans the last."""

_CONTEXT = Context(prec=DIGITS, rounding=ROUND_HALF_EVEN)


def mu2_text(mu2: Fraction) -> str:
    """An exact mu^2 as a decimal: correctly rounded to 15 significant digits, shorter where that is exact."""
    return f"{_CONTEXT.divide(Decimal(mu2.numerator), Decimal(mu2.denominator)):g}"


def epsilon_at(mu2: Fraction, delta: float) -> float:
    """epsilon at delta of what costs mu^2.

    Raises:
        InvalidInput: delta is not in (0, 1).
    """
    return epsilon_of(math.sqrt(mu2), delta)


def epsilon_text(mu2: Fraction, delta: float) -> str:
    """The same with 6 significant digits, rounded up."""
    return epsilon_figure(epsilon_at(mu2, delta))


def epsilon_figure(epsilon: float) -> str:
    """An epsilon of `epsilon_of` with 6 significant digits, never below the true one."""
    # Such an epsilon is above the true one by its margin already: a target of 1 that is kept is printed as 1.
    return rounded_up(epsilon, MARGIN)


def rounded_up(value: float, slack: float = 0.0) -> str:
    """The least decimal of 6 significant digits that is not below a number: what is guaranteed is no less than what is printed.

    Args:
        value: >= 0.
        slack: relative amount by which the number itself is known to be too large.
    """
    nearest = f"{value:.{FIGURES}g}"
    if float(nearest) >= value * (1 - slack):
        return nearest
    shown = Decimal(nearest)
    return f"{float(shown + Decimal((0, (1,), shown.adjusted() + 1 - FIGURES))):.{FIGURES}g}"


def how_many(left: Fraction, charge: Fraction) -> str:
    """How many releases at one price fit into what is left.

    Args:
        left: mu^2; below 0 where more is spent than there was.
        charge: mu^2 of each; 0 for one that costs nothing.
    """
    if not charge:
        return "any number"
    return f"more than {MOST_COUNTED}" if left // charge > MOST_COUNTED else f"{max(0, left // charge)}"


def room_text(left: Fraction, charge: Fraction, like: str = "this release") -> str:
    """Number of releases like some other that the rest is enough for, as the end of a sentence that says what is left."""
    return (
        f"enough for {how_many(left, charge)} more like {like}"
        if charge
        else f"of which one more like {like} takes nothing"
    )


def price_text(mu2: Fraction, delta: float) -> str:
    """A price in words: ``mu^2 = 0.0123, epsilon = 0.5 at delta = 1e-06``, both from the same mu^2; below 0 it has no epsilon.

    Raises:
        InvalidInput: delta is not in (0, 1).
    """
    if mu2 < 0:
        return f"mu^2 = {mu2_text(mu2)}"
    return f"mu^2 = {mu2_text(mu2)}, epsilon = {epsilon_text(mu2, delta)} at delta = {rounded_up(delta)}"
