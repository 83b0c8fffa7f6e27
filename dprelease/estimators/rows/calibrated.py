"""Bayesian ridge after regression calibration, for noisy rows: method `calibrated`, the default for rows.

In the coordinates of `Spectrum` outcomes are regressed by ridges of all strengths, and the fits are averaged by
how likely they make the outcomes:

    w | t ~ N(0, t I),   y | w ~ N(X L w, v I),   t = e / (d lambda),   e log-uniform on [1e-4, 1/3].

e is the variance of an outcome that its d features explain, in scaled units, in which an outcome that is uniform on its
range has variance 1/3; lambda is the mean variance of a private feature: 1/3 too, unless it is two standard errors below,
and at least a third of that. v, the variance of a row about its regression, is the one that makes a given t most likely,
and at least the outcome's noise.

No inverse is unsafe: where the features show no signal or an outcome no relation to it, weights fall to zero and the model
to the constant predictor. As noise falls the weights tend to least squares on the rows; the ridge that remains shrinks a
direction by v / (t roots_i^2), at most 1e4 d v / (3 roots_i^2) and usually e_min / e of that.

The ratio q = t / v alone decides what the ridge leaves of each coordinate and, given the outcome, v and so t, which grows
with q. The average over t is therefore a sum over a lattice of q that all outcomes share, and matrix products do the work:
O(r d (d + l) + d^3 + l d^2) for r released rows. Factorisations are of d x d matrices and shared by all outcomes. Source:
docs/methods.md, "Calibrated ridge".
"""

from __future__ import annotations

import math

import numpy as np

from dprelease.arrays import Floats
from dprelease.estimators.bounded_mean import range_means
from dprelease.estimators.normal_equations import Rows
from dprelease.estimators.quality import ScaledFit
from dprelease.estimators.rows.errors import estimate
from dprelease.estimators.rows.spectrum import Spectrum

UNIFORM = 1 / 3
"""Variance of a column that is uniform on its public range, scaled units."""
EXPLAINED = (1e-4, UNIFORM)
"""e: least and most variance of an outcome that its features may explain."""
STEP = 0.05
"""Step of the lattice of log q."""

_AT_ONCE = 1 << 21


def calibrated(rows: Rows, feature_lower: Floats, target_lower: Floats, *, intercept: bool) -> ScaledFit:
    """Fit all targets on the same features; together they give what they give one by one.

    Args:
        rows: as released, the anchor included.
        feature_lower: (d,) lower ends of the features' scaled ranges, -1 or 0; the upper ends are 1.
        target_lower: (l,) the same of the targets.
        intercept: whether to fit one; without it the anchor row is left out.

    Raises:
        InvalidInput: the features' Gram matrix is singular, or no intercept can be fitted.
    """
    mixing = rows.mixing_only()
    used = rows if intercept else mixing
    spectrum = Spectrum.of(used, intercept=intercept)
    shrink = averaged(spectrum, used.y_variance)
    weights = spectrum.weights(shrink)
    constant, constant_noise_sd = range_means(rows, rows.y, rows.y_variance, target_lower)
    offsets = np.zeros(len(constant))
    if intercept:
        offsets = constant - range_means(rows, rows.x, rows.x_variance, feature_lower)[0] @ weights
    residuals = mixing.residuals(weights, offsets)
    spent = spectrum.spent(shrink, weights, np.einsum("rl,rl->l", residuals, residuals) / len(residuals))
    # The anchor is one more row to fit on, and an intercept takes it up: the mixing rows lose nothing to either.
    level = 0 if rows.anchor else 1
    return ScaledFit(
        weights=weights,
        offsets=offsets,
        constant=constant,
        constant_noise_sd=constant_noise_sd,
        quality=estimate(mixing, weights, offsets, spent + (level if intercept else 0), constant, level),
        diagnostics=spectrum.diagnostics(used.patients),
    )


def averaged(spectrum: Spectrum, noise: Floats) -> Floats:
    """Factors that are left of each score after the ridge, averaged over its strengths, (r, l) in [0, 1].

    Args:
        spectrum: r coordinates of l regressions.
        noise: (l,) noise variance of an entry of each outcome.
    """
    energy, squares = spectrum.scores.T**2, spectrum.roots**2
    found = np.zeros_like(energy)
    if not found.size:
        return found.T
    likely = spectrum.feature_variance + 2 * spectrum.feature_variance_se
    scale = math.log(len(spectrum.xx) * min(max(likely, UNIFORM / 3), UNIFORM))
    low, high = (math.log(explained) - scale for explained in EXPLAINED)
    whole = (energy.sum(axis=1) + spectrum.rest) / spectrum.degrees
    least = np.maximum(noise, np.finfo(float).eps * whole)
    least[least == 0] = 1.0  # an outcome that is zero throughout
    first = math.floor((low - math.log(max(whole.max(), least.max()))) / STEP) - 1
    last = math.ceil((high - math.log(least.min())) / STEP) + 1
    ratio = np.exp(STEP * np.arange(first, last + 1))[:, None] * squares
    step = max(1, _AT_ONCE // len(ratio))
    for part in (slice(start, start + step) for start in range(0, len(energy), step)):
        misfit = energy[part] @ (1 / (1 + ratio)).T + spectrum.rest[part, None]
        variance = np.maximum(misfit / spectrum.degrees, least[part, None])
        log_variance = np.log(variance)
        log_t = log_variance + STEP * np.arange(first, last + 1)
        prior = np.diff(np.clip((log_t[:, 1:] + log_t[:, :-1]) / 2, low, high), axis=1, prepend=low, append=high)
        likelihood = -0.5 * (np.log1p(ratio).sum(axis=1) + spectrum.degrees * log_variance + misfit / variance)
        likelihood[prior <= 0] = -np.inf
        belief = prior * np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
        found[part] = belief @ (ratio / (1 + ratio)) / belief.sum(axis=1, keepdims=True)
    return found.T
