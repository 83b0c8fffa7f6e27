"""The decade scale: the public grid of numbers whose bounds nobody knows, and the boxes that are cut out of it.

Its cells are four to a decade from 1e-6 to 1e9 on either side of 0, with ends at 1, 1.8, 3.2 and 5.6 times powers of ten, and one
cell around 0. A code is a place on it: 2^b steps to a cell, evenly within each, 0 at 0. A box is a run of cells. It has a grid of
its own like that of declared bounds: 2^24 steps on either side of its midpoint. From the first grid to the second goes integer
arithmetic alone.

Specified in docs/format.md 7.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from dprelease.arrays import Codes, Floats, Integers
from dprelease.canonical import Value

_ENDS = [digits * 10**place for place in range(15) for digits in (10, 18, 32, 56)] + [10**16]
_UNIT = 10**7
_TENTHS = (*(-end for end in reversed(_ENDS)), *_ENDS)
"""(122,) ends of the cells in units of 1e-7."""

EDGES: Floats = np.array([end / _UNIT for end in _TENTHS])
"""(122,) ends of the cells as doubles."""
CELLS = len(_TENTHS) - 1
LARGEST = float(EDGES[-1])
"""Value that larger numbers count as."""
BOX_BITS = 24
"""Steps of a box's grid in half the box, as a power of 2."""

Edge = Annotated[int, Field(ge=0, le=CELLS)]


class Box(Value):
    """Bounds on the decade scale.

    Attributes:
        low: place of the lower one among the 122 ends of cells, from 0.
        high: place of the upper one, above it.
    """

    low: Edge
    high: Edge

    @model_validator(mode="after")
    def _holds_a_cell(self) -> Box:
        if not self.low < self.high:
            raise ValueError("the lower bound of a box lies below its upper one")
        return self

    @property
    def lower(self) -> float:
        """Lower bound, in the unit of the data."""
        return float(EDGES[self.low])

    @property
    def upper(self) -> float:
        """Upper bound, in the unit of the data."""
        return float(EDGES[self.high])

    def code(self, codes: Codes, grid_bits: int) -> Codes:
        """Places on the box's own grid, in [-2^24, 2^24], of codes on the decade scale; what lies beyond the box is at its end.

        Args:
            codes: on the decade scale, any shape.
            grid_bits: b of them.
        """
        place = (codes.astype(np.int64) << (BOX_BITS - grid_bits)) + (CELLS << (BOX_BITS - 1))
        place = np.clip(place, self.low << BOX_BITS, self.high << BOX_BITS)
        cell = np.minimum(place >> BOX_BITS, self.high - 1)
        places = _places(self.low, self.high)
        low, high = places[cell - self.low], places[cell - self.low + 1]
        # (2^25) (2^24) < 2^63; half a step is added, so that places are the nearest.
        within = (high - low) * (place - (cell << BOX_BITS)) + (1 << (BOX_BITS - 1))
        found: Codes = (low + (within >> BOX_BITS)).astype(np.int32)
        return found


# A cached attribute would take part in the comparison of two boxes, and arrays do not compare to one truth.
@lru_cache
def _places(low: int, high: int) -> Integers:
    """The ends of a box's cells on its own grid."""
    first, last = _TENTHS[low], _TENTHS[high]
    ends = _TENTHS[low : high + 1]
    return np.array([round(Fraction(2 * end - first - last, last - first) * 2**BOX_BITS) for end in ends], np.int64)


def decade_codes(cells: Floats, grid_bits: int) -> Codes:
    """Codes of numbers on the decade scale, within 60.5 cells of 0; a number beyond its ends is at the end.

    Args:
        cells: finite, any shape.
        grid_bits: b, steps in a cell as a power of 2.
    """
    clipped = np.clip(cells, EDGES[0], EDGES[-1])
    cell = np.clip(np.searchsorted(EDGES, clipped, "right") - 1, 0, CELLS - 1)
    within = (clipped - EDGES[cell]) / (EDGES[cell + 1] - EDGES[cell])
    steps = np.clip(np.rint(within * 2.0**grid_bits), 0, 1 << grid_bits).astype(np.int64)
    return ((cell << grid_bits) + steps - (CELLS << (grid_bits - 1))).astype(np.int32)


def decade_values(codes: Codes, grid_bits: int) -> Floats:
    """Numbers that codes on the decade scale stand for; arguments as of `decade_cells`."""
    cell = decade_cells(codes, grid_bits)
    within = (codes.astype(np.int64) + (CELLS << (grid_bits - 1)) - (cell << grid_bits)) * 2.0**-grid_bits
    return EDGES[cell] + (EDGES[cell + 1] - EDGES[cell]) * within


def decade_cells(codes: Codes, grid_bits: int) -> Integers:
    """Cell of each code, 0 to 120; the last one has its upper end.

    Args:
        codes: on the decade scale, any shape.
        grid_bits: b of them.
    """
    place = codes.astype(np.int64) + (CELLS << (grid_bits - 1))
    found: Integers = np.minimum(place >> grid_bits, CELLS - 1)
    return found


def on_decades(codes: Codes, grid_bits: int) -> bool:
    """Tells whether every code is one of the decade scale."""
    return bool(np.all(np.abs(codes.astype(np.int64)) <= CELLS << (grid_bits - 1)))
