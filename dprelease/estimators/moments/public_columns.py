"""Methods `public_features` and `projected` on joint moments: exact where columns are public, projected where they bound.

Let P be public columns and z a private one, of which P^T z is seen with noise of variance sigma^2 in every entry. With the
means m of P known exactly, the constant is regressed out, which leaves noise of covariance sigma^2 Omega, Omega = I + m m^T =
L L^T. In whitened coordinates L^-1 P_c^T = V S U^T, and

    g = V^T L^-1 (P^T z - m sum z) = S t + noise of variance sigma^2,   t = U^T z.                                       (1)

The estimate of t is its posterior mean under an empirical-Bayes prior (`empirical_bayes.Evidence`). Rows within their bounds have
|t| <= sqrt(n) half-width. So no coordinate of the estimate is further from 0 than that of the projection onto this ball
(`projection`, `empirical_bayes.within`), whose multiplier is the least ridge.

Features public (label privacy): P are the features and z an outcome. The weights are L^-T V S^-1 t, and the model that takes t'
for t lowers the squared error on the private rows by 2 t.t' - |t'|^2, so t is all there is to guess. How far it goes from the
constant predictor is decided as in `risk`. One factorisation for all outcomes: O(d^3 + l d^2).

Outcomes public, features private: the association of every private column with all public ones together is L V S t + m sum z,
with much less noise once public columns are many; noise is spread evenly over all directions, what bounded rows can give is not.
On these moments `spectral` fits as on others. Method `posterior` needs no such help: holding to the public entries, every draw is
positive semidefinite and within bounds, which is the same body and more. Nor is there any for a private
outcome beside private features: its association would be shrunken here and once more by the fit.

If outcomes are apart the public ones, Y, bound the association with the private features Z: it is projected onto {Y^T Z : |z_c|
<= sqrt(n)} by the singular value decomposition of Y, O(n l min(n, l)) for l public outcomes and O(n l d) for d private features
(docs/guarantees.md 16). A spectral ridge then serves all outcomes by one factorisation of the features' covariance.

Source: PRIMO (2023), Algorithms 1 to 3; docs/methods.md, "Fits on joint moments", for why a plain inverse will not do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from dprelease.arrays import Floats
from dprelease.estimators.moments.closed_form_fit import Slopes, beside_constant
from dprelease.estimators.moments.empirical_bayes import EXPLAINED, Evidence, within
from dprelease.estimators.moments.marginals import Marginals
from dprelease.estimators.moments.pooling import pooled
from dprelease.estimators.moments.projection import PublicSide
from dprelease.estimators.moments.risk import ALPHAS, CAUTIOUS, furthest
from dprelease.estimators.moments.spectral_ridge import determined
from dprelease.estimators.moments.unbiased_gain import Problem
from dprelease.estimators.normal_equations import NormalEquations
from dprelease.estimators.quality import ScaledFit
from dprelease.mechanisms.moments.released import Moments, NoisyMoments
from dprelease.mechanisms.moments.released_outcomes import OutcomeMoments


def fit_public_features(moments: Moments, features: list[int], targets: list[int], *, intercept: bool) -> ScaledFit:
    """Fit all targets on the same public features; together they give what they give one by one.

    Arguments as of `choice.fit_moments`.

    Raises:
        InvalidInput: features that determine each other, as all levels of a category and an intercept do.
    """
    layout, rows = moments.layout, moments.rows
    wanted, places = np.unique([*targets, *np.flatnonzero(layout.outcome & ~layout.public)], return_inverse=True)
    places = places[: len(targets)]
    alone = Marginals.of(moments, wanted)
    outcomes = alone.take(places)
    whitened = _Whitened.of(moments, features, wanted.tolist(), intercept=intercept)
    side, variances = whitened.side, np.array([alone.modest, alone.variance] if intercept else [alone.square])
    if not side.full_rank:
        raise determined(len(features))
    evidence = Evidence.of(side.singular, whitened.seen, whitened.noise_sd, variances, rows)
    law = pooled(evidence, len(EXPLAINED), layout.outcome[wanted] & ~layout.public[wanted])
    likely, doubt = evidence.take(places).believed(law[:, places])
    t = within(side, whitened.seen[:, places], likely, whitened.radius[places])
    along, square, unsure = (t * likely).sum(axis=0), (t**2).sum(axis=0), (t**2 * doubt).sum(axis=0)
    steps = ALPHAS[:, None]
    quantile = 2 * steps * (along + float(ndtri(CAUTIOUS)) * np.sqrt(unsure)) - steps**2 * square
    alpha = np.where(square > 0, furthest(quantile), 0.0)
    # A posterior mean moves with what is seen by its variance over that of the noise; t is S^-1 times what is seen.
    noise = whitened.noise_sd[places]
    rate = rows * np.divide(doubt, noise**2, out=side.singular[:, None] ** -2.0 + np.zeros_like(doubt), where=noise > 0)
    exact = np.zeros(len(alpha))
    slopes = Slopes(whitened.across, alpha * t / side.singular[:, None], alpha * rate, exact, whitened.centre)
    curved = np.linalg.eigvalsh(whitened.moments)
    problem = Problem(moments, moments, features, targets)
    return beside_constant(problem, outcomes, slopes, alpha, (curved[0], curved[-1]), intercept=intercept)


def associated(moments: NoisyMoments, *, intercept: bool) -> NoisyMoments:
    """The same with every private column's association with the public ones as it is believed, and its remaining noise.

    Args:
        moments: as released.
        intercept: whether it is for a fit with one, which takes the means' noise into account by itself.
    """
    public = np.flatnonzero(moments.layout.public)[1:]
    private = np.flatnonzero(~moments.layout.public)
    if not len(private):
        return moments
    rows, alone = moments.rows, Marginals.of(moments, private)
    whitened = _Whitened.of(moments, list(public), list(private), intercept=True)
    variances = np.array([alone.modest, alone.variance])
    singular, noise_sd = whitened.side.singular, moments.noise_sd[0, private]
    likely, doubt = Evidence.of(singular, whitened.seen, noise_sd, variances, rows).believed()
    back = whitened.root @ whitened.side.right * whitened.side.singular
    association = back @ within(whitened.side, whitened.seen, likely, whitened.radius)
    association += rows * np.outer(whitened.centre, alone.mean)
    left = back**2 @ doubt
    if not intercept:
        left += rows**2 * np.outer(whitened.centre**2, alone.mean_sd**2)
    gram, sd = moments.gram.copy(), moments.noise_sd.copy()
    for matrix, block in ((gram, association), (sd, np.sqrt(left))):
        matrix[np.ix_(public, private)] = block
        matrix[np.ix_(private, public)] = block.T
    return replace(moments, gram=gram, noise_sd=sd)


def projected(moments: OutcomeMoments, public: Floats) -> OutcomeMoments:
    """The same with the association of private features with public outcomes as it is believed, and its remaining noise.

    Args:
        moments: as released.
        public: (n, a) the public variables, in scaled units, in their order.
    """
    layout = moments.layout
    private, outcomes = np.flatnonzero(~layout.public & ~layout.outcome), np.flatnonzero(layout.public & layout.outcome)
    side = PublicSide.of_rows(public[:, layout.outcome[layout.public][1:]])
    noise_sd = moments.noise_between(outcomes, private)[0]
    seen = side.right.T @ moments.between(outcomes, private)
    spread = Marginals.of(moments, private).square[None]
    likely, doubt = Evidence.of(side.singular, seen, noise_sd, spread, moments.rows).believed()
    back = side.right * side.singular
    association = back @ within(side, seen, likely, np.full(len(private), np.sqrt(moments.rows)))
    across, across_sd = moments.across.copy(), moments.across_sd.copy()
    rows = layout.feature_place[private]
    across[np.ix_(rows, outcomes)] = association.T
    across_sd[np.ix_(rows, outcomes)] = np.sqrt(back**2 @ doubt).T
    return replace(moments, across=across, across_sd=across_sd)


@dataclass(frozen=True, eq=False)
class _Whitened:
    """Formula (1) for a public and l private columns.

    Attributes:
        moments: (a, a) of the public columns about `centre`, per patient.
        centre: (a,) their means; 0 without an intercept.
        root: (a, a) L.
        side: S and V.
        seen: (r, l) g.
        noise_sd: (l,) of g.
        radius: (l,) bounds of |t|.
    """

    moments: Floats
    centre: Floats
    root: Floats
    side: PublicSide
    seen: Floats
    noise_sd: Floats
    radius: Floats

    @classmethod
    def of(cls, moments: Moments, public: list[int], private: list[int], *, intercept: bool) -> _Whitened:
        rows = moments.rows
        equations, centre, _ = NormalEquations.of_released(moments, public, private, intercept=intercept)
        root = np.linalg.cholesky(np.eye(len(public)) + np.outer(centre, centre))
        inverse = np.linalg.inv(root)
        uncentred = float(moments.own(public).max())
        side = PublicSide.of_gram(rows * inverse @ equations.xx @ inverse.T, uncentred)
        return cls(
            moments=equations.xx,
            centre=centre,
            root=np.asarray(root, np.float64),
            side=side,
            seen=side.right.T @ (inverse @ (rows * equations.xy)),
            noise_sd=moments.noise_between([0], private)[0],
            radius=_radius(moments, private, intercept=intercept),
        )

    @property
    def across(self) -> Floats:
        """L^-T V, (a, r)."""
        return np.asarray(np.linalg.solve(self.root.T, self.side.right), np.float64)


def _radius(moments: Moments, private: list[int], *, intercept: bool) -> Floats:
    """(l,) bounds of |t|: sqrt(n) half-widths."""
    halves = np.where(moments.layout.level[private], 0.5 if intercept else 1.0, 1.0)
    bounds: Floats = np.sqrt(moments.rows) * halves
    return bounds
