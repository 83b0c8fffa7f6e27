"""Methods `ols` and `primo` on joint moments: the noisy matrix is inverted, as it is or with a ridge, and its errors worked out.

With u = (-b0, -w, 1) over (1, x, y), the released matrix S + N gives (per patient)

    mse = u^T (S + N) u,   of variance sum over noisy entries of (coefficient of the entry)^2 sd^2,                   (1)

unbiased for a fit fixed in advance. The fit was not: to first order it is off by -H^-1 r with r the rows of N u that
belong to (1, x) and H the matrix of those columns, with the ridge of ``primo`` on the slopes, so (1) is too low by

    optimism = 2 tr(H^-1 Cov r),   Cov(r_i, r_j) = u_i u_j sd_ij^2 (i != j),   Var r_i = sum_k u_k^2 sd_ik^2.          (2)

That 2 r^T H^-1 r spreads as well, with variance 8 tr((H^-1 Cov r)^2). Half of it stands in (1) already, because a fit's u
carries the noise that it saw; of the other half, as Cov r is nearly diagonal,

    4 tr((H^-1 D)^2),   D the diagonal of Cov r,                                                                       (3)

is added to the variances of mse and gain. Nothing can be said when H is not positive definite. The constant predictor is the
case without x; its (3), the square of the noise in a mean, is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.estimators.moments.gain import gained, inside
from dprelease.estimators.normal_equations import Diagnostics, NormalEquations, Solution, solve
from dprelease.estimators.quality import Quality, ScaledFit
from dprelease.mechanisms.moments.calibration import EXPLAINED
from dprelease.mechanisms.moments.released import Moments


def inverted(
    moments: Moments, features: Sequence[int], targets: Sequence[int], *, intercept: bool, ridge: bool = False
) -> ScaledFit:
    """Fit all targets on the same features by one factorisation of the released matrix.

    Args:
        moments: as released.
        features: d indices in the matrix.
        targets: l indices in the matrix.
        intercept: whether to fit one.
        ridge: whether to add one by PRIMO's rule.

    Raises:
        InvalidInput: the matrix of the features is singular.
    """
    x, y = list(features), list(targets)
    equations, centre, outcome = NormalEquations.of_released(moments, x, y, intercept=intercept)
    solution = inverted_equations(equations, _ridge(moments, x, y) if ridge else 0.0)
    offsets = outcome - centre @ solution.weights
    constant = np.clip(moments.between([0], y)[0] / moments.rows, moments.layout.lower[y], 1.0)
    inverse = None if solution.indefinite else inverse_with_constant(solution.inverse, centre, intercept=intercept)
    return ScaledFit(
        weights=solution.weights,
        offsets=offsets,
        constant=constant,
        constant_noise_sd=moments.noise_between([0], y)[0] / moments.rows,
        quality=plug_in_quality(
            moments, x, y, np.vstack([-offsets, -solution.weights]), -constant, inverse, intercept=intercept
        ),
        diagnostics=Diagnostics.of(solution, _warnings(solution)),
    )


def inverted_equations(equations: NormalEquations, ridge: float = 0.0) -> Solution:
    """Solution of normal equations with a ridge, which may be indefinite.

    Raises:
        InvalidInput: the matrix of the features is singular.
    """
    solution = solve(equations.xx, equations.xy, ridge)
    if solution.singular:
        raise InvalidInput(
            f"the Gram matrix of {len(equations.xx)} features is singular; fit fewer features, and none that repeats others"
        )
    return solution


def _ridge(moments: Moments, x: list[int], y: list[int]) -> float:
    """The ridge per patient, for all targets: their mean noise stands for each."""
    covariance, association = (float((moments.noise_between(x, of) ** 2).mean()) for of in (x, y))
    return primo_ridge(len(x), covariance, association) / moments.rows


def inverse_with_constant(inverse: Floats, centre: Floats, *, intercept: bool) -> Floats:
    """H^-1 over (1, x) from that of the centred features, (d, d); without an intercept the latter itself."""
    if not intercept:
        return inverse
    along = inverse @ centre
    return np.block([[1 + centre @ along, -along[None]], [-along[:, None], inverse]])


def plug_in_quality(
    moments: Moments,
    x: list[int],
    y: list[int],
    model: Floats,
    flat: Floats,
    inverse: Floats | None,
    *,
    intercept: bool,
) -> Quality:
    """Formulas (1) to (3) for all targets.

    Args:
        moments: as released.
        x: d indices.
        y: l indices.
        model: (d + 1, l) the parts of u on (1, x); u is 1 on the target.
        flat: (l,) the only part of the constant predictor's.
        inverse: H^-1 over (1, x), or over x without an intercept; None where nothing can be said.
        intercept: whether one was fitted.
    """
    z, rows = [0, *x], moments.rows
    own, across, within = (part / rows for part in (moments.own(y), moments.between(z, y), moments.between(z, z)))
    sds = moments.noise_own(y), moments.noise_between(z, y), moments.noise_between(z, z)
    own_variance, seen, among = ((sd / rows) ** 2 for sd in sds)
    mse = own + 2 * (model * across).sum(axis=0) + (model * (within @ model)).sum(axis=0)
    flat_mse = own + 2 * flat * across[0] + flat**2
    level = moments.layout.level
    # Of the entries of targets with (1, x): twice the weight, and a level's with the constant once more for its square.
    by_model, by_flat = 2 * model, np.zeros_like(model)
    by_flat[0] = 2 * flat
    by_model[0, level[y]] += 1
    by_flat[0, level[y]] += 1
    squares = np.where(level[y], 0.0, own_variance)
    model_variance = inside(among, model, level[z]) + (by_model**2 * seen).sum(axis=0) + squares
    flat_variance = (by_flat**2 * seen).sum(axis=0) + squares
    gain, gain_variance = gained(moments, x, y, model, flat)
    fitted = slice(0 if intercept else 1, None)
    too_low, by_fitting = np.full(len(y), np.inf), np.zeros(len(y))
    if inverse is not None:
        around = among[fitted, fitted]
        apart = inverse * around * (1 - np.eye(len(around)))
        squared = around @ model[fitted] ** 2 + seen[fitted]
        used = model[fitted]
        too_low = 2 * ((used * (apart @ used)).sum(axis=0) + np.diag(inverse) @ squared)
        by_fitting = 4 * (squared * (inverse**2 @ squared)).sum(axis=0)
    flat_too_low = 2 * seen[0]
    return Quality(
        mse=mse,
        mse_se=np.sqrt(model_variance + by_fitting),
        optimism=too_low,
        constant_mse=flat_mse,
        constant_mse_se=np.sqrt(flat_variance),
        gain=gain + flat_too_low - too_low,
        gain_se=np.sqrt(gain_variance + by_fitting),
    )


def _warnings(solution: Solution) -> tuple[str, ...]:
    if not solution.indefinite:
        return ()
    return (
        f"The noisy Gram matrix is not positive definite (smallest eigenvalue {solution.smallest_eigenvalue:.3g}): the "
        "noise is too large to invert it, and the coefficients mean nothing. Use method 'shrinkage'.",
    )


FAILURE = 0.05
"""rho of PRIMO's bound: how often it may not hold."""


def primo_ridge(features: int, covariance: float, association: float) -> float:
    """lambda of ``primo``, from public numbers: what balances the bound on the error of a ridge that noise makes.

    The bound is d L (s1^2 |w|^2 + s2^2)/lambda + lambda |w|^2 with L = log(2 d^2 / rho), least at
    lambda^2 = d L (s1^2 + s2^2/|w|^2). |w|^2 is not known and must not be looked at; `calibration.EXPLAINED` is assumed, of
    outcomes and features that fill their bounds.

    Args:
        features: d.
        covariance: s1^2, noise variance of an entry of the features' moments.
        association: s2^2, of an entry of features and outcomes.

    Source: PRIMO (2023), Theorem 3.1 and its proof, "minimize over lambda".
    """
    logarithm = math.log(2 * features**2 / FAILURE)
    return math.sqrt(features * logarithm * (covariance + association / float(EXPLAINED)))
