"""Step length of a fit on moments by a lower quantile of its gain over the constant predictor, and warnings about short ones.

The step length alpha goes from 0, the constant predictor, to 1, the full model. gain(alpha) is by how much the squared error falls
at that step; given the release it is a random number with a known distribution. A low quantile of it is maximised, not its mean: a
bad fit costs a learner more than a good one brings. The step is the longest of all that reach `ENOUGH` of the largest quantile,
so that good fits are not shortened for nothing.

In ranges columns fill what they are coded in, noise has been made as small as it can be, and the quantile is `LIKELY`: the step
is 0 unless the gain is positive in three cases of five. More caution costs more where there is a relation than it saves where
there is none (docs/methods.md, "A cautious step").

In public bounds columns may fill little of their range, and noise makes a strong relation of some pair among many, with a gain in
most cases and a great loss in some. There the quantile is `CAUTIOUS`, four cases of five; where draws are known, the step is no
longer than where the `RARE` quantile is no loss; and it is no longer than `furthest_of_signal`. If the prior of the draws is
vague beside the noise, they take most of what noise makes for a relation and promise a gain of an outcome without any. The
released numbers tell without a prior what a step gains.
"""

from __future__ import annotations

import numpy as np

from dprelease.arrays import Floats

CAUTIOUS, LIKELY = 0.2, 0.4
ALPHAS = np.linspace(0.0, 1.0, 41)
ENOUGH = 0.95
RARE = 0.05
UNSURE = 0.25
"""Part of an outcome's variance by which the constant predictor's expected squared error may exceed it unwarned."""


def furthest(gain: Floats) -> Floats:
    """alpha, one for each outcome.

    Args:
        gain: (41, ...) a low quantile of the gain at each of `ALPHAS`, 0 at alpha = 0; minus infinity where alpha
            must not be.
    """
    steps = ALPHAS.reshape(-1, *[1] * (gain.ndim - 1))
    found: Floats = np.where(gain >= ENOUGH * gain.max(axis=0), steps, 0.0).max(axis=0)
    return found


def furthest_of_draws(gain: Floats, *, ranged: bool) -> Floats:
    """alpha, one for each outcome.

    Args:
        gain: (41, T, ...) draws of the gain at each of `ALPHAS`, 0 at alpha = 0.
        ranged: whether columns are coded in ranges.
    """
    if ranged:
        return furthest(np.quantile(gain, LIKELY, axis=1))
    rare, cautious = np.quantile(gain, [RARE, CAUTIOUS], axis=1)
    return furthest(np.where(rare >= 0, cautious, -np.inf))


def furthest_of_signal(linear: Floats, square: Floats) -> Floats:
    """alpha, one for each outcome: by Stein's unbiased estimate of the gain.

    With true normal equations M and g and slopes w of the posterior mean, the gain at alpha is 2 alpha w^T g - alpha^2 w^T M w.
    In terms of the released M + N and g + n,

        w^T (g + n) - E[(g' - M' w)^T S (g' - E g')]        and        w^T (M + N) w - 2 E[(g' - M' w)^T S (M' - E M') w]

    have these means: M' and g' are the draws', E their mean, S the inverse of E M'. The correction is how far w follows the
    noise: a posterior mean's derivative by the data is its covariance over that of the noise, under any prior. Under a vague
    one most of the signal is taken off, as in Stein's rule; what a sharp one has shrunk already is not shrunk again.

    Args:
        linear: (l,) the former.
        square: (l,) the latter; where it is not positive noise hides how the model varies, and there is no step.

    Source:
        Stein (1981), Estimation of the mean of a multivariate normal distribution; Efron (2011), Tweedie's formula and selection
        bias.
    """
    factor = np.divide(np.maximum(linear, 0.0), square, out=np.zeros_like(square), where=square > 0)
    steps = ALPHAS[:, None]
    return furthest(2 * steps * factor - steps**2)


def warnings(alpha: Floats, excess: Floats) -> tuple[str, ...]:
    """Sentences for whoever reads the fit.

    Args:
        alpha: (l,) how far each model went.
        excess: (l,) expected squared error of the constant predictor beyond the outcome's variance, in that variance.
    """
    found, given_up, unsure = [], int((alpha == 0).sum()), int((excess > UNSURE).sum())
    if given_up:
        found.append(
            f"For {given_up} of {len(alpha)} targets noise hides any relation to the features: "
            "their model is the constant predictor."
        )
    if unsure:
        found.append(
            f"For {unsure} of {len(alpha)} targets the noise in the mean is not small beside the spread of the "
            "values: even the constant predictor may be far off. Narrower public bounds would help."
        )
    return tuple(found)
