"""One table as every method of `accuracy` sees it: clipped rows, their exact moments, and how a model's R^2 is counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.accuracy.tables import Table, scaled
from dprelease.arrays import Floats
from dprelease.data.columns import NumericColumn
from dprelease.mechanisms.moments.entries import Layout


@dataclass(frozen=True, eq=False)
class Coding:
    """The rows of a table in scaled units, clipped.

    Attributes:
        names: (p,) columns.
        redundant: those that others of their category determine: its first level.
        rows: (n, p).
        gram: (p+1, p+1) sums of (1, row) (1, row)^T.
    """

    names: tuple[str, ...]
    redundant: frozenset[str]
    rows: Floats
    gram: Floats

    @classmethod
    def of(cls, names: tuple[str, ...], redundant: frozenset[str], rows: Floats) -> Coding:
        """With the moments worked out."""
        whole = np.column_stack([np.ones(len(rows)), rows])
        return cls(names, redundant, rows, whole.T @ whole)


@dataclass(frozen=True, eq=False)
class Regression:
    """One outcome on all other columns. Moments are per patient, over (1, features).

    Attributes:
        index: of the outcome in the coding's Gram matrix.
        features: d indices of the others.
        gram: (d+1, d+1).
        cross: (d+1,) with the outcome, which is not clipped here.
        square: of the outcome.
    """

    index: int
    features: list[int]
    gram: Floats
    cross: Floats
    square: float

    def score(self, models: Floats) -> Floats:
        """(B,) R^2 on the private rows of (B, d+1) models (offset, weights); 0 is what the true mean would get."""
        errors = self.square - 2 * models @ self.cross + np.einsum("bi,ij,bj->b", models, self.gram, models)
        found: Floats = 1 - errors / (self.square - self.cross[0] ** 2)
        return found

    def best(self) -> float:
        """R^2 of least squares on the private rows."""
        model = np.asarray(np.linalg.lstsq(self.gram, self.cross, rcond=None)[0], np.float64)
        return float(self.score(model[None])[0])


@dataclass(frozen=True, eq=False)
class Problem:
    """A table in the scaled units that institutions would release it in.

    Attributes:
        table: where it comes from.
        layout: of the variables.
        variables: the coding of mechanism ``moments``: a category of one level is one +-1 column.
        released: the coding of mechanism ``mixed``: a 0/1 column for every level of a category and for ``other``.
        outcomes: numeric column to its (n,) scaled values, not clipped: what R^2 is counted on.
        clipped: part of the numeric cells that the public bounds moved.
    """

    table: Table
    layout: Layout
    variables: Coding
    released: Coding
    outcomes: dict[str, Floats]
    clipped: float

    @classmethod
    def of(cls, table: Table) -> Problem:
        """Read the table and bound it."""
        frame, columns = table.read(), table.columns
        raw = [scaled(column, frame[column.name]) for column in columns]
        bounded = [np.clip(values, -1, 1) for values in raw]
        coded = [
            values[:, :1] - values[:, 1:] if len(column.released) == 2 else values
            for values, column in zip(bounded, columns, strict=True)
        ]
        layout = Layout(columns)
        categories = [column for column in columns if not isinstance(column, NumericColumn)]
        first = frozenset(column.released[0] for column in categories)
        binary = frozenset(column.released[0] for column in categories if len(column.released) == 2)
        names = tuple(name for column in columns for name in column.released)
        outcomes = {
            column.name: values[:, 0]
            for column, values in zip(columns, raw, strict=True)
            if isinstance(column, NumericColumn)
        }
        moved = [np.mean(np.abs(values) > 1) for values in outcomes.values()]
        return cls(
            table=table,
            layout=layout,
            variables=Coding.of(tuple(each.name for each in layout.variables), first - binary, np.hstack(coded)),
            released=Coding.of(names, first, np.hstack(bounded)),
            outcomes=outcomes,
            clipped=float(np.mean(moved)),
        )

    @property
    def rows(self) -> int:
        """n."""
        return len(self.variables.rows)

    def regression(self, target: str, coding: Coding) -> Regression:
        """A numeric column on all others, without the redundant ones."""
        features = [
            index for index, name in enumerate(coding.names, 1) if name != target and name not in coding.redundant
        ]
        used = [0, *features]
        y = self.outcomes[target]
        sums = np.column_stack([np.ones(self.rows), coding.rows]).T @ y
        return Regression(
            index=coding.names.index(target) + 1,
            features=features,
            gram=coding.gram[np.ix_(used, used)] / self.rows,
            cross=sums[used] / self.rows,
            square=float(y @ y) / self.rows,
        )
