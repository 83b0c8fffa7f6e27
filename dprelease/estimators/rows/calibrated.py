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
from dataclasses import dataclass

import numpy as np

from dprelease.arrays import Floats
from dprelease.data.column import EVEN_SPREAD
from dprelease.estimators.bounded_mean import range_means
from dprelease.estimators.normal_equations import SINGULAR, Diagnostics, RegressionRows
from dprelease.estimators.quality import ScaledFit
from dprelease.estimators.ridge import belief, chunks, ends_of_cells, lattice
from dprelease.estimators.rows.errors import estimate
from dprelease.mechanisms.expected_error import EXPLAINED


def calibrated(rows: RegressionRows, feature_lower: Floats, target_lower: Floats, *, intercept: bool) -> ScaledFit:
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
    squares = mixing.residual_squares(weights, offsets, constant)
    spent = spectrum.spent(shrink, weights, squares[0] / len(mixing.ones))
    # The anchor is one more row to fit on, and an intercept takes it up: the mixing rows lose nothing to either.
    level = 0 if rows.anchor else 1
    return ScaledFit(
        weights=weights,
        offsets=offsets,
        constant=constant,
        constant_noise_sd=constant_noise_sd,
        quality=estimate(mixing, squares, weights, spent + (level if intercept else 0), level),
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
    scale = math.log(len(spectrum.xx) * min(max(likely, EVEN_SPREAD / 3), EVEN_SPREAD))
    low, high = (math.log(explained) - scale for explained in EXPLAINED[[0, -1]])
    whole = (energy.sum(axis=1) + spectrum.rest) / spectrum.degrees
    least = np.maximum(noise, np.finfo(float).eps * whole)
    least[least == 0] = 1.0  # an outcome that is zero throughout
    log_q = lattice(low - math.log(max(whole.max(), least.max())), high - math.log(least.min()))
    ratio = np.exp(log_q)[:, None] * squares
    for part in chunks(len(energy), len(ratio)):
        misfit = energy[part] @ (1 / (1 + ratio)).T + spectrum.rest[part, None]
        variance = np.maximum(misfit / spectrum.degrees, least[part, None])
        log_variance = np.log(variance)
        prior = np.diff(ends_of_cells(log_variance + log_q, low, high), axis=1)
        likelihood = -0.5 * (np.log1p(ratio).sum(axis=1) + spectrum.degrees * log_variance + misfit / variance)
        found[part] = belief(prior, likelihood) @ (ratio / (1 + ratio))
    return found.T


STRONG = 10.0
"""mu from which on shrinkage is beside the point."""
_NULL = 1e-12


@dataclass(frozen=True, eq=False)
class Spectrum:
    """l calibrated regressions as r <= d separate ones each.

    Let A = X^T X and c = X^T y over the released rows, the public constant column regressed out where there is an intercept,
    which leaves k degrees of freedom, and let S be the diagonal matrix of the features' noise variances. Rows of X are signal
    plus noise, so the best linear guess of a row's signal is L^T row with L = A^-1 (A - k S), the regression calibration. In
    the coordinates in which the noise is S = I and A / k = diag(mu), L is diag(1 - 1/mu). Two things are done to mu first:

        a direction cannot have less than no signal: mu is at least 1;
        with few rows the largest mu are too large and the smallest too small. They are drawn towards their mean by as much as
        they would differ had the signal no preferred direction: oracle approximating shrinkage (Chen, Wiesel, Eldar and Hero
        2010, formula 23), in which a mu beyond `STRONG` counts as that, its reliability being beyond question.

    Source: docs/methods.md, "Calibrated ridge", step 2.

    With X L = U diag(roots) vectors^T and U^T U = I, the outcomes are U scores and a rest that no weights reach.

    Attributes:
        roots: (r,) singular values of X L, those that are not null.
        vectors: (d, r).
        scores: (r, l).
        rest: (l,) squared length of what is left of each outcome.
        degrees: k.
        feature_variance: mean variance of the private features, scaled units, estimated from the diagonal of A.
        feature_variance_se: its standard error.
        left: (r, d), left X^T = U^T.
        xx: (d, d) A.
        xy: (d, l) c.
    """

    roots: Floats
    vectors: Floats
    scores: Floats
    rest: Floats
    degrees: int
    feature_variance: float
    feature_variance_se: float
    left: Floats
    xx: Floats
    xy: Floats

    @classmethod
    def of(cls, rows: RegressionRows, *, intercept: bool) -> Spectrum:
        """Two symmetric factorisations and a singular value decomposition, of d x d matrices.

        Raises:
            InvalidInput: A is singular, or there is nothing to regress an intercept on.
        """
        products, degrees = rows.products(intercept=intercept), len(rows.ones) - int(intercept)
        xx, xy, noise = products.xx, products.xy, degrees * rows.x_variance
        lengths = np.sqrt(np.diag(xx))
        if not lengths.all():
            raise rows.singular()
        # lengths^-1 A lengths^-1 = V diag(values) V^T shows whether A is near-singular, whatever the columns' scales.
        values, vectors = np.linalg.eigh(xx / np.outer(lengths, lengths))
        if values[0] <= SINGULAR:
            raise rows.singular()
        white = vectors / np.sqrt(values)
        inverse_mu, turn = np.linalg.eigh(white.T @ ((noise / lengths**2)[:, None] * white))
        # X basis has orthonormal columns, and L = basis diag(reliability) dual^T.
        basis, dual = white @ turn / lengths[:, None], (vectors * np.sqrt(values)) @ turn * lengths[:, None]
        own, roots, across = np.linalg.svd(dual * _reliability(inverse_mu, degrees))
        kept = roots > _NULL * roots[0]
        left = across[kept] @ basis.T
        scores = left @ xy
        d = len(xx)
        return cls(
            roots=roots[kept],
            vectors=own[:, kept],
            scores=scores,
            rest=np.maximum(products.yy - (scores**2).sum(axis=0), 0),
            degrees=degrees,
            feature_variance=float(np.trace(xx) - noise.sum()) / rows.patients / d,
            feature_variance_se=math.sqrt(2 / degrees) * float(np.linalg.norm(xx)) / rows.patients / d,
            left=left,
            xx=xx,
            xy=xy,
        )

    def weights(self, shrink: Floats) -> Floats:
        """(d, l) from what a ridge leaves of each score, (r, l) in [0, 1]."""
        return self.vectors @ (shrink * self.scores / self.roots[:, None])

    def spent(self, shrink: Floats, weights: Floats, variance: Floats) -> Floats:
        """Parameters that the weights spend, (l,): as in `errors`, with J = dw/dc in the place of H^-1.

        Args:
            shrink: (r, l).
            weights: (d, l).
            variance: (l,) mean square of the residuals.
        """
        gain = shrink / self.roots[:, None]
        gradient = self.xy - self.xx @ weights
        trace = np.einsum("rd,dr->r", self.left @ self.xx, self.vectors) @ gain
        lift = np.einsum("rl,rl,rl->l", gain, self.vectors.T @ gradient, self.left @ gradient) / self.degrees
        total: Floats = trace + np.divide(lift, variance, out=np.zeros_like(lift), where=variance > 0)
        return total

    def diagnostics(self, patients: float) -> Diagnostics:
        """Diagnostics of the Hessian L^T A L, per patient."""
        d, r = self.vectors.shape
        hidden = f"The noise hides {d - r} of {d} directions of the features; the model does without them."
        return Diagnostics(
            smallest_eigenvalue=float(self.roots[-1] ** 2 / patients) if r == d else 0.0,
            condition_number=float((self.roots[0] / self.roots[-1]) ** 2) if r == d else math.inf,
            indefinite=False,
            warnings=(hidden,) if r < d else (),
        )


def _reliability(inverse_mu: Floats, degrees: int) -> Floats:
    """1 - 1/mu, the part of each direction that is signal, (d,) in [0, 1]."""
    mu = 1 / np.maximum(inverse_mu, np.finfo(float).tiny)
    bounded = np.minimum(mu, STRONG)
    d, mean, square = len(mu), float(bounded.mean()), float((bounded**2).sum())
    excess = (degrees + 1 - 2 / d) * (square - d * mean**2)
    share = min(1.0, ((1 - 2 / d) * square + (d * mean) ** 2) / excess) if excess > 0 else 1.0
    return np.maximum(1 - 1 / (mu + share * (mean - bounded)), 0)
