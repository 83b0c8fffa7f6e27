"""Method `posterior`: least squares on the posterior mean of the true moments, and no further than it is likely to help.

Let S_1, ..., S_T be draws of the true moments (`posterior`). Where numbers are coded in ranges they are seen about equally well,
and the prior is about the outcome's own regression. The squared error of a linear model is linear in S, so no model does better
on average over the draws than least squares on their mean, which is positive definite and whose off-diagonal entries have shrunk
as far as noise hides them. Two things are not left to the average, because a learner minds a bad fit relative to how much the
outcome varies, var_t, and minds the bad case more than the mean one:

    constant predictor   c minimises mean_t (c - mean_t)^2 / var_t: where little is known of an outcome with a small spread,
                         what would be a gross error for it decides;
    slopes               predictions are c + alpha (x - mean x) w with alpha in [0, 1]. Which alpha helps is judged by
                         low quantiles over t of (error of c - error of the model) / var_t.

                         What the released numbers themselves say of the gain, without bias, bounds alpha.

`risk` says more of the latter two. Without an intercept the predictions are alpha x w, against those of zero.

Features of which noise hides how they vary beside the others (`identifiability`) have the weight 0: a slope is too steep where the
variance of its feature is taken too low, and nothing in the release would show it. They stay where a cautious guess of the
gain is a quarter larger with them. An outcome of which noise hides how it varies has no slopes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dprelease.estimators.methods import least_squares
from dprelease.estimators.moments.inference import dropped_places
from dprelease.estimators.moments.posterior import posterior
from dprelease.estimators.moments.risk import ALPHAS, HARM, furthest_of_draws, furthest_of_signal
from dprelease.estimators.moments.side_by_side import Fitted, side_by_side
from dprelease.estimators.moments.spectral_ridge import determined
from dprelease.estimators.normal_equations import NormalEquations
from dprelease.estimators.quality import Quality
from dprelease.estimators.result import Diagnostics, ScaledFit
from dprelease.mechanisms.moments.released import NoisyMoments
from dprelease.release.release import Floats

NEEDED = 1.25
"""How many times as much must be gained with features that noise hides as without them."""
_LEAST = 1e-3
"""Least variance, in that of the mean draw, that a draw's relative loss is measured by."""


def fit_posterior(
    moments: NoisyMoments, features: Sequence[int], targets: Sequence[int], *, intercept: bool
) -> ScaledFit:
    """Fit all targets on the same features; together they give what they give one by one. Arguments as of `choice.fit_moments`.

    Raises:
        InvalidInput: features that determine each other, as all levels of a category and an intercept do.
    """
    hidden = dropped_places(moments, features, intercept=intercept)
    return side_by_side([_one(moments, list(features), target, hidden, intercept=intercept) for target in targets])


def _one(
    moments: NoisyMoments, features: list[int], target: int, hidden: tuple[int, ...], *, intercept: bool
) -> Fitted:
    """The fit of one target, with `hidden` features or without."""
    ranged = moments.retained is not None
    draws = posterior(moments, target if ranged else None)
    everything = NormalEquations.of_moments(draws.mean(axis=0), features, [target], intercept=intercept)[0]
    if least_squares(everything).singular:
        raise determined(len(features))
    # A slope on what hardly varies is judged by that little, and noise may have all of it.
    blind = np.array([bool(dropped_places(moments, [target], intercept=intercept))])
    released = moments.gram / moments.rows
    harm = HARM if ranged else 0.0
    whole = _fit(draws, released, features, [target], blind, harm, intercept=intercept)
    if not 0 < len(hidden) < len(features):  # where all are hidden the draws alone decide
        return whole
    seen = [place for place in range(len(features)) if place not in hidden]
    part = _fit(draws, released, [features[place] for place in seen], [target], blind, harm, intercept=intercept)
    if _needed(whole.fit, part.fit):
        return whole
    weights = np.zeros_like(whole.fit.weights)
    weights[seen] = part.fit.weights
    named = ", ".join(moments.names[features[place] - 1] for place in hidden)
    return part._replace(fit=replace(part.fit, weights=weights), left_out=named)


def _needed(whole: ScaledFit, part: ScaledFit) -> bool:
    """Whether a cautious guess of the gain is `NEEDED` times as large with what is hidden as without it."""
    most, least = (float((each.quality.gain - each.quality.gain_se)[0]) for each in (whole, part))
    return most > NEEDED * max(least, 0.0)


def _fit(
    draws: Floats,
    released: Floats,
    features: list[int],
    targets: list[int],
    blind: npt.NDArray[np.bool_],
    harm: float = 0.0,
    *,
    intercept: bool,
) -> Fitted:
    """All targets at once, without slopes where `blind`; arrays are (T, l) or, with features and constant, (T, d + 1, l).

    Args:
        draws: of the true moments per patient.
        released: the noisy ones.
        features: d indices in either.
        targets: l indices.
        blind: (l,) which targets noise hides.
        harm: part of a target's variance that a rare case may lose.
        intercept: whether one is fitted.
    """
    mean, z = draws.mean(axis=0), [0, *features]
    equations, centre, _ = NormalEquations.of_moments(mean, features, targets, intercept=intercept)
    solution = least_squares(equations)
    if solution.singular:
        raise determined(len(features))
    own, across = draws[:, targets, targets], draws[:, z][:, :, targets]
    within, means = draws[:, z][:, :, z], across[:, 0]
    variance = np.maximum(own - means**2, 0.0)
    variance = np.maximum(variance, np.maximum(_LEAST * variance.mean(axis=0), np.finfo(float).tiny))
    constant = np.average(means, axis=0, weights=variance.min(axis=0) / variance)
    flat = own - 2 * constant * means + constant**2
    base, error = (constant, flat) if intercept else (np.zeros_like(constant), own)
    change = np.vstack([-centre @ solution.weights, solution.weights])
    bent = within @ change
    linear = 2 * ((across * change).sum(axis=1) - base * bent[:, 0])
    square = (bent * change).sum(axis=1)
    centres = within[:, 1:, :1] * intercept
    by_target = across[:, 1:] - centres * means[:, None]
    by_model = (within[:, 1:, 1:] - centres * centres.mT) @ solution.weights
    lifted = solution.inverse @ (by_target - by_model)
    open_target, open_model = (
        (lifted * (each - each.mean(axis=0))).sum(axis=1).mean(axis=0) for each in (by_target, by_model)
    )
    seen = NormalEquations.of_moments(released, features, targets, intercept=intercept)[0]
    most = furthest_of_signal(
        (solution.weights * seen.xy).sum(axis=0) - open_target,
        (solution.weights * (seen.xx @ solution.weights)).sum(axis=0) - 2 * open_model,
    )
    alpha = np.where(blind, 0.0, _alpha(linear / variance, square / variance, most, harm))
    error = error - alpha * linear + alpha**2 * square
    fit = ScaledFit(
        weights=alpha * change[1:],
        offsets=base + alpha * change[0],
        constant=constant,
        constant_noise_sd=means.std(axis=0),
        quality=Quality(
            mse=error.mean(axis=0),
            mse_se=error.std(axis=0),
            optimism=np.zeros_like(alpha),
            constant_mse=flat.mean(axis=0),
            constant_mse_se=flat.std(axis=0),
            gain=(flat - error).mean(axis=0),
            gain_se=(flat - error).std(axis=0),
        ),
        diagnostics=Diagnostics.of(solution, ()),
    )
    return Fitted(fit, alpha, ((means - constant) ** 2 / variance).mean(axis=0))


def _alpha(linear: Floats, square: Floats, most: Floats, harm: float) -> Floats:
    """(l,) from the parts of the draws' gains, (T, l): alpha linear - alpha^2 square; none above `most`."""
    if len(linear) == 1:  # the true moments are known
        return np.ones(linear.shape[1])
    steps = ALPHAS[:, None, None]
    return np.minimum(furthest_of_draws(steps * linear - steps**2 * square, harm), most)
