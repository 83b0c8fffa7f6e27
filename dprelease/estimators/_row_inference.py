"""How far coefficients out of noisy rows are off: linear regression with errors of known variance in the variables.

Rows of [X y] = A [D_x D_y] + noise, the constant column v regressed out where there is an intercept, have m degrees of
freedom. S is the diagonal matrix of the features' noise variances, W = X^T X, and in each row

    x = signal + r,   y = signal b + e + s,   eps = y - x b = e + s - r b,   E[x eps] = -S b,   tau^2 = Var eps.

H = W - m S is the features' moment matrix without the noise, and X^T y - H b = sum (x eps + S b) has mean 0. Rows are
Gaussian (mixing rows nearly so, being sums of many signed rows; for ``rows`` it is enough that e does not depend on x), so

    estimate    (H + C) b = X^T y,                                                                                   (1)
    variance    (H + C)^-1 (tau^2 W + m S b b^T S) (H + C)^-1,   tau^2 = |y - X b|^2 / (m - d).                      (2)

C takes off the bias of second order. Where S is the identity and W / m = diag(mu), with F_i = mu_i / (mu_i - 1),

    C_i = F_i + sum F,     doubt^2 = max_i [F_i C_i - (1 + d)] / m;                                                  (3)

1 + d is what finitely many rows do without noise, which least squares on these rows does not mind. Formulas (1) and (2) are
Fuller's (1987, Measurement Error Models, 2.2), and so is C but for d + 1 in its place (2.5).

Rows of a mixing matrix are many combinations of the same patients, so (2) is about least squares on these patients, who are
a sample: sigma^2 Cov(x)^-1 / n is added, sigma^2 = the residual variance, taken to be the same everywhere. Rows that are
patients have it in (2). An intercept is mean(y) - mean(x) b with the means from v, whose noise is independent of the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dprelease.estimators._learned import Learned, hidden_features, nothing
from dprelease.estimators._linear import SINGULAR
from dprelease.estimators._rows import Rows
from dprelease.release import Floats


def learned_from_rows(rows: Rows, patients: int, origin: Floats, *, intercept: bool) -> Learned:
    """Population least squares of all targets on the same features, O(r d (d + l) + d^3 + l d^2).

    Where the features are hidden, O(d^4) to say which of them would have to be left out.

    Args:
        rows: as released, the anchor included.
        patients: n.
        origin: (d,) the point that the intercept is wanted at, scaled units.
        intercept: whether one is fitted; without it the anchor row is left out.
    """
    mixing = rows.mixing_only()
    used = rows if intercept else mixing
    x, y, d, length = used.x, used.y, used.x.shape[1], float(used.ones @ used.ones)
    degrees = len(used.ones) - int(intercept)
    if intercept and not length:
        return nothing(d, y.shape[1], tuple(range(d)))
    mean_x, mean_y = (used.ones @ part / length if intercept else np.zeros(part.shape[1]) for part in (x, y))
    x, y = x - np.outer(used.ones, mean_x), y - np.outer(used.ones, mean_y)
    gram, whole = x.T @ x, np.linalg.norm(used.x, axis=0)

    def directions(kept: list[int]) -> _Directions:
        return _Directions.of(gram[np.ix_(kept, kept)], whole[kept], used.x_variance[kept], degrees)

    found = directions(list(range(d)))
    hidden = hidden_features(d, found.doubted, lambda kept: directions(kept).doubted)
    if not np.isfinite(found.doubted[0]):
        return nothing(d, y.shape[1], hidden)
    basis, signal = found.basis, found.signal
    weights = (basis / signal) @ (basis.T @ (x.T @ y))
    tau2 = ((y - x @ weights) ** 2).sum(axis=0) / (degrees - d)
    noise = used.y_variance + used.x_variance @ weights**2
    per_row = mixing.patients / len(mixing.ones)
    sigma2 = np.maximum(tau2 - noise, 0) / per_row
    pull = basis.T @ (used.x_variance[:, None] * weights)

    def variance(contrast: Floats) -> Floats:
        """(q, l) of contrast^T b, contrast (d, q)."""
        inner = basis.T @ contrast
        lifted = inner / signal[:, None]
        found: Floats = np.outer((lifted**2).sum(axis=0), tau2) + degrees * (lifted.T @ pull) ** 2
        if rows.mixed:
            found += np.outer((inner * lifted).sum(axis=0) * degrees * per_row / patients, sigma2)
        return found

    offset_variance = variance((origin - mean_x)[:, None])[0]
    if intercept:
        combined = sigma2 * per_row * float(mixing.ones @ mixing.ones) / length**2 if rows.mixed else 0.0
        offset_variance = offset_variance + noise / length + sigma2 / patients + combined
    return Learned(
        weights=weights,
        weight_variance=variance(np.eye(d)),
        offsets=mean_y + (origin - mean_x) @ weights,
        offset_variance=offset_variance,
        degrees=float(degrees - d),
        doubt=found.doubted[0],
        hidden=hidden,
    )


@dataclass(frozen=True, eq=False)
class _Directions:
    """The features in coordinates in which both their Gram matrix and their noise are diagonal.

    Attributes:
        basis: (d, d) P with P^T W P = I.
        signal: (d,) P^T (H + C) P, formula (1).
        doubted: formula (3), and the feature that has most of the worst direction.
    """

    basis: Floats
    signal: Floats
    doubted: tuple[float, int]

    @classmethod
    def of(cls, gram: Floats, whole: Floats, variance: Floats, degrees: int) -> _Directions:
        """From W, lengths of the features before the constant was regressed out, S and m."""
        d, lengths = len(gram), np.sqrt(np.diag(gram))
        constant = np.flatnonzero(lengths <= SINGULAR * whole)
        if len(constant):
            return cls.none(int(constant[0]))
        values, vectors = np.linalg.eigh(gram / np.outer(lengths, lengths))
        if degrees <= d + 1 or values[0] <= SINGULAR:
            return cls.none(int(np.abs(vectors[:, 0]).argmax()))
        white = vectors / np.sqrt(values)
        inverse_mu, turn = np.linalg.eigh(white.T @ ((degrees * variance / lengths**2)[:, None] * white))
        scaled = white @ turn
        if inverse_mu[-1] >= 1:
            return cls.none(int(np.abs(scaled[:, -1]).argmax()))
        factor = 1 / (1 - inverse_mu)
        second = factor + factor.sum()
        doubt2 = (factor * second - (1 + d)) / degrees
        return cls(
            basis=scaled / lengths[:, None],
            signal=1 - inverse_mu + second * inverse_mu / degrees,
            doubted=(float(np.sqrt(max(doubt2[-1], 0.0))), int(np.abs(scaled[:, -1]).argmax())),
        )

    @classmethod
    def none(cls, worst: int) -> _Directions:
        """Of features that cannot be told from noise, or from one another."""
        return cls(np.zeros((0, 0)), np.zeros(0), (np.inf, worst))
