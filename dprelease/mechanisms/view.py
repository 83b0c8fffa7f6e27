"""What every view of a release answers itself, whatever the mechanism; the numbers of one as a table with names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Self

from dprelease.arrays import Floats
from dprelease.data.columns import Column
from dprelease.data.ranges import Range
from dprelease.errors import InvalidInput

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
    """What there is to read of a release: rows or moments to fit on, or a class that is `Unfitted`."""

    @property
    def joint(self) -> Any:
        """`NoisyMoments` of which all products are released; None of a view without moments."""
        return None

    @property
    def coded(self) -> tuple[Column, ...]:
        """Declarations with the bounds that released cells were scaled by; none where there are no such cells."""
        return ()

    @property
    def ranges(self) -> tuple[Range, ...]:
        """Ranges that it has or that its numbers were coded in; none in public bounds."""
        return ()

    @property
    def size(self) -> int:
        """About how many numbers a table of them has; 0 of a view that nothing is fitted on."""
        return 0

    def regressable(self) -> Self:
        """Itself, for estimators.

        Raises:
            InvalidInput: there is nothing to fit on.
        """
        return self


class Unfitted(View):
    """A view that nothing is fitted on.

    Attributes:
        clipping: none beside that to the bounds.
        no_fit: why nothing is fitted on it.
    """

    clipping: ClassVar[None] = None
    no_fit: ClassVar[str]

    def regressable(self) -> NoReturn:
        """Refuses."""
        raise InvalidInput(self.no_fit)
