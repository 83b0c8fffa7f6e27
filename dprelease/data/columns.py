"""Declarations of columns: bounds, levels, units and fill values, public and made before any data are read.

They come from a codebook, never from the data: a bound computed from the data is an unprotected query (docs/guarantees.md 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator, model_validator

from dprelease import canonical
from dprelease.canonical import ShortText, Value
from dprelease.data.decades import CELLS as DECADE_CELLS
from dprelease.data.decades import LARGEST, Box
from dprelease.data.derivation import Derivation
from dprelease.one_line import listed

Name = canonical.Name
"""A party, column or consortium name."""

OTHER = "other"
"""The value that a category has for cells outside its declared levels, unless these are exhaustive."""


class NumericColumn(Value):
    """A number clipped to public bounds and scaled to [-1, 1], or one whose bounds nobody knows, on the decade scale.

    Attributes:
        bounds: ``unknown`` where no bounds are declared; `lower` and `upper` are then the ends of the decade scale.
        lower: lower public bound, in `unit`.
        upper: upper public bound, in `unit`; greater than `lower`.
        unit: what the number counts, e.g. ``"years"``; may be empty.
        fill: public value, within the bounds, that stands in for a missing or unreadable cell.
        public: whether its owner declared it public: it is published exactly, outside the guarantee (docs/guarantees.md 15).
        derivation: the formula by which its owner computes it from other columns; empty unless it is derived.
    """

    kind: Literal["numeric"] = "numeric"
    name: Name
    bounds: Annotated[Literal["declared", "unknown"], Field(exclude_if=lambda bounds: bounds == "declared")] = (
        "declared"
    )
    lower: float
    upper: float
    unit: ShortText = ""
    fill: float
    public: bool = False
    derivation: Derivation = ""

    @model_validator(mode="before")
    @classmethod
    def _fill_defaults_to_the_midpoint(cls, data: object) -> object:
        if isinstance(data, dict) and data.get("bounds") == "unknown":
            data = {"lower": -LARGEST, "upper": LARGEST} | data
        if isinstance(data, dict) and data.get("fill") is None and {"lower", "upper"} <= data.keys():
            try:
                return {**data, "fill": (float(data["lower"]) + float(data["upper"])) / 2}
            except (TypeError, ValueError, OverflowError):
                return data  # the fields say it better
        return data

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> NumericColumn:
        if not self.lower < self.upper:
            raise ValueError(f"column {self.name!r}: lower ({self.lower}) must be less than upper ({self.upper})")
        if not 0 < self.half_width < math.inf:
            raise ValueError(f"column {self.name!r}: the bounds are too close or too far apart to scale by")
        if not self.lower <= self.fill <= self.upper:
            raise ValueError(f"column {self.name!r}: fill ({self.fill}) must lie within the bounds")
        if not self.bounded and (self.lower, self.upper) != (-LARGEST, LARGEST):
            raise ValueError(f'column {self.name!r}: leave out lower and upper, or bounds = "unknown"')
        if not self.bounded and self.public:
            raise ValueError(f"column {self.name!r}: a public column has bounds; declare lower and upper")
        return self

    @property
    def bounded(self) -> bool:
        """Whether its bounds are declared."""
        return self.bounds == "declared"

    def within(self, lower: float, upper: float) -> NumericColumn:
        """The same number with other bounds, which are known; its fill value is the nearest within them."""
        fill = min(max(self.fill, lower), upper)
        return self.model_copy(update={"bounds": "declared", "lower": lower, "upper": upper, "fill": fill})

    def boxed(self, box: Box | None) -> NumericColumn:
        """The same number with a box for bounds; itself without one."""
        return self if box is None else self.within(box.lower, box.upper)

    @property
    def extent(self) -> str:
        """Its bounds in words."""
        return f"{self.lower:g} to {self.upper:g}" if self.bounded else "bounds unknown"

    @property
    def midpoint(self) -> float:
        """The value that is coded as 0, in `unit`."""
        return (self.lower + self.upper) / 2

    @property
    def half_width(self) -> float:
        """Half the public range, in `unit`; the value of one scaled unit."""
        return (self.upper - self.lower) / 2

    @property
    def released(self) -> tuple[str, ...]:
        """Names of the released columns this one becomes."""
        return (self.name,)

    def contrast(self) -> int:
        """Largest squared change of this column's scaled code when one row's private cells are replaced: (1 - (-1))^2.

        On the decade scale codes are in cells, of which there are 121.
        """
        return 0 if self.public else 4 if self.bounded else DECADE_CELLS**2


class CategoricalColumn(Value):
    """A category coded one-hot, 0 or 1, over its values: its public levels and, unless these are exhaustive, ``other``.

    Attributes:
        levels: public levels, in the order of their released columns; the first is the reference in fits.
        exhaustive: whether there are no other values, so that a cell of any other text counts as missing.
        fill: value that stands in for a missing cell; ``other`` unless declared, which it must be of exhaustive levels.
        public: as of a `NumericColumn`.
        derivation: as of a `NumericColumn`.
    """

    midpoint: ClassVar[float] = 0.0
    half_width: ClassVar[float] = 1.0

    kind: Literal["categorical"] = "categorical"
    name: Name
    levels: Annotated[tuple[ShortText, ...], Field(min_length=1, max_length=1000)]
    exhaustive: Annotated[bool, Field(exclude_if=lambda exhaustive: not exhaustive)] = False
    unit: ShortText = ""
    fill: str = OTHER
    public: bool = False
    derivation: Derivation = ""

    @field_validator("levels")
    @classmethod
    def _levels_are_distinct(cls, levels: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(levels)) != len(levels):
            raise ValueError("levels must be distinct")
        if OTHER in levels:
            raise ValueError(f"the level {OTHER!r} is there unless levels are exhaustive; do not declare it")
        if any(level.strip() != level or not level for level in levels):
            raise ValueError("levels must not be empty or have white space at their ends")
        return levels

    @model_validator(mode="after")
    def _fill_is_a_value(self) -> CategoricalColumn:
        if len(self.values) < 2:
            raise ValueError(f"column {self.name!r}: one level that is exhaustive would be the same for everybody")
        if self.exhaustive and self.fill == OTHER:
            raise ValueError(
                f"column {self.name!r}: declare fill, the level that stands in for missing and unknown cells: levels are "
                f"exhaustive, so there is no {OTHER!r}"
            )
        if self.fill not in self.values:
            raise ValueError(f"column {self.name!r}: fill {self.fill!r} is none of {listed(self.values)}")
        return self

    @property
    def values(self) -> tuple[str, ...]:
        """What a cell can be coded as: the levels, and ``other`` last unless they are exhaustive."""
        return self.levels if self.exhaustive else (*self.levels, OTHER)

    @property
    def released(self) -> tuple[str, ...]:
        """Names of the released columns this one becomes: ``name=value`` for each value."""
        return tuple(f"{self.name}={value}" for value in self.values)

    @property
    def extent(self) -> str:
        """Its values in words."""
        return f"{', '.join(self.levels)} or {OTHER}" if not self.exhaustive else ", ".join(self.levels)

    def contrast(self) -> int:
        """The same of a group of codes, one-hot: two of them change, by 1 each."""
        return 0 if self.public else 2


Column = Annotated[NumericColumn | CategoricalColumn, Field(discriminator="kind")]
"""A declared column of either kind."""


def released_names(columns: tuple[Column, ...]) -> tuple[str, ...]:
    """Names of all released columns, in order; d_j of them."""
    return tuple(name for column in columns for name in column.released)


def private(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Those that the guarantee covers, in order."""
    return tuple(column for column in columns if not column.public)


def public(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Those that their owner declared public, in order."""
    return tuple(column for column in columns if column.public)


def is_public(columns: tuple[Column, ...]) -> npt.NDArray[np.bool_]:
    """(d_j,) whether each released column is public."""
    return np.array([column.public for column in columns for _ in column.released], bool)


def numbers(columns: tuple[Column, ...]) -> tuple[NumericColumn, ...]:
    """The private numbers, in order."""
    return tuple(column for column in private(columns) if isinstance(column, NumericColumn))


def unbounded(columns: tuple[Column, ...]) -> tuple[NumericColumn, ...]:
    """The numbers whose bounds nobody knows, in order."""
    return tuple(column for column in columns if isinstance(column, NumericColumn) and not column.bounded)


def needs_bounds(columns: tuple[Column, ...]) -> str | None:
    """Why columns cannot be released in their public bounds; None where they can."""
    names = listed(column.name for column in unbounded(columns))
    return (
        f"{names} has unknown bounds; ask for mechanism 'moments' with ranges = \"first\", or for 'ranges' and then, in a stream "
        "too, for moments in them, or declare lower and upper from a codebook"
        if names
        else None
    )


def is_binary(column: Column) -> bool:
    """Whether a column is a category of two values, ``other`` counted, and so becomes one variable."""
    return isinstance(column, CategoricalColumn) and len(column.values) == 2


def distinct_names(columns: tuple[Column, ...]) -> bool:
    """Whether every name, of a column or of a released column, stands for one thing only."""
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
