"""How well a fit does on the private rows nobody may see, estimated from the released rows alone.

Let e = y - v b0 - X w be the residual of the released mixing rows (r of them), and q = s_y^2 + sum_i w_i^2 s_i^2 the
variance that the privacy noise has in each entry of it. If the fit were fixed before the noise was drawn, e = m + z
with m = A (D u) the residual of the private rows under the public map A, u = (y, b0, x) weights (1, -b0, -w), and
z ~ N(0, q I_r). With N = n for ``rows`` and n (1 - rho) for the mixing rows of ``mixed``,

    mse = (|e|^2 - r q) / N                                                                                     (1)

is an unbiased estimate of |D u|^2 / n. It may be negative when the noise is large. For two such residuals a and b, whose
noises have covariance q_ab in each entry,

    Cov(|a|^2, |b|^2) = 2 r q_ab^2 + 4 q_ab m_a.m_b   [ + 2 (m_a.m_b)^2 / r  for random mixing ]                  (2)

by the fourth moments of the Gaussian law; the bracket is what the public random matrix adds, exactly so for Gaussian
entries and at most so for +-1 entries. Standard errors are square roots of (2) over N, with m_a.m_b estimated by
a.b - r q_ab. The difference between model and constant predictor is judged by its own standard error: the two share
the noise of the outcome.

The fit was not fixed: it used the same noise, so (1) is optimistic. For least squares on r rows that are Gaussian with
covariance Sigma, of which `spent` parameters are fitted, E|e|^2 = (r - spent) tau^2, tau^2 being the variance of an
entry of the best residual, while r u^T Sigma u has mean r tau^2 (r - 1)/(r - spent - 1). Hence the `optimism`, to be
added to (1),

    optimism = |e|^2 / N [ r (r - 1) / ((r - spent)(r - spent - 1)) - 1 ]                                       (3)

which mixing rows follow closely (sums of n signed rows are nearly Gaussian) and which errs on the safe side for ``rows``.
A method that inverts another Hessian H than xx spends, to first order, tr(H^-1 xx) + (N/r) g^T H^-1 g / tau^2 with
g = xy - xx w the gradient it leaves: d for least squares, many times d for a de-biased Hessian near zero. Without (3) a
hundred features on three hundred rows of pure noise would pass for a good model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dprelease.estimators._linear import Solution
from dprelease.estimators._rows import NormalEquations, Rows
from dprelease.release import Floats

BETTER = "better than the constant predictor"
INDISTINCT = "not distinguishable from the constant predictor"
MARGIN = 2.0
"""Standard errors by which a model must beat the constant predictor to be called better."""


@dataclass(frozen=True, eq=False)
class Quality:
    """Estimated mean squared errors on the private rows, one entry for each target.

    Attributes:
        mse: (l,) of the model, formula (1): optimistic, and negative at times when the noise is large.
        mse_se: (l,) its standard error, the fit taken as fixed.
        optimism: (l,) by how much `mse` is expected to be too low, formula (3); infinite where nothing can be said.
        constant_mse: (l,) of the constant predictor, formula (1).
        constant_mse_se: (l,) its standard error.
        gain: (l,) constant_mse - mse, both corrected for optimism.
        gain_se: (l,) standard error of the difference.
    """

    mse: Floats
    mse_se: Floats
    optimism: Floats
    constant_mse: Floats
    constant_mse_se: Floats
    gain: Floats
    gain_se: Floats

    def verdicts(self) -> tuple[str, ...]:
        """In words, for each target: is the model better than the constant predictor by two standard errors?"""
        better = self.gain > MARGIN * self.gain_se
        return tuple(BETTER if is_better else INDISTINCT for is_better in better)

    def in_units(self, half_width: Floats) -> Quality:
        """The same in original units, from scaled ones.

        Args:
            half_width: (l,) original units of one scaled unit of each target.
        """
        return Quality(**{name: value * half_width**2 for name, value in vars(self).items()})


def spent_parameters(equations: NormalEquations, solution: Solution, rows: Rows, residuals: Floats) -> Floats:
    """Parameters that a fit effectively spends on its weights, (l,); infinite for an indefinite Hessian.

    Args:
        equations: what was solved.
        solution: how.
        rows: the rows that were fitted on.
        residuals: (r, l) e of the mixing rows.
    """
    tau2 = (residuals**2).mean(axis=0)
    if solution.indefinite:
        return np.full_like(tau2, np.inf)
    gradient = equations.xy - equations.xx @ solution.weights
    lift = np.einsum("il,ij,jl->l", gradient, solution.inverse, gradient) * rows.patients / len(rows.ones)
    total: Floats = np.divide(lift, tau2, out=np.zeros_like(lift), where=tau2 > 0)
    return total + np.sum(solution.inverse * equations.xx)


def optimism(square: Floats, spent: Floats, count: int, patients: float) -> Floats:
    """Formula (3), (l,); infinite where no degrees of freedom are left.

    Args:
        square: (l,) |e|^2.
        spent: (l,) parameters.
        count: r.
        patients: N.
    """
    known = count - spent > 1
    left = np.where(known, count - spent, 2.0)
    return np.where(known, (count * (count - 1) / (left * (left - 1)) - 1) * square / patients, np.inf)


def estimate(
    rows: Rows, weights: Floats, offsets: Floats, spent: Floats, constant: Floats, constant_spent: int
) -> Quality:
    """Estimated errors of a model and of a constant, scaled units.

    Args:
        rows: mixing rows (no anchor).
        weights: (d, l) of the model.
        offsets: (l,) of the model.
        spent: (l,) parameters that the model spent on these rows.
        constant: (l,) the constant predictor.
        constant_spent: parameters that the constant spent on these rows: 0 or 1.
    """
    count = len(rows.ones)
    model, flat = rows.residuals(weights, offsets), rows.y - np.outer(rows.ones, constant)
    model_noise = rows.y_variance + rows.x_variance @ weights**2
    flat_noise = rows.y_variance
    model_square, flat_square = (model**2).sum(axis=0), (flat**2).sum(axis=0)
    model_signal = np.maximum(model_square - count * model_noise, 0)
    flat_signal = np.maximum(flat_square - count * flat_noise, 0)
    bound = np.sqrt(model_signal * flat_signal)  # Cauchy and Schwarz, so that the variance of the gain is not negative
    shared_signal = np.clip((model * flat).sum(axis=0) - count * flat_noise, -bound, bound)

    def covariance(noise: Floats, signal: Floats) -> Floats:
        mixing = 2 * signal**2 / count if rows.mixed else 0.0
        return 2 * count * noise**2 + 4 * noise * signal + mixing

    model_variance, flat_variance = covariance(model_noise, model_signal), covariance(flat_noise, flat_signal)
    gain_variance = model_variance + flat_variance - 2 * covariance(flat_noise, shared_signal)
    mse = (model_square - count * model_noise) / rows.patients
    constant_mse = (flat_square - count * flat_noise) / rows.patients
    model_optimism = optimism(model_square, spent, count, rows.patients)
    flat_optimism = optimism(flat_square, np.full_like(spent, constant_spent), count, rows.patients)
    return Quality(
        mse=mse,
        mse_se=np.sqrt(model_variance) / rows.patients,
        optimism=model_optimism,
        constant_mse=constant_mse,
        constant_mse_se=np.sqrt(flat_variance) / rows.patients,
        gain=constant_mse + np.where(np.isinf(flat_optimism), 0, flat_optimism) - mse - model_optimism,
        gain_se=np.sqrt(np.maximum(gain_variance, 0)) / rows.patients,
    )
