"""Gain of a fit on moments on the constant predictor, by the released numbers themselves and not by the prior of the fit.

The prior of a fit may be vague beside the noise. The fit then takes for a relation what noise made of none, and what the prior
says of the gain is too large, with an error that does not know of it. The released numbers S + N, N of variance V, say what a
model gains without a prior. With u_0 and u_1 the weights of the residuals of constant and model on (1, x, y),

    gain = u_0' S u_0 - u_1' S u_1 = <S, F>,        F = u_0 u_0' - u_1 u_1'.

The model follows the noise, so <S + N, F> is too large by the divergence of F in N. With K = V^(1/2) (dF / dN) V^(1/2),

    <S + N, F> - tr K   is unbiased for the gain of the very model,                                                          (1)

    E[(<S + N, F> - tr K - gain)^2] = E[<F, V F> + tr K^2]:                                                                  (2)

noise at fixed weights, and weights that follow it. How the step alpha follows the noise is left out of both. In simulations of
70 variables it added 2 to 15 % to tr K.

A posterior mean over draws (`by_draws`) moves with each released entry by its covariance with this over the entry's noise
variance, under any prior (Efron). With D the draws' deviations from their mean, d u the move of u along one of them, and means
over draws, K = 2 E[(D u_0, -D u_1) (d u_0, d u_1)'].

In closed form (`by_scores`), slopes are Z t with orthonormal Z, and t_m follows its score at the rate J_m. With D_i the noise
variance of the score of feature i at the weights, R_i that of its entry with the outcome alone, and B what the entries among the
features add,

    tr K = 2 sum_im R_i Z_im^2 J_m + B,        tr K^2 <= 4 sum_im D_i^2 Z_im^2 J_m^2,                                        (3)

the latter by tr (AD)^2 <= tr A^2 D^2, with equality where the D_i are equal. Associations as they are believed of public columns
(`public_columns`) follow the released ones by the noise left in them over the noise that was: R_i is what is left.

Source: Stein (1981), Estimation of the mean of a multivariate normal distribution; Efron (2011), Tweedie's formula and selection
bias; for (2) Bellec and Zhang (2021), Second-order Stein: SURE for SURE and other applications.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from dprelease.arrays import Floats
from dprelease.estimators.quality import Quality
from dprelease.mechanisms.moments.released import Moments

# A low quantile of the gain is maximised, not its mean: a bad fit costs a learner more than a good one brings. In ranges columns
# fill what they are coded in, noise is as small as it can be, and the step is 0 unless the gain is positive in three cases of
# five. More caution costs more where there is a relation than it saves where there is none (docs/methods.md, "A cautious step").
# In public bounds columns may fill little of their range, and noise makes a strong relation of some pair among many, with a gain
# in most cases and a great loss in some: four cases of five.
CAUTIOUS_QUANTILE = 0.2
STEP_LENGTHS = np.linspace(0.0, 1.0, 41)
"""Steps: from 0, the constant predictor, to 1, the full model."""
SUFFICIENT_SHARE = 0.95
"""Part of the largest quantile: the longest step that reaches it is taken, lest good fits are shortened for nothing."""
UNSURE = 0.25
"""Part of an outcome's variance by which the constant predictor's expected squared error may exceed it unwarned."""


class Care(NamedTuple):
    """Caution of a fit on draws.

    Attributes:
        lossless: quantile of the gain that must be no loss.
        largest: quantile that is made large.
        doubts: standard errors that are taken off what is gained with features that noise hides, and without them.
        needed: how many times as much must be gained with them.
        checked: whether released numbers bound the step, and an outcome of which noise hides how it varies has no slopes.
    """

    lossless: float
    largest: float
    doubts: float
    needed: float
    checked: bool


IN_PUBLIC_BOUNDS = Care(lossless=0.05, largest=CAUTIOUS_QUANTILE, doubts=1.0, needed=1.25, checked=True)
IN_RANGES = Care(lossless=0.4, largest=0.4, doubts=0.0, needed=1.05, checked=False)


def step_length(gain: Floats) -> Floats:
    """alpha, one for each outcome.

    Args:
        gain: (41, ...) a low quantile of the gain at each of `STEP_LENGTHS`, 0 at alpha = 0; minus infinity where alpha
            must not be.
    """
    steps = STEP_LENGTHS.reshape(-1, *[1] * (gain.ndim - 1))
    found: Floats = np.where(gain >= SUFFICIENT_SHARE * gain.max(axis=0), steps, 0.0).max(axis=0)
    return found


def cautious_step_length(linear: Floats, square: Floats, of_linear: Floats, of_square: Floats | float = 0.0) -> Floats:
    """alpha, one for each outcome, by a low quantile of a gain 2 alpha a - alpha^2 b whose law is about normal.

    Args:
        linear: (l,) means of a.
        square: (l,) means of b; there is no step if it is 0.
        of_linear: (l,) variances of a.
        of_square: of b, (l,) or one for all.
    """
    steps = STEP_LENGTHS[:, None]
    spread = np.sqrt(4 * steps**2 * of_linear + steps**4 * of_square)
    quantile = 2 * steps * linear - steps**2 * square + float(ndtri(CAUTIOUS_QUANTILE)) * spread
    return np.where(square > 0, step_length(quantile), 0.0)


def cautious_step(taken: Floats, mean: Floats, variance: Floats) -> Floats:
    """alpha of models that take t' for t, of which this is believed, all (r, l): the gain is 2 alpha t'.t - alpha^2 |t'|^2."""
    return cautious_step_length((taken * mean).sum(axis=0), (taken**2).sum(axis=0), (taken**2 * variance).sum(axis=0))


def step_length_by_draws(gain: Floats, care: Care) -> Floats:
    """alpha, one for each outcome.

    Args:
        gain: (41, T, ...) draws of the gain at each of `STEP_LENGTHS`, 0 at alpha = 0.
        care: how cautious a fit is.
    """
    least, told = np.quantile(gain, [care.lossless, care.largest], axis=1)
    return step_length(np.where(least >= 0, told, -np.inf))


def step_length_by_signal(linear: Floats, square: Floats) -> Floats:
    """alpha, one for each outcome: by Stein's unbiased estimate of the gain.

    If the prior of draws is vague beside the noise, they take most of what noise makes for a relation, and promise a gain of an
    outcome without any. The released numbers tell without a prior what a step gains.

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
    steps = STEP_LENGTHS[:, None]
    return step_length(2 * steps * factor - steps**2)


def warnings(alpha: Floats, relative_loss: Floats) -> tuple[str, ...]:
    """Sentences for whoever reads the fit.

    Args:
        alpha: (l,) how far each model went.
        relative_loss: (l,) expected squared error of the constant predictor beyond the outcome's variance, in that variance.
    """
    found, given_up, unsure = [], int((alpha == 0).sum()), int((relative_loss > UNSURE).sum())
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


class Judged(NamedTuple):
    """What was fitted.

    Attributes:
        released: moments as released, which judge.
        used: those that the fit saw: the same, or with associations as they are believed and the noise left in them.
        features: d indices in either.
        targets: l indices.
    """

    released: Moments
    used: Moments
    features: list[int]
    targets: list[int]


class Followed(NamedTuple):
    """How far the fits follow the noise.

    Attributes:
        trace: (l,) tr K.
        square: (l,) tr K^2, or more.
    """

    trace: Floats
    square: Floats


def unbiased_quality(
    problem: Judged, model: Floats, flat: Floats, followed: Followed, constant: tuple[Floats, Floats]
) -> Quality:
    """The quality of fits by (1) and (2).

    The gain does not read the entry of the outcome with itself, so its error hardly goes with that of the constant predictor's.

    Args:
        problem: what was fitted.
        model: (d + 1, l) the parts of u_1 on (1, x).
        flat: (l,) the only part of u_0.
        followed: by the fits.
        constant: the constant predictor's mean squared error and its standard error, each (l,).
    """
    seen, fixed = gained(problem.released, problem.features, problem.targets, model, flat)
    same = (model[0] == flat) & ~model[1:].any(axis=0)  # nothing is gained, whatever the noise
    gain = np.where(same, 0.0, seen - followed.trace)
    gain_se = np.where(same, 0.0, np.sqrt(np.maximum(fixed + followed.square, 0.0)))
    mse, mse_se = constant
    return Quality(
        mse=mse - gain,
        mse_se=np.hypot(mse_se, gain_se),
        optimism=np.zeros(len(gain)),
        constant_mse=mse,
        constant_mse_se=mse_se,
        gain=gain,
        gain_se=gain_se,
    )


def by_draws(draws: Floats, model: Floats, flat: float, alpha: float, *, intercept: bool) -> Followed:
    """The same of one fit to the mean of draws, with K as above.

    Args:
        draws: (T, d + 2, d + 2) of the true moments per patient of (1, x, y).
        model: (d + 1,) as of `unbiased_quality`.
        flat: likewise.
        alpha: how far the model went from the constant predictor.
        intercept: whether one is fitted.
    """
    mean = draws.mean(axis=0)
    seen, size = draws - mean, len(mean)
    constant, whole = np.zeros(size), np.append(model, 1.0)
    constant[0], constant[-1] = flat, 1.0
    by_flat = np.zeros((len(seen), size))
    by_flat[:, 0] = -seen[:, 0, -1]
    by_model = by_flat * (1 - alpha) if intercept else np.zeros_like(by_flat)
    z = slice(0 if intercept else 1, -1)
    slopes = np.linalg.solve(mean[z, z], mean[z, -1])
    by_model[:, z] -= alpha * np.linalg.solve(mean[z, z], (seen[:, z, -1] - seen[:, z, z] @ slopes).T).T
    left = np.hstack([seen @ constant, -(seen @ whole)])
    follows = 2 * left.T @ np.hstack([by_flat, by_model]) / len(seen)
    return Followed(np.array([np.trace(follows)]), np.array([(follows * follows.T).sum()]))


def by_scores(problem: Judged, model: Floats, directions: Floats, rate: Floats, bend: Floats, free: Floats) -> Followed:
    """The same of fits in closed form, by (3).

    Args:
        problem: what was fitted.
        model: (d + 1, l) as of `unbiased_quality`.
        directions: (d + 1, r) orthonormal Z.
        rate: (r, l) J.
        bend: (l,) the part of tr K that belongs to the moments of the features.
        free: (l,) by how much the constant predictor follows the outcome's mean where the model does not, times the noise's
            variance.
    """
    z, rows = [0, *problem.features], problem.used.rows
    within, own = (problem.used.noise_between(z, of) ** 2 / rows**2 for of in (z, problem.targets))
    noise = own + within @ model**2
    turned = directions**2
    trace = 2 * (own * (turned @ rate)).sum(axis=0) + bend - 2 * free
    square = 4 * (noise**2 * (turned @ rate**2)).sum(axis=0) + 4 * free**2
    return Followed(trace, square)


def gained(moments: Moments, x: list[int], y: list[int], model: Floats, flat: Floats) -> tuple[Floats, Floats]:
    """<S + N, F> and <F, V F> per patient, each (l,), F = u_0 u_0' - u_1 u_1' of constant predictor and model.

    The entry of the outcome with itself takes no part.

    Args:
        moments: as released.
        x: d indices.
        y: l indices.
        model: (d + 1, l) the parts of u_1 on (1, x); u is 1 on the target.
        flat: (l,) the only part of u_0.
    """
    z, rows, level = [0, *x], moments.rows, moments.layout.level
    across, within = (moments.between(z, of) / rows for of in (y, z))
    seen, among = ((moments.noise_between(z, of) / rows) ** 2 for of in (y, z))
    by_target = -2 * model
    by_target[0] += 2 * flat
    gain = (by_target * across).sum(axis=0) + flat**2 - (model * (within @ model)).sum(axis=0)
    return gain, inside(among, model, level[z]) + (by_target**2 * seen).sum(axis=0)


def inside(variance: Floats, model: Floats, level: npt.NDArray[np.bool_]) -> Floats:
    """(l,) variance that the entries among (1, x) give u' N u.

    Args:
        variance: (d + 1, d + 1) of those entries.
        model: (d + 1, l) the parts of u on them.
        level: (d + 1,) whose own entry repeats its entry with the constant.
    """
    diagonal = np.where(level, 0.0, np.diag(variance))
    apart = variance * (1 - np.eye(len(variance)))
    squared = model**2
    levels = np.where(level, variance[0], 0.0)
    repeated = levels @ (4 * model[0] * model**3 + model**4)
    found: Floats = 2 * (squared * (apart @ squared)).sum(axis=0) + diagonal @ squared**2 + repeated
    return found
