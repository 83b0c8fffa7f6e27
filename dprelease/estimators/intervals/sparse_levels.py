"""Levels of categories so rare that noise hides how many patients have them: they count with the reference level.

The indicator of a level that nobody has is 0, and the indicators of all levels but a reference that nobody has add up to 1.
Noise leaves neither so, and then no coefficient of the fit is known (`identifiability`), although those of all other features are
what they would be without the level. The same is nearly so of a level that hardly anybody has: counted with the reference, few
patients move.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dprelease.data.columns import CategoricalColumn
from dprelease.estimators.design import Design
from dprelease.mechanisms.noisy_rows.released import NoisyRows
from dprelease.release.release import Release

HIDDEN = 3.0
"""Standard deviations of its noise up to which a share of patients is taken to be hidden."""
MOST = 0.1
"""Share of the patients that a level reaches at most, two standard deviations of noise above what is seen."""


def sparse_levels(release: Release, names: Design) -> dict[str, tuple[str, ...]]:
    """Features to count with the reference level of their category, and the values that are its reference.

    Where it is the reference that is rare, the first level that is not takes its place.

    Args:
        release: a verified release.
        names: the features of a fit with an intercept.
    """
    columns = (release.column(name) for name in names.features)
    merged: dict[str, tuple[str, ...]] = {}
    for column in dict.fromkeys(column for column in columns if isinstance(column, CategoricalColumn)):
        own = [name for name in column.released if name in names.features]
        reference = tuple(name for name in column.released if name not in own)
        apart = [name for name in own if not _is_sparse(release, (name,))]
        if reference and _is_sparse(release, reference):
            apart = apart[1:]
        merged |= {name: reference for name in own if name not in apart and reference}
    return merged


def _is_sparse(release: Release, names: Sequence[str]) -> bool:
    """Whether noise hides how many patients have one of these values, which are few."""
    shares = [_share(release, name) for name in names]
    share, noise_sd = sum(each[0] for each in shares), float(np.hypot.reduce([each[1] for each in shares]))
    return share <= HIDDEN * noise_sd and share + 2 * noise_sd <= MOST


def _share(release: Release, name: str) -> tuple[float, float]:
    """(released share of the patients who have a value, standard deviation of its noise)."""
    view = release.regressable
    if isinstance(view, NoisyRows):
        place = view.names.index(name)
        means, noise_sd = view.means()
        return float(means[place]), float(noise_sd[place])
    index, midpoint, half_width = view.lookup(name)
    mean, noise = view.between([0], [index])[0, 0], view.noise_between([0], [index])[0, 0]
    return midpoint + half_width * mean / view.rows, abs(half_width) * noise / view.rows
