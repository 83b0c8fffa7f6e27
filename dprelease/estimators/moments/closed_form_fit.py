"""A model in closed form put beside the constant predictor: its offset, what both err by, and its numerical health."""

from __future__ import annotations

import math

import numpy as np

from dprelease.estimators.moments.marginals import Marginals
from dprelease.estimators.moments.risk import warnings
from dprelease.estimators.quality import Quality
from dprelease.estimators.result import Diagnostics, ScaledFit
from dprelease.release.release import Floats


def beside_constant(
    outcomes: Marginals,
    weights: Floats,
    centre: Floats,
    alpha: Floats,
    gain: Floats,
    gain_sd: Floats,
    curvatures: tuple[float, float],
    *,
    intercept: bool,
) -> ScaledFit:
    """What a method found, from slopes and what they gain on the constant predictor, or on zero without an intercept.

    Args:
        outcomes: what is believed of the l targets by themselves.
        weights: (d, l).
        centre: (d,) the features' means.
        alpha: (l,) how far each model went from the constant predictor.
        gain: (l,) expected gain of the slopes.
        gain_sd: (l,) its standard deviation.
        curvatures: least and largest eigenvalue of the features' moments that were used.
        intercept: whether one was fitted.
    """
    if intercept:
        error, error_sd, apart = outcomes.error, outcomes.error_sd, np.zeros(len(alpha))
    else:
        error, error_sd, apart = outcomes.square, outcomes.square_sd, 2 * np.abs(outcomes.constant) * outcomes.mean_sd
    least, largest = map(float, curvatures)
    return ScaledFit(
        weights=weights,
        offsets=outcomes.constant - centre @ weights if intercept else np.zeros(len(alpha)),
        constant=outcomes.constant,
        constant_noise_sd=outcomes.mean_sd,
        quality=Quality(
            mse=error - gain,
            mse_se=np.hypot(error_sd, gain_sd),
            optimism=np.zeros(len(alpha)),
            constant_mse=outcomes.error,
            constant_mse_se=outcomes.error_sd,
            gain=outcomes.error - error + gain,
            gain_se=np.hypot(apart, gain_sd),
        ),
        diagnostics=Diagnostics(
            smallest_eigenvalue=least,
            condition_number=largest / least if least > 0 else math.inf,
            indefinite=False,
            warnings=warnings(alpha, outcomes.excess),
        ),
    )
