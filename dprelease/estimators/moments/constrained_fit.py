"""Method `constrained`: least squares on noisy moments with the weights of each target kept within a convex set.

The loss (1/2) w'Hw - b'w of the released moments is minimised by projected gradient steps. Steps read released numbers only, so
any number of them is free. H is the features' moments with negative eigenvalues set to 0, without which the loss is not convex.
Steps are accelerated, and momentum is dropped where it leads uphill, so that they end at the minimum. The paper takes plain steps
and averages them.

Errors are estimated as for `ols`. To first order a fit is off by -J r instead of -H^-1 r with

    J = Z (Z'(H + nu I) Z)^-1 Z',                                                                                      (1)

Z a basis of the face that the weights lie on and nu the multiplier of an L2 ball's bound, 0 for the other sets and inside.

Source: Kasiviswanathan, Nissim and Jin (2017), Private incremental regression, algorithm 2 and appendix C; O'Donoghue and Candes
(2015), Adaptive restart for accelerated gradient schemes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dprelease.arrays import Floats
from dprelease.estimators.convex_set import ConvexSet
from dprelease.estimators.moments.plug_in import inverse_with_constant, inverted_equations, plug_in_quality
from dprelease.estimators.normal_equations import NormalEquations
from dprelease.estimators.quality import Diagnostics, Quality, ScaledFit
from dprelease.estimators.solve import SINGULAR
from dprelease.mechanisms.moments.released import Moments

STEPS = 100_000
"""Most gradient steps for a target."""
STILL = 1e-13
"""Length of a step, in the radius, at which the minimum is reached."""


def fit_constrained(
    moments: Moments, features: Sequence[int], targets: Sequence[int], within: ConvexSet, *, intercept: bool
) -> ScaledFit:
    """Fit all targets on the same features; each is fitted as it is by itself.

    Args:
        moments: as released.
        features: d indices in the matrix.
        targets: l indices in the matrix.
        within: where the slopes of each target lie; an intercept is free.
        intercept: whether to fit one.

    Raises:
        InvalidInput: the matrix of the features is singular.
    """
    x, y = list(features), list(targets)
    equations, centre, outcome = NormalEquations.of_released(moments, x, y, intercept=intercept)
    solution = inverted_equations(equations)
    convex = positive_part(equations.xx)
    weights = np.empty_like(equations.xy)
    for place, (free, across) in enumerate(zip(solution.weights.T, equations.xy.T, strict=True)):
        held = not solution.indefinite and within.project(free) is free
        weights[:, place] = free if held else minimum(convex, across, within)
    offsets = outcome - centre @ weights
    constant = np.clip(moments.between([0], y)[0] / moments.rows, moments.layout.lower[y], 1.0)
    model = np.vstack([-offsets, -weights])
    parts = [
        plug_in_quality(
            moments,
            x,
            y[place : place + 1],
            model[:, [place]],
            -constant[[place]],
            _inverse(convex, equations.xy[:, place], weights[:, place], within, centre, intercept=intercept),
            intercept=intercept,
        )
        for place in range(len(y))
    ]
    quality = {name: np.concatenate([vars(part)[name] for part in parts]) for name in vars(parts[0])}
    return ScaledFit(
        weights=weights,
        offsets=offsets,
        constant=constant,
        constant_noise_sd=moments.noise_between([0], y)[0] / moments.rows,
        quality=Quality(**quality),
        diagnostics=Diagnostics.of(solution, _warnings(solution.smallest_eigenvalue, weights, within)),
    )


def positive_part(matrix: Floats) -> Floats:
    """Nearest positive semidefinite matrix, (d, d), in the Frobenius norm; one that is positive semidefinite stays what it is."""
    values, vectors = np.linalg.eigh(matrix)
    if values.min() >= 0:
        return matrix
    found: Floats = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return (found + found.T) / 2


def minimum(matrix: Floats, across: Floats, within: ConvexSet, still: float = STILL) -> Floats:
    """Weights in the set that minimise (1/2) w'Hw - b'w, (d,).

    Args:
        matrix: (d, d) H, positive semidefinite.
        across: (d,) b.
        within: the set.
        still: length of the last step, in the radius.
    """
    steepest = float(np.linalg.eigvalsh(matrix)[-1])
    steepest = steepest if steepest > 0 else max(float(np.linalg.norm(across)) / within.radius, 1.0)
    now = ahead = within.project(np.zeros_like(across))
    momentum = 1.0
    for _ in range(STEPS):
        after = within.project(ahead - (matrix @ ahead - across) / steepest)
        step = after - ahead
        if float(np.linalg.norm(step)) <= still * within.radius:
            return after
        uphill = float(step @ (after - now)) < 0
        following = 1.0 if uphill else (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        ahead = after if uphill else after + (momentum - 1) / following * (after - now)
        now, momentum = after, following
    return now


def _inverse(
    matrix: Floats, across: Floats, weights: Floats, within: ConvexSet, centre: Floats, *, intercept: bool
) -> Floats | None:
    """(1) beside the constant; None where the moments do not tell where on its face the minimum lies."""
    face = within.face(weights)
    bounded = within.kind == "l2" and face.shape[1] < len(weights)
    multiplier = float((across - matrix @ weights) @ weights) / within.radius**2 if bounded else 0.0
    inner = face.T @ (matrix + max(multiplier, 0.0) * np.eye(len(weights))) @ face
    values, vectors = np.linalg.eigh(inner)
    if (values <= SINGULAR * np.abs(np.diag(matrix)).max()).any():
        return None
    along = face @ vectors
    return inverse_with_constant((along / values) @ along.T, centre, intercept=intercept)


def _warnings(smallest: float, weights: Floats, within: ConvexSet) -> tuple[str, ...]:
    found = []
    if smallest <= 0:
        found.append(
            f"The noisy Gram matrix is not positive definite (smallest eigenvalue {smallest:.3g}), and what is negative of it was "
            "set to 0: where noise hides how features vary, the set alone bounds their weights."
        )
    bound = sum(within.face(column).shape[1] < len(column) for column in weights.T)
    if bound:
        found.append(f"For {bound} of {weights.shape[1]} targets the weights lie on the boundary of the set {within}.")
    return tuple(found)
