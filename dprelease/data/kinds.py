"""The kinds of columns: a number with public bounds or without any, and a category of values in no order or in one.

A category with an order, such as education or the grade of a tumour, is one number for each patient: the score of the level.
Scores are public: 0, 1, 2, ... in the order of the levels, or numbers that the owner declares. A score lies within its bounds, the
scores of the first and of the last level, so the column is coded, bounded and noised as any number is, and one column of noise
serves all levels. A model is then linear in the scores. Levels whose steps differ need scores that say so, or a category
without an order.

With k equally spaced levels the code of level i is (i - h) / h times G with h = (k - 1) / 2, rounded half to even. Both
i and h are exact doubles and G is a power of 2, so one division and one rounding give the same integer on every machine.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator, model_validator

from dprelease.arrays import Codes, Floats
from dprelease.canonical import ShortText
from dprelease.data.column import EVEN_SPREAD, LEVELS, OTHER, Assumption, DeclaredColumn, RawColumn, Variable
from dprelease.data.decades import CELLS, LARGEST, Box, decade_codes, on_decades
from dprelease.one_line import listed

UNBOUNDED = (0.0, 100.0)
"""Range of made-up cells, if nobody knows the bounds of a number."""


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
        """Says whether codes lie in [-G, G]."""
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
        return (
            Variable(self.name, ((self.name, self.midpoint, self.half_width),), position, self.public, measured=True),
        )

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
        """Says whether its bounds are declared."""
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
        """Says whether codes lie in [-G, G], or on the decade scale."""
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


class CategoricalColumn(DeclaredColumn):
    """A category coded one-hot, 0 or 1, over its values: its public levels and, unless these are exhaustive, ``other``.

    In a Gram matrix a category of two values becomes one variable, +G for the first and -G for the last; others become a 0/G
    variable for each value.

    Attributes:
        levels: public levels, in the order of their released columns; the first is the reference in fits, unless it is the only
            one: then ``other`` is.
        exhaustive: whether there are no other values, so that a cell of any other text counts as missing.
        fill: value that stands in for a missing cell; ``other`` unless declared, which it must be of exhaustive levels.
    """

    least: ClassVar[float] = 0.0
    references: ClassVar[int] = 1
    midpoint: ClassVar[float] = 0.0
    half_width: ClassVar[float] = 1.0
    ends: ClassVar[tuple[float, float]] = (0.0, 1.0)

    kind: Literal["categorical"] = "categorical"
    levels: Annotated[tuple[ShortText, ...], Field(min_length=1, max_length=1000), LEVELS]
    exhaustive: Annotated[bool, Field(exclude_if=lambda exhaustive: not exhaustive)] = False
    fill: str = OTHER

    @field_validator("levels")
    @classmethod
    def _other_is_not_declared(cls, levels: tuple[str, ...]) -> tuple[str, ...]:
        if OTHER in levels:
            raise ValueError(
                f"no level is called {OTHER!r}, which stands for texts that are no level; give it another name, and this text as "
                "its spelling if levels are exhaustive"
            )
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
        """Says whether it has two values, ``other`` counted, and so becomes one variable."""
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
        """Says whether exactly one code of each row is G, and the others are 0."""
        known = (codes == 0) | (codes == 1 << grid_bits)
        return bool(np.all(known) and np.all(np.count_nonzero(codes, axis=1) == 1))

    def contrast(self) -> int:
        """Two codes of a group change, by 1 each."""
        return 0 if self.public else 2

    @property
    def released(self) -> tuple[str, ...]:
        """``name=value`` for each value."""
        return tuple(f"{self.name}={value}" for value in self.values)

    def variables(self, position: int) -> tuple[Variable, ...]:
        """One binary, or a level for each value."""
        if self.binary:  # first - last
            first, last = self.released
            return (Variable(first, ((first, 0.5, 0.5), (last, 0.5, -0.5)), position, self.public),)
        return tuple(Variable(name, ((name, 0.0, 1.0),), position, self.public, level=True) for name in self.released)

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
        return ((2 * index_at(count, places) + 1) / count - 1) / math.sqrt((1 - count**-2) / 3)

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


STEPS = "levels"
"""Unit of a column whose scores are 0, 1, 2 and so on."""


class OrderedColumn(Number):
    """A category with an order, coded as the score of its level.

    Attributes:
        levels: public levels, lowest first; a cell of any other text counts as missing.
        scores: increasing numbers that the levels stand for; none where they are 0, 1, 2 and so on.
        fill: level that stands in for a missing cell or an unknown text.
    """

    aggregates: ClassVar[tuple[str, ...]] = ("first", "last", "min", "max")

    kind: Literal["ordered"] = "ordered"
    levels: Annotated[tuple[ShortText, ...], Field(min_length=2, max_length=100), LEVELS]
    scores: Annotated[tuple[float, ...], Field(exclude_if=lambda scores: not scores)] = ()
    fill: str = ""

    @model_validator(mode="before")
    @classmethod
    def _unit_defaults_to_levels(cls, data: object) -> object:
        return {"unit": STEPS} | data if isinstance(data, dict) and not data.get("scores") else data

    @model_validator(mode="after")
    def _levels_have_an_order(self) -> OrderedColumn:
        if OTHER in self.levels:
            raise ValueError(f"column {self.name!r}: {OTHER!r} has no place in an order; leave it out of levels")
        if self.scores and len(self.scores) != len(self.levels):
            raise ValueError(
                f"column {self.name!r}: there are {len(self.scores)} scores for {len(self.levels)} levels; give one for each"
            )
        for level, before, score in zip(self.levels[1:], self.scores, self.scores[1:], strict=False):
            if not before < score:
                raise ValueError(f"column {self.name!r}: the score of {level!r} must be above that of the level before")
        if not 0 < self.half_width < math.inf:
            raise ValueError(f"column {self.name!r}: the scores are too close or too far apart to scale by")
        if not self.fill:
            raise ValueError(
                f"column {self.name!r}: declare fill, the level that stands in for missing and unknown cells"
            )
        if self.fill not in self.levels:
            raise ValueError(f"column {self.name!r}: fill {self.fill!r} is none of {listed(self.levels)}")
        return self

    @property
    def score_of(self) -> dict[str, float]:
        """Level to its score, lowest first."""
        return dict(zip(self.levels, self.scores or map(float, range(len(self.levels))), strict=True))

    @property
    def values(self) -> tuple[str, ...]:
        """The levels."""
        return self.levels

    @property
    def ends(self) -> tuple[float, float]:
        """The scores of the first and of the last level."""
        return (self.scores[0], self.scores[-1]) if self.scores else (0.0, len(self.levels) - 1.0)

    @property
    def fill_value(self) -> float:
        """The score of the fill level."""
        return self.score_of[self.fill]

    @property
    def fill_text(self) -> str:
        """The fill level."""
        return self.fill

    def measure(self, cells: RawColumn) -> Floats:
        """Scores of levels; NaN for a missing cell or an unknown text."""
        known = self.score_of
        return np.array(
            [known.get(cell, math.nan) if isinstance(cell, str) else math.nan for cell in cells], np.float64
        )

    def allows(self, codes: Codes, grid_bits: int) -> bool:
        """Says whether every code is that of a level."""
        return bool(np.isin(codes, self.code(self.levels, grid_bits)).all())

    def assumption(self, spread: float, *, signs: bool) -> Assumption:
        """All levels equally often."""
        scaled = self._scaled
        return Assumption(1, float(scaled.var()), float(scaled.var()), float(scaled.mean()), EVEN_SPREAD, None)

    def made_up(self, places: Floats) -> RawColumn:
        """Levels equally often."""
        return value_at(self.levels, places)

    def standardised(self, places: Floats) -> Floats:
        """Scores of levels, all equally often."""
        scaled = self._scaled
        found: Floats = ((scaled - scaled.mean()) / scaled.std())[index_at(len(scaled), places)]
        return found

    @property
    def _scaled(self) -> Floats:
        """(k,) scores of the levels in scaled units."""
        return (np.array(list(self.score_of.values())) - self.midpoint) / self.half_width

    @property
    def extent(self) -> str:
        """Its levels in words, lowest first."""
        if self.scores:
            return " < ".join(f"{level} ({score:g})" for level, score in self.score_of.items())
        return " < ".join(self.levels)

    @property
    def domain(self) -> dict[str, object]:
        """Levels and their scores."""
        return {"levels": list(self.levels), "scores": list(self.score_of.values())}

    @property
    def legend(self) -> str:
        """Score and level, lowest first."""
        return f"{self.name}: " + ", ".join(f"{score:g} = {level}" for level, score in self.score_of.items())

    @property
    def _reads(self) -> str:
        return f"in order {self.extent}"
