"""Method `shrinkage` where outcomes are apart (PRIMO, Algorithm 1): one covariance, its association with all outcomes.

Which way depends on what is public, as in `_public_side`:

    features public      label privacy: `on_public_features`, the covariance exact, the association projected
    outcomes public      feature privacy: the association of the private features Z with the public outcomes Y is projected onto
                         {Y^T Z : |z_c| <= sqrt(n)} and believed as far as it bears itself out (`_evidence`); then as below
    nothing public       `_shared_block`: one factorisation of the features' covariance for all outcomes

The projection is by the singular value decomposition of Y, O(n l min(n, l)) for l public outcomes, and O(n l d) for d private
features; no (n d) x (d l) matrix is formed. A feature may be a target itself; a fit whose targets all are has the covariance of
the features and nothing else to go by, as of any joint moments.

Source: PRIMO (2023), Algorithms 1 to 3; docs/guarantees.md 16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dprelease.estimators.moments.empirical_bayes import Evidence, within
from dprelease.estimators.moments.marginals import Marginals
from dprelease.estimators.moments.posterior_fit import shrunken
from dprelease.estimators.moments.projection import PublicSide
from dprelease.estimators.moments.public_columns import beside_public, on_public_features
from dprelease.estimators.moments.spectral_ridge import shared_block
from dprelease.estimators.scaled_fit import Found
from dprelease.mechanisms.moments.released_outcomes import ApartMoments
from dprelease.release.release import Floats


def on_apart(
    moments: ApartMoments, features: Sequence[int], targets: Sequence[int], public: Floats, *, intercept: bool
) -> Found:
    """Fit all targets on the same features.

    Args:
        moments: as released.
        features: d indices of variables that are no outcomes, distinct.
        targets: l indices.
        public: (n, a) the public variables, in scaled units, in their order.
        intercept: whether to fit one.

    Raises:
        InvalidInput: features that determine each other, as all levels of a category and an intercept do.
    """
    layout, x, y = moments.layout, list(features), list(targets)
    if not layout.outcome[y].any():
        place = layout.feature_place
        alone = moments.features
        fitted = beside_public if alone.layout.public[1:].any() else shrunken
        return fitted(alone, place[x].tolist(), place[y].tolist(), intercept=intercept)
    if layout.public[x].all():
        return on_public_features(moments, x, y, intercept=intercept)
    if (layout.public & layout.outcome).any():
        moments = projected(moments, public)
    return shared_block(moments, x, y, intercept=intercept)


def projected(moments: ApartMoments, public: Floats) -> ApartMoments:
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
