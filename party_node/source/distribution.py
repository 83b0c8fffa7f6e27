"""Distribution of a column's cells against what is declared of it: counts for the local screen alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dprelease.data.decades import EDGES
from party_node.declarations.formulas import Source
from party_node.source.cells import Cells

BARS = 24
"""Cells of equal width between declared bounds."""


class Distribution(Protocol):
    """Counts of a column's cells, batch by batch."""

    def add(self, cells: Cells) -> None:
        """Count a batch's cells."""
        ...

    def to_json(self) -> dict[str, object]:
        """JSON-ready."""
        ...


@dataclass
class Histogram:
    """Counts of numbers in cells between the bounds, and beyond them.

    Attributes:
        edges: (m + 1,) ends of the cells; of a number with unknown bounds those of the decade scale.
        counts: (m,) numbers in each; the last one has its upper end.
        below: numbers below the lower bound.
        above: numbers above the upper bound.
    """

    edges: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64] = field(init=False)
    below: int = 0
    above: int = 0

    def __post_init__(self) -> None:
        self.counts = np.zeros(len(self.edges) - 1, np.int64)

    def add(self, cells: Cells) -> None:
        """Count a batch's numbers."""
        values = np.asarray(cells.values, np.float64)
        values = values[np.isfinite(values)]
        below, above = values < self.edges[0], values > self.edges[-1]
        self.below += int(below.sum())
        self.above += int(above.sum())
        self.counts += np.histogram(values[~(below | above)], self.edges)[0]

    def to_json(self) -> dict[str, object]:
        """Cells between the empty ones at either end."""
        first, last = self.occupied
        return {
            "edges": self.edges[first : last + 1].tolist(),
            "counts": self.counts[first:last].tolist(),
            "below": self.below,
            "above": self.above,
        }

    @property
    def occupied(self) -> tuple[int, int]:
        """The first cell that is not empty and the one behind the last; of declared bounds all cells count."""
        (found,) = np.nonzero(self.counts)
        if len(self.edges) != len(EDGES) or not len(found):
            return 0, len(self.counts)
        return int(found[0]), int(found[-1]) + 1


@dataclass
class Levels:
    """Counts of a category's levels.

    Attributes:
        counts: of each declared level, in the order of the declaration.
        undeclared: values that are no declared level.
    """

    counts: dict[str, int]
    undeclared: int = 0

    def add(self, cells: Cells) -> None:
        """Count a batch's values."""
        found = Counter(value for value in cells.values if value is not None)
        for level in self.counts:
            self.counts[level] += found.pop(level, 0)
        self.undeclared += sum(found.values())

    def to_json(self) -> dict[str, object]:
        """Level to count."""
        return {"levels": self.counts, "undeclared": self.undeclared}


@dataclass
class Span:
    """The first and the last of a column's dates; None where there is none."""

    first: str | None = None
    last: str | None = None

    def add(self, cells: Cells) -> None:
        """Look at a batch's dates."""
        days = np.asarray(cells.values, np.float64)
        days = days[np.isfinite(days)]
        if days.size:
            ends = [str(np.datetime64(int(day), "D")) for day in (days.min(), days.max())]
            self.first = min(filter(None, (self.first, ends[0])))
            self.last = max(filter(None, (self.last, ends[1])))

    def to_json(self) -> dict[str, object]:
        """Both, in ISO 8601."""
        return {"first": self.first, "last": self.last}


def distribution_of(column: Source) -> Distribution:
    """Empty counts for a column."""
    if column.values:
        return Levels(dict.fromkeys(column.vocabulary, 0))
    if column.measured:
        return Histogram(np.linspace(*column.ends, BARS + 1) if column.bounded else EDGES)
    return Span()
