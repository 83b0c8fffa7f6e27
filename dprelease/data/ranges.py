"""Location and scale of a numeric column as integers, and its cells in that range as codes.

A range lies on a grid of its own, 2^24 steps on either side of the midpoint of the public bounds, so that every machine makes
the same codes of it.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from dprelease.canonical import Value
from dprelease.data.bounding import MAX_GRID_BITS, Codes
from dprelease.data.columns import Name

STEPS = 1 << MAX_GRID_BITS
"""Steps of a range's grid in half the public bounds."""

WIDEST = 16 * STEPS
"""Largest half-width of a range."""

REACH = 3
"""Standard deviations from the centre of a column's range to its ends."""


class Range(Value):
    """Centre and half-width of a numeric column, in steps of 2^-24 of the half-width of its public bounds.

    Attributes:
        name: of the column.
        centre: from the public midpoint.
        half_width: of the range; it may reach beyond the public bounds, where no cell is.
    """

    name: Name
    centre: Annotated[int, Field(ge=-STEPS, le=STEPS)]
    half_width: Annotated[int, Field(ge=1, le=WIDEST)]

    @classmethod
    def whole(cls, name: str) -> Range:
        """The public bounds as a range."""
        return cls(name=name, centre=0, half_width=STEPS)

    def bounds(self, midpoint: float, half_width: float) -> tuple[float, float]:
        """Ends of the range, in the unit of the column's public midpoint and half-width."""
        unit = half_width / STEPS
        return midpoint + unit * (self.centre - self.half_width), midpoint + unit * (self.centre + self.half_width)

    def code(self, codes: Codes, grid_bits: int, largest: int) -> Codes:
        """Codes in [-largest, largest] of cells on the public grid: scaled to the range, rounded half away from 0, clipped.

        Args:
            codes: on the public grid, any shape.
            grid_bits: b of that grid.
            largest: H, the code of the range's upper end, at most 2^24.
        """
        moved = (codes.astype(np.int64) << (MAX_GRID_BITS - grid_bits)) - self.centre
        # 2 |t| H < 2^51.
        rounded = (2 * np.abs(moved) * largest + self.half_width) // (2 * self.half_width)
        found: Codes = (np.sign(moved) * np.minimum(rounded, largest)).astype(np.int32)
        return found
