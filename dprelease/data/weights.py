"""Weights of columns in releases of rows: a column of weight w has w times less noise than one of weight 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from dprelease.data.columns import Column
from dprelease.errors import InvalidInput
from dprelease.one_line import listed

LARGEST_WEIGHT = 16
"""Largest weight of a column: its noise is then 16 times smaller than that of a column of weight 1."""


def weights_of(columns: tuple[Column, ...], chosen: Mapping[str, int]) -> tuple[int, ...]:
    """The weight of each column, as a spec has them: none where all are 1.

    Args:
        columns: of one party.
        chosen: name to weight, of any party's columns; 1 where nothing is said.
    """
    weights = tuple(chosen.get(column.name, 1) for column in columns)
    return weights if set(weights) - {1} else ()


def check_weights(columns: tuple[Column, ...], chosen: Mapping[str, int]) -> None:
    """Refuse weights that no release could have.

    Args:
        columns: of all parties.
        chosen: name to weight.

    Raises:
        InvalidInput: a name of no column or of a public one, or a weight outside 1 to `LARGEST_WEIGHT`.
    """
    known = {column.name: column for column in columns}
    for name, weight in chosen.items():
        if name not in known:
            raise InvalidInput(f"no such column to weigh: {name}; there are {listed(known)}")
        if known[name].public and weight != 1:
            raise InvalidInput(f"{name} is public and gets no noise; leave out its weight")
        if not 1 <= weight <= LARGEST_WEIGHT:
            raise InvalidInput(f"the weight of {name} must lie between 1 and {LARGEST_WEIGHT}, not {weight}")


def private_weights(columns: tuple[Column, ...], weights: Sequence[int]) -> npt.NDArray[np.int32]:
    """(a,) weight of each released private column; `weights` as of `squared_sensitivity`."""
    pairs = zip(columns, weights or [1] * len(columns), strict=True)
    return np.array([weight for column, weight in pairs if not column.public for _ in column.released], np.int32)
