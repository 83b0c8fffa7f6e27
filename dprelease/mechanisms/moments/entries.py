"""The entries of a Gram matrix that joint moments release: which columns are coded how, and which products get noise.

The Gram matrix is that of x = (1, z): the constant, coded as the grid unit G so that its sums do not drown in noise
(docs/guarantees.md 11), and p coded columns z, here called variables. A column becomes

    number                        one variable in [-G, G]
    category of two values        one variable, +G for the first and -G for the last (a binary)
    category of more values       a 0/G variable for every one

Entries between two public variables, of which the constant is one, are not released: whoever has the public columns computes
them. If some columns are named as outcomes, products of two of them are not released either, but for the squares of
numbers: what is left is the covariance of the features, which all regressions share, and its association with the outcomes.

Source: docs/guarantees.md 11, 15 and 16; PRIMO (2023), Algorithm 1. Bytes in docs/format.md 14.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Integers
from dprelease.data.column import Variable
from dprelease.data.columns import Column, released_names


def variables(columns: tuple[Column, ...]) -> tuple[Variable, ...]:
    """The variables that declared columns become, in order."""
    return tuple(variable for position, column in enumerate(columns) for variable in column.variables(position))


def code(codes: npt.NDArray[np.int32], columns: tuple[Column, ...]) -> npt.NDArray[np.int32]:
    """Variables from the codes of `BoundedRows`: (n, d) to (n, variables), both int32 on the grid.

    Only binaries differ: their one-hot pair becomes first - last, which is +G or -G.
    """
    found, at = variables(columns), {name: place for place, name in enumerate(released_names(columns))}
    coded: npt.NDArray[np.int32] = codes[:, [at[variable.name] for variable in found]]
    for place, variable in enumerate(found):
        for last, _, _ in variable.readings[1:]:
            coded[:, place] -= codes[:, at[last]]
    return np.ascontiguousarray(coded)


class EntryKind(IntEnum):
    """The kind of an entry; each has a noise scale of its own."""

    PRODUCT = 0
    """Entry of two different features, of which the constant is one."""
    SQUARE = 1
    """Entry of a feature that is a number: it takes less noise than a product."""
    ASSOCIATION = 2
    """Entry of a feature and an outcome."""
    OUTCOME_SQUARE = 3
    """Entry of an outcome that is a number."""


def by_kind(
    product: float, square: float, association: float = 0.0, outcome_square: float = 0.0
) -> dict[EntryKind, float]:
    """A noise scale for each kind of entry; 0 where there are no such entries."""
    return dict(zip(EntryKind, (product, square, association, outcome_square), strict=True))


@dataclass(frozen=True)
class Layout:
    """The entries of a (p+1) x (p+1) Gram matrix, index 0 being the constant.

    Attributes:
        columns: declarations of all parties, in the spec's order.
        outcomes: names of those that are outcomes only; none where every column may be either.
    """

    columns: tuple[Column, ...]
    outcomes: tuple[str, ...] = ()

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The p variables; entry i + 1 of x is variable i."""
        return variables(self.columns)

    @cached_property
    def _released(self) -> tuple[Integers, Integers, Integers]:
        features, outcomes = np.flatnonzero(~self.outcome), np.flatnonzero(self.outcome)
        within = np.triu_indices(len(features))
        across = np.meshgrid(features, outcomes, indexing="ij")
        pairs = np.array(
            [
                np.concatenate([features[within[0]], across[0].ravel(), outcomes]),
                np.concatenate([features[within[1]], across[1].ravel(), outcomes]),
            ]
        )
        pairs.sort(axis=0)
        row, column = pairs[:, np.lexsort(pairs[::-1])]
        owner = np.array([-1, *(variable.column for variable in self.variables)])
        same = owner[row] == owner[column]
        square = same & self.measured[row]
        # Within one declared column only a number's square is neither public nor derived.
        noisy = (~same | square) & ~(self.public[row] & self.public[column])
        kind = np.select(
            [square & self.outcome[column], square, self.outcome[row] | self.outcome[column]],
            [EntryKind.OUTCOME_SQUARE, EntryKind.SQUARE, EntryKind.ASSOCIATION],
            EntryKind.PRODUCT,
        )
        return row[noisy], column[noisy], kind[noisy]

    @cached_property
    def public(self) -> npt.NDArray[np.bool_]:
        """(p+1,) which entries of x are public: the constant, and the variables of public columns."""
        return np.array([True, *(variable.public for variable in self.variables)])

    @cached_property
    def outcome(self) -> npt.NDArray[np.bool_]:
        """(p+1,) which entries of x are outcomes only."""
        named = set(self.outcomes)
        of_column = [column.name in named for column in self.columns]
        return np.array([False, *(of_column[variable.column] for variable in self.variables)], np.bool_)

    @cached_property
    def measured(self) -> npt.NDArray[np.bool_]:
        """(p+1,) which entries of x are numbers."""
        return np.array([False, *(variable.measured for variable in self.variables)])

    @cached_property
    def level(self) -> npt.NDArray[np.bool_]:
        """(p+1,) which entries of x are levels of a category."""
        return np.array([False, *(variable.level for variable in self.variables)])

    @property
    def lower(self) -> npt.NDArray[np.float64]:
        """(p+1,) least scaled value of each entry of x: 0 of a level, -1 of others; the largest is 1."""
        return np.where(self.level, 0.0, -1.0)

    @cached_property
    def feature_place(self) -> Integers:
        """(p+1,) place of each entry of x among those that are no outcomes; meaningless for an outcome."""
        return np.cumsum(~self.outcome) - 1

    @cached_property
    def first_level(self) -> npt.NDArray[np.bool_]:
        """(p,) which variables are the first level of their category, which the others and the constant determine."""
        seen: set[int] = set()
        found = []
        for variable in self.variables:
            found.append(variable.level and variable.column not in seen)
            seen.add(variable.column)
        return np.array(found, np.bool_)

    @property
    def rows(self) -> Integers:
        """(E,) row of each noisy entry, upper triangle, row by row."""
        return self._released[0]

    @property
    def cols(self) -> Integers:
        """(E,) column of each noisy entry."""
        return self._released[1]

    @property
    def kinds(self) -> Integers:
        """(E,) the `EntryKind` of each noisy entry."""
        return self._released[2]

    @property
    def diagonal(self) -> npt.NDArray[np.bool_]:
        """(E,) whether an entry is the square of a feature that is a number, which takes less noise."""
        return np.equal(self._released[2], EntryKind.SQUARE)

    @property
    def entries(self) -> int:
        """E, the number of noisy entries: what every party's block has."""
        return len(self.rows)

    def matrix(
        self, values: npt.NDArray[np.floating[Any]], square: float, exact: npt.NDArray[np.floating[Any]] | float = 0.0
    ) -> npt.NDArray[np.float64]:
        """The symmetric (p+1, p+1) matrix from its E noisy entries, the public and the derived ones; no column is an outcome only.

        Args:
            values: (E,) noisy entries, any unit.
            square: n times the square of the constant in the same unit, which is also a binary's own entry.
            exact: (a+1, a+1) entries between public variables, the constant first.
        """
        size = len(self.variables) + 1
        matrix = np.zeros((size, size))
        matrix[np.ix_(self.public, self.public)] = exact
        matrix[self.rows, self.cols] = values
        matrix[self.cols, self.rows] = values
        matrix[0, 0] = square
        for index, variable in enumerate(self.variables, 1):
            if not variable.public and not variable.measured:
                # A level is 0 or G: its square is G times itself.
                matrix[index, index] = matrix[0, index] if variable.level else square
        return matrix
