"""Levels of categories so rare that noise hides how they vary: they count with the reference level.

The indicator of a level that nobody has is 0, and the indicators of all levels but a reference that nobody has add up to 1.
Noise leaves neither so, and then no coefficient of the fit is known (`identifiability`), although those of all other features are
what they would be without the level. The same is nearly so of a level that hardly anybody has: counted with the reference, few
patients move.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dprelease.estimators.design import Design
from dprelease.mechanisms.noisy_rows.released import NoisyRows
from dprelease.release.release import Release

HIDDEN = 3.0
"""Standard deviations of its noise up to which a share of patients is taken to be hidden."""
MOST = 0.1
"""Share of the patients that a level reaches at most, two standard deviations of noise above what is seen."""

_LEAST = 1e-12

Levels = tuple[str, ...]


def sparse_levels(release: Release, names: Design) -> Iterator[dict[str, Levels]]:
    """Features to count with the reference level of their category, and the values that are its reference, in steps.

    First all rare levels whose share noise hides, then one more after another, the next in standard deviations of its
    noise. If the reference itself is rare, the commonest level takes its place.

    Args:
        release: a verified release.
        names: the features of a fit with an intercept.
    """
    columns = (release.column(name) for name in names.features)
    shares: dict[Levels, tuple[float, float]] = {}
    groups: list[tuple[Levels, list[Levels]]] = []
    for column in dict.fromkeys(columns):
        reference = tuple(name for name in column.released if name not in names.features)
        own: list[Levels] = [(name,) for name in column.released if name in names.features]
        if reference:
            groups.append((reference, own))
            shares |= {level: _share(release, level) for level in (reference, *own)}
    seen = {level: share / max(sd, _LEAST) for level, (share, sd) in shares.items() if share + 2 * sd <= MOST}
    ordered = sorted(seen, key=lambda level: seen[level])
    for count in range(sum(each <= HIDDEN for each in seen.values()), len(ordered) + 1):
        rare, merged = set(ordered[:count]), dict[str, Levels]()
        for reference, own in groups:
            replaced = max(own, key=lambda level: shares[level]) if reference in rare else ()
            merged |= {level[0]: reference for level in own if level in rare or level == replaced}
        yield merged


def _share(release: Release, names: Levels) -> tuple[float, float]:
    """(released share of the patients who have one of these values, standard deviation of its noise)."""
    view = release.regressable
    if isinstance(view, NoisyRows):
        places = [view.names.index(name) for name in names]
        means, noise_sd = view.means()
        return float(means[places].sum()), float(np.hypot.reduce(noise_sd[places]))
    found = [view.lookup(name) for name in names]
    index = [place for place, *_ in found]
    midpoint, half_width = (np.array([each[part] for each in found]) for part in (1, 2))
    share = midpoint + half_width * view.between([0], index)[0] / view.rows
    noise_sd = half_width * view.noise_between([0], index)[0] / view.rows
    return float(share.sum()), float(np.hypot.reduce(noise_sd))
