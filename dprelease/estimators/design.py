"""Columns of a fit: released ones with the units they are in, and those of a table that a caller holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.one_line import listed
from dprelease.release.release import Release


@dataclass(frozen=True)
class Design:
    """Released columns of a fit with their units: value = midpoint + half_width * scaled.

    Attributes:
        targets: l released names.
        features: d released names.
        target_index: positions of the targets among the released columns; for moments, in the Gram matrix.
        feature_index: positions of the features.
        target_midpoint: (l,) original units.
        target_half_width: (l,) original units; negative for the ``other`` of a binary coded +-1.
        feature_midpoint: (d,) original units.
        feature_half_width: (d,) original units.
        lower: (l,) lower end of each target's scaled range: -1, or 0 for a level of a category coded 0 or 1.
        feature_lower: (d,) the same of each feature.
        feature_ends: (2, d) ends of the ranges that numbers were released in, original units; infinite where it was the public
            bounds, or for an indicator.
        target_ends: (2, l) ends of the targets' public bounds, original units.
    """

    targets: tuple[str, ...]
    features: tuple[str, ...]
    target_index: list[int]
    feature_index: list[int]
    target_midpoint: Floats
    target_half_width: Floats
    feature_midpoint: Floats
    feature_half_width: Floats
    lower: Floats
    feature_lower: Floats
    feature_ends: Floats
    target_ends: Floats

    def original(self, scaled: Floats) -> Floats:
        """Values of the targets, (l,), from scaled to original units."""
        return self.target_midpoint + self.target_half_width * scaled

    def range(self) -> tuple[Floats, Floats]:
        """(lower, upper) ends of the targets' ranges within the public bounds, original units, each (l,)."""
        ends = self.original(self.lower), self.original(np.ones_like(self.lower))
        return np.maximum(np.minimum(*ends), self.target_ends[0]), np.minimum(np.maximum(*ends), self.target_ends[1])

    def original_model(self, weights: Floats, offsets: Floats) -> tuple[Floats, Floats]:
        """(coef (l, d), intercept (l,)) in original units from scaled weights (d, l) and offsets (l,)."""
        coef = weights.T * self.target_half_width[:, None] / self.feature_half_width
        return coef, self.original(offsets) - coef @ self.feature_midpoint


def check_lists(*given: Sequence[str] | None) -> None:
    """Refuse text where a list of names is meant.

    Raises:
        InvalidInput: one is text.
    """
    for each in given:
        if isinstance(each, str):
            raise InvalidInput(f"give names as a list: [{each!r}] instead of {each!r}")


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
    check_lists(targets, features)
    columns = [column for part in release.spec.parties for column in part.columns]
    owner = {released: column for column in columns for released in column.released}
    y = release.expand(tuple(targets), reference=False)
    if not y:
        raise InvalidInput(f"name at least one target out of {listed(release.spec.released)}")
    own = {owner[name].name for name in y}
    outcome_only = set(release.spec.outcomes)
    if features is None:
        features = [column.name for column in columns if column.name not in own | outcome_only]
    x = release.expand(tuple(features), reference=True)
    unusable = [name for name in x if owner[name].name in outcome_only]
    if unusable:
        raise InvalidInput(
            f"{listed(unusable)} cannot be a feature: it is an outcome of this release, and products of two outcomes are not "
            f"released; features are {listed(column.name for column in columns if column.name not in outcome_only)}"
        )
    clash = [name for name in x if owner[name].name in own]
    if clash:
        raise InvalidInput(f"a target's own column cannot be a feature: leave out {listed(clash)}")
    if not x:
        raise InvalidInput("no feature is left to fit on; name at least one column beside the targets'")
    view = release.regressable
    y_index, y_midpoint, y_half_width = zip(*map(view.lookup, y), strict=True)
    x_index, x_midpoint, x_half_width = zip(*map(view.lookup, x), strict=True)
    ends = dict.fromkeys(x, (-np.inf, np.inf)) | {name: column.ends for name, column in release.ranged.items()}
    return Design(
        targets=y,
        features=x,
        target_index=list(y_index),
        feature_index=list(x_index),
        target_midpoint=np.array(y_midpoint),
        target_half_width=np.array(y_half_width),
        feature_midpoint=np.array(x_midpoint),
        feature_half_width=np.array(x_half_width),
        lower=view.lower[list(y_index)],
        feature_lower=view.lower[list(x_index)],
        feature_ends=np.array([ends[name] for name in x]).T,
        target_ends=np.array([release.column(name).ends for name in y]).T,
    )


LARGEST = 1e50
"""Cells to predict from that are larger have no intervals: fourth powers of them are beyond a double."""
Rows = npt.ArrayLike | Mapping[str, npt.ArrayLike]
"""A table that a caller holds: a data frame, a mapping of columns, or an array."""


def design_matrix(table: Rows, names: Sequence[str], ends: Floats | None = None) -> Floats:
    """The features of a table in a model's order, (rows, len(names)).

    Args:
        table: as of `in_order`; an array has its columns in the model's order already.
        names: of the model.
        ends: (2, len(names)) cells beyond them are taken for them.

    Raises:
        InvalidInput: as `in_order` does; or the shape is wrong, or a cell is not a finite number or beyond `LARGEST`.
    """
    rows = in_order(table, names, "X")
    if rows.ndim != 2 or rows.shape[1] != len(names):
        raise InvalidInput(f"X must have {len(names)} columns, in this order: {', '.join(names)}")
    wrong = [name for name, column in zip(names, rows.T, strict=True) if not np.isfinite(column).all()]
    if wrong:
        raise InvalidInput(f"X has missing or infinite cells in {listed(wrong)}; fill them or leave the rows out")
    if ends is not None:
        rows = np.clip(rows, *ends)
    large = [name for name, column in zip(names, rows.T, strict=True) if (np.abs(column) > LARGEST).any()]
    if large:
        raise InvalidInput(f"X has cells beyond {LARGEST:g} in {listed(large)}, which leave no number for an interval")
    return rows


def in_order(table: Any, names: Sequence[str], what: str) -> Floats:
    """The numbers of a table, columns in the order of `names` where they are named, and as they stand where not.

    Names are the keys of a mapping, and `columns` of whatever has them, as data frames do. A frame whose columns have numbers
    for names counts as an array, as in scikit-learn.

    Raises:
        InvalidInput: a name is missing, unknown or there twice, columns differ in length, or a cell is no number.
    """
    given = list(table if isinstance(table, Mapping) else getattr(table, "columns", ()))
    if not isinstance(table, Mapping) and not any(isinstance(name, str) for name in given):
        return _numbers(table, what)
    absent = [name for name in names if name not in given]
    unknown = [str(name) for name in given if name not in names]
    doubled = [name for name in names if given.count(name) > 1]
    for found, trouble in ((absent, "lacks"), (unknown, "has unknown"), (doubled, "has more than one of")):
        if found:
            raise InvalidInput(f"{what} {trouble} columns {listed(found)}; the model has {listed(names)}")
    columns = [_numbers(table[name], f"column {name} of {what}") for name in names]
    if any(column.ndim != 1 or len(column) != len(columns[0]) for column in columns):
        raise InvalidInput(f"the columns of {what} must be equally long lists of numbers")
    return np.column_stack(columns)


def _numbers(cells: Any, what: str) -> Floats:
    try:
        return np.asarray(cells, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{what} must be numbers, all rows equally long") from None
