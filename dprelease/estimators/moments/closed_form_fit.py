"""Parts that fits in closed form share: slopes beside the constant predictor, and what the two gain and err."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dprelease.arrays import Floats
from dprelease.estimators.moments.marginals import Marginals
from dprelease.estimators.moments.risk import warnings
from dprelease.estimators.moments.unbiased_gain import Problem, by_scores, unbiased_quality
from dprelease.estimators.quality import Diagnostics, ScaledFit


class Slopes(NamedTuple):
    """Slopes of d features for l outcomes, in coordinates in which each follows its own score alone.

    Attributes:
        directions: (d, r) of the coordinates; with -centre' directions before them as a row they are orthonormal.
        turned: (r, l) the slopes.
        rate: (r, l) by how much each follows its score.
        bend: (l,) the part of tr K that belongs to the moments of the features.
        centre: (d,) means of the features; 0 without an intercept.
    """

    directions: Floats
    turned: Floats
    rate: Floats
    bend: Floats
    centre: Floats


def beside_constant(
    problem: Problem,
    outcomes: Marginals,
    slopes: Slopes,
    alpha: Floats,
    curvatures: tuple[float, float],
    *,
    intercept: bool,
) -> ScaledFit:
    """Result of a method, from slopes and how they follow the noise.

    Args:
        problem: what was fitted.
        outcomes: what is believed of the l targets by themselves.
        slopes: with the step.
        alpha: (l,) how far each model went from the constant predictor.
        curvatures: least and largest eigenvalue of the features' moments that were used.
        intercept: whether one was fitted.
    """
    directions = np.vstack([-slopes.centre @ slopes.directions, slopes.directions])
    weights = directions @ slopes.turned
    weights[0] += outcomes.constant if intercept else 0.0
    flat = outcomes.constant
    free = np.zeros(len(alpha)) if intercept else outcomes.mean_sd**2
    followed = by_scores(problem, -weights, directions, slopes.rate, slopes.bend, free)
    least, largest = map(float, curvatures)
    return ScaledFit(
        weights=weights[1:],
        offsets=weights[0],
        constant=flat,
        constant_noise_sd=outcomes.mean_sd,
        quality=unbiased_quality(problem, -weights, -flat, followed, (outcomes.error, outcomes.error_sd)),
        diagnostics=Diagnostics(
            smallest_eigenvalue=least,
            condition_number=largest / least if least > 0 else math.inf,
            indefinite=False,
            warnings=warnings(alpha, outcomes.excess),
        ),
    )
