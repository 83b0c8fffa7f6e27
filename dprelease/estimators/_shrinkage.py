"""Method `shrinkage`: least squares on what is believed about the true moments, and no further than it is likely to help.

Let S_1, ..., S_T be draws of the true moments (`_posterior`). The squared error of a linear model is linear in S, so no
model does better on average over the draws than least squares on their mean, which is positive definite and whose
off-diagonal entries have shrunk as far as noise hides them. Two things are not left to the average, because a learner
minds a bad fit relative to how much the outcome varies, var_t, and minds the bad case more than the mean one:

    constant predictor   c minimises mean_t (c - mean_t)^2 / var_t: where little is known of an outcome with a small spread,
                         what would be a gross error for it decides;
    slopes               predictions are c + alpha (x - mean x) w with alpha in [0, 1]. Which alpha helps is judged by
                         the `CAUTIOUS` quantile over t of (error of c - error of the model) / var_t: the largest alpha
                         with at least `ENOUGH` of the best such quantile, so that good fits are not pulled in for nothing.

A model therefore is the constant predictor unless nine draws in ten are better off with slopes. Without an intercept the
predictions are alpha x w, against those of zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dprelease.errors import InvalidInput
from dprelease.estimators._found import Found
from dprelease.estimators._posterior import WIDEST, posterior
from dprelease.estimators._rows import NormalEquations
from dprelease.estimators.methods import least_squares
from dprelease.estimators.quality import Quality
from dprelease.estimators.result import Diagnostics
from dprelease.moments.layout import Layout
from dprelease.moments.released import NoisyMoments
from dprelease.release import Floats

CAUTIOUS = 0.1
ALPHAS = np.linspace(0.0, 1.0, 41)
ENOUGH = 0.95
UNSURE = 0.25
"""Part of an outcome's variance by which the constant predictor's expected squared error may exceed it unwarned."""

_LEAST = 1e-3
"""Least variance, in that of the mean draw, that a draw's relative loss is measured by."""


def shrunken(moments: NoisyMoments, features: Sequence[int], targets: Sequence[int], *, intercept: bool) -> Found:
    """Fit all targets on the same features; together they give what they give one by one.

    Args:
        moments: as released.
        features: d indices in the matrix, distinct.
        targets: l indices in the matrix.
        intercept: whether to fit one.

    Raises:
        InvalidInput: features that determine each other, as all levels of a category and an intercept do.
    """
    if len(moments.names) <= WIDEST:
        return _fit(posterior(moments), list(features), list(targets), intercept=intercept)
    alone = []
    for target in targets:
        part, index = restricted(moments, [*features, target])
        alone.append(_fit(posterior(part), index[:-1], index[-1:], intercept=intercept))
    return _joined(alone)


def restricted(moments: NoisyMoments, wanted: Sequence[int]) -> tuple[NoisyMoments, list[int]]:
    """The moments of the declared columns behind some indices, and those indices among them."""
    owner = [-1, *(variable.column for variable in moments.layout.variables)]
    columns = sorted({owner[index] for index in wanted})
    kept = [0, *(index for index in range(1, len(owner)) if owner[index] in columns)]
    part = NoisyMoments(
        layout=Layout(tuple(moments.layout.columns[column] for column in columns)),
        gram=moments.gram[np.ix_(kept, kept)],
        noise_sd=moments.noise_sd[np.ix_(kept, kept)],
        rows=moments.rows,
    )
    return part, [kept.index(index) for index in wanted]


def _fit(draws: Floats, features: list[int], targets: list[int], *, intercept: bool) -> Found:
    mean = draws.mean(axis=0)
    equations, centre, _ = NormalEquations.of_moments(mean, features, targets, intercept=intercept)
    solution = least_squares(equations)
    if solution.singular:
        raise InvalidInput(
            f"the {len(features)} features determine each other; fit fewer features, and none that repeats others"
        )
    constants, weights, offsets, quality, warnings = [], [], [], [], []
    of_features = draws[:, [0, *features]][:, :, [0, *features]]
    for target, slopes in zip(targets, solution.weights.T, strict=True):
        own, with_features = draws[:, target, target], draws[:, [0, *features], target]
        variance = np.maximum(own - with_features[:, 0] ** 2, 0.0)
        variance = np.maximum(variance, max(_LEAST * float(variance.mean()), np.finfo(float).tiny))
        constant = float(np.average(with_features[:, 0], weights=variance.min() / variance))
        base = np.append(constant if intercept else 0.0, np.zeros(len(features)))
        change = np.append(-centre @ slopes, slopes)
        alpha = _alpha(of_features, with_features, base, change, variance)
        model, flat = base + alpha * change, np.append(constant, np.zeros(len(features)))
        errors = [own - 2 * with_features @ u + np.einsum("i,tij,j->t", u, of_features, u) for u in (model, flat)]
        constants.append(constant)
        weights.append(model[1:])
        offsets.append(model[0])
        quality.append(_quality(*errors))
        warnings.append((alpha == 0, float(np.mean((with_features[:, 0] - constant) ** 2 / variance)) > UNSURE))
    return Found(
        weights=np.array(weights).T,
        offsets=np.array(offsets),
        constant=np.array(constants),
        constant_noise_sd=draws[:, 0, targets].std(axis=0),
        quality=Quality(*np.array(quality).T),
        diagnostics=Diagnostics(
            smallest_eigenvalue=solution.smallest_eigenvalue,
            condition_number=solution.condition_number,
            indefinite=solution.indefinite,
            warnings=_warnings(*np.array(warnings).T),
        ),
    )


def _alpha(of_features: Floats, with_features: Floats, base: Floats, change: Floats, variance: Floats) -> float:
    if len(variance) == 1:  # the true moments are known
        return 1.0
    linear = 2 * (with_features - of_features @ base) @ change
    square = np.einsum("i,tij,j->t", change, of_features, change)
    gain = (ALPHAS[:, None] * linear - ALPHAS[:, None] ** 2 * square) / variance
    cautious = np.quantile(gain, CAUTIOUS, axis=1)
    return float(ALPHAS[cautious >= ENOUGH * cautious.max()].max())


def _quality(model: Floats, flat: Floats) -> tuple[float, ...]:
    """The fields of `Quality` for one target, from the draws' errors."""
    gain = flat - model
    return (
        float(model.mean()),
        float(model.std()),
        0.0,
        float(flat.mean()),
        float(flat.std()),
        float(gain.mean()),
        float(gain.std()),
    )


def _warnings(given_up: Floats, unsure: Floats) -> tuple[str, ...]:
    found = []
    if given_up.any():
        found.append(
            f"For {int(given_up.sum())} of {len(given_up)} targets noise hides any relation to the features: "
            "their model is the constant predictor."
        )
    if unsure.any():
        found.append(
            f"For {int(unsure.sum())} of {len(unsure)} targets the noise in the mean is not small beside the spread of the "
            "values: even the constant predictor may be far off. Narrower public bounds would help."
        )
    return tuple(found)


def _joined(alone: Sequence[Found]) -> Found:
    diagnostics = [found.diagnostics for found in alone]
    return Found(
        weights=np.hstack([found.weights for found in alone]),
        offsets=np.concatenate([found.offsets for found in alone]),
        constant=np.concatenate([found.constant for found in alone]),
        constant_noise_sd=np.concatenate([found.constant_noise_sd for found in alone]),
        quality=Quality(
            **{
                name: np.concatenate([getattr(found.quality, name) for found in alone])
                for name in vars(alone[0].quality)
            }
        ),
        diagnostics=Diagnostics(
            smallest_eigenvalue=min(each.smallest_eigenvalue for each in diagnostics),
            condition_number=max(each.condition_number for each in diagnostics),
            indefinite=any(each.indefinite for each in diagnostics),
            warnings=tuple(dict.fromkeys(text for each in diagnostics for text in each.warnings)),
        ),
    )
