"""Which released columns take part in a fit, and the units they are in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dprelease.columns import CategoricalColumn
from dprelease.errors import InvalidInput
from dprelease.release import Floats, Release


@dataclass(frozen=True)
class Design:
    """Released columns of a fit with their units: value = midpoint + half_width * scaled.

    Attributes:
        targets: l released names.
        features: d released names.
        target_index: positions of the targets among the released columns.
        feature_index: positions of the features.
        midpoint: (p,) of all released columns, original units.
        half_width: (p,) of all released columns, original units.
        lower: (l,) lower end of each target's public range, scaled units: -1, or 0 for a level of a category.
    """

    targets: tuple[str, ...]
    features: tuple[str, ...]
    target_index: list[int]
    feature_index: list[int]
    midpoint: Floats
    half_width: Floats
    lower: Floats

    def original(self, scaled: Floats) -> Floats:
        """Values of the targets, (l,), from scaled to original units."""
        return self.midpoint[self.target_index] + self.half_width[self.target_index] * scaled

    def original_model(self, weights: Floats, offsets: Floats) -> tuple[Floats, Floats]:
        """(coef (l, d), intercept (l,)) in original units from scaled weights (d, l) and offsets (l,)."""
        x, y = self.feature_index, self.target_index
        coef = weights.T * self.half_width[y][:, None] / self.half_width[x]
        return coef, self.original(offsets) - coef @ self.midpoint[x]


def design(release: Release, targets: Sequence[str], features: Sequence[str] | None) -> Design:
    """Resolve the names that a person asked for.

    Args:
        release: the release.
        targets: names of columns or released columns; a categorical column stands for all its levels.
        features: the same, a categorical column standing for its levels but the first; None for every column that has
            no target in it.

    Raises:
        InvalidInput: an unknown name, no target, no feature, or a feature out of a target's own column.
    """
    for given in (targets, features):
        if isinstance(given, str):
            raise InvalidInput(f"give names as a list: [{given!r}] instead of {given!r}")
    columns = [column for part in release.spec.parties for column in part.columns]
    owner = {released: column for column in columns for released in column.released}
    y = release.expand(tuple(targets), reference=False)
    if not y:
        raise InvalidInput(f"name at least one target out of {', '.join(release.spec.released)}")
    own = {owner[name].name for name in y}
    if features is None:
        features = [column.name for column in columns if column.name not in own]
    x = release.expand(tuple(features), reference=True)
    clash = [name for name in x if owner[name].name in own]
    if clash:
        raise InvalidInput(f"a target's own column cannot be a feature: leave out {', '.join(clash)}")
    if not x:
        raise InvalidInput("no feature is left to fit on; name at least one column beside the targets'")
    position = {name: index for index, name in enumerate(release.spec.released)}
    midpoint, half_width = release.original_units()
    return Design(
        targets=y,
        features=x,
        target_index=[position[name] for name in y],
        feature_index=[position[name] for name in x],
        midpoint=midpoint,
        half_width=half_width,
        lower=np.array([0.0 if isinstance(owner[name], CategoricalColumn) else -1.0 for name in y]),
    )
