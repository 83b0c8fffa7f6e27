"""Questions that every view of a release answers itself, whatever the mechanism, and its numbers as a table with names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dprelease.arrays import Floats
from dprelease.data.ranges import Range

CONSTANT = "(constant)"
"""Name of the column that is 1 for every patient."""

SQUARES = "(own square)"
"""Name of the row that has every column's sum of squares, with outcome-only columns."""


@dataclass(frozen=True)
class ReleasedTable:
    """The released numbers as they were released, in scaled units: rows, or the matrix of joint moments.

    Attributes:
        names: (p + 1,) of columns, the constant first.
        row_names: (r,) of rows; empty for a release of rows, which have none.
        values: (r, p + 1), noise included.
        noise_sd: standard deviation of their noise: (r, p + 1) of a matrix, (p + 1,) of rows.
    """

    names: tuple[str, ...]
    row_names: tuple[str, ...]
    values: Floats
    noise_sd: Floats


class View:
    """All that there is to read of a release.

    Attributes:
        no_fit: why nothing is fitted on it; empty where estimators read it.
    """

    no_fit: ClassVar[str] = ""

    @property
    def joint(self) -> Any:
        """`NoisyMoments` of which all products are released; None of a view without moments."""
        return None

    @property
    def ranges(self) -> tuple[Range, ...]:
        """Ranges that it has or that its numbers were coded in; none in public bounds."""
        return ()

    @property
    def size(self) -> int:
        """About how many numbers a table of them has; 0 of a view that nothing is fitted on."""
        return 0
