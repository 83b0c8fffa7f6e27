"""Method `projected` where outcomes are apart (PRIMO, Algorithm 1): their public rows bound the association with private features.

This is feature privacy. The association of the private features Z with the public outcomes Y is projected onto
{Y^T Z : |z_c| <= sqrt(n)} and shrunken to its posterior mean (`empirical_bayes`). A spectral ridge then serves all outcomes by one
factorisation of the features' covariance, as where nothing is public.

The projection is by the singular value decomposition of Y, O(n l min(n, l)) for l public outcomes, and O(n l d) for d private
features; no (n d) x (d l) matrix is formed.

Source: PRIMO (2023), Algorithms 1 to 3; docs/guarantees.md 16.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dprelease.estimators.moments.empirical_bayes import Evidence, within
from dprelease.estimators.moments.marginals import Marginals
from dprelease.estimators.moments.projection import PublicSide
from dprelease.mechanisms.moments.released_outcomes import OutcomeMoments
from dprelease.release.release import Floats


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
