"""The kinds of columns that there are, and what follows for several declared columns.

A new kind is a file that answers the contract (`dprelease/data/column.py`) and its name in `Column`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, TypeVar, get_args

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dprelease.data.column import OTHER, DeclaredColumn, Name
from dprelease.data.kinds import CategoricalColumn, Number, NumericColumn, OrderedColumn
from dprelease.errors import InvalidInput
from dprelease.one_line import listed

__all__ = ["OTHER", "CategoricalColumn", "Column", "Name", "Number", "NumericColumn", "OrderedColumn"]
"""Names of columns that others import from here."""

Column = Annotated[NumericColumn | CategoricalColumn | OrderedColumn, Field(discriminator="kind")]
"""A declared column of any kind."""

KINDS: dict[str, type[DeclaredColumn]] = {
    each.model_fields["kind"].default: each for each in get_args(get_args(Column)[0])
}
"""Kind to its class."""

AnyColumn = TypeVar("AnyColumn", bound=DeclaredColumn)


def released_names(columns: tuple[Column, ...]) -> tuple[str, ...]:
    """Names of all released columns, in order; d_j of them."""
    return tuple(name for column in columns for name in column.released)


def private(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Columns that the guarantee covers, in order."""
    return tuple(column for column in columns if not column.public)


def public(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Columns that their owner declared public, in order."""
    return tuple(column for column in columns if column.public)


def is_public(columns: tuple[Column, ...]) -> npt.NDArray[np.bool_]:
    """(d_j,) whether each released column is public."""
    return np.array([column.public for column in columns for _ in column.released], bool)


def numbers(columns: tuple[Column, ...]) -> tuple[Number, ...]:
    """The private columns that become one number, in order."""
    return tuple(column for column in private(columns) if isinstance(column, Number))


def unbounded(columns: Iterable[AnyColumn]) -> tuple[AnyColumn, ...]:
    """Columns without known bounds, in order."""
    return tuple(column for column in columns if not column.bounded)


def needs_bounds(columns: tuple[Column, ...]) -> str | None:
    """Why columns cannot be released in their public bounds; None where they can."""
    names = listed(column.name for column in unbounded(columns))
    return (
        f"{names} has unknown bounds; ask for ranges = \"first\" with mechanism mixed, rows or moments, or for 'ranges' and then, "
        "in a stream too, for moments in them, or declare lower and upper from a codebook"
        if names
        else None
    )


def distinct_names(columns: tuple[Column, ...]) -> bool:
    """Says whether every name, of a column or of a released column, stands for one thing only."""
    names = [name for column in columns for name in {column.name, *column.released}]
    return len(set(names)) == len(names)


def squared_sensitivity(columns: tuple[Column, ...], weights: Sequence[int] = ()) -> int:
    """Delta_j^2 of one scaled row: the largest squared L2 change when one patient's private cells are replaced.

    The sum over columns is attained: a row may change every private column at once, each by its full contrast. Public
    columns do not change between neighbours.
    Derived in docs/guarantees.md 1 and 15.

    Args:
        columns: of one party.
        weights: what each column's codes are multiplied by; 1 if empty.
    """
    pairs = zip(columns, weights or [1] * len(columns), strict=True)
    return sum(weight**2 * column.contrast() for column, weight in pairs)


def integer_sensitivity(
    columns: tuple[Column, ...],
    rows_per_subject: int,
    grid_bits: int,
    weights: Sequence[int] = (),
    *,
    mixed: bool = True,
) -> int:
    """Squared sensitivity of a patient's integer rows, in squared grid units: what noise is calibrated to.

    Replacing a patient changes up to q = `rows_per_subject` rows, each by at most Delta_j. Rows released one by one change
    apart from each other, so squares add: q Delta_j^2. Mixing adds rows up, and all signs may agree: q^2 Delta_j^2.
    Source: docs/guarantees.md 1 and 2.

    Args:
        columns: of one party.
        rows_per_subject: q.
        grid_bits: b of the grid.
        weights: as of `squared_sensitivity`.
        mixed: whether rows are added up before noise is.
    """
    moved = rows_per_subject**2 if mixed else rows_per_subject
    return squared_sensitivity(columns, weights) * moved << (2 * grid_bits)


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
