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
from dataclasses import dataclass
from typing import Literal, Self, get_args

import numpy as np

from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.estimators.baselines.inverted import inverse_with_constant, inverted_equations, plug_in_quality
from dprelease.estimators.normal_equations import SINGULAR, Diagnostics, NormalEquations
from dprelease.estimators.quality import Quality, ScaledFit
from dprelease.mechanisms.moments.released import Moments

Kind = Literal["l2", "l1", "simplex"]


@dataclass(frozen=True)
class ConvexSet:
    """A set of weights of one model, in scaled units.

    Attributes:
        kind: ``l2`` of weights with |w|_2 <= radius, ``l1`` of those with |w|_1 <= radius, ``simplex`` of those with
            w >= 0 and sum w = radius.
        radius: positive and finite.

    Raises:
        InvalidInput: no such kind, or a radius that is not positive and finite.
    """

    kind: Kind
    radius: float

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InvalidInput(f"no convex set {self.kind!r}; choose one of {', '.join(get_args(Kind))}")
        if not 0 < self.radius < math.inf:
            raise InvalidInput(f"the radius of a set must be positive and finite, not {self.radius:g}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """The set that ``KIND:RADIUS`` names, as ``l1:2``.

        Raises:
            InvalidInput: it names none.
        """
        kind, _, radius = text.partition(":")
        try:
            return cls(kind, float(radius))  # type: ignore[arg-type]
        except ValueError:
            raise InvalidInput(f"give a set as KIND:RADIUS, for example l2:1, and not {text!r}") from None

    def __str__(self) -> str:
        return f"{self.kind}:{self.radius!r}"

    def project(self, point: Floats) -> Floats:
        """Nearest point of the set, (d,); a point of a ball stays what it is, to the last bit.

        O(d log d).

        Source: Duchi, Shalev-Shwartz, Singer and Chandra (2008), Efficient projections onto the l1-ball, figure 1.
        """
        if self.kind == "simplex":
            return np.maximum(point - self._threshold(point), 0.0)
        size = np.abs(point)
        length = float(np.linalg.norm(point) if self.kind == "l2" else size.sum())
        if length <= self.radius:
            return point
        if self.kind == "l2":
            return point * (self.radius / length)
        return np.sign(point) * np.maximum(size - self._threshold(size), 0.0)

    def _threshold(self, values: Floats) -> float:
        """theta with sum max(values - theta, 0) = radius."""
        falling = np.sort(values)[::-1]
        thresholds = (np.cumsum(falling) - self.radius) / np.arange(1, len(values) + 1)
        return float(thresholds[np.flatnonzero(falling > thresholds)[-1]])

    def face(self, point: Floats) -> Floats:
        """(d, f) orthonormal basis of the directions in which a point of the set may move, to first order, and stay on its face.

        Inside a ball these are all directions, on the sphere those along it, on an L1 sphere or a simplex those that keep
        sum |w| among the weights that are not 0.
        """
        on_support = point != 0
        if self.kind == "l2":
            inside, normal = float(np.linalg.norm(point)) < self.radius * (1 - _ROUNDING), point
            on_support = np.ones_like(on_support)
        else:
            total = float(np.abs(point).sum())
            inside, normal = self.kind == "l1" and total < self.radius * (1 - _ROUNDING), np.sign(point)
        identity = np.eye(len(point))
        if inside:
            return identity
        basis = identity[:, on_support]
        around = np.linalg.svd(normal[None, on_support])[2][1:]
        found: Floats = basis @ around.T
        return found


_ROUNDING = 1e-12
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
    return ScaledFit(
        weights=weights,
        offsets=offsets,
        constant=constant,
        constant_noise_sd=moments.noise_between([0], y)[0] / moments.rows,
        quality=Quality.together(parts),
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
