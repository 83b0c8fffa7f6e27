"""The released numbers of a release as one table with names, in scaled units: rows, or the matrix of joint moments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dprelease.arrays import Floats
from dprelease.release.release import Release

CONSTANT = "(constant)"
"""Name of the column that is 1 for every patient."""

SQUARES = "(own square)"
"""Name of the row that has every column's sum of squares, with outcome-only columns."""


@dataclass(frozen=True)
class ReleasedTable:
    """Released numbers.

    Attributes:
        names: (p + 1,) of columns, the constant first.
        row_names: (r,) of rows; empty for a release of rows, which have none.
        values: (r, p + 1) in scaled units, noise included.
        noise_sd: standard deviation of their noise: (r, p + 1) of a matrix, (p + 1,) of rows.
    """

    names: tuple[str, ...]
    row_names: tuple[str, ...]
    values: Floats
    noise_sd: Floats


def entries(release: Release) -> ReleasedTable:
    """All numbers of a release of rows or of moments, as they were released.

    Raises:
        InvalidInput: the release has neither.
    """
    return _TABLES[release.regressable.kind](release)


def _rows(release: Release) -> ReleasedTable:
    scaled = release.scaled()
    values, noise_sd = np.column_stack([scaled.ones, scaled.values]), np.concatenate([[0.0], scaled.noise_sd])
    return ReleasedTable((CONSTANT, *scaled.names), (), values, noise_sd)


def _matrix(release: Release) -> ReleasedTable:
    moments = release.products
    names = (CONSTANT, *moments.names)
    every, features = range(len(names)), np.flatnonzero(~moments.layout.outcome)
    row_names = tuple(names[place] for place in features)
    values, noise_sd = moments.between(features, every), moments.noise_between(features, every)
    if len(features) < len(names):
        values, noise_sd = np.vstack([values, moments.own(every)]), np.vstack([noise_sd, moments.noise_own(every)])
        row_names = (*row_names, SQUARES)
    return ReleasedTable(names, row_names, values, noise_sd)


_TABLES = {"mixtures": _rows, "rows": _rows, "moments": _matrix}
"""Kind of a view to how its numbers stand in a table."""
