"""Weights of many outcomes from noisy X^T X and X^T Y: the paper's projections and ridge, and ours.

The paper's ridge minimises its error bound (equations 24 and 25; 12 to 14 for the projection). With L = log(2 d^2 / rho),

    lambda^2 = d L s1^2 + e2 / |w|^2,   e2 = d L s2^2, or with a projection at most 4 s2 h sqrt(log(2 / rho)) / l,

s1 and s2 the noise; h is the radius of the body times the expected length of C^T e, e standard normal: sqrt(n) R sqrt(d) |Y|_F with
outcomes public, sqrt(n l) sqrt(l) |X|_F with features public. |w|^2 is private; d S^2 / (2 l R^2) is put for it, as in
`moments.calibration`.

Ours are the library's, without an intercept: outcomes have a known mean of 0 (`data`), so that no mean is paid for, and
rows of alleles have the constant among their features. What a release pays for it is measured in `release`.

    outcomes public    the posterior mean of the association, within what bounded rows can give (`empirical_bayes`, as in
                       `outcomes`); then the ridge of `spectral_ridge`, averaged over its strengths by their likelihood, with
                       the step length of `risk`
    features public    the same posterior mean within the outcomes' bounds, and the same step length: `public_columns`. Squares
                       of outcomes are not released here, so that several variances are equally likely
    nothing public     the ridge of `spectral_ridge`

Only what is released or public enters any of these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.paper_primo.data import Sums
from benchmarks.paper_primo.noise import Noise
from benchmarks.paper_primo.projection import project_jointly
from dprelease.arrays import Floats
from dprelease.estimators.evidence.marginals import shares
from dprelease.estimators.moments.gain import cautious_step, cautious_step_length
from dprelease.estimators.moments.public_columns import PublicSide, Vectors, clipped_to_feasible
from dprelease.estimators.moments.spectral_ridge import _denoised, _Ridges

FAILURE = 0.05
"""rho of the paper's bounds."""
EXPLAINED = 0.5
VARIANCES = np.geomspace(1e-2, 1, 5)
"""What the variance of a private outcome within [-1, 1] may be, equally likely."""
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Release:
    """What is published, and the public numbers beside it.

    Attributes:
        rows: n.
        xx: (d, d) X^T X, noisy unless features are public.
        xy: (d, l) noisy X^T Y.
        noise: of both.
        radius2: R^2.
        mean_square: (l,) most that an outcome's mean square may be: its own where outcomes are public, 1 elsewhere.
    """

    rows: int
    xx: Floats
    xy: Floats
    noise: Noise
    radius2: float
    mean_square: Floats

    @classmethod
    def draw(
        cls, sums: Sums, noise: Noise, radius2: float, random: np.random.Generator, *, public_outcomes: bool = False
    ) -> Release:
        """One release of exact sums."""
        xy = sums.xy + noise.association * random.normal(size=sums.xy.shape)
        mean_square = sums.square / sums.rows if public_outcomes else np.ones(len(sums.square))
        return cls(sums.rows, noise.add(sums.xx, random), xy, noise, radius2, mean_square)

    def ridged(self, reach: float = math.inf) -> Floats:
        """(d, l) weights by the paper's ridge.

        Args:
            reach: h of the projection, infinite without one.
        """
        (width, outcomes), noise = self.xy.shape, self.noise
        log = math.log(2 * width**2 / FAILURE)
        bound = 4 * noise.association * reach / outcomes * math.sqrt(math.log(2 / FAILURE))
        error = min(width * log * noise.association**2, bound)
        weight2 = EXPLAINED * width * float(self.mean_square.mean()) / self.radius2
        ridge = math.sqrt(width * log * noise.covariance**2 + error / weight2)
        return np.asarray(np.linalg.solve(self.xx + ridge * np.eye(width), self.xy), np.float64)

    def projected(self, outcomes: PublicSide, radius: float) -> Release:
        """The same with the association brought back to what |X|_F <= radius gives."""
        return replace(self, xy=project_jointly(outcomes, self.xy.T, radius).T)

    def associated(self, outcomes: PublicSide, bound: float) -> tuple[Release, Floats]:
        """The same with the association as evidence leaves it, and (l,) the variance that remains in its entries.

        Args:
            outcomes: public.
            bound: of every |x_c|.
        """
        seen, width = outcomes.right.T @ self.xy.T, len(self.xx)
        spread: Floats = np.clip(np.diag(self.xx) / self.rows, 1e-3 * self.radius2 / width, bound**2)[None]
        noise = np.full(width, self.noise.association)
        posterior_mean, posterior_variance = Vectors.of(outcomes.singular, seen, noise, spread, self.rows).posterior()
        back = outcomes.right * outcomes.singular
        found: Floats = back @ clipped_to_feasible(
            outcomes, seen, posterior_mean, np.full(width, math.sqrt(self.rows) * bound)
        )
        return replace(self, xy=found.T), (back**2 @ posterior_variance).mean(axis=1)

    def beside_features(self) -> Floats:
        """(d, l) weights by evidence; features are public."""
        side, outcomes = PublicSide.of_gram(self.xx), self.xy.shape[1]
        noise, spread = np.full(outcomes, self.noise.association), np.tile(VARIANCES[:, None], outcomes)
        evidence = Vectors.of(side.singular, side.right.T @ self.xy, noise, spread, self.rows)
        return _beside_features(side, side, evidence)

    def posterior(self, left: Floats | None = None) -> Floats:
        """(d, l) weights by our ridge.

        Args:
            left: (l,) variance of an entry of X^T Y if it is not the noise's.
        """
        rows, outcomes = self.rows, self.xy.shape[1]
        s2 = max(self.noise.covariance / rows, _TINY) ** 2
        r2 = np.full(outcomes, self.noise.association**2) if left is None else left
        xi, vectors = _denoised(self.xx / rows, s2)
        ridges = _Ridges(xi, vectors.T @ self.xy / rows, s2, np.maximum(r2 / rows**2, _TINY**2), self.mean_square)
        kept, posterior_variance, _ = ridges.posterior(shares(ridges.explained()))
        turned = kept * ridges.scores
        square, of_s = xi @ turned**2, 2 * s2 * (turned**2).sum(axis=0) ** 2
        found: Floats = vectors @ (cautious_step_length(square, square, posterior_variance, of_s) * turned)
        return found


def _beside_features(side: PublicSide, gained: PublicSide, evidence: Vectors) -> Floats:
    """(d, l) weights, as `on_public_features` has them where no constant is regressed out.

    Args:
        side: X = U S V^T without U.
        gained: the gains of t = U^T Y in what is seen, and V.
        evidence: of t.
    """
    posterior_mean, posterior_variance = evidence.posterior(shares(evidence.explained()))
    t = clipped_to_feasible(
        gained, evidence.seen, posterior_mean, np.full(evidence.seen.shape[1], math.sqrt(evidence.rows))
    )
    alpha = cautious_step(t, posterior_mean, posterior_variance)
    return side.right @ (alpha * t / side.singular[:, None])


@dataclass(frozen=True, eq=False)
class _EqualGains(Vectors):
    """Vectors of t seen with gains of 1, whose prior has the spectrum of X.

    Attributes:
        spectrum: (r,) singular values of X.
    """

    spectrum: Floats

    def _shapes(self) -> Floats:
        return Vectors(self.spectrum, self.seen, self.noise, self.spread, self.rows)._shapes()


def by_leverage(sums: Sums, noise: float, random: np.random.Generator) -> Floats:
    """(d, l) weights of one release of Q^T Y, X = Q S V^T public, by evidence.

    One patient moves Q^T Y by 2 S sqrt(h) at most, h the largest squared norm of a row of Q. No release of the library is of
    this kind.

    Args:
        sums: exact sums.
        noise: standard deviation of an entry.
        random: of the noise.
    """
    side = PublicSide.of_gram(sums.xx)
    exact = side.right.T @ sums.xy / side.singular[:, None]
    seen, (width, outcomes) = exact + noise * random.normal(size=exact.shape), exact.shape
    gained, spread = PublicSide(np.ones(width), side.right), np.tile(VARIANCES[:, None], outcomes)
    evidence = _EqualGains(gained.singular, seen, np.full(outcomes, noise), spread, sums.rows, side.singular)
    return _beside_features(side, gained, evidence)


def naive(sums: Sums, noise: Noise, radius2: float, random: np.random.Generator) -> Floats:
    """(d, l) weights of every outcome from a covariance and an association of its own, by the paper's ridge.

    Args:
        sums: of the outcomes looked at.
        noise: of one outcome's release.
        radius2: R^2.
        random: of the noise.
    """
    found = np.empty_like(sums.xy)
    for place in range(sums.xy.shape[1]):
        one = replace(sums, xy=sums.xy[:, [place]], square=sums.square[[place]])
        found[:, place] = Release.draw(one, noise, radius2, random).ridged()[:, 0]
    return found
