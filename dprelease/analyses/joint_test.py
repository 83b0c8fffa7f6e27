"""Tests of several quantities at once, on draws: is the null value within the region that noise and sampling leave open?

With b_t (q,) the estimate of draw t and V_t its sampling covariance, values of the population are b_t + V_t^(1/2) e, where e has
Student's law of f degrees of freedom in q dimensions. Let c and W be mean and covariance of all of them. The p-value is the share
of them that is as far from c as 0 is, in the metric of W. Without noise it is that of the F test, or for infinite f of the
chi-square test. (An average over draws of classical p-values would be wrong: noise makes the statistic large in every draw.)
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, chdtri, fdtrc

from dprelease.analyses.estimates import Estimates
from dprelease.arrays import Floats
from dprelease.privacy.public_stream import PublicNormals

SAMPLES = 20
"""Values of the population for each draw."""


@dataclass(frozen=True)
class JointTest:
    """Outcome of a test.

    Attributes:
        statistic: distance of 0 from the centre, F or chi-square, in which noise counts as error.
        restrictions: q.
        degrees: f; infinite for chi-square.
        p_value: no smaller than `resolution`.
        resolution: 1/T, where T > 1 draws cannot tell smaller ones; 0 without noise.
    """

    statistic: float
    restrictions: int
    degrees: float
    p_value: float
    resolution: float


def joint_test(estimates: Estimates, covariance: Floats) -> JointTest:
    """Test that all of q quantities are 0; what clipping may have taken counts as error.

    Args:
        estimates: of them.
        covariance: (T, q, q) of their sampling errors.
    """
    location, degrees, taken = estimates.location, estimates.degrees, estimates.taken
    if taken is not None:
        covariance = covariance + taken.T @ taken
    count, q = location.shape
    resolution = 1 / count if count > 1 else 0.0
    centre = location.mean(axis=0)
    around = location - centre
    whole = np.linalg.pinv(around.T @ around / count + covariance.mean(axis=0), hermitian=True)
    square = float(centre @ whole @ centre)
    finite = np.isfinite(degrees)
    if count == 1:
        tail = float(fdtrc(q, degrees, square / q) if finite else chdtrc(q, square))
    else:
        public = PublicNormals(hashlib.sha256(location.tobytes()).digest())
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        errors = public.normal(count, SAMPLES, q) @ root.transpose(0, 2, 1)
        if finite:
            errors /= np.sqrt(chdtri(degrees, public.uniform(count, SAMPLES, 1)) / degrees)
        away = around[:, None] + errors
        tail = max(float((np.einsum("tsi,ij,tsj->ts", away, whole, away) >= square).mean()), resolution)
    return JointTest(square / q if finite else square, q, degrees, tail, resolution)
