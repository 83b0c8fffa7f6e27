"""Method `ols` on joint moments: the noisy matrix is inverted as it is, and its errors worked out from the noise's law.

With u = (-b0, -w, 1) over (1, x, y), the released matrix S + N gives (per patient)

    mse = u^T (S + N) u,   of variance sum over noisy entries of (coefficient of the entry)^2 sd^2,                   (1)

unbiased for a fit fixed in advance. The fit was not: to first order it is off by -H^-1 r with r the rows of N u that
belong to (1, x) and H the matrix of those columns, so (1) is too low by

    optimism = 2 tr(H^-1 Cov r),   Cov(r_i, r_j) = u_i u_j sd_ij^2 (i != j),   Var r_i = sum_k u_k^2 sd_ik^2.          (2)

Nothing can be said when H is not positive definite. The constant predictor is the case without x.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dprelease.errors import InvalidInput
from dprelease.estimators._found import Found
from dprelease.estimators._linear import Solution
from dprelease.estimators._rows import NormalEquations
from dprelease.estimators.methods import least_squares
from dprelease.estimators.quality import Quality
from dprelease.estimators.result import Diagnostics
from dprelease.moments.released import NoisyMoments
from dprelease.release import Floats


def inverted(
    moments: NoisyMoments, features: Sequence[int], targets: Sequence[int], lower: Floats, *, intercept: bool
) -> Found:
    """Fit all targets on the same features by one factorisation of the released matrix.

    Args:
        moments: as released.
        features: d indices in the matrix.
        targets: l indices in the matrix.
        lower: (l,) lower ends of the targets' scaled ranges; the upper end is 1.
        intercept: whether to fit one.

    Raises:
        InvalidInput: the matrix of the features is singular.
    """
    matrix, x, y = moments.gram / moments.rows, list(features), list(targets)
    equations, centre, outcome = NormalEquations.of_moments(matrix, x, y, intercept=intercept)
    solution = least_squares(equations)
    if solution.singular:
        raise InvalidInput(
            f"the Gram matrix of {len(x)} features is singular; fit fewer features, and none that repeats others"
        )
    offsets = outcome - centre @ solution.weights
    constant = np.clip(matrix[0, y], lower, 1.0)
    quality = [
        _quality(moments, x, target, solution.weights[:, index], offsets[index], constant[index], intercept, solution)
        for index, target in enumerate(y)
    ]
    return Found(
        weights=solution.weights,
        offsets=offsets,
        constant=constant,
        constant_noise_sd=moments.noise_sd[0, y] / moments.rows,
        quality=Quality(*np.array(quality).T),
        diagnostics=Diagnostics(
            smallest_eigenvalue=solution.smallest_eigenvalue,
            condition_number=solution.condition_number,
            indefinite=solution.indefinite,
            warnings=_warnings(solution),
        ),
    )


def _quality(
    moments: NoisyMoments,
    x: list[int],
    target: int,
    weights: Floats,
    offset: float,
    constant: float,
    intercept: bool,
    solution: Solution,
) -> tuple[float, ...]:
    """The fields of `Quality` for one target."""
    matrix, sd = moments.gram / moments.rows, moments.noise_sd / moments.rows
    model, flat = np.zeros(len(matrix)), np.zeros(len(matrix))
    model[x] = -weights
    model[0], flat[0] = -offset, -constant
    model[target] = flat[target] = 1.0
    by_model, by_flat = _coefficients(moments, model), _coefficients(moments, flat)
    entry_sd = sd[moments.layout.rows, moments.layout.cols]
    fitted = [0, *x] if intercept else x
    too_low = np.inf if solution.indefinite else _optimism(matrix[np.ix_(fitted, fitted)], sd, model, fitted)
    flat_too_low = 2 * float(sd[0, target]) ** 2
    mse, flat_mse = float(model @ matrix @ model), float(flat @ matrix @ flat)
    return (
        mse,
        float(np.linalg.norm(by_model * entry_sd)),
        too_low,
        flat_mse,
        float(np.linalg.norm(by_flat * entry_sd)),
        flat_mse + flat_too_low - mse - too_low,
        float(np.linalg.norm((by_flat - by_model) * entry_sd)),
    )


def _coefficients(moments: NoisyMoments, u: Floats) -> Floats:
    """(E,) of the noisy entries in u^T N u; a level's own entry is its entry with the constant once more."""
    layout = moments.layout
    coefficients = np.where(layout.diagonal, 1.0, 2.0) * u[layout.rows] * u[layout.cols]
    levels = np.array([False, *(variable.kind == "level" for variable in layout.variables)])
    derived = (layout.rows == 0) & levels[layout.cols]
    coefficients[derived] += u[layout.cols[derived]] ** 2
    return coefficients


def _optimism(matrix: Floats, sd: Floats, u: Floats, fitted: list[int]) -> float:
    """Formula (2)."""
    between = sd[np.ix_(fitted, fitted)] ** 2 * np.outer(u[fitted], u[fitted])
    np.fill_diagonal(between, sd[fitted] ** 2 @ u**2)
    return 2 * float(np.trace(np.linalg.solve(matrix, between)))


def _warnings(solution: Solution) -> tuple[str, ...]:
    if not solution.indefinite:
        return ()
    return (
        f"The noisy Gram matrix is not positive definite (smallest eigenvalue {solution.smallest_eigenvalue:.3g}): the "
        "noise is too large to invert it, and the coefficients mean nothing. Use method 'shrinkage'.",
    )
