"""The contract of formulas of derived columns: needs of their sources, bounds that follow, public text, numbers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from dprelease.arrays import Floats
from dprelease.data.columns import Column, Name
from dprelease.files.settings import Settings
from party_node.declarations.source_columns import CodeColumn, DateColumn

Number = Annotated[float, Field(strict=True)]
Source = Column | DateColumn | CodeColumn

BINARY = "a category of two values"


class Formula(Settings, ABC):
    """One key of ``derived`` and its options.

    Attributes:
        key: that names its sources.
        of_missing: whether it has a value also where its source has none.
    """

    key: ClassVar[str]
    of_missing: ClassVar[bool] = False

    @property
    def sources(self) -> tuple[Name, ...]:
        """Names of the declared columns that it is computed from, in the order of its arguments."""
        named: Name | tuple[Name, ...] = getattr(self, self.key)
        return (named,) if isinstance(named, str) else named

    @property
    @abstractmethod
    def text(self) -> str:
        """Its public text: a `Derivation`."""

    @abstractmethod
    def check(self, sources: Sequence[Source]) -> None:
        """Raise a ValueError that begins with the key, if it cannot be computed from these declarations."""

    @abstractmethod
    def values(self, *sources: Floats) -> Floats:
        """(n,) numbers from (n,) numbers; NaN where it is not defined."""

    def bounds(self, sources: Sequence[Source]) -> tuple[float, float]:
        """The least and the largest value of sources within their bounds; infinite where none follows."""
        return (-math.inf, math.inf)

    def entering(self, source: Source) -> tuple[str, ...]:
        """The levels of a category that enter as 1, 2 and so on; all others enter as 0."""
        return source.values[:1]


class CategoryFormula(Formula, ABC):
    """A formula whose values are places among the values of a category, from 0 on.

    One of no `levels` is an indicator: a category of one level, ``yes`` unless its declaration says otherwise, and ``other``.

    Attributes:
        exhaustive: whether there is no ``other`` beside its levels.
    """

    exhaustive: ClassVar[bool] = True

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels, in order."""
        return ()

    @property
    def fill_level(self) -> str:
        """The level that a missing cell has; empty where the declaration has to say."""
        return ""


def check_date(key: str, source: Source) -> None:
    """Refuse what is no date."""
    if not isinstance(source, DateColumn):
        raise ValueError(  # noqa: TRY004 - what pydantic reports
            f'{key}: {source.name} is no date; a column of dates is declared with kind = "date"'
        )


def check_parts(key: str, cut: float, source: Source) -> None:
    """Refuse a cut of a number that parts none of its values."""
    lower, upper = source.ends
    if not lower < cut <= upper:
        raise ValueError(
            f"{key}: {cut:g} is not within the bounds of {source.name}, {lower:g} to {upper:g}, so it parts no values"
        )


def ends_of(key: str, source: Source) -> tuple[float, float]:
    """Bounds of a number."""
    if not source.measured:
        raise ValueError(f"{key}: {source.name} is no number")
    return source.ends
