"""Sensitivities of X^T X in PRIMO's experiments, and noise scales for it and X^T Y together.

Covariance, X^T X, with variance s1^2 on the diagonal and half of it off the diagonal (`ball`), or s1^2 on every entry of the
upper triangle (`box`):

    |x| <= R      Delta_1^2 = 2 R^4; R^4 for a single column         |x x^T - x'x'^T|^2 = |x|^4 + |x'|^4 - 2 <x, x'>^2
    |x_c| <= b_c  Delta_1^2 = (sum b_c^2)^2, upper triangle          docs/guarantees.md 11

Both at once, formula (1) of `moments.calibration`. For a ball: docs/guarantees.md,
"Where the papers differ". For a box, with u = x o x, c = |<x, x'>|, p and p'
the sums of u and u', beta = sum b_c^2, the square of the move is at most

    (1/s1^2) [p^2/2 + p'^2/2 + |u - u'|^2/2 - c^2] + (S^2/s2^2) (p + p' + 2c).

If Q <= 2A the terms in c are at most Q^2/(4A), and the rest is convex in (u, u'); at a vertex with coordinates T of u and T'
of u' at zero, s and s' their sums of b^2, it is (1/s1^2) [beta^2 + sum of -beta s + s^2/2 + sum_T b^4/2 over both] + linear, whose
brackets are not positive: A + Q. If Q > 2A the terms in c grow up to c = (p + p')/2, where the whole is convex too, and at
a vertex at most 2Q + (1/s1^2) [3/4 (s + s')^2 - 2 beta (s + s')] <= 2Q. A ball in one dimension is a box.

Sources: PRIMO (2023), Algorithms 1 and 2; docs/guarantees.md, "Where the papers differ", for their sensitivities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.calibration import joint, parts
from dprelease.mechanisms.moments.entries import EntryKind, Layout
from dprelease.privacy.calibration import least_scale, mu2_of_scales

Body = Literal["ball", "box"]
WEIGHT = {"ball": 2, "box": 1}
"""Variance on the diagonal over that of other entries."""


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


def check_positive(name: str, value: Fraction) -> None:
    """Refuse what is not positive, by its name."""
    if value <= 0:
        raise InvalidInput(f"{name} must be positive, not {value}")


def covariance_ball(radius2: Fraction, features: int) -> Fraction:
    """Delta_1^2 of X^T X for rows within a ball, off-diagonal variances half of the diagonal's.

    Args:
        radius2: R^2.
        features: d; a single column moves by R^2 at most.

    Raises:
        InvalidInput: a radius that is not positive, or no feature.
    """
    check_positive("the radius", radius2)
    check_positive("the number of features", Fraction(features))
    return (2 if features > 1 else 1) * radius2**2


def covariance_box(bounds2: tuple[Fraction, ...]) -> Fraction:
    """Delta_1^2 of the upper triangle of X^T X for columns within bounds, all variances equal.

    Args:
        bounds2: b_c^2 of every column.

    Raises:
        InvalidInput: no column, or a bound that is not positive.
    """
    for bound2 in bounds2 or (Fraction(0),):
        check_positive("every column's bound", bound2)
    return sum(bounds2, Fraction(0)) ** 2


def scales(covariance2: Fraction, association2: Fraction, mu2: Fraction, share: Fraction, body: Body) -> Scales:
    """The least scales, up to rounding, that give mu to both releases together.

    Args:
        covariance2: Delta_1^2 in squared units of the integers released.
        association2: Delta_2^2 in the same.
        mu2: mu^2 > 0.
        share: q of `moments.calibration.split`.
        body: which of the two noise shapes `covariance2` is for.

    Raises:
        InvalidInput: a budget, sensitivity or share that is not positive, or a share above 1.
    """
    check_positive("a sensitivity, mu^2 and the share", min(covariance2, association2, mu2, share))
    if share > 1:
        raise InvalidInput(f"a share above 1, here {share}, makes the covariance noisier and nothing better")
    first, second = parts(mu2, share)
    return Scales(
        diagonal=least_scale(covariance2, first),
        off_diagonal=least_scale(covariance2 / WEIGHT[body], first),
        association=least_scale(association2, second),
    )


def spent(declared: Scales, covariance2: Fraction, association2: Fraction, body: Body) -> Fraction:
    """mu^2 that declared scales really give, exactly: sigma^2 - 4 is what counts.

    Args:
        declared: as `scales` gives them.
        covariance2: Delta_1^2 in squared units of the integers released.
        association2: Delta_2^2 in the same.
        body: which of the two noise shapes `covariance2` is for.
    """
    return mu2_of_scales(
        (
            (covariance2, declared.diagonal),
            (covariance2 / WEIGHT[body], declared.off_diagonal),
            (association2, declared.association),
        ),
        lambda found: joint(max(found[:2]), found[2]),
    )


def entry_scales(layout: Layout, scales: Mapping[EntryKind, float]) -> Floats:
    """(E,) scale of a share of each entry of a release with outcomes.

    Args:
        layout: of the spec.
        scales: one for every kind.
    """
    return np.array([scales[kind] for kind in EntryKind])[layout.kinds]
