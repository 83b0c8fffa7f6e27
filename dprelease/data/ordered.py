"""Categories with an order, such as education or the grade of a tumour: one number for each patient, the score of the level.

Scores are public: 0, 1, 2, ... in the order of the levels, or numbers that the owner declares. A score lies within its bounds, the
scores of the first and of the last level, so the column is coded, bounded and noised as any number is, and one column of noise
serves all levels. A model is then linear in the scores. Levels whose steps differ need scores that say so, or a category
without an order.

With k equally spaced levels the code of level i is (i - h) / h times G with h = (k - 1) / 2, rounded half to even. Both
i and h are exact doubles and G is a power of 2, so one division and one rounding give the same integer on every machine.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from dprelease.arrays import Codes, Floats
from dprelease.canonical import ShortText
from dprelease.data.column import EVEN_SPREAD, LEVELS, OTHER, Assumption, RawColumn
from dprelease.data.kinds import Number, index_at, value_at
from dprelease.one_line import listed

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
        found: Floats = (np.array(list(self.score_of.values())) - self.midpoint) / self.half_width
        return found

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
