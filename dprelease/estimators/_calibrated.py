"""Method `calibrated`: a Bayesian ridge on noisy rows whose attenuation is undone first; the default for rows.

In the coordinates of `Spectrum` outcomes are regressed by a ridge of every strength on a grid, and the fits are averaged by
how likely they make the outcomes:

    w | t ~ N(0, t I),   y | w ~ N(X L w, v I),   t = e / (d lambda),   e log-uniform on [1e-4, 1/3].

e is the variance of an outcome that its d features explain, in scaled units, in which an outcome that is uniform on its
range has variance 1/3; lambda is the mean variance of a private feature: 1/3 too, unless it is two standard errors below,
and at least a third of that. v, the variance of a row about its regression, is the one that makes a given t most likely,
and at least the outcome's noise.

No inverse is unsafe: where the features show no signal or an outcome no relation to it, weights fall to zero and the model
to the constant predictor. As noise falls the weights tend to least squares on the rows; the ridge that remains shrinks a
direction by v / (t roots_i^2), at most 1e4 d v / (3 roots_i^2) and usually e_min / e of that.

Factorisations are of d x d matrices and shared by all outcomes: O(r d (d + l) + d^3 + l d^2) for r released rows, and 750
passes over an (l, d) array. Source: utility.md section 5, "Training"; the bounds on e and lambda differ from it.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from dprelease.estimators._found import Found
from dprelease.estimators._range_means import range_means
from dprelease.estimators._rows import Rows
from dprelease.estimators._spectrum import Spectrum
from dprelease.estimators.quality import estimate
from dprelease.release import Floats

UNIFORM = 1 / 3
"""Variance of a column that is uniform on its public range, scaled units."""
EXPLAINED = np.geomspace(1e-4, UNIFORM, 25)
"""e: variances of an outcome that its features may explain."""
ROUNDS = 30
"""Steps of the fixed-point iteration for v."""

_AT_ONCE = 1 << 15


def calibrated(rows: Rows, feature_lower: Floats, target_lower: Floats, *, intercept: bool) -> Found:
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
    spent = spectrum.spent(shrink, weights, (mixing.residuals(weights, offsets) ** 2).mean(axis=0))
    # The anchor is one more row to fit on, and an intercept takes it up: the mixing rows lose nothing to either.
    level = 0 if rows.anchor else 1
    return Found(
        weights=weights,
        offsets=offsets,
        constant=constant,
        constant_noise_sd=constant_noise_sd,
        quality=estimate(mixing, weights, offsets, spent + (level if intercept else 0), constant, level),
        diagnostics=spectrum.diagnostics(used.patients),
    )


def averaged(spectrum: Spectrum, noise: Floats) -> Floats:
    """What is left of each score after the ridge, averaged over its strengths, (r, l) in [0, 1].

    Args:
        spectrum: r coordinates of l regressions.
        noise: (l,) noise variance of an entry of each outcome.
    """
    energy = spectrum.scores.T**2
    found = np.zeros_like(energy)
    if found.size:
        step = max(1, _AT_ONCE // (energy.shape[1] * len(EXPLAINED)))
        for part in (slice(start, start + step) for start in range(0, len(energy), step)):
            found[part] = _averaged(spectrum, energy[part], spectrum.rest[part], noise[part])
    return found.T


def _averaged(spectrum: Spectrum, energy: Floats, rest: Floats, noise: Floats) -> Floats:
    """`averaged` of squared scores, (l, r) to (l, r). Arrays in it are (strengths, l, r), then (strengths, l)."""
    degrees = spectrum.degrees
    whole = (energy.sum(axis=1) + rest) / degrees
    least = np.maximum(noise, np.finfo(float).eps * whole + np.finfo(float).tiny)
    start = np.maximum(rest / max(degrees - energy.shape[1], 1), least)
    likely = spectrum.feature_variance + 2 * spectrum.feature_variance_se
    prior = EXPLAINED / (len(spectrum.xx) * min(max(likely, UNIFORM / 3), UNIFORM))
    reach = prior[:, None, None] * spectrum.roots**2
    variance = np.repeat(start[None], len(prior), axis=0)
    left = np.empty((len(prior), *energy.shape))
    for _ in range(ROUNDS):
        np.add(reach, variance[:, :, None], out=left)
        np.divide(energy, left, out=left)
        variance = np.maximum((variance * left.sum(axis=2) + rest) / degrees, least)
    ratio = reach / variance[:, :, None]
    misfit = (energy / (1 + ratio)).sum(axis=2) + rest
    likelihood = -0.5 * (np.log1p(ratio).sum(axis=2) + degrees * np.log(variance) + misfit / variance)
    belief = np.exp(likelihood - logsumexp(likelihood, axis=0))
    kept: Floats = (belief[:, :, None] * (ratio / (1 + ratio))).sum(axis=0)
    return kept
