"""Errors-in-variables inference from noisy rows: linear regression with errors of known variance in the variables.

Rows of [X y] = A [D_x D_y] + noise, the constant column v regressed out where there is an intercept, have m degrees of
freedom. S is the diagonal matrix of the features' noise variances, W = X^T X, and in each row

    x = signal + r,   y = signal b + e + s,   eps = y - x b = e + s - r b,   E[x eps] = -S b,   tau^2 = Var eps.

H = W - m S is the features' moment matrix without the noise, and X^T y - H b = sum (x eps + S b) has mean 0. Rows are
Gaussian (mixing rows nearly so, being sums of many signed rows; for ``rows`` it is enough that e does not depend on x), so for
a sum a^T b of the weights, one of them or the intercept's, with h = H^-1 a,

    estimate    h^T [X^T y - (H + C) b] = 0 where all other equations of H b = X^T y hold,                           (1)
    variance    V(b) = h^T (tau^2 W + m S b b^T S) h,    tau^2 = |y - X W^-1 X^T y|^2 / (m - d) + m b^T S W^-1 S b.  (2)

V is taken at the b that is tested, not at the fitted one (`ProfiledEstimates`), whose errors would make it as wrong as the
estimate. C takes off the bias that comes of the error in h. An error in the length of h does not matter, as it cancels, hence

    C = W K S + tr(W K) S,    K = H^-1 - h h^T / (a^T h),                                                            (3)

which is 0 for one feature. If S is the identity and W / m = diag(mu), with F_i = mu_i / (mu_i - 1),

    noise_ratio^2 = max_i [F_i (F_i + sum F) - (1 + d)] / m;                                                         (4)

1 + d is what finitely many rows do without noise, which least squares on these rows does not mind. Formulas (1) and (2) are
Fuller's (1987, Measurement Error Models, 2.2) but for C and for V at other b; (4) is by his correction (2.5).

Rows of a mixing matrix are many combinations of the same patients, so (2) is about least squares on these patients, who are
a sample: sigma^2 Cov(x)^-1 / n is added, sigma^2 = the residual variance, taken to be the same everywhere. Rows that are
patients have it in (2). If a patient may have q rows, q times as much is added: the sum of their errors has at most q times
the variance that they would have apart. An intercept is mean(y) - mean(x) b with the means from v, whose noise is independent of
the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dprelease.arrays import Floats
from dprelease.estimators.bounded_mean import truncated_mean
from dprelease.estimators.intervals.estimates import (
    Covariance,
    Forms,
    PopulationFit,
    ProfiledEstimates,
    Shared,
    dropped_features,
    in_parts,
    profiled,
    unidentified,
)
from dprelease.estimators.normal_equations import SINGULAR, RegressionRows


def learned_from_rows(
    rows: RegressionRows, patients: int, at: Floats, *, intercept: bool, repeats: int = 1
) -> PopulationFit:
    """Population least squares of all targets on the same features, O(r d (d + l) + d^3 + l d^2).

    If the features are unidentified, O(d^4) to say which of them would have to be left out.

    Args:
        rows: as released, the anchor included.
        patients: n.
        at: (1 + m, d) points that the fit is wanted at, the first for the intercept, or (d,) that one alone; scaled units.
        intercept: whether one is fitted; without it the anchor row is left out.
        repeats: most rows of one patient.
    """
    asked_at, mixing = np.atleast_2d(at), rows.mixing_only()
    used = rows if intercept else mixing
    d, targets, length = used.x.shape[1], used.y.shape[1], float(used.ones @ used.ones)
    degrees = len(used.ones) - int(intercept)
    if intercept and not length:
        return unidentified(asked_at, targets, tuple(range(d)))
    products = used.products(intercept=intercept)
    gram, whole, (mean_x, mean_y) = products.xx, np.sqrt(products.whole), products.means

    def directions(kept: list[int]) -> _Directions:
        return _Directions.of(gram[np.ix_(kept, kept)], whole[kept], used.x_variance[kept], degrees)

    found = directions(list(range(d)))
    dropped = dropped_features(d, found.worst, lambda kept: directions(kept).worst)
    if not np.isfinite(found.worst[0]):
        return unidentified(asked_at, targets, dropped)
    across = found.basis.T @ products.xy
    best = found.basis @ across
    origins = mean_y - mean_x @ best
    least = used.residual_squares(best, origins, origins)[0] / (degrees - d)
    apart = np.append(np.zeros(d), np.full(len(asked_at), 1 / length if intercept else 0.0))
    asked = _Asked(found.hiding, found.basis.T @ np.column_stack([np.eye(d), (asked_at - mean_x).T]), apart, degrees)
    values = asked.values(across)
    values[d:] += mean_y

    fit = found.basis.T @ gram @ values[:d]
    noise = rows.y_variance + found.hiding @ fit**2 / degrees
    per_row = mixing.patients / len(mixing.ones)
    spread = least + found.hiding**2 @ fit**2 / degrees
    sigma2 = np.maximum(spread - noise, 0) / per_row
    spread_error = spread * np.sqrt(2 / (degrees - d)) / per_row
    residual = np.array([truncated_mean((spread - noise) / per_row, spread_error, 0 * noise), spread_error])
    fixed, mean_variance = np.outer((asked.lifted**2).sum(axis=0), least), np.zeros(len(least))
    more = repeats if rows.mixed else repeats - 1
    fixed += np.outer(more * asked.curvature * degrees * per_row / patients, sigma2)
    if intercept:
        combined = sigma2 * per_row * float(mixing.ones @ mixing.ones) / length**2 if rows.mixed else 0.0
        mean_variance = rows.y_variance / length + repeats * sigma2 / patients + combined
        fixed[d:] += mean_variance
    estimates = asked.estimates(values, fixed, fit, least, mean_variance)
    return in_parts(estimates, d, residual, float(degrees - d), found.worst[0], dropped)


@dataclass(frozen=True, eq=False)
class _Directions:
    """The features in coordinates in which both their Gram matrix and their noise are diagonal.

    Attributes:
        basis: (d, d) P with P^T W P = I.
        hiding: (d,) m P^T S P: the part of a direction's spread that is noise, below 1.
        worst: formula (4), and the feature that has most of the worst direction.
    """

    basis: Floats
    hiding: Floats
    worst: tuple[float, int]

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
        ratio2 = (factor * second - (1 + d)) / degrees
        return cls(
            basis=scaled / lengths[:, None],
            hiding=inverse_mu,
            worst=(float(np.sqrt(max(ratio2[-1], 0.0))), int(np.abs(scaled[:, -1]).argmax())),
        )

    @classmethod
    def none(cls, worst: int) -> _Directions:
        """Directions of features that cannot be told from noise, or from one another."""
        return cls(np.zeros((0, 0)), np.zeros(0), (np.inf, worst))


@dataclass(frozen=True, eq=False)
class _Asked:
    """Some sums of the weights, in the coordinates of `_Directions`, in which a fit b is P^-1 b.

    Attributes:
        hiding: (d,) of the directions.
        inner: (d, q) the sums.
        apart: (q,) variance of what is added to each, that of the intercept's own equation, in units of tau^2.
        degrees: m.
    """

    hiding: Floats
    inner: Floats
    apart: Floats
    degrees: int

    @cached_property
    def lifted(self) -> Floats:
        """(d, q) h = H^-1 a."""
        return self.inner / (1 - self.hiding)[:, None]

    @cached_property
    def curvature(self) -> Floats:
        """(q,) a^T H^-1 a."""
        found: Floats = (self.inner * self.lifted).sum(axis=0)
        return found

    @cached_property
    def path(self) -> Floats:
        """(d, q) how the fit moves with the sum while all other equations hold; 0 for a sum that is always 0."""
        whole = self.curvature + self.apart
        return np.divide(self.lifted, whole, out=np.zeros_like(self.lifted), where=whole > 0)

    @cached_property
    def pull(self) -> Floats:
        """(d, q) C h in directions, formula (3)."""
        factor = 1 / (1 - self.hiding)
        own = (self.lifted * self.path).sum(axis=0)
        found: Floats = self.hiding[:, None] * self.lifted * (factor[:, None] + factor.sum() - 2 * own) / self.degrees
        return found

    @cached_property
    def stretch(self) -> Floats:
        """(q,) by how much faster than the sum its equation (1) moves, C being in it."""
        found: Floats = 1 + (self.pull * self.path).sum(axis=0)
        return found

    def values(self, across: Floats) -> Floats:
        """(q, l) estimates of the sums, from P^T X^T y."""
        solved = across / (1 - self.hiding)[:, None]
        return self.inner.T @ solved - (self.pull.T @ solved) / self.stretch[:, None]

    def estimates(
        self, values: Floats, fixed: Floats, fit: Floats, least: Floats, mean_variance: Floats
    ) -> ProfiledEstimates:
        """With the variances (2) along the paths of fits; all but `fit`, (d, l), does not change with these.

        Args:
            values: (q, l) what is estimated.
            fixed: (q, l) what the variances have at b = 0.
            fit: (d, l) the weights that are believed.
            least: (l,) |y - X W^-1 X^T y|^2 / (m - d).
            mean_variance: (l,) of what the sums behind the weights are added to, at b = 0.
        """
        hiding, m = self.hiding[:, None], self.degrees
        square, noisy = (self.lifted**2).sum(axis=0), hiding * fit
        forms = Forms(np.array([1 / m]), (hiding * self.lifted)[None], (hiding**2 * square + hiding * self.apart) / m)
        apart = np.zeros_like(values)
        d = len(fit)
        apart[d:] = mean_variance + np.outer(self.apart[d:], (noisy * fit).sum(axis=0) / m)
        spread = least + (noisy**2).sum(axis=0) / m
        shared = Shared(noisy / (1 - hiding), self.lifted.T @ noisy / m)
        common = Covariance(self.inner, self.lifted / (1 - hiding), spread, [shared], apart)
        return profiled(values, fixed, fit, forms, common).scaled_by(1 / self.stretch)
