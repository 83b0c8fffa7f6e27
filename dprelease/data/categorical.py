"""Categories without an order: one indicator for each value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator, model_validator

from dprelease.data.column import EVEN_SPREAD, OTHER, Assumption, DeclaredColumn, Levels, RawColumn, Variable
from dprelease.data.decades import Codes, Floats
from dprelease.one_line import listed


class CategoricalColumn(DeclaredColumn):
    """A category coded one-hot, 0 or 1, over its values: its public levels and, unless these are exhaustive, ``other``.

    In a Gram matrix a category of two values becomes one variable, +G for the first and -G for the last; others become a 0/G
    variable for each value.

    Attributes:
        levels: public levels, in the order of their released columns; the first is the reference in fits.
        exhaustive: whether there are no other values, so that a cell of any other text counts as missing.
        fill: value that stands in for a missing cell; ``other`` unless declared, which it must be of exhaustive levels.
    """

    least: ClassVar[float] = 0.0
    midpoint: ClassVar[float] = 0.0
    half_width: ClassVar[float] = 1.0
    ends: ClassVar[tuple[float, float]] = (0.0, 1.0)

    kind: Literal["categorical"] = "categorical"
    levels: Levels
    exhaustive: Annotated[bool, Field(exclude_if=lambda exhaustive: not exhaustive)] = False
    fill: str = OTHER

    @field_validator("levels")
    @classmethod
    def _other_is_not_declared(cls, levels: tuple[str, ...]) -> tuple[str, ...]:
        if OTHER in levels:
            raise ValueError(f"the level {OTHER!r} is there unless levels are exhaustive; do not declare it")
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
        """The levels, and ``other`` last unless they are exhaustive."""
        return self.levels if self.exhaustive else (*self.levels, OTHER)

    @property
    def binary(self) -> bool:
        """Whether it has two values, ``other`` counted, and so becomes one variable."""
        return len(self.values) == 2

    @property
    def fill_text(self) -> str:
        """Its fill value."""
        return self.fill

    def code(self, cells: RawColumn, grid_bits: int) -> Codes:
        """One-hot codes, 0 or G."""
        position = {value: index for index, value in enumerate(self.values)}
        fill = position[self.fill]
        unknown = fill if self.exhaustive else len(position) - 1
        index = [fill if cell is None else position.get(str(cell), unknown) for cell in cells]
        codes = np.zeros((len(index), len(position)), np.int32)
        codes[np.arange(len(index)), index] = 1 << grid_bits
        return codes

    def allows(self, codes: Codes, grid_bits: int) -> bool:
        """Whether exactly one code of each row is G, and the others are 0."""
        known = (codes == 0) | (codes == 1 << grid_bits)
        return bool(np.all(known) and np.all(np.count_nonzero(codes, axis=1) == 1))

    def contrast(self) -> int:
        """Two codes of a group change, by 1 each."""
        return 0 if self.public else 2

    @property
    def released(self) -> tuple[str, ...]:
        """``name=value`` for each value."""
        return tuple(f"{self.name}={value}" for value in self.values)

    @property
    def regressors(self) -> tuple[str, ...]:
        """All but the first level, which is the reference."""
        return self.released[1:]

    def variables(self, position: int) -> tuple[Variable, ...]:
        """One binary, or a level for each value."""
        names = self.released[:1] if self.binary else self.released
        return tuple(Variable(name, position, self.public, level=not self.binary) for name in names)

    def combined(self, codes: Codes) -> Codes:
        """The one-hot pair of a binary becomes first - last, which is +G or -G."""
        return codes[:, :1] - codes[:, 1:] if self.binary else codes

    def read(self, released: str) -> tuple[str, float, float]:
        """A value of a binary is half a step from the middle, to either side."""
        if self.binary:
            return self.released[0], 0.5, 0.5 if released == self.released[0] else -0.5
        return super().read(released)

    def assumption(self, spread: float, *, signs: bool) -> Assumption:
        """All values equally often."""
        if signs and self.binary:  # +1 or -1 there, 0 or 1 elsewhere
            return Assumption(1, 1.0, 1.0, 0.0, EVEN_SPREAD, 0.0)
        # L levels of frequency f = 1/L, one left out: covariance f I - f^2 1 1^T, whose inverse is L (I + 1 1^T).
        levels = len(self.values)
        # Its own entry repeats that with the constant, and the entries of its group are exact.
        mean = 1 / levels
        own = 3 - levels - 4 * mean + 2 * mean**2
        return Assumption(levels - 1, mean - mean**2, mean / 2, mean, EVEN_SPREAD / 4, own)

    def made_up(self, places: Floats) -> RawColumn:
        """Values equally often."""
        return value_at(self.values, places)

    def standardised(self, places: Floats) -> Floats:
        """Scores of a value's position."""
        count = len(self.values)
        found: Floats = ((2 * index_at(count, places) + 1) / count - 1) / math.sqrt((1 - count**-2) / 3)
        return found

    @property
    def extent(self) -> str:
        """Its values in words."""
        return f"{', '.join(self.levels)} or {OTHER}" if not self.exhaustive else ", ".join(self.levels)

    @property
    def domain(self) -> dict[str, object]:
        """Levels, and whether there are no others."""
        return {"levels": list(self.levels), "exhaustive": self.exhaustive}

    @property
    def _reads(self) -> str:
        return f"one of {self.extent}"


def index_at(count: int, places: Floats) -> npt.NDArray[np.intp]:
    """(n,) positions among `count` values, from places in (0, 1)."""
    return np.minimum((places * count).astype(np.intp), count - 1)


def value_at(values: Sequence[str], places: Floats) -> list[str | None]:
    """(n,) values equally often, from places in (0, 1)."""
    found: list[str | None] = np.array(values)[index_at(len(values), places)].tolist()
    return found
