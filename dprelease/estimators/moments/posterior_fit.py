"""Method `posterior`: least squares on the posterior mean of the true moments, and no further than it is likely to help.

Let S_1, ..., S_T be draws of the true moments (`posterior`). If numbers are coded in ranges they are seen about equally well,
and the prior is about the outcome's own regression. The squared error of a linear model is linear in S, so no model does better
on average over the draws than least squares on their mean, which is positive definite and whose off-diagonal entries have shrunk
as far as noise hides them. Two things are not left to the average, because a learner minds a bad fit relative to how much the
outcome varies, var_t, and minds the bad case more than the mean one:

    constant predictor   c minimises mean_t (c - mean_t)^2 / var_t: where little is known of an outcome with a small spread,
                         what would be a gross error for it decides;
    slopes               predictions are c + alpha (x - mean x) w with alpha in [0, 1]. Which alpha helps is judged by a
                         low quantile over t of (error of c - error of the model) / var_t.

`gain` says more of the latter. Without an intercept the predictions are alpha x w, against those of zero. The draws choose; what
was chosen is judged by the released numbers (`unbiased_quality`).

A slope is too steep where the variance of its feature is taken too low, and nothing in the release would show it. So features
of which noise hides how they vary beside the others (`PopulationFit`) have the weight 0 unless they are needed for the gain.
In ranges all features are known to vary, and a little more than the expected gain without them is asked. In public bounds it is
more than a cautious guess of the gain; the released numbers themselves, without bias, bound alpha; and an outcome of which
noise hides how it varies has no slopes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dprelease.arrays import Floats
from dprelease.estimators.evidence.evidence import Evidence
from dprelease.estimators.intervals.of_moments import dropped_places
from dprelease.estimators.moments.gain import (
    IN_PUBLIC_BOUNDS,
    IN_RANGES,
    STEP_LENGTHS,
    Care,
    Judged,
    by_draws,
    step_length_by_draws,
    step_length_by_signal,
    unbiased_quality,
    warnings,
)
from dprelease.estimators.moments.spectral_ridge import determined
from dprelease.estimators.normal_equations import Diagnostics, NormalEquations, Solution, solve
from dprelease.estimators.quality import Quality, ScaledFit
from dprelease.mechanisms.moments.released import NoisyMoments

_LEAST = 1e-3
"""Least variance, in that of the mean draw, that a draw's relative loss is measured by."""


def fit_posterior(
    moments: NoisyMoments, features: Sequence[int], targets: Sequence[int], *, intercept: bool
) -> ScaledFit:
    """Fit all targets on the same features; together they give what they give one by one. Arguments as of `fit_spectral`.

    Raises:
        InvalidInput: features that determine each other, as all levels of a category and an intercept do.
    """
    hidden = dropped_places(moments, features, intercept=intercept)
    return side_by_side([_one(moments, list(features), target, hidden, intercept=intercept) for target in targets])


def _one(
    moments: NoisyMoments, features: list[int], target: int, hidden: tuple[int, ...], *, intercept: bool
) -> Fitted:
    """The fit of one target, with `hidden` features or without."""
    care, about = (IN_PUBLIC_BOUNDS, None) if moments.clipping is None else (IN_RANGES, target)
    draws = Evidence(moments).draws(about)
    # A slope on what hardly varies is judged by that little, and noise may have all of it.
    blind = care.checked and bool(dropped_places(moments, [target], intercept=intercept))
    released = moments.gram / moments.rows
    found = _fit(draws, released, features, target, care, blind=blind, intercept=intercept)
    used = list(range(len(features)))
    if 0 < len(hidden) < len(features):  # where all are hidden the draws alone decide
        seen = [place for place in used if place not in hidden]
        some = [features[place] for place in seen]
        part = _fit(draws, released, some, target, care, blind=blind, intercept=intercept)
        if not _needed(found.fit.quality, part.fit.quality, care):
            named = ", ".join(moments.names[features[place] - 1] for place in hidden)
            found, used = part._replace(left_out=named), seen
    chosen, alpha = [features[place] for place in used], float(found.alpha[0])
    told, places = found.fit, [0, *chosen, target]
    model = -np.vstack([told.offsets, told.weights])
    within = draws[:, places][:, :, places]
    followed = by_draws(within, model[:, 0], -float(told.constant[0]), alpha, intercept=intercept)
    constant = told.quality.constant_mse, told.quality.constant_mse_se
    problem = Judged(moments, moments, chosen, [target])
    quality = unbiased_quality(problem, model, -told.constant, followed, constant)
    weights = np.zeros((len(features), 1))
    weights[used] = found.fit.weights
    return found._replace(fit=replace(found.fit, weights=weights, quality=quality))


def _needed(whole: Quality, part: Quality, care: Care) -> bool:
    """Tells whether so much more is gained with what is hidden than without it that it is worth its slopes."""
    most, least = (float((each.gain - care.doubts * each.gain_se)[0]) for each in (whole, part))
    return most > care.needed * max(least, 0.0)


def _fit(
    draws: Floats, released: Floats, features: list[int], target: int, care: Care, *, blind: bool, intercept: bool
) -> Fitted:
    """The fit of one target; its quality is that of the draws, by which features are chosen.

    Args:
        draws: of the true moments per patient.
        released: the noisy ones.
        features: d indices in either.
        target: index.
        care: how far it goes.
        blind: whether noise hides how it varies, so that there are no slopes.
        intercept: whether one is fitted.
    """
    z = [0, *features]
    equations, centre, _ = NormalEquations.of_moments(draws.mean(axis=0), features, [target], intercept=intercept)
    solution = solve(equations.xx, equations.xy)
    if solution.singular:
        raise determined(len(features))
    own, across, within = draws[:, target, target], draws[:, z, target], draws[:, z][:, :, z]
    means, weights = across[:, 0], solution.weights[:, 0]
    variance = np.maximum(own - means**2, 0.0)
    variance = np.maximum(variance, max(_LEAST * variance.mean(), np.finfo(float).tiny))
    constant = np.average(means, weights=variance.min() / variance)
    flat = own - 2 * constant * means + constant**2
    base, error = (constant, flat) if intercept else (0.0, own)
    change = np.append(-centre @ weights, weights)
    bent = within @ change
    linear, square = 2 * (across @ change - base * bent[:, 0]), bent @ change
    if blind:
        alpha = 0.0
    elif len(draws) == 1:  # the true moments are known
        alpha = 1.0
    else:
        steps = STEP_LENGTHS[:, None]
        gain = steps * linear / variance - steps**2 * square / variance
        alpha = float(step_length_by_draws(gain, care))
        if care.checked:
            seen = NormalEquations.of_moments(released, features, [target], intercept=intercept)[0]
            alpha = min(alpha, _most(seen, solution, within, across, intercept=intercept))
    error = error - alpha * linear + alpha**2 * square
    fit = ScaledFit(
        weights=alpha * change[1:, None],
        offsets=np.array([base + alpha * change[0]]),
        constant=np.array([constant]),
        constant_noise_sd=np.array([means.std()]),
        quality=Quality(
            mse=np.array([error.mean()]),
            mse_se=np.array([error.std()]),
            optimism=np.zeros(1),
            constant_mse=np.array([flat.mean()]),
            constant_mse_se=np.array([flat.std()]),
            gain=np.array([(flat - error).mean()]),
            gain_se=np.array([(flat - error).std()]),
        ),
        diagnostics=Diagnostics.of(solution, ()),
    )
    return Fitted(fit, np.array([alpha]), np.array([((means - constant) ** 2 / variance).mean()]))


def _most(seen: NormalEquations, solution: Solution, within: Floats, across: Floats, *, intercept: bool) -> float:
    """`step_length_by_signal` of the released numbers.

    Args:
        seen: normal equations of these.
        solution: of those of the mean draw.
        within: (T, d + 1, d + 1) draws of moments of constant and features.
        across: (T, d + 1) of them with the target.
        intercept: whether one is fitted.
    """
    weights, centres = solution.weights[:, 0], within[:, 1:, 0] * intercept
    by_target = across[:, 1:] - centres * across[:, :1]
    by_model = within[:, 1:, 1:] @ weights - centres * (centres @ weights)[:, None]
    lifted = (by_target - by_model) @ solution.inverse
    open_target, open_model = (
        np.vdot(lifted, each - each.mean(axis=0)) / len(lifted) for each in (by_target, by_model)
    )
    linear = weights @ seen.xy[:, 0] - open_target
    square = weights @ seen.xx @ weights - 2 * open_model
    return float(step_length_by_signal(np.array([linear]), np.array([square]))[0])


class Fitted(NamedTuple):
    """A fit of l targets without its warnings.

    Attributes:
        fit: on draws.
        alpha: (l,) how far each model went.
        relative_loss: (l,) expected squared error of the constant predictor beyond the outcome's variance, in that variance.
        left_out: features that noise hides and the models do without, by name; empty where there are none.
    """

    fit: ScaledFit
    alpha: Floats
    relative_loss: Floats
    left_out: str = ""


def side_by_side(found: Sequence[Fitted]) -> ScaledFit:
    """One fit of all targets, with warnings; numerical health is that of the worst."""
    fits = [each.fit for each in found]
    told = [
        f"For {count} of {len(found)} targets left out of the model, as noise hides how they vary: {named}."
        for named, count in Counter(each.left_out for each in found).items()
        if named
    ]
    sentences = warnings(
        *(np.concatenate([getattr(each, name) for each in found]) for name in ("alpha", "relative_loss"))
    )
    return replace(
        fits[0],
        weights=np.hstack([each.weights for each in fits]),
        **{
            name: np.concatenate([getattr(each, name) for each in fits])
            for name in ("offsets", "constant", "constant_noise_sd")
        },
        quality=Quality.together(each.quality for each in fits),
        diagnostics=Diagnostics(
            smallest_eigenvalue=min(each.diagnostics.smallest_eigenvalue for each in fits),
            condition_number=max(each.diagnostics.condition_number for each in fits),
            indefinite=any(each.diagnostics.indefinite for each in fits),
            warnings=(*sentences, *told),
        ),
    )
