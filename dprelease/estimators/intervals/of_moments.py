"""Errors-in-variables inference from a noisy Gram matrix: variances to first order, bias to second.

With z = (1, x), or x alone without an intercept, M = S_zz the true moments per patient, M + N what is released of them,
u = (-b, 1) over (z, y) and N u the errors that the noise makes in the normal equations,

    (M + N)^-1 (g + N_zy) - b = M^-1 N u - M^-1 N M^-1 N u + ...

Noisy entries on and above the diagonal are independent, but that a level's own entry repeats its entry with the constant.
With V their variances per patient, zero for what is repeated, and any symmetric K,

    E[N K N]_ii = sum_k V_ik K_kk    [ + V_0i K_ii + 2 V_0i K_0i for a level ],
    E[N K N]_ij = V_ij K_ij          [ + V_0j K_jj for i the constant and j a level, and the same for ji ].           (1)

Patients are a sample, so with sigma^2 the residual variance, taken to be the same everywhere, a sum a^T b, one weight or the
intercept, is off by h^T N u, h = M^-1 a, with

    variance    V(b) = h^T E[N u u^T N] h + sigma^2 a^T M^-1 a / n,                                                  (2)

sigma^2 times q where a patient may have q rows: the sum of their errors has at most q times the variance that they would have
apart, and has it where they are all alike. V is a quadratic form in b by (1), taken at the b that is tested and not at the fitted
one (`Estimates`). The term of second order is there as h is noisy too. An error in the length of h cancels in a test, so the
estimate is the root of

    h^T [g + N_zy - (M + N + C) b],    C = E[N K N],    K = M^-1 - h h^T / (a^T h),                                  (3)

where all other equations of (M + N) b = g + N_zy hold. (M + N)^-1 stands for M^-1 throughout, and E[N M^-1 N] beside M + N is
the noise ratio of `PopulationFit`.

The residual variance sigma^2 is estimated by u^T (S + N) u at the solution. A fit makes it too low, by tr(M^-1 E[N u u^T N]) and by
the factor n / (n - parameters), and both are corrected. Its noise u^T N u may exceed sigma^2 itself. An estimate that is cut off
at 0 would then make intervals too short, so the estimate is the mean of a normal law restricted to [0, 1], where variances of
scaled outcomes lie: centred at the estimate, with the variance of u^T N u.

Source: errors of known variances in normal equations (Fuller 1987, Measurement Error Models, 3.1), for the noise law of
docs/guarantees.md 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Floats
from dprelease.estimators.bounded_mean import truncated_mean
from dprelease.estimators.intervals.estimates import (
    Covariance,
    Forms,
    PopulationFit,
    Shared,
    dropped_features,
    in_parts,
    profiled,
    unidentified,
)
from dprelease.estimators.normal_equations import SINGULAR
from dprelease.mechanisms.moments.released import Moments


def learned_from_moments(
    moments: Moments, features: Sequence[int], targets: Sequence[int], at: Floats, *, intercept: bool, repeats: int = 1
) -> PopulationFit:
    """Population least squares of all targets on the same features, O(d^3 + r l d^2) where V is of rank r, 1 for numbers.

    If the features are unidentified, O(d^4) to say which of them would have to be left out.

    Args:
        moments: as released.
        features: d indices in the matrix, distinct.
        targets: l indices in the matrix.
        at: (1 + m, d) points that the fit is wanted at, the first for the intercept, or (d,) that one alone; scaled units.
        intercept: whether one is fitted.
        repeats: most rows of one patient.
    """
    asked, y, d, rows = np.atleast_2d(at), list(targets), len(features), moments.rows
    first = [0] if intercept else []
    found = _solvable(moments, features, intercept=intercept)
    dropped = dropped_places(moments, features, intercept=intercept, seen=found.worst)
    if not np.isfinite(found.worst[0]):
        return unidentified(asked, len(y), dropped)
    z, noise, inverse = [*first, *features], found.noise, found.inverse
    across, outside = moments.between(z, y) / rows, (moments.noise_between(z, y) / rows) ** 2
    model = inverse @ across
    sums = np.column_stack([np.eye(len(z)), np.insert(asked, 0, 1.0, axis=1).T if intercept else asked.T])
    lifts = inverse @ sums
    curvatures = (sums * lifts).sum(axis=0)
    forms = noise.forms(lifts)
    paths = np.divide(lifts, curvatures, out=np.zeros_like(lifts), where=curvatures > 0)
    pull = found.bias @ lifts - forms.applied(paths)
    stretch = 1 + (pull * paths).sum(axis=0)
    values = sums.T @ model - (pull.T @ model) / stretch[:, None]

    fit = values[: len(z)]
    residual = _residual_variance(moments, found, z, y, model, fit)
    fixed = (lifts**2).T @ outside + np.outer(repeats * curvatures / rows, residual[0])
    spread, parts = noise.shared(fit, outside, lifts)
    common = Covariance(sums, inverse @ lifts, spread, [Shared(inverse @ each.vectors, each.amounts) for each in parts])
    estimates = profiled(values, fixed, fit, forms, common).scaled_by(1 / stretch)
    return in_parts(estimates[len(first) :], d, residual, np.inf, found.worst[0], dropped)


def dropped_places(
    moments: Moments, features: Sequence[int], *, intercept: bool, seen: tuple[float, int] | None = None
) -> tuple[int, ...]:
    """Places of the features to leave out, for the noise ratio of the others to be below its limit.

    Args:
        moments: as released.
        features: d indices in the matrix.
        intercept: whether one is fitted.
        seen: `_Solvable.worst` of all features, where it is known.
    """

    def worst(kept: list[int]) -> tuple[float, int]:
        return _solvable(moments, [features[place] for place in kept], intercept=intercept).worst

    everything = list(range(len(features)))
    return dropped_features(len(features), seen or worst(everything), worst)


def _solvable(moments: Moments, features: Sequence[int], *, intercept: bool) -> _Solvable:
    z = [*([0] if intercept else []), *features]
    return _Solvable.of(moments.between(z, z) / moments.rows, _Noise.of(moments, z), len(features))


def _residual_variance(
    moments: Moments, found: _Solvable, z: list[int], y: list[int], model: Floats, fit: Floats
) -> Floats:
    """(2, l) sigma^2, and the standard deviation of its noise.

    Args:
        moments: as released.
        found: of the q variables that take part.
        z: their indices.
        y: l indices of targets.
        model: (q, l) what solves the normal equations as they are.
        fit: (q, l) what is believed to.
    """
    rows, noise = moments.rows, found.noise
    across, outside = moments.between(z, y) / rows, (moments.noise_between(z, y) / rows) ** 2
    square = moments.own(y) / rows + (model * (found.matrix @ model - 2 * across)).sum(axis=0)
    square += (fit * (noise.second_moment(found.inverse) @ fit)).sum(axis=0) + np.diag(found.inverse) @ outside
    sd = np.sqrt(noise.of_square(fit, outside, (moments.noise_own(y) / rows) ** 2, moments.layout.level[y]))
    return np.array([truncated_mean(square, sd, np.zeros(len(y))), sd]) * rows / max(rows - len(z), 1)


@dataclass(frozen=True, eq=False)
class _Solvable:
    """The left side of the normal equations.

    Attributes:
        matrix: M + N.
        noise: of the moments that are in it.
        inverse: of M + N.
        bias: (1) for that inverse.
        worst: its noise ratio, and the feature that has most of the worst direction.
    """

    matrix: Floats
    noise: _Noise
    inverse: Floats
    bias: Floats
    worst: tuple[float, int]

    @classmethod
    def of(cls, of_z: Floats, noise: _Noise, features: int) -> _Solvable:
        """From M + N, of which the last rows are the features'."""
        scale = np.sqrt(np.maximum(np.diag(of_z), 0))
        if not scale.all():
            return cls(of_z, noise, of_z, of_z, (np.inf, int(scale[-features:].argmin())))
        values, vectors = np.linalg.eigh(of_z / np.outer(scale, scale))
        if values[0] <= SINGULAR:
            return cls(of_z, noise, of_z, of_z, (np.inf, int(np.abs(vectors[-features:, 0]).argmax())))
        white = vectors / np.sqrt(values)
        turn = noise.second_moment((white / scale[:, None]) @ (white / scale[:, None]).T)
        ratios, ways = np.linalg.eigh(white.T @ (turn / np.outer(scale, scale)) @ white)
        worst = int(np.abs((white @ ways)[-features:, -1]).argmax())
        whitened = white / scale[:, None]
        return cls(of_z, noise, whitened @ whitened.T, turn, (float(np.sqrt(max(ratios[-1], 0.0))), worst))


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
    def of(cls, moments: Moments, chosen: list[int]) -> _Noise:
        levels = moments.layout.level[chosen]
        between = (moments.noise_between(chosen, chosen) / moments.rows) ** 2
        np.fill_diagonal(between, np.where(levels, 0.0, np.diag(between)))
        repeated = np.where(levels, (moments.noise_between([0], chosen)[0] / moments.rows) ** 2, 0.0)
        return cls(between, repeated, chosen[0] == 0)

    @cached_property
    def _filled(self) -> Floats:
        """V with entries on its diagonal that leave it few factors: those that a variable has with most others."""
        filled = self.between.copy()
        if len(filled) > 1:
            others = filled[~np.eye(len(filled), dtype=bool)].reshape(len(filled), -1)
            np.fill_diagonal(filled, _middle(others.T))
        return filled

    def forms(self, lifts: Floats) -> Forms:
        """u^T E[N h h^T N] u for the columns h of lifts, (q, c), as forms in the weights."""
        values, vectors = np.linalg.eigh(self._filled)
        used = np.abs(values) > SINGULAR * np.abs(values).max(initial=0.0)
        signs, factors = values[used], vectors.T[used][:, :, None] * lifts
        diagonal = (self.between + np.diag(self.repeated)) @ lifts**2 - np.diag(self._filled)[:, None] * lifts**2
        if self.constant:
            diagonal += 2 * self.repeated[:, None] * lifts[0] * lifts
            if self.repeated.any():
                ends = np.array([1.0, -1.0])[:, None, None] * self.repeated[:, None] * lifts**2
                ends[:, 0] += 1
                signs, factors = np.append(signs, [0.5, -0.5]), np.concatenate([factors, ends])
        return Forms(signs, factors, diagonal)

    def shared(self, fit: Floats, outside: Floats, lifts: Floats) -> tuple[Floats, list[Shared]]:
        """E[N u u^T N] h for the columns h of lifts: (l,) numbers that h is to be multiplied by, and the rest.

        With V = v v^T off its diagonal, E[N u u^T N] is (v * u) (v * u)^T and a diagonal that is nearly the same for all.
        One entry of the rest is kept, that of the weight that stands out most: a steep slope on a weakly seen feature.
        """
        values, vectors = np.linalg.eigh(self._filled)
        first = np.sqrt(max(values[-1], 0.0)) * np.abs(vectors[:, -1])
        diagonal = self.between @ fit**2 + outside - (first[:, None] * fit) ** 2
        common = _middle(diagonal)
        targets = np.arange(fit.shape[1])
        worst = np.abs(diagonal - common).argmax(axis=0)
        alone = np.zeros_like(diagonal)
        alone[worst, targets] = (diagonal - common)[worst, targets]
        return common, [Shared(first[:, None] * fit, (first[:, None] * lifts).T @ fit), Shared(alone, lifts[worst].T)]

    def of_square(self, fit: Floats, outside: Floats, own: Floats, levels: npt.NDArray[np.bool_]) -> Floats:
        """(l,) variances of u^T N u, u = (-fit, 1).

        Args:
            fit: (q, l).
            outside: (q, l) variances of the entries of the targets with the q variables.
            own: (l,) of their own entries.
            levels: (l,) whether these repeat their entries with the constant.
        """
        squared = fit**2
        once = 2 * self.between - np.diag(np.diag(self.between))
        found: Floats = (squared * (once @ squared)).sum(axis=0) + self.repeated @ squared**2
        found += 4 * (squared * outside).sum(axis=0) + own
        if self.constant:
            found += 4 * fit[0] * (self.repeated @ fit**3) - 4 * levels * fit[0] * outside[0]
        return np.maximum(found, 0.0)

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


def _middle(values: Floats) -> Floats:
    """(l,) one of the values, (q, l), with as many above as below."""
    middle = (len(values) - 1) // 2
    found: Floats = np.partition(values, middle, axis=0)[middle]
    return found
