"""Posterior of the path of one hospital's donors, scaled units, from what noisy weights and noisy donors add up to.

c_t = s m_t + h_t: `dprelease.estimators.counterfactual` says what these are, what is believed of them, and why.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dprelease.arrays import Floats

EVEN = 1 / 3
"""Variance of a number that is spread evenly over [-1, 1]."""
TOTAL = (1.0, 1.0)
"""Mean and variance of the sum of weights before the release."""


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over weights and donors, noise included.

    Attributes:
        donors: n.
        total: sum of weights.
        means: (T1,) of donors.
        u2: |u|^2, weights without their mean.
        gram: (T1, T1) e'e, donors without their means.
        product: (T1,) u'e.
        weight_sd: of the noise of a weight.
        donor_sd: of the noise of a donor's value.
        norm2_bound: the largest |f|^2 that any donors could have.
    """

    donors: int
    total: float
    means: Floats
    u2: float
    gram: Floats
    product: Floats
    weight_sd: float
    donor_sd: float
    norm2_bound: float


def posterior(sums: Sums) -> tuple[Floats, Floats]:
    """(T1,) mean and (T1, T1) covariance of the path."""
    n, times = sums.donors, len(sums.means)
    f_noise, x_noise = sums.weight_sd**2, sums.donor_sd**2
    largest_u = _squares(sums.u2, n - 1, f_noise, sums.norm2_bound)
    largest_e = _squares(float(np.trace(sums.gram)), (n - 1) * times, x_noise, n * times) / times
    believed = TOTAL[1] / (TOTAL[1] + n * f_noise)
    s, s_variance = TOTAL[0] + believed * (sums.total - TOTAL[0]), believed * n * f_noise
    believed = EVEN / (EVEN + x_noise / n)
    m, m_variance = believed * sums.means, believed * x_noise / n
    spread = largest_e / (largest_e + (n - 1) * x_noise)  # of e'e, what is no noise
    moved = f_noise * (spread**2 * sums.gram + (1 - spread) * largest_e * np.ones((times, times)))
    noise = moved + x_noise * (largest_u + (n - 1) * f_noise) * np.eye(times)
    prior = largest_u * largest_e * (np.eye(times) + 1) / 2
    h_believed = np.linalg.solve(noise + prior, prior).T
    covariance = s_variance * np.outer(m, m) + (s**2 + s_variance) * m_variance * np.eye(times) + h_believed @ noise
    return s * m + h_believed @ sums.product, (covariance + covariance.T) / 2


def _squares(seen: float, freedom: int, noise: float, most: float) -> float:
    """A sum of squares without its noise, one standard error above its estimate, and at most what is possible."""
    return float(min(max(seen - freedom * noise, 0.0) + np.sqrt(2 * freedom) * noise + 2 * np.sqrt(seen * noise), most))
