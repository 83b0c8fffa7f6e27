"""Least squares on released rows: `ols` and the three methods of a paper.

The paper is "Differentially Private Multi-Party Data Release for Linear Regression". It bounds every attribute by 1 in
absolute value (Assumption 2); so does `NoisyRows`, whose columns are measured from the midpoint of their public range in
units of its half-width (one-hot columns are 0 or 1). Its (1/n) X^T X is `NormalEquations.xx`, its noise variance
4 d_max sigma^2 is each column's own `noise_sd` squared, and its X^rmgm = B X / sqrt(k) + R is the mixing rows of `NoisyRows`
divided by sqrt(1 - rho).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dprelease.arrays import Floats
from dprelease.estimators.normal_equations import Diagnostics, NormalEquations, RegressionRows, Solution, solve
from dprelease.estimators.quality import ScaledFit
from dprelease.estimators.rows.errors import effective_parameters, estimate

RIDGE = 1e-5
"""lambda of the paper's experiments, added to the per-patient Hessian (section 5.1)."""


def least_squares(equations: NormalEquations) -> Solution:
    """xx^-1 xy: methods ``ols`` and ``bgm``. The noise in xx shrinks the weights (section 5.1, baseline BGM-OLS)."""
    return solve(equations.xx, equations.xy)


def debiased(equations: NormalEquations) -> Solution:
    """(xx - noise + lambda I)^-1 xy: method ``dgm``, Algorithm 1, lines 3 and 4 of the training algorithm.

    The Hessian need not be positive definite; it is solved as it is (section 4.1, "Problem of small eigenvalues").
    """
    return solve(equations.xx - np.diag(equations.noise), equations.xy, RIDGE)


def mixed_least_squares(equations: NormalEquations) -> Solution:
    """(xx + lambda I)^-1 xy: method ``rmgm``, Algorithm 2, line 3 of the training algorithm."""
    return solve(equations.xx, equations.xy, RIDGE)


@dataclass(frozen=True)
class PlainFit:
    """Fits by one formula for the weights.

    Attributes:
        weights: normal equations to weights.
        anchor: whether the anchor row takes part in the fit.
        definite: whether a singular Gram matrix is an error (else it is a diagnostic).
    """

    weights: Callable[[NormalEquations], Solution]
    anchor: bool = True
    definite: bool = True

    def fit(self, rows: RegressionRows, constant: Floats, constant_noise_sd: Floats, *, intercept: bool) -> ScaledFit:
        """Fit all targets on the same features.

        Args:
            rows: as released, the anchor included.
            constant: (l,) the constant predictor, scaled units.
            constant_noise_sd: (l,) how far privacy noise leaves the mean open.
            intercept: whether to fit one.

        Raises:
            InvalidInput: (but for ``dgm``) more features than rows, or a singular Gram matrix of theirs.
        """
        if self.definite:
            rows.check_enough(anchored=self.anchor, intercept=intercept)
        mixing = rows.mixing_only()
        used = rows if self.anchor else mixing
        equations = used.normal_equations(intercept=intercept)
        solution = self.weights(equations)
        if self.definite and solution.singular:
            raise used.singular()
        offsets = used.offsets(solution.weights) if intercept else np.zeros(len(constant))
        squares = mixing.residual_squares(solution.weights, offsets, constant)
        spent = effective_parameters(equations, solution, used, squares[0] / len(mixing.ones))
        # The anchor is one more row to fit on, and an intercept takes it up: the mixing rows lose nothing to either.
        spent = spent + (1 if intercept and not used.anchor else 0)
        return ScaledFit(
            weights=solution.weights,
            offsets=offsets,
            constant=constant,
            constant_noise_sd=constant_noise_sd,
            quality=estimate(mixing, squares, solution.weights, spent, 0 if rows.anchor else 1),
            diagnostics=Diagnostics.of(solution, _warnings(solution)),
        )


def _warnings(solution: Solution) -> tuple[str, ...]:
    if not solution.indefinite:
        return ()
    return (
        f"The de-biased Hessian is not positive definite (smallest eigenvalue {solution.smallest_eigenvalue:.3g}): "
        "the noise is too large for this method on this release, and the coefficients mean nothing.",
    )
