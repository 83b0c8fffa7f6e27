"""Evidence on the second moments S = (1/n) sum x x^T of a release's rows, x = (1, columns): draws, closed form, errors.

Fits, descriptions, exports and analyses are functions of it. Up to `WIDEST` variables all entries help to find each, and S is
drawn. In a wider release draws would take too long: the nearest matrix within bounds stands for them, or columns are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.estimators.evidence.marginals import Marginals
from dprelease.estimators.evidence.posterior import posterior
from dprelease.estimators.intervals.of_moments import dropped_places
from dprelease.mechanisms.moments.released import Moments, NoisyMoments

WIDEST = 64
"""Variables of which the moments are drawn all together; beyond, `spectral_ridge` does without draws."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Released moments, and what follows from them.

    Attributes:
        moments: as released.
    """

    moments: Moments

    @property
    def wide(self) -> bool:
        """Tells whether there are too many variables to draw their moments; without noise they are known, and never too many."""
        return len(self.moments.joint.names) > WIDEST and bool(self.moments.joint.noise_sd.any())

    def draws(self, outcome: int | None = None) -> Floats:
        """Draws of S, (T, p+1, p+1), as of `posterior`; where there are too many variables the one of `likely`.

        Args:
            outcome: index in the matrix of the variable whose regression on all others the prior is about; None for all alike.
        """
        return nearest(self.moments.joint)[None] if self.wide else posterior(self.moments.joint, outcome)

    def likely(self) -> Floats:
        """A matrix that rows within their bounds can have, close to the released one, (p+1, p+1).

        Positive semidefinite; means are within their ranges and variances within what their means allow. An indicator's own entry
        is what its mean says, which for the one level of a group that follows from the others, as for the zeros within it, holds
        nearly. Least squares on it are the slopes of method `shrinkage` before its last step. Without noise it is the released
        matrix itself.
        """
        found: Floats = self.draws().mean(axis=0)
        return found

    def alone(self, wanted: npt.NDArray[np.int64]) -> Marginals:
        """Variables by themselves, in closed form.

        Args:
            wanted: (q,) indices in the matrix.
        """
        return Marginals.of(self.moments, wanted)

    def unidentified(self, features: Sequence[int], *, intercept: bool) -> tuple[int, ...]:
        """Places of the features of which noise hides how they vary beside the others, as of `dropped_places`.

        Args:
            features: d indices in the matrix.
            intercept: whether one is fitted.
        """
        return dropped_places(self.moments, features, intercept=intercept)

    def narrowed(self, names: Collection[str]) -> Evidence:
        """The evidence on some declared columns alone, where there are too many to draw all.

        Raises:
            InvalidInput: even these are too many.
        """
        if not self.wide:
            return self
        moments, layout = self.moments.joint, self.moments.joint.layout
        kept = [place for place, each in enumerate(layout.variables, 1) if layout.columns[each.column].name in names]
        if len(kept) > WIDEST:
            raise InvalidInput(f"an analysis takes up to {WIDEST} variables, not {len(kept)}; name fewer columns")
        within = np.ix_([0, *kept], [0, *kept])
        narrow = replace(layout, columns=tuple(column for column in layout.columns if column.name in names))
        return Evidence(NoisyMoments(narrow, moments.gram[within], moments.noise_sd[within], moments.rows))


def nearest(moments: NoisyMoments) -> Floats:
    """(p+1, p+1) `Evidence.likely` without draws: released means, clipped, beside the nearest covariance within bounds."""
    lower = moments.layout.lower[1:]
    mean = np.clip(moments.gram[0, 1:] / moments.rows, lower, 1.0)
    covariance = moments.gram[1:, 1:] / moments.rows - np.outer(mean, mean)
    values, vectors = np.linalg.eigh(covariance)
    covariance = (vectors * np.maximum(values, 0.0)) @ vectors.T
    variance, most = np.diag(covariance), (mean - lower) * (1 - mean)
    wanted = np.where(moments.layout.measured[1:], np.minimum(variance, most), most)
    scale = np.sqrt(np.divide(wanted, variance, out=np.zeros_like(wanted), where=variance > 0))
    covariance = covariance * np.outer(scale, scale)
    covariance[np.diag_indices_from(covariance)] = wanted
    x = np.append(1.0, mean)
    matrix: Floats = np.outer(x, x)
    matrix[1:, 1:] += covariance
    return matrix
