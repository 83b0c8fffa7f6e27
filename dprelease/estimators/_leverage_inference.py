"""How far coefficients are off where a basis of public features met private outcomes: least squares with exact features.

With the constant regressed out P = Q T, T = A S V^T, and t = A^T (Q^T y + noise of variance r^2) of an outcome, the weights are
w = V S^-1 t. What noise and sampling make of them have one shape:

    Cov(w) = (r^2 + sigma^2) V S^-2 V^T,    sigma^2 = (|y|^2 - n mean^2 - |t|^2 + (k + 1) r^2) / (n - k - 1),                  (1)

k the number of features and sigma^2 the residual variance, taken to be the same everywhere; r^2 is there once more for the mean's
noise. The mean of y has variance (r^2 + sigma^2)/n, independent of w. No feature is noisy, so nothing is attenuated and there is
no doubt about them; of features that determine each other no weights are known.

Source: privacy.md 2.3 (label-DP by leverage: noise covariance sigma^2 (X^T X)^-1 in the weights).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dprelease.estimators._fieller import Estimates
from dprelease.estimators._learned import Learned, hidden_features, nothing
from dprelease.estimators._linear import SINGULAR
from dprelease.moments.apart import ApartMoments, ByLeverage
from dprelease.release import Floats


def learned_by_leverage(
    moments: ApartMoments,
    seen: ByLeverage,
    features: Sequence[int],
    targets: Sequence[int],
    origin: Floats,
    *,
    intercept: bool,
) -> Learned:
    """Population least squares of all targets on the same features, O(d^3 + l d^2).

    Features that determine each other tell nothing about weights; which of them to leave out is told.

    Args:
        moments: as released.
        seen: what was released of the basis.
        features: d indices of features.
        targets: l indices.
        origin: (d,) the point that the intercept is wanted at, scaled units.
        intercept: whether one is fitted.
    """
    x, y, rows, first = list(features), list(targets), moments.rows, int(intercept)
    coordinates = seen.coordinates[first:, moments.layout.feature_place[x]]
    if hidden := hidden_features(len(x), _determined(coordinates), lambda kept: _determined(coordinates[:, kept])):
        return nothing(len(x), len(y), hidden)
    left, singular, right = np.linalg.svd(coordinates, full_matrices=False)
    back = right.T / singular
    t, noise2 = left.T @ seen.seen[first:, y], seen.noise_sd[y] ** 2
    mean = moments.between([0], y)[0] / rows if intercept else np.zeros(len(y))
    degrees = max(rows - len(x) - first, 1)
    explained = (t**2).sum(axis=0) - (len(x) + first) * noise2
    sigma2 = np.maximum(moments.own(y) - rows * mean**2 - explained, 0.0) / degrees
    weights, shape = back @ t, (back**2).sum(axis=1)
    off = moments.between([0], x)[0] / rows - origin if intercept else -origin
    offsets = mean - off @ weights
    offset_shape = first / rows + float(((off @ back) ** 2).sum())
    value = np.vstack([weights, offsets])
    variance = np.append(shape, offset_shape)[:, None] * (noise2 + sigma2)
    estimates = Estimates(value, variance, np.zeros_like(value), np.zeros_like(value))
    return Learned(estimates[:-1], estimates[-1], np.inf, 0.0, ())


def _determined(coordinates: Floats) -> tuple[float, int]:
    """Doubt about features, infinite where they determine each other and 0 where not, and the one that does most of it.

    Args:
        coordinates: (k, d) of the features in the basis.
    """
    _, singular, right = np.linalg.svd(coordinates)
    free = len(singular) == len(right) and singular[-1] > len(coordinates) * SINGULAR * singular[0]
    return 0.0 if free else np.inf, int(np.abs(right[-1]).argmax())
