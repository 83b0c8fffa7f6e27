"""What a fit on posterior draws gains on the constant predictor, by the released numbers themselves and not by the draws.

The prior of the draws may be vague beside the noise. The draws then take for a relation what noise made of none, and so does
the model that is fitted to them: their mean gain is too large, and their spread does not know of it. The released numbers
S + N say what a model gains without a prior. With u_0 and u_1 the weights of the residuals of constant and model on (1, x, y),

    gain = u_0' S u_0 - u_1' S u_1 = <S, F>,        F = u_0 u_0' - u_1 u_1'.

The model follows the noise, so <S + N, F> is too large by the divergence of F in N. A posterior mean moves with each released
entry by its covariance with this over the entry's noise variance, under any prior (Efron). With D the draws' deviations from
their mean, d u the move of u along one of them, and means over draws,

    K = 2 E[(D u_0, -D u_1) (d u_0, d u_1)'],       <S + N, F> - tr K   is unbiased for the gain of the very model,          (1)

    E[(<S + N, F> - tr K - gain)^2] = E[<F, V F> + tr K^2],                                                                  (2)

V the noise variances: noise at fixed weights, and weights that follow it. How the step alpha follows the noise is left out of
both. Near the best step it hardly changes the gain.

Source: Stein (1981), Estimation of the mean of a multivariate normal distribution; Efron (2011), Tweedie's formula and selection
bias; for (2) Bellec and Zhang (2021), Second-order Stein: SURE for SURE and other applications.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dprelease.estimators.moments.linear_forms import by_entry
from dprelease.estimators.quality import Quality
from dprelease.estimators.result import ScaledFit
from dprelease.mechanisms.moments.released import NoisyMoments
from dprelease.release.release import Floats


def unbiased_quality(
    moments: NoisyMoments,
    draws: Floats,
    features: list[int],
    target: int,
    fit: ScaledFit,
    alpha: float,
    *,
    intercept: bool,
) -> Quality:
    """The quality of a fit of one target, with the gain of (1) in place of the draws'.

    The gain does not read the entry of the outcome with itself, so its error hardly goes with that of the constant predictor's.

    Args:
        moments: as released.
        draws: (T, p + 1, p + 1) of the true moments per patient.
        features: d indices in either.
        target: index.
        fit: to the mean draw; its constant predictor's error is that of the draws.
        alpha: how far the model went from the constant predictor.
        intercept: whether one is fitted.
    """
    places = [0, *features, target]
    within = draws[:, places][:, :, places]
    mean = within.mean(axis=0)
    seen = within - mean
    flat = np.zeros(len(places))
    flat[0], flat[-1] = -fit.constant[0], 1.0
    model = np.concatenate([-fit.offsets, -fit.weights[:, 0], [1.0]])
    by_flat = np.zeros((len(seen), len(places)))
    by_flat[:, 0] = -seen[:, 0, -1]
    by_model = by_flat * (1 - alpha) if intercept else np.zeros_like(by_flat)
    z = slice(0 if intercept else 1, -1)
    slopes = np.linalg.solve(mean[z, z], mean[z, -1])
    by_model[:, z] -= alpha * np.linalg.solve(mean[z, z], (seen[:, z, -1] - seen[:, z, z] @ slopes).T).T
    left = np.hstack([seen @ flat, -(seen @ model)])
    follows = 2 * left.T @ np.hstack([by_flat, by_model]) / len(seen)
    form = np.outer(flat, flat) - np.outer(model, model)
    released, sd = (of(places, places) / moments.rows for of in (moments.between, moments.noise_between))
    fixed = (by_entry(form, sd, moments.layout.level[places]) ** 2).sum()
    gain = np.array([(form * released).sum() - np.trace(follows)])
    gain_se = np.sqrt(np.maximum([fixed + (follows * follows.T).sum()], 0.0))
    told = fit.quality
    return replace(
        told, mse=told.constant_mse - gain, mse_se=np.hypot(told.constant_mse_se, gain_se), gain=gain, gain_se=gain_se
    )
