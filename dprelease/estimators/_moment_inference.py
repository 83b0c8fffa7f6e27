"""How far coefficients out of a noisy Gram matrix are off: first order for their spread, second for their bias.

With z = (1, x), or x alone without an intercept, M = S_zz the true moments per patient, M + N what is released of them,
u = (-b, 1) over (z, y) and N u the errors that the noise makes in the normal equations,

    (M + N)^-1 (g + N_zy) - b = M^-1 N u - M^-1 N M^-1 N u + ...

Noisy entries on and above the diagonal are independent, but that a level's own entry repeats its entry with the constant.
With V their variances per patient, zero for what is repeated, and any symmetric K,

    E[N K N]_ii = sum_k V_ik K_kk    [ + V_0i K_ii + 2 V_0i K_0i for a level ],
    E[N K N]_ij = V_ij K_ij          [ + V_0j K_jj for i the constant and j a level, and the same for ji ].           (1)

The first term has mean 0, and its covariance is (1) for K = u u^T; patients are a sample, so with sigma^2 the residual
variance, taken to be the same everywhere,

    variance    M^-1 E[N u u^T N] M^-1 + sigma^2 M^-1 / n.                                                           (2)

The second term has mean M^-1 C b, C = E[N M^-1 N]. Hence the estimate solves (M + N + C) b = g + N_zy, the inverse of that
matrix stands for M^-1 in (2), and C beside M + N is the `doubt` of `_learned`. sigma^2 is u^T (S + N) u at the estimate, which
a fit makes too low by tr(M^-1 E[N u u^T N]) and by n / (n - parameters).

Source: errors of known variances in normal equations (Fuller 1987, Measurement Error Models, 3.1), for the noise law of
joint_moments.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dprelease.estimators._learned import Learned, hidden_features, nothing
from dprelease.estimators._linear import SINGULAR
from dprelease.moments.released import NoisyMoments
from dprelease.release import Floats


def learned_from_moments(
    moments: NoisyMoments, features: Sequence[int], targets: Sequence[int], origin: Floats, *, intercept: bool
) -> Learned:
    """Population least squares of all targets on the same features, O(l d^3).

    Where the features are hidden, O(d^4) to say which of them would have to be left out.

    Args:
        moments: as released.
        features: d indices in the matrix, distinct.
        targets: l indices in the matrix.
        origin: (d,) the point that the intercept is wanted at, scaled units.
        intercept: whether one is fitted.
    """
    y, d, rows = list(targets), len(features), moments.rows
    first = [0] if intercept else []

    def solvable(kept: list[int]) -> _Solvable:
        z = [*first, *(features[place] for place in kept)]
        return _Solvable.of(moments.gram[np.ix_(z, z)] / rows, _Noise.of(moments, z), len(kept))

    found = solvable(list(range(d)))
    hidden = hidden_features(d, found.doubted, lambda kept: solvable(kept).doubted)
    if not np.isfinite(found.doubted[0]):
        return nothing(d, len(y), hidden)
    z, noise, inverse = [*first, *features], found.noise, found.inverse
    within, between = np.ix_(z, z), np.ix_(z, y)
    across = moments.gram[between] / rows
    model = inverse @ across
    contrasts = np.column_stack([np.eye(len(z))[:, -d:], [1.0, *origin] if intercept else origin])
    lifts = inverse @ contrasts
    sampling = (lifts * contrasts).sum(axis=0) / rows
    own = noise.of_equations(model, (moments.noise_sd[between] / rows) ** 2)
    square = (moments.gram[y, y] + (model * (moments.gram[within] @ model)).sum(axis=0)) / rows
    square += noise.along(inverse, model, own) - 2 * (model * across).sum(axis=0)
    sigma2 = np.maximum(square, 0.0) * rows / max(rows - len(z), 1)
    variance = np.array([noise.along(np.outer(lift, lift), model, own) for lift in lifts.T]) + np.outer(
        sampling, sigma2
    )
    return Learned(
        weights=model[-d:],
        weight_variance=variance[:-1],
        offsets=contrasts[:, -1] @ model,
        offset_variance=variance[-1],
        degrees=np.inf,
        doubt=found.doubted[0],
        hidden=hidden,
    )


@dataclass(frozen=True, eq=False)
class _Solvable:
    """The left side of the normal equations.

    Attributes:
        noise: of the moments that are in it.
        inverse: of M + N + C.
        doubted: the doubt about it, and the feature that has most of the worst direction.
    """

    noise: _Noise
    inverse: Floats
    doubted: tuple[float, int]

    @classmethod
    def of(cls, of_z: Floats, noise: _Noise, features: int) -> _Solvable:
        """From M + N, of which the last rows are the features'."""
        scale = np.sqrt(np.maximum(np.diag(of_z), 0))
        if not scale.all():
            return cls(noise, of_z, (np.inf, int(scale[-features:].argmin())))
        values, vectors = np.linalg.eigh(of_z / np.outer(scale, scale))
        if values[0] <= SINGULAR:
            return cls(noise, of_z, (np.inf, int(np.abs(vectors[-features:, 0]).argmax())))
        white = vectors / np.sqrt(values)
        turn = noise.second_moment((white / scale[:, None]) @ (white / scale[:, None]).T)
        doubts, ways = np.linalg.eigh(white.T @ (turn / np.outer(scale, scale)) @ white)
        worst = int(np.abs((white @ ways)[-features:, -1]).argmax())
        inverse: Floats = np.linalg.inv(of_z + turn).astype(np.float64)
        return cls(noise, inverse, (float(np.sqrt(max(doubts[-1], 0.0))), worst))


@dataclass(frozen=True, eq=False)
class _Noise:
    """Noise of q variables of the moments, per patient.

    Attributes:
        between: (q, q) V.
        repeated: (q,) variance of a level's entry with the constant, which its own repeats; 0 for what is no level.
        constant: whether the first of them is the constant.
    """

    between: Floats
    repeated: Floats
    constant: bool

    @classmethod
    def of(cls, moments: NoisyMoments, chosen: list[int]) -> _Noise:
        variables = moments.layout.variables
        levels = np.array([index > 0 and variables[index - 1].kind == "level" for index in chosen])
        between = (moments.noise_sd[np.ix_(chosen, chosen)] / moments.rows) ** 2
        np.fill_diagonal(between, np.where(levels, 0.0, np.diag(between)))
        repeated = np.where(levels, (moments.noise_sd[0, chosen] / moments.rows) ** 2, 0.0)
        return cls(between, repeated, chosen[0] == 0)

    def of_equations(self, model: Floats, across: Floats) -> Floats:
        """(q, l) variances of what the noise makes of the normal equations: the diagonal of (1) for u u^T, the targets' part too.

        Args:
            model: (q, l) b.
            across: (q, l) V of these with the targets, none of which is among them.
        """
        square = model**2
        found = self.between @ square + across + self.repeated[:, None] * square
        if self.constant:
            found += 2 * self.repeated[:, None] * model * model[0]
        return found

    def along(self, weights: Floats, model: Floats, own: Floats) -> Floats:
        """(l,) sum over all entries of E[N u u^T N] times weights, a symmetric (q, q) matrix; `own` from `of_equations`."""
        across = weights * self.between
        np.fill_diagonal(across, 0.0)
        found: Floats = (model * (across @ model)).sum(axis=0) + np.diag(weights) @ own
        if self.constant:
            found += 2 * (weights[0] * self.repeated) @ model**2
        return found

    def second_moment(self, inner: Floats) -> Floats:
        """Formula (1) for K = inner, (q, q)."""
        own = np.diag(inner)
        diagonal = self.between @ own + self.repeated * own
        found: Floats = self.between * inner
        if self.constant:
            diagonal += 2 * self.repeated * inner[0]
            found[0] += self.repeated * own
            found[:, 0] += self.repeated * own
        np.fill_diagonal(found, diagonal)
        return found
