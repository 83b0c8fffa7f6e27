"""Location and scale of a numeric column as integers, and its cells in that range as codes.

A range lies on a grid of its own, 2^24 steps on either side of the midpoint of the public bounds, so that every machine makes
the same codes of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from dprelease.arrays import Codes
from dprelease.canonical import Value
from dprelease.data.bounding import MAX_GRID_BITS
from dprelease.data.column import Name
from dprelease.data.columns import Column, numbers, unbounded
from dprelease.data.decades import Box
from dprelease.data.kinds import Number, NumericColumn

REACHES = 17
"""Powers of 1.25 that are tried, from the 0th."""
ALONE = 4.0
"""r^2 of a hospital with one number: kept below two units, its tail would be cut off for nothing."""
EFFECT = 0.3
"""A correlation as it is guessed, of which clipping takes a part."""


class GuessedNoise(NamedTuple):
    """Other columns, as they are guessed.

    Attributes:
        reach: t_0.
        noise: of a product of two numbers in their own units, per patient: c (f q^2 + R^2).
    """

    reach: float
    noise: float


def reach_of(step: int) -> float:
    """t of j."""
    return 1.25**step


def radius2(numbers: int) -> float:
    """r^2 of a hospital with so many numbers, in squares of its units."""
    return float(numbers) if numbers > 1 else ALONE


def guess(numbers: Sequence[int], others: int, noise: float) -> GuessedNoise:
    """t_0 and the noise at it.

    A number is coded in units of its *reach*, t published standard deviations, t = 1.25^j. Each hospital chooses t of each of
    its columns from its own published counts (`dprelease.mechanisms.ranges.released`) and keeps its d numbers of a patient within

        r^2 = d,        4 where d = 1,

    in squares of these units. A larger t clips less, and multiplies the noise of the column's products by t. The noise of
    others has to be guessed before: t_0 is the one t that would suit exponential columns. With f columns besides
    numbers and the constant, R^2 the sum of r^2 over hospitals, D numbers in all, and c the noise of a correlation for each
    unit of Delta,

        nu(t) = c (f q^2 + R^2) t^2,     q^2 = sqrt(R^2 / D) / t,     lost(t) = E max(x - a, 0) x = e^(-a - 1) (a + 2)

    for x exponential less 1 and a = t max(3/2, sqrt(R^2 / D)), and t_0 makes (`EFFECT` lost)^2 + nu^2 least: clipping takes
    that part of a correlation. The constant, categories and public columns weigh q reach units, which for numbers that all
    reach t_0 makes the noise of all products together least.

    Source: docs/methods.md, "Reach".

    Args:
        numbers: of each hospital that has some; without any, t_0 is 1.
        others: f, all other columns and the constant.
        noise: c.
    """
    if not numbers:
        return GuessedNoise(1.0, noise * others)
    squares, all_numbers = sum(map(radius2, numbers)), sum(numbers)
    mean = math.sqrt(squares / all_numbers)

    def judged(reach: float) -> tuple[float, GuessedNoise]:
        end = reach * max(1.5, mean)
        found = GuessedNoise(reach, noise * (others * mean / reach + squares))
        return (EFFECT * math.exp(-end - 1) * (end + 2)) ** 2 + (found.noise * reach**2) ** 2, found

    return min(judged(reach_of(step)) for step in range(REACHES))[1]


STEPS = 1 << MAX_GRID_BITS
"""Steps of a range's grid in half the public bounds."""

WIDEST = 16 * STEPS
"""Largest half-width of a range."""

DECADES = Fraction(1, 2)
"""Cost of finding bounds for a number without any, in parts of the cost of its range."""

REACH = 3
"""Units of its reach from the centre of a column's range to its ends (`reach_of`)."""

SHARE, SHARE_OF_FEW, FEW = Fraction(1, 10), Fraction(3, 20), 1500
"""Part of mu^2 for ranges that come before moments; the same with fewer patients than `FEW`."""


class Range(Value):
    """Centre and half-width of a numeric column, in steps of 2^-24 of the half-width of its public bounds, or of its box.

    Attributes:
        name: of the column.
        box: bounds that a release found where none were declared; None, and then left out of canonical bytes, where they were.
        centre: from the public midpoint.
        half_width: of the range; it may reach beyond the public bounds, where no cell is.
        reach: j, where a standard deviation is half_width / (3 * 1.25^j); left out of canonical bytes where it is 0.
    """

    name: Name
    centre: Annotated[int, Field(ge=-STEPS, le=STEPS)]
    half_width: Annotated[int, Field(ge=1, le=WIDEST)]
    reach: Annotated[int, Field(ge=0, le=REACHES - 1, exclude_if=lambda reach: reach == 0)] = 0
    box: Annotated[Box | None, Field(exclude_if=lambda box: box is None)] = None

    @classmethod
    def whole(cls, name: str) -> Range:
        """The public bounds as a range."""
        return cls(name=name, centre=0, half_width=STEPS)

    def seen(self, column: Number) -> NumericColumn:
        """The column as readers see it: its bounds are the ends of the range."""
        within = column.boxed(self.box)
        middle, unit = within.midpoint, within.half_width / STEPS
        return column.within(
            middle + unit * (self.centre - self.half_width), middle + unit * (self.centre + self.half_width)
        )

    @property
    def deviation(self) -> float:
        """The published standard deviation, in half-widths of the range."""
        return 1 / (REACH * reach_of(self.reach))

    def fits(self, column: Number) -> bool:
        """Tells whether it has a box exactly where the column has no bounds of its own."""
        return column.bounded == (self.box is None)

    def code(self, codes: Codes, grid_bits: int, largest: int) -> Codes:
        """Codes in [-largest, largest] of cells on the public grid: scaled to the range, rounded half away from 0, clipped.

        Args:
            codes: on the public grid, any shape; on the decade scale where there is a box.
            grid_bits: b of that grid.
            largest: H, the code of the range's upper end, at most 2^24.
        """
        moved = on_fine_grid(codes, grid_bits, self.box).astype(np.int64) - self.centre
        # 2 |t| H < 2^51.
        rounded = (2 * np.abs(moved) * largest + self.half_width) // (2 * self.half_width)
        found: Codes = (np.sign(moved) * np.minimum(rounded, largest)).astype(np.int32)
        return found


def seen(columns: tuple[Column, ...], ranges: Iterable[Range]) -> tuple[Column, ...]:
    """The columns as readers see them: the bounds of a private number that has a range are its ends."""
    known = {each.name: each for each in ranges}
    found = {each.name: known[each.name].seen(each) for each in numbers(columns) if each.name in known}
    return tuple(found.get(column.name, column) for column in columns)


def parts(columns: tuple[Column, ...]) -> Fraction:
    """How many parts of a budget for ranges these columns take: 1 for each private number, and `DECADES` more without bounds."""
    own = numbers(columns)
    return len(own) + DECADES * len(unbounded(own))


def share(rows: int, columns: tuple[Column, ...] = ()) -> Fraction:
    """Part of mu^2 that ranges spend before moments, from n and declarations alone: half as much again for a number without bounds.

    Args:
        rows: n.
        columns: of all parties; none for numbers with bounds.
    """
    own = numbers(columns)
    return (SHARE_OF_FEW if rows < FEW else SHARE) * (parts(columns) / len(own) if own else 1)


def on_fine_grid(codes: Codes, grid_bits: int, box: Box | None) -> Codes:
    """Codes on the finest grid of declared bounds or of a box: 2^24 steps on either side of their midpoint.

    Args:
        codes: on the public grid; on the decade scale where there is a box.
        grid_bits: b of that grid.
        box: None where bounds are declared.
    """
    return codes << (MAX_GRID_BITS - grid_bits) if box is None else box.code(codes, grid_bits)
