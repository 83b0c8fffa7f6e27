"""Variances of estimates along the fits that would be true with them: what `fieller` needs to know of a regression.

For a sum a^T b of a fit's weights b the variance of its estimate is a quadratic form V(b). If the sum is off by t, the other
weights are off as well, by what their errors have in common with the sum's:

    b(t) = b + t p,    p = Cov(errors of b, error of the sum) / Var(error of the sum),

and V(b(t)) is a parabola in t. With other weights kept where they are, intervals of features that are correlated with a weakly
seen one are far too short. For many sums and targets together, forms are held as a few factors and p as a few vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dprelease.arrays import Floats
from dprelease.estimators.intervals.fieller import Estimates


@dataclass(frozen=True, eq=False)
class Forms:
    """For each of c sums a quadratic form of q weights b: sum over r of sign_r (factor_r^T b)^2, and diagonal^T b^2.

    Attributes:
        signs: (r,).
        factors: (r, q, c).
        diagonal: (q, c).
    """

    signs: Floats
    factors: Floats
    diagonal: Floats

    def polar(self, one: Floats, other: Floats) -> Floats:
        """(c, l) of pairs of fits, one for each target, (q, l) both."""
        found: Floats = self.diagonal.T @ (one * other)
        for sign, part in zip(self.signs, self.factors, strict=True):
            found += sign * (part.T @ one) * (part.T @ other)
        return found

    def applied(self, own: Floats) -> Floats:
        """(q, c) the matrices of the forms times a vector for each sum, (q, c)."""
        found: Floats = self.diagonal * own
        for sign, part in zip(self.signs, self.factors, strict=True):
            found += sign * part * (part * own).sum(axis=0)
        return found


@dataclass(frozen=True, eq=False)
class Shared:
    """A part of the covariances of errors of the weights with errors of the sums.

    Attributes:
        vectors: (q, l) for each target,
        amounts: (c, l) times this for each sum.
    """

    vectors: Floats
    amounts: Floats


@dataclass(frozen=True, eq=False)
class Covariance:
    """Covariance of the errors of the weights and of the sums: spread * own + all that is shared; its scale does not matter.

    Attributes:
        sums: (q, c) a.
        own: (q, c).
        spread: (l,).
        shared: other parts.
        apart: (c, l) error variance of what is added to the sums and has no error in common with the weights.
    """

    sums: Floats
    own: Floats
    spread: Floats
    shared: Sequence[Shared]
    apart: Floats | float = 0.0


def profiled(value: Floats, fixed: Floats, fit: Floats, forms: Forms, common: Covariance) -> Estimates:
    """Estimates of c sums for l targets, with the variances along their paths.

    Args:
        value: (c, l) estimates.
        fixed: (c, l) parts of the variances that are the same for all fits.
        fit: (q, l) the weights that are believed.
        forms: the other parts.
        common: from which the paths follow.
    """
    own, spread = common.own, common.spread
    image = forms.applied(own)
    moved = (common.sums * own).sum(axis=0)[:, None] * spread
    lean = spread * (image.T @ fit)
    bend = spread**2 * (image * own).sum(axis=0)[:, None]
    for place, one in enumerate(common.shared):
        moved = moved + one.amounts * (common.sums.T @ one.vectors)
        lean = lean + one.amounts * forms.polar(one.vectors, fit)
        bend = bend + 2 * spread * one.amounts * (image.T @ one.vectors)
        bend = bend + one.amounts**2 * forms.polar(one.vectors, one.vectors)
        for other in common.shared[:place]:
            bend = bend + 2 * one.amounts * other.amounts * forms.polar(one.vectors, other.vectors)
    whole = moved + common.apart
    per = np.divide(1.0, whole, out=np.zeros_like(whole), where=moved > 0)
    return Estimates(value, fixed + forms.polar(fit, fit), 2 * lean * per, np.maximum(bend * per**2, 0.0))
