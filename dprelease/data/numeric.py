"""Columns that become one number on a public scale, and the plain one: a number with public bounds, or without any."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from dprelease.data.column import EVEN_SPREAD, Assumption, DeclaredColumn, RawColumn, Variable
from dprelease.data.decades import CELLS, LARGEST, Box, Codes, Floats, decade_codes, on_decades

UNBOUNDED = (0.0, 100.0)
"""Where cells of a number are made up whose bounds nobody knows."""


class Number(DeclaredColumn):
    """A column that becomes one number: clipped to public bounds and scaled to [-1, 1]."""

    @property
    @abstractmethod
    def fill_value(self) -> float:
        """The number that stands in for a missing cell."""

    @abstractmethod
    def measure(self, cells: RawColumn) -> Floats:
        """(n,) numbers that cells stand for; not finite where there is none."""

    def within(self, lower: float, upper: float) -> NumericColumn:
        """The same number with other bounds, which are known; its fill value is the nearest within them."""
        return NumericColumn.model_construct(
            name=self.name,
            lower=lower,
            upper=upper,
            unit=self.unit,
            fill=min(max(self.fill_value, lower), upper),
            public=self.public,
            derivation=self.derivation,
        )

    def boxed(self, box: Box | None) -> Number:
        """The same number with a box for bounds; itself without one."""
        return self if box is None else self.within(box.lower, box.upper)

    def code(self, cells: RawColumn, grid_bits: int) -> Codes:
        """Codes of clipped numbers, missing ones filled."""
        numbers, unit = self.measure(cells), 1 << grid_bits
        lower, upper = self.ends
        readable = np.where(np.isfinite(numbers), numbers, self.fill_value)
        scaled = (np.clip(readable, lower, upper) - self.midpoint) / self.half_width
        # The second clip is the one that the guarantee rests on: whatever rounding did, the code is in [-G, G].
        return np.clip(np.rint(scaled * unit), -unit, unit).astype(np.int32).reshape(-1, 1)

    def allows(self, codes: Codes, grid_bits: int) -> bool:
        """Whether codes lie in [-G, G]."""
        unit = 1 << grid_bits
        return bool(np.all((codes >= -unit) & (codes <= unit)))

    def contrast(self) -> int:
        """Squared distance of the ends, (1 - (-1))^2."""
        return 0 if self.public else 4

    @property
    def midpoint(self) -> float:
        """Middle of the public bounds."""
        lower, upper = self.ends
        return (lower + upper) / 2

    @property
    def half_width(self) -> float:
        """Half the public range."""
        lower, upper = self.ends
        return (upper - lower) / 2

    @property
    def released(self) -> tuple[str, ...]:
        """Its own name."""
        return (self.name,)

    def variables(self, position: int) -> tuple[Variable, ...]:
        """One variable in [-G, G]."""
        return (Variable(self.name, position, self.public, measured=True),)

    def assumption(self, spread: float, *, signs: bool) -> Assumption:
        """Mean 0 and the variance that is asked for."""
        return Assumption(1, spread, spread, 0.0, EVEN_SPREAD, None)


class NumericColumn(Number):
    """A number clipped to public bounds and scaled to [-1, 1], or one whose bounds nobody knows, on the decade scale.

    Attributes:
        bounds: ``unknown`` where no bounds are declared; `lower` and `upper` are then the ends of the decade scale.
        lower: lower public bound, in `unit`.
        upper: upper public bound, in `unit`; greater than `lower`.
        fill: public value, within the bounds, that stands in for a missing or unreadable cell.
    """

    aggregates: ClassVar[tuple[str, ...]] = ("first", "last", "min", "max", "sum", "mean", "count")

    kind: Literal["numeric"] = "numeric"
    bounds: Annotated[Literal["declared", "unknown"], Field(exclude_if=lambda bounds: bounds == "declared")] = (
        "declared"
    )
    lower: float
    upper: float
    fill: float

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

    @property
    def ends(self) -> tuple[float, float]:
        """Its bounds, or the ends of the decade scale."""
        return self.lower, self.upper

    @property
    def fill_value(self) -> float:
        """Its fill value."""
        return self.fill

    @property
    def fill_text(self) -> str:
        """Its fill value, shortened."""
        return f"{self.fill:g}"

    def measure(self, cells: RawColumn) -> Floats:
        """The cells themselves."""
        return np.asarray(cells, dtype=np.float64)

    def code(self, cells: RawColumn, grid_bits: int) -> Codes:
        """Codes of clipped numbers; places on the decade scale where bounds are unknown."""
        if self.bounded:
            return super().code(cells, grid_bits)
        numbers = self.measure(cells)
        return decade_codes(np.where(np.isfinite(numbers), numbers, self.fill), grid_bits).reshape(-1, 1)

    def allows(self, codes: Codes, grid_bits: int) -> bool:
        """Whether codes lie in [-G, G], or on the decade scale."""
        return super().allows(codes, grid_bits) if self.bounded else on_decades(codes, grid_bits)

    def contrast(self) -> int:
        """On the decade scale codes are in cells, of which there are 121."""
        return super().contrast() if self.bounded else CELLS**2

    def made_up(self, places: Floats) -> RawColumn:
        """Numbers evenly between the bounds."""
        lower, upper = self.ends if self.bounded else UNBOUNDED
        return lower + (upper - lower) * places

    def standardised(self, places: Floats) -> Floats:
        """Scores of a uniform number."""
        return (2 * places - 1) * math.sqrt(3)

    @property
    def extent(self) -> str:
        """Its bounds in words."""
        return f"{self.lower:g} to {self.upper:g}" if self.bounded else "bounds unknown"

    @property
    def domain(self) -> dict[str, object]:
        """Lower and upper bound."""
        return {"lower": self.lower, "upper": self.upper}

    @property
    def _reads(self) -> str:
        unit = (" " if self.bounded else ", in ") + self.unit if self.unit else ""
        return f"{self.extent}{unit}"
