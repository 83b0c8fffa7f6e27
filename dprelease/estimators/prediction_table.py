"""Design matrix of a table that a caller holds: columns are matched by name where they have names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.one_line import listed

Rows = npt.ArrayLike | Mapping[str, npt.ArrayLike]
"""A table that a caller holds: a data frame, a mapping of columns, or an array."""


def design_matrix(table: Rows, names: Sequence[str]) -> Floats:
    """The features of a table in a model's order, (rows, len(names)).

    Args:
        table: as of `in_order`; an array has its columns in the model's order already.
        names: of the model.

    Raises:
        InvalidInput: as `in_order` does; or the shape is wrong, or a cell is not a finite number.
    """
    rows = in_order(table, names, "X")
    if rows.ndim != 2 or rows.shape[1] != len(names):
        raise InvalidInput(f"X must have {len(names)} columns, in this order: {', '.join(names)}")
    wrong = [name for name, column in zip(names, rows.T, strict=True) if not np.isfinite(column).all()]
    if wrong:
        raise InvalidInput(f"X has missing or infinite cells in {listed(wrong)}; fill them or leave the rows out")
    return rows


def in_order(table: Any, names: Sequence[str], what: str) -> Floats:
    """The numbers of a table, columns in the order of `names` where they are named, and as they stand where not.

    Names are the keys of a mapping, and `columns` of whatever has them, as data frames do. A frame whose columns have numbers
    for names counts as an array, as in scikit-learn.

    Args:
        table: mapping, data frame or array.
        names: of the model.
        what: what a refusal calls the table.

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
    except (TypeError, ValueError):
        raise InvalidInput(f"{what} must be numbers, all rows equally long") from None
