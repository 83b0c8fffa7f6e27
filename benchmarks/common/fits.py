"""Fits on moments without a release around them."""

from __future__ import annotations

from collections.abc import Sequence

from dprelease.arrays import Floats
from dprelease.estimators.baselines.constrained import ConvexSet
from dprelease.estimators.methods import METHODS, Regression, resolve
from dprelease.estimators.quality import ScaledFit
from dprelease.mechanisms.moments.released import NoisyMoments, OutcomeMoments


def fit_moments(
    moments: NoisyMoments | OutcomeMoments,
    features: Sequence[int],
    targets: Sequence[int],
    public: Floats | None = None,
    *,
    intercept: bool,
    method: str = "shrinkage",
    within: ConvexSet | None = None,
) -> ScaledFit:
    """Fit all targets on the same features.

    Args:
        moments: as released.
        features: d indices, distinct, of variables that are not outcome-only.
        targets: l indices.
        public: (n, a) the public variables, in scaled units, in their order.
        intercept: whether to fit one.
        method: name in the table of methods.
        within: where the weights of each target lie, for `constrained`.

    Raises:
        InvalidInput: the method does not apply, or refuses these columns.
    """
    problem = problem_of(moments, features, targets, public, intercept=intercept, within=within)
    return METHODS[resolve(method, problem).algorithm].fit(problem)


def problem_of(
    moments: NoisyMoments | OutcomeMoments,
    features: Sequence[int],
    targets: Sequence[int],
    public: Floats | None = None,
    *,
    intercept: bool = True,
    within: ConvexSet | None = None,
) -> Regression:
    """The problem that `fit_moments` solves; arguments as there."""
    x, y, lower = list(features), list(targets), moments.layout.lower
    shown = None if public is None else lambda: public
    return Regression(moments, x, y, intercept, lower[x], lower[y], shown, within)
