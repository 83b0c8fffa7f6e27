"""Step length of a fit on moments by a lower quantile of its gain over the constant predictor, and warnings about short ones.

The step length alpha goes from 0, the constant predictor, to 1, the full model. gain(alpha) is by how much the squared error falls
at that step; given the release it is a random number with a known distribution. Its `CAUTIOUS` quantile is maximised, not its mean:
a bad fit costs a learner more than a good one brings. Of all steps that reach `ENOUGH` of the largest quantile the longest is
taken, so that good fits are not shortened for nothing. It is 0 unless the gain is positive in four cases of five.

Where draws of the gain are known, the step is also no longer than where the `RARE` quantile is no loss. Among many pairs of columns
that fill little of their bounds noise makes a strong relation of some pair, with a gain in most cases and a great loss in some.

Nor is it longer than `furthest_of_signal`. The prior of the draws is vague: it takes most of what noise makes for a relation,
and the draws of an outcome without any promise a gain. The outcome itself tells how strong its relations are.
"""

from __future__ import annotations

import numpy as np

from dprelease.release.release import Floats

CAUTIOUS = 0.2
ALPHAS = np.linspace(0.0, 1.0, 41)
ENOUGH = 0.95
RARE = 0.05
UNSURE = 0.25
"""Part of an outcome's variance by which the constant predictor's expected squared error may exceed it unwarned."""


def furthest(gain: Floats) -> Floats:
    """alpha, one for each outcome.

    Args:
        gain: (41, ...) the `CAUTIOUS` quantile of the gain at each of `ALPHAS`, 0 at alpha = 0; minus infinity where alpha
            must not be.
    """
    steps = ALPHAS.reshape(-1, *[1] * (gain.ndim - 1))
    found: Floats = np.where(gain >= ENOUGH * gain.max(axis=0), steps, 0.0).max(axis=0)
    return found


def furthest_of_draws(gain: Floats) -> Floats:
    """alpha, one for each outcome.

    Args:
        gain: (41, T, l) draws of the gain at each of `ALPHAS`, 0 at alpha = 0.
    """
    rare, cautious = np.quantile(gain, [RARE, CAUTIOUS], axis=1)
    return furthest(np.where(rare >= 0, cautious, -np.inf))


def furthest_of_signal(signal: Floats, scatter: Floats) -> Floats:
    """alpha, one for each outcome: by the gain that Stein's rule expects.

    Under a vague prior the explained part of the variance is too large by what the posterior leaves open of it on average: the
    mean of |estimate|^2 is |truth|^2 plus the variance of the estimate. The gain at alpha, in `signal`, is then
    2 alpha k - alpha^2 with the positive-part factor k = 1 - scatter / signal.

    Args:
        signal: (l,) variance that the model explains by the mean of the draws.
        scatter: (l,) mean over the draws of what is left in the normal equations, in the same metric.

    Source:
        Efron and Morris (1973), Stein's estimation rule and its competitors, an empirical Bayes approach.
    """
    factor = 1 - np.divide(np.minimum(scatter, signal), signal, out=np.ones_like(signal), where=signal > 0)
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
