"""Tests of several quantities at once, from draws or from released moments alone.

`joint_test` asks of draws whether the null value is within the region that noise and sampling leave open.

With b_t (q,) the estimate of draw t and V_t its sampling covariance, values of the population are b_t + V_t^(1/2) e, where e has
Student's law of f degrees of freedom in q dimensions. Let c and W be mean and covariance of all of them. The p-value is the share
of them that is as far from c as 0 is, in the metric of W. Without noise it is that of the F test, or for infinite f of the
chi-square test. (An average over draws of classical p-values would be wrong: noise makes the statistic large in every draw.)
Of one quantity the p-value is its own (`Estimates.p_value`), for draws may lean to one side. It is below 0.05 exactly if the
interval at 95 % excludes 0.

`score_test` asks whether some coefficients of a regression are all 0, by what the released moments themselves say, without the
draws' prior. With S + N the released moments per patient of z = (1, features) and the outcome, and u = (-b, 1) the weights of a
residual whose tested coefficients are 0, the normal equations

    r(b) = [(S + N) u]_z

have mean 0 at the true b, and the covariance Omega(b) = E[(N u)(N u)'] + sigma^2 S_zz / n, of noise and of sampling. The statistic
is the least of r' Omega^-1 r over b. It has the chi-square law of as many degrees as coefficients are tested, however noisy S is
(or more small values, where noise hides b), and without noise it is q times F. A test on the draws would refuse too rarely: their
prior draws estimates to 0, and their spread counts its width as error. sigma^2 and S_zz of the sampling part alone are the draws'.
The loss of a covariance by clipping counts as further noise of its entry, and all of it that goes together as one more error.

Source: Stock and Wright (2000), GMM with weak identification; Guggenberger, Kleibergen, Mavroeidis and Chen (2012), On the
asymptotic sizes of subset Anderson-Rubin and Lagrange multiplier tests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import chdtrc, chdtri, fdtrc

from dprelease.analyses.clipped import taken
from dprelease.analyses.draws import Draws
from dprelease.analyses.estimates import Estimates
from dprelease.arrays import Floats
from dprelease.estimators.evidence.evidence import Evidence
from dprelease.mechanisms.moments.released import NoisyMoments
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
    location, degrees, taken, sampling = estimates.location, estimates.degrees, estimates.taken, covariance
    if taken is not None:
        covariance = covariance + taken.T @ taken
    count, q = location.shape
    resolution = 1 / count if count > 1 else 0.0
    centre = location.mean(axis=0)
    around = location - centre
    whole = np.linalg.pinv(around.T @ around / count + covariance.mean(axis=0), hermitian=True)
    square = float(centre @ whole @ centre)
    finite = np.isfinite(degrees)
    if q == 1:
        tail = float(replace(estimates, scale=np.sqrt(sampling[:, 0]), tested=True).p_value[0])
    elif count == 1:
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


def are_zero(draws: Draws, outcome: str, features: Sequence[str], tested: Sequence[str]) -> JointTest:
    """Tests whether the coefficients of some features are all 0, others and an intercept given.

    Args:
        draws: of the columns.
        outcome: one of them.
        features: d others.
        tested: q of these.
    """
    names = [*features, outcome]
    *x, target = (draws.index[place] for place in draws.places(names))
    off = taken(draws)
    moved = None
    if off is not None:
        _, _, units = zip(*(draws.moments.lookup(name) for name in names), strict=True)
        at = draws.places(names)
        moved = np.stack([each[np.ix_(at, at)] / np.outer(units, units) for each in off[1:]])
    return score_test(draws.moments, x, [features.index(name) for name in tested], target, moved)


def score_test(
    moments: NoisyMoments,
    features: Sequence[int],
    tested: Sequence[int],
    target: int,
    moved: Floats | None = None,
    likely: Floats | None = None,
) -> JointTest:
    """The test of `are_zero`, by places in the matrix.

    Args:
        moments: as released.
        features: d indices in the matrix.
        tested: q places among the features.
        target: index in the matrix.
        moved: (2, d + 1, d + 1) standard deviations of what clipping may have taken from covariances, the target last; scaled
            units. The first are of single covariances, the others go together and have signs. The intercept takes up its loss of
            means.
        likely: (p + 1, p + 1) moments that the sampling part is worked out from; those of the draws' mean if left out.
    """
    places, n, q = [0, *features, target], moments.rows, len(tested)
    free = [0, *(1 + place for place in range(len(features)) if place not in tested)]
    degrees = n - len(features) - 1
    released, sd = moments.between(places, places) / n, moments.noise_between(places, places) / n
    together = np.zeros_like(sd)
    if moved is not None:
        sd[1:, 1:] = np.hypot(sd[1:, 1:], moved[0])
        together[1:, 1:] = moved[1]
    likely = (Evidence(moments).likely() if likely is None else likely)[np.ix_(places, places)]
    within, across = likely[:-1, :-1], likely[:-1, -1]
    sampling = (likely[-1, -1] - across @ np.linalg.solve(within, across)) / degrees * within
    level = moments.layout.level[places]
    units = np.eye(len(places))[:-1]

    def errors(rows: Floats, weights: Floats) -> Floats:
        """Weights in rows' N weights of all independent errors."""
        single = by_entry(outer(rows, np.broadcast_to(weights, rows.shape)), sd, level).reshape(len(rows), -1)
        return np.column_stack([single, rows @ together @ weights])

    def statistic(b: Floats) -> tuple[float, Floats]:
        """r' Omega^-1 r and its derivative."""
        u = np.zeros(len(places))
        u[free], u[-1] = -b, 1.0
        noise = errors(units, u)
        score = released[:-1] @ u
        lifted = np.linalg.solve(noise @ noise.T + sampling, score)
        by_unit = errors(units[free], np.append(lifted, 0.0))
        return float(score @ lifted), 2 * (by_unit @ (lifted @ noise)) - 2 * (released[free, :-1] @ lifted)

    start = np.linalg.solve(within[np.ix_(free, free)], across[free])
    scale = np.sqrt(np.diag(np.linalg.inv(within[np.ix_(free, free)])) * sampling[0, 0])
    best = minimize(lambda steps: _scaled(statistic(start + scale * steps), scale), 0 * start, jac=True, method="BFGS")
    square = float(best.fun)
    return JointTest(square / q, q, degrees, float(fdtrc(q, degrees, square / q)), 0.0)


def _scaled(found: tuple[float, Floats], scale: Floats) -> tuple[float, Floats]:
    return found[0], found[1] * scale


def by_entry(forms: Floats, noise_sd: Floats, level: npt.NDArray[np.bool_]) -> Floats:
    """Weights in <N, F> of the independent errors behind the entries, of variance 1, (..., q, q).

    Sums over all entries of products of two of them are covariances.

    Args:
        forms: (..., q, q) F, the constant first.
        noise_sd: (q, q) of the entries.
        level: (q,) which variables are levels, whose own entry repeats that with the constant.
    """
    found: Floats = np.triu(forms) + np.triu(forms, 1)
    own = np.where(level, np.diagonal(forms, axis1=-2, axis2=-1), 0.0)
    found[..., 0, :] += own
    found[..., range(len(level)), range(len(level))] -= own
    return found * noise_sd


def outer(one: Floats, other: Floats) -> Floats:
    """(..., q, q) F for which <S, F> is x' S y, of x and y (..., q) alike."""
    product = one[..., :, None] * other[..., None, :]
    return (product + np.swapaxes(product, -1, -2)) / 2
