"""Ranges in a learner's hands: mean, spread, quantiles and distribution function of every column, in original units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dprelease.arrays import Floats
from dprelease.data.columns import Number
from dprelease.data.decades import Box
from dprelease.data.ranges import REACH, WIDEST, Range
from dprelease.errors import InvalidInput
from dprelease.mechanisms.ranges.distribution import EDGES, Distribution
from dprelease.mechanisms.ranges.reach import Margin
from dprelease.mechanisms.view import View
from dprelease.one_line import listed

SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles that are told."""
HIDDEN = "hidden"
"""Instead of a quantile that noise lets lie beyond either end."""
_WORDS = {0: "", -1: "at most", 1: "at least", None: HIDDEN}

NO_FIT = (
    "a release of ranges says nothing on how columns go together: it has no rows and no moments to fit on, plan for or export; "
    "`learner describe` and `learner report` show what it says of each column"
)


@dataclass(frozen=True, eq=False)
class Summary:
    """One column; lengths in its unit, errors are standard deviations that privacy noise leaves open, hidden rows included.

    Attributes:
        column: its declaration; one without bounds has those of its box.
        mean: M, of cells as bounded.
        mean_error: what noise and hidden rows leave open.
        deviation: posterior median of the standard deviation over rows.
        deviation_error: the same.
        distribution: of cells, in half-widths of the bounds.
        margin: what is believed of its tails.
        range: centre M and half-width 3 t S, in which later releases may code the column.
    """

    column: Number
    mean: float
    mean_error: float
    deviation: float
    deviation_error: float
    distribution: Distribution
    margin: Margin
    range: Range

    @property
    def edges(self) -> Floats:
        """(K+1,) ends of the cells that rows were counted in."""
        return self.column.midpoint + self.column.half_width * EDGES

    @property
    def quantiles(self) -> Floats:
        """(5,) quantiles at `SHARES`; of one that may lie beyond what was counted, `SURE` noise sd to the other side.

        They are in order: an end moves the quantiles beyond it, and never says more than noise allows. So an upper end may exceed
        a lower one, which contradicts nothing.
        """
        places = np.clip([self._told(share) for share in SHARES], EDGES[1], EDGES[-2])
        side = np.array([self.distribution.beyond(share) or 0 for share in SHARES])
        least = np.maximum.accumulate(np.where(side < 0, places, EDGES[0]))
        most = np.minimum.accumulate(np.where(side > 0, places, EDGES[-1])[::-1])[::-1]
        ordered: Floats = np.select([side < 0, side > 0], [least, most], np.clip(places, least, most))
        return self.column.midpoint + self.column.half_width * ordered

    def _told(self, share: float) -> float:
        low, high = self.distribution.ends(share)
        side = self.distribution.beyond(share)
        return high if side == -1 else low if side == 1 else self.distribution.quantile(share)

    @property
    def quantile_words(self) -> tuple[str, ...]:
        """(5,) ``at most`` or ``at least`` of a quantile that may lie beyond what was counted, `HIDDEN` at either end; or empty."""
        return tuple(_WORDS[self.distribution.beyond(share)] for share in SHARES)

    @property
    def quantile_errors(self) -> Floats:
        """(5,) what noise and the width of a cell leave open about them."""
        return self.column.half_width * np.array([self.distribution.quantile_error(share) for share in SHARES])


@dataclass(frozen=True, eq=False)
class Ranges(View):
    """A release of ranges.

    Attributes:
        columns: one for each private number, party after party.
        rows: n, rows of every column.
        kind: what there is to read.
        clipping: none beside that to the bounds.
        coded: nothing is.
    """

    columns: tuple[Summary, ...]
    rows: int
    kind: ClassVar[Literal["ranges"]] = "ranges"
    clipping: ClassVar[None] = None
    coded: ClassVar[tuple[()]] = ()
    no_fit: ClassVar[str] = NO_FIT

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(each.column.name for each in self.columns)

    @property
    def ranges(self) -> tuple[Range, ...]:
        """Centre and half-width of every column, for releases that code columns by them."""
        return tuple(each.range for each in self.columns)

    def of(self, name: str) -> Summary:
        """One column.

        Raises:
            InvalidInput: the release says nothing about a column of this name, with those that it has.
        """
        for each in self.columns:
            if each.column.name == name:
                return each
        raise InvalidInput(f"this release has no range of {name}; it has those of {listed(self.names)}")


def later_range(name: str, centre: int, scale: int, reach: int = 0, box: Box | None = None) -> Range:
    """The range that later releases may use.

    Args:
        name: of the column.
        centre: M.
        scale: S.
        reach: j; 3 t S is rounded down.
        box: of a column without bounds.
    """
    half_width = REACH * scale * 5**reach // 4**reach
    return Range(name=name, centre=centre, half_width=min(half_width, WIDEST), reach=reach, box=box)


def boxes(columns: Sequence[Summary]) -> tuple[str, ...]:
    """A sentence for each number that was declared without bounds, on the bounds that its release found."""
    return tuple(
        f"{each.column.name} was declared without bounds; its box, found from noisy counts, is {each.column.extent} "
        f"{each.column.unit or '1'}"
        for each in columns
        if each.range.box is not None
    )
