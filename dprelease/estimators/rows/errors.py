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

The standard errors, too, would be too small: close to no signal (2) of the gain falls to zero with the weights, which have
their own noise in them. For the same least squares |e|^2 = tau^2 chi2 with f = r - s degrees of freedom, s being `spent`; the
weights are off by delta, and delta^T W delta = tau^2 A, delta^T Sigma delta = tau^2 A B with W the rows' Gram matrix,
A = chi2 with s and 1/B = chi2 with f + 1 degrees, all independent. With c the fraction in (3), 1 + optimism N / |e|^2,

    N mse-error  = c |e|^2 - r tau^2 (1 + A B)  + const,    variance tau^4 [2 c^2 f + r^2 Var(A B)]                  (4)
    N gain-error = tau^2 A (1 + r B) - (c - 1) |e|^2 + ..., variance tau^4 [Var(A + r A B) + 2 (c - 1)^2 f] + ...    (5)

where the dots have the variance (2) at the true weights. At the fitted ones (2) has 2 f^2 / r tau^4 of (4) in it and, by the
noise of the weights, 4 s tau^4 of (5); `for_being_fitted` is the rest. For weights that are shrunken (5) is on the safe side.
"""

from __future__ import annotations

import numpy as np

from dprelease.arrays import Floats
from dprelease.estimators.normal_equations import NormalEquations, RegressionRows, Solution
from dprelease.estimators.quality import Quality


def effective_parameters(equations: NormalEquations, solution: Solution, rows: RegressionRows, tau2: Floats) -> Floats:
    """Parameters that a fit effectively spends on its weights, (l,); infinite for an indefinite Hessian.

    Args:
        equations: what was solved.
        solution: how.
        rows: the rows that were fitted on.
        tau2: (l,) mean square of e over the mixing rows.
    """
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


def for_being_fitted(square: Floats, spent: Floats, count: int) -> tuple[Floats, Floats]:
    """Formulas (4) and (5), N^2 times what goes on top of the variances of mse and gain; infinite where nothing is left.

    Args:
        square: (l,) |e|^2.
        spent: (l,) s, parameters.
        count: r.
    """
    known = count - spent > 3
    s, left = np.where(known, spent, 0.0), np.where(known, count - spent, 4.0)
    excess = count * (count - 1) / (left * (left - 1)) - 1
    first, second = 1 / (left - 1), 1 / ((left - 1) * (left - 3))
    ratio = s * (s + 2) * second - (s * first) ** 2
    both = s * (s + 2) * (1 + 2 * count * first + count**2 * second) - (s + count * s * first) ** 2
    of_mse = 2 * (1 + excess) ** 2 * left + count**2 * ratio - 2 * left**2 / count
    of_gain = both + 2 * excess**2 * left - 4 * s
    tau4 = (square / left) ** 2
    return np.where(known, tau4 * of_mse, np.inf), np.where(known, tau4 * of_gain, np.inf)


def estimate(rows: RegressionRows, squares: Floats, weights: Floats, spent: Floats, constant_spent: int) -> Quality:
    """Estimated errors of a model and of a constant, scaled units.

    Args:
        rows: mixing rows (no anchor).
        squares: (3, l) as of `RegressionRows.residual_squares`.
        weights: (d, l) of the model.
        spent: (l,) parameters that the model spent on these rows.
        constant_spent: parameters that the constant spent on these rows: 0 or 1.
    """
    count = len(rows.ones)
    model_noise = rows.y_variance + rows.x_variance @ weights**2
    flat_noise = rows.y_variance
    model_square, flat_square, product = squares
    model_signal, flat_signal = model_square - count * model_noise, flat_square - count * flat_noise
    shared_signal = product - count * flat_noise
    if not rows.mixed:  # so that no variance is negative; the last by Cauchy and Schwarz
        model_signal, flat_signal = np.maximum(model_signal, 0), np.maximum(flat_signal, 0)
        bound = np.sqrt(model_signal * flat_signal)
        shared_signal = np.clip(shared_signal, -bound, bound)

    def covariance(noise: Floats, signal: Floats) -> Floats:
        mixing = 2 * signal**2 / count if rows.mixed else 0.0
        return 2 * count * noise**2 + 4 * noise * signal + mixing

    model_variance, flat_variance = covariance(model_noise, model_signal), covariance(flat_noise, flat_signal)
    gain_variance = np.maximum(model_variance + flat_variance - 2 * covariance(flat_noise, shared_signal), 0)
    for_model, for_gain = for_being_fitted(model_square, spent, count)
    mse = (model_square - count * model_noise) / rows.patients
    constant_mse = (flat_square - count * flat_noise) / rows.patients
    model_optimism = optimism(model_square, spent, count, rows.patients)
    flat_optimism = optimism(flat_square, np.full_like(spent, constant_spent), count, rows.patients)
    return Quality(
        mse=mse,
        mse_se=np.sqrt(np.maximum(model_variance + for_model, 0)) / rows.patients,
        optimism=model_optimism,
        constant_mse=constant_mse,
        constant_mse_se=np.sqrt(flat_variance) / rows.patients,
        gain=constant_mse + np.where(np.isinf(flat_optimism), 0, flat_optimism) - mse - model_optimism,
        gain_se=np.sqrt(np.maximum(gain_variance + for_gain, 0)) / rows.patients,
    )
