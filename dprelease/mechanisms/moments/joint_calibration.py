"""Joint calibration of X^T X and X^T Y (PRIMO's ReuseCov): their sensitivities, one mu for both, and how to split it.

Neighbours differ in one patient's row (x, y), or in its private part where a side is public. All lengths are given squared
and all arithmetic is rational, so nothing is rounded before the scales, which are rounded up.

Covariance, X^T X, with variance s1^2 on the diagonal and half of it off the diagonal (`ball`), or s1^2 on every entry of the
upper triangle (`box`):

    |x| <= R      Delta_1^2 = 2 R^4; R^4 for a single column         |x x^T - x'x'^T|^2 = |x|^4 + |x'|^4 - 2 <x, x'>^2
    |x_c| <= b_c  Delta_1^2 = (sum b_c^2)^2, upper triangle          docs/guarantees.md 11
    x = (1, z), |z| <= B, the constant's own entry exact: Delta_1^2 = 2 (1 + B^2)^2 if B >= 1, else 8 B^2

Association, X^T Y, variance s2^2: Delta_2^2 = 4 R^2 S^2 with |y| <= S. With Y public (feature privacy) S is max |y_i| over the
public rows, with X public (label privacy) R is max |x_i|.

Both at once. With A = Delta_1^2 / s1^2 and Q = Delta_2^2 / (2 s2^2),

    mu^2 = A + Q + Q^2 / (4A)  if Q <= 2A,  else 2Q,                                                                 (1)

less than the sum A + 2Q. For a ball: docs/guarantees.md, "Where the papers differ". For a box, with u = x o x, c = |<x, x'>|,
p and p' the sums of u and u', beta = sum b_c^2, the square of the move is at most

    (1/s1^2) [p^2/2 + p'^2/2 + |u - u'|^2/2 - c^2] + (S^2/s2^2) (p + p' + 2c).

If Q <= 2A the terms in c are at most Q^2/(4A), and the rest is convex in (u, u'); at a vertex with coordinates T of u and T'
of u' at zero, s and s' their sums of b^2, it is (1/s1^2) [beta^2 + sum of -beta s + s^2/2 + sum_T b^4/2 over both] + linear, whose
brackets are not positive: A + Q. If Q > 2A the terms in c grow up to c = (p + p')/2, where the whole is convex too, and at
a vertex at most 2Q + (1/s1^2) [3/4 (s + s')^2 - 2 beta (s + s')] <= 2Q. A ball in one dimension is a box.

Split. Let q = Q/(2A), 0 < q <= 1 (beyond 1 the covariance gets noisier for nothing). Then mu^2 = A (1 + q)^2 and

    s1^2 = Delta_1^2 (1 + q)^2 / mu^2,     s2^2 = Delta_2^2 (1 + q)^2 / (4 q mu^2).

Outcome i's weights w are off by (X^T X)^-1 (E_2 - E_1 w), so up to a factor the same for all, by s2^2 + omega s1^2 with omega =
|w|^2 (d + 1)/(2 d) for `ball`. (1 + q)^2 (kappa + 1/q), kappa = 4 Delta_1^2 omega / Delta_2^2, is least where 2 kappa q^2 + q = 1:

    q = 2 / (1 + sqrt(1 + 8 kappa)).                                                                                 (2)

Unknown is |w|^2. If the features explain the part e of outcomes that fill their bounds, |w|^2 = e d (S^2/l) / R^2, hence
kappa = e (d + 1)/l: public numbers and a guess. Few outcomes need a good covariance, many a good association.

Source: PRIMO (2023), Algorithms 1 and 2, with the sensitivities of docs/guarantees.md, "Where the papers differ".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dprelease.errors import InvalidInput
from dprelease.privacy.calibration import GRID_VARIANCE, root_up

Body = Literal["ball", "box"]

UNBOUNDED = Fraction(10**30)
"""mu^2 of scales that give no guarantee: too large for any budget."""
EXPLAINED = Fraction(1, 2)
"""e of the derivation unless the caller knows better."""

_ROOT_BITS = 40


def covariance_ball(radius2: Fraction, features: int) -> Fraction:
    """Delta_1^2 of X^T X for rows within a ball, off-diagonal variances half of the diagonal's.

    Args:
        radius2: R^2.
        features: d; a single column moves by R^2 at most.

    Raises:
        InvalidInput: a radius that is not positive, or no feature.
    """
    _check_positive("the radius", radius2)
    _check_positive("the number of features", Fraction(features))
    return (2 if features > 1 else 1) * radius2**2


def covariance_box(bounds2: tuple[Fraction, ...]) -> Fraction:
    """Delta_1^2 of the upper triangle of X^T X for columns within bounds, all variances equal.

    Args:
        bounds2: b_c^2 of every column.

    Raises:
        InvalidInput: no column, or a bound that is not positive.
    """
    for bound2 in bounds2 or (Fraction(0),):
        _check_positive("every column's bound", bound2)
    return sum(bounds2, Fraction(0)) ** 2


def covariance_intercept(radius2: Fraction) -> Fraction:
    """Delta_1^2 of (1, Z)^T (1, Z) for rows within a ball, its first entry exact, off-diagonal variances half.

    Args:
        radius2: B^2.

    Raises:
        InvalidInput: a radius that is not positive.
    """
    _check_positive("the radius", radius2)
    return 2 * (1 + radius2) ** 2 if radius2 >= 1 else 8 * radius2


def association(radius2: Fraction, outcome2: Fraction) -> Fraction:
    """Delta_2^2 = 4 R^2 S^2 of X^T Y, the same for full, feature and label privacy.

    Args:
        radius2: R^2; with X public, max |x_i|^2 over its rows.
        outcome2: S^2; with Y public, max |y_i|^2 over its rows.

    Raises:
        InvalidInput: a bound that is not positive.
    """
    _check_positive("the bound of the features", radius2)
    _check_positive("the bound of the outcomes", outcome2)
    return 4 * radius2 * outcome2


def joint(covariance2: Fraction, association2: Fraction) -> Fraction:
    """mu^2 of both releases together, formula (1).

    Args:
        covariance2: A = Delta_1^2 / s1^2 > 0.
        association2: Delta_2^2 / s2^2 >= 0, twice the Q of the formula.
    """
    half = association2 / 2
    return covariance2 + half + half**2 / (4 * covariance2) if half <= 2 * covariance2 else association2


def split(features: int, outcomes: int, explained: Fraction = EXPLAINED) -> Fraction:
    """q of formula (2) from public numbers, the same on every machine: in (0, 1], more of it to the covariance when small.

    Args:
        features: d.
        outcomes: l.
        explained: e in [0, 1], the part of the outcomes that the features are guessed to explain.

    Raises:
        InvalidInput: no feature, no outcome, or a part that is none.
    """
    _check_positive("the number of features", Fraction(features))
    _check_positive("the number of outcomes", Fraction(outcomes))
    if not 0 <= explained <= 1:
        raise InvalidInput(f"the part of the outcomes that the features explain lies between 0 and 1, not {explained}")
    under = 1 + 8 * explained * Fraction(features + 1, outcomes)
    root = Fraction(math.isqrt((under.numerator << (2 * _ROOT_BITS)) // under.denominator), 1 << _ROOT_BITS)
    return min(Fraction(1), Fraction(round(2 / (1 + root) * 2**16) or 1, 2**16))


@dataclass(frozen=True)
class Scales:
    """Noise scales on the grid; their exact squares are the variances.

    Attributes:
        diagonal: of squares in X^T X.
        off_diagonal: of its other entries.
        association: of X^T Y.
    """

    diagonal: float
    off_diagonal: float
    association: float


def variances(
    covariance2: Fraction, association2: Fraction, mu2: Fraction, share: Fraction
) -> tuple[Fraction, Fraction]:
    """(s1^2, s2^2), the least that give mu to both releases together.

    Args:
        covariance2: Delta_1^2.
        association2: Delta_2^2.
        mu2: mu^2 > 0.
        share: q of `split`.

    Raises:
        InvalidInput: a budget, sensitivity or share that is not positive, or a share above 1.
    """
    for name, value in (("mu^2", mu2), ("a sensitivity", min(covariance2, association2)), ("the share", share)):
        _check_positive(name, value)
    if share > 1:
        raise InvalidInput(f"a share above 1, here {share}, makes the covariance noisier and nothing better")
    return covariance2 * (1 + share) ** 2 / mu2, association2 * (1 + share) ** 2 / (4 * share * mu2)


def scales(covariance2: Fraction, association2: Fraction, mu2: Fraction, share: Fraction, body: Body) -> Scales:
    """The least scales, up to rounding, that give mu to both releases together.

    Args:
        covariance2: Delta_1^2 in squared units of the integers released.
        association2: Delta_2^2 in the same.
        mu2: mu^2 > 0.
        share: q of `split`.
        body: which of the two noise shapes `covariance2` is for.

    Raises:
        InvalidInput: a budget, sensitivity or share that is not positive, or a share above 1.
    """
    first, second = variances(covariance2, association2, mu2, share)
    return Scales(
        diagonal=root_up(first + GRID_VARIANCE),
        off_diagonal=root_up(first / (2 if body == "ball" else 1) + GRID_VARIANCE),
        association=root_up(second + GRID_VARIANCE),
    )


def spent(declared: Scales, covariance2: Fraction, association2: Fraction, body: Body) -> Fraction:
    """mu^2 that declared scales really give, exactly: sigma^2 - 4 is what counts.

    Args:
        declared: as in a spec.
        covariance2: Delta_1^2 in squared units of the integers released.
        association2: Delta_2^2 in the same.
        body: which of the two noise shapes `covariance2` is for.
    """
    diagonal, off_diagonal, second = (
        Fraction(scale) ** 2 - GRID_VARIANCE
        for scale in (declared.diagonal, declared.off_diagonal, declared.association)
    )
    first = min(diagonal, off_diagonal * (2 if body == "ball" else 1))
    if min(first, second) <= 0:
        return UNBOUNDED
    return joint(covariance2 / first, association2 / second)


def _check_positive(name: str, value: Fraction) -> None:
    if value <= 0:
        raise InvalidInput(f"{name} must be positive, not {value}")
