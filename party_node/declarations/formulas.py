"""Formulas of derived columns: what they need of their sources, the bounds that follow, the text that is public, the numbers.

Numbers come from IEEE 754 additions, multiplications, divisions and comparisons alone, so that they are the same on every machine.
A category enters a formula as 1 for one level and 0 for all others.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from dprelease.arrays import Floats
from dprelease.data.column import level_text, number_text
from dprelease.data.columns import Column, Name
from dprelease.files.settings import Settings
from dprelease.one_line import listed
from party_node.declarations.dates import DateColumn
from party_node.declarations.logarithm import ln

Number = Annotated[float, Field(strict=True)]
Source = Column | DateColumn

BINARY = "a category of two values"


class Formula(Settings, ABC):
    """One key of ``derived`` and its options.

    Attributes:
        of_missing: whether it has a value also where its source has none.
    """

    of_missing: ClassVar[bool] = False

    @property
    @abstractmethod
    def sources(self) -> tuple[Name, ...]:
        """Names of the declared columns that it is computed from, in the order of its arguments."""

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

    def level(self, source: Source) -> str:
        """The level of a category that enters as 1."""
        return source.values[0] if source.values else ""


class Log(Formula):
    """Natural logarithm of a number plus an offset, in the unit of that number."""

    log: Name
    plus: Number = 0.0

    @property
    def sources(self) -> tuple[Name, ...]:
        return (self.log,)

    @property
    def text(self) -> str:
        return f"log({_shifted(self.log, self.plus)})"

    def check(self, sources: Sequence[Source]) -> None:
        _, upper = _ends("log", sources[0])
        if upper + self.plus <= 0:
            raise ValueError(f"plus: {self.log} is at most {upper:g}, so there is never a logarithm")

    def bounds(self, sources: Sequence[Source]) -> tuple[float, float]:
        lower, upper = self.values(np.array(_ends("log", sources[0]))).tolist()
        return (-math.inf if math.isnan(lower) else lower, upper)

    def values(self, *sources: Floats) -> Floats:
        return ln(sources[0] + self.plus)


class Square(Formula):
    """Square of a number plus an offset. From the middle of its range, a square hardly goes together with the number itself."""

    square: Name
    plus: Number = 0.0

    @property
    def sources(self) -> tuple[Name, ...]:
        return (self.square,)

    @property
    def text(self) -> str:
        shifted = _shifted(self.square, self.plus)
        return f"({shifted})^2" if self.plus else f"{shifted}^2"

    def check(self, sources: Sequence[Source]) -> None:
        _ends("square", sources[0])

    def bounds(self, sources: Sequence[Source]) -> tuple[float, float]:
        lower, upper = (end + self.plus for end in _ends("square", sources[0]))
        corners = (lower * lower, upper * upper)
        return (0.0 if lower <= 0 <= upper else min(corners), max(corners))

    def values(self, *sources: Floats) -> Floats:
        shifted = sources[0] + self.plus
        return shifted * shifted


class Product(Formula):
    """Product of two numbers or binaries."""

    product: tuple[Name, Name]

    @property
    def sources(self) -> tuple[Name, ...]:
        return self.product

    @property
    def text(self) -> str:
        return " * ".join(self.product)

    def check(self, sources: Sequence[Source]) -> None:
        for source in sources:
            if not source.measured and len(source.values) != 2:
                raise ValueError(f"product: {source.name} is neither a number nor {BINARY}")
        if len(set(self.product)) < 2:
            raise ValueError(
                f"product: names {self.product[0]} twice; a number's square is square = {self.product[0]!r}"
            )

    def bounds(self, sources: Sequence[Source]) -> tuple[float, float]:
        first, second = (source.ends if source.measured else (0.0, 1.0) for source in sources)
        corners = [one * other for one in first for other in second]
        return (min(corners), max(corners))

    def values(self, *sources: Floats) -> Floats:
        return sources[0] * sources[1]


class Missing(Formula):
    """Tells whether a cell has no value, as it is missing or unreadable: 1 or 0, and never missing itself."""

    of_missing = True

    missing: Name

    @property
    def sources(self) -> tuple[Name, ...]:
        return (self.missing,)

    @property
    def text(self) -> str:
        return f"{self.missing} is missing"

    def check(self, sources: Sequence[Source]) -> None:
        pass

    def values(self, *sources: Floats) -> Floats:
        return np.isnan(sources[0]).astype(np.float64)


class Indicator(Formula):
    """Tells whether a category has a level, or a number is at least ``from`` and less than ``to``: 1 or 0."""

    indicator: Name
    named: Annotated[str | None, Field(alias="level")] = None
    start: Annotated[Number | None, Field(alias="from")] = None
    end: Annotated[Number | None, Field(alias="to")] = None

    @property
    def sources(self) -> tuple[Name, ...]:
        return (self.indicator,)

    @property
    def text(self) -> str:
        if self.named is not None:
            return f"{self.indicator} = {level_text(self.named)}"
        start = "" if self.start is None else f"{number_text(self.start)} <= "
        return start + self.indicator + ("" if self.end is None else f" < {number_text(self.end)}")

    def check(self, sources: Sequence[Source]) -> None:
        source, ends = sources[0], {"from": self.start, "to": self.end}
        declared = {key: end for key, end in ends.items() if end is not None}
        if (self.named is None) == (not declared):
            raise ValueError("indicator: takes either level, or from, to, or both of these")
        if self.named is not None:
            if not source.values:
                raise ValueError(f"level: {source.name} is no category; of a number say from or to")
            if self.named not in source.values:
                raise ValueError(f"level: {source.name} has no level {self.named!r}, only {listed(source.vocabulary)}")
            return
        lower, upper = _ends("indicator", source)
        for key, end in declared.items():
            if not lower < end <= upper:
                raise ValueError(
                    f"{key}: {end:g} is not within the bounds of {source.name}, {lower:g} to {upper:g}, "
                    "so it parts no values"
                )
        if len(declared) == 2 and not declared["from"] < declared["to"]:
            raise ValueError(f"from: {declared['from']:g} is not less than to, {declared['to']:g}")

    def level(self, source: Source) -> str:
        return self.named or ""

    def values(self, *sources: Floats) -> Floats:
        if self.named is not None:
            return sources[0]
        cells = sources[0]
        start, end = (-math.inf if self.start is None else self.start, math.inf if self.end is None else self.end)
        return np.where(np.isnan(cells), np.nan, (cells >= start) & (cells < end))


def _shifted(name: str, plus: float) -> str:
    return f"{name} {'-' if plus < 0 else '+'} {number_text(abs(plus))}" if plus else name


def _ends(key: str, source: Source) -> tuple[float, float]:
    """Bounds of a number."""
    if not source.measured:
        raise ValueError(f"{key}: {source.name} is no number")
    return source.ends
