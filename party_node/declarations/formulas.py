"""Formulas of derived columns: what they need of their sources, the bounds that follow, the text that is public, the numbers.

Numbers come from IEEE 754 additions, multiplications, divisions and comparisons alone, so that they are the same on every machine.

**Codes.** Categories are made of codes: by their first characters, or by a map that says of each which level it is.
"""

from __future__ import annotations

import csv
import hashlib
import math
import re
from collections import Counter
from collections.abc import Sequence
from datetime import date
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from dprelease.arrays import Floats
from dprelease.canonical import canonical_bytes
from dprelease.data.column import DATE, NAME, level_text, number_text
from dprelease.data.columns import OTHER, Name
from dprelease.files.settings import LocalPath, Mistakes, mistakes
from dprelease.one_line import listed
from party_node.declarations.cut_formulas import Bands, Exit
from party_node.declarations.formula import (
    BINARY,
    CategoryFormula,
    Formula,
    Number,
    Source,
    check_date,
    check_parts,
    ends_of,
)
from party_node.declarations.source_columns import LONGEST, CodeColumn, Prefix, code_number, longest_start, normal

_MOST_LINES = 200_000


class Category(CategoryFormula):
    """Category of codes: by their first characters, or by a map, whose longest entry that a code begins with counts.

    Attributes:
        category: the column of codes.
        prefix: how many first characters are a level.
        named: the levels, with `prefix`.
        map: a CSV file of a code, or its first characters, and its level in each line, under the header ``code,level``.
    """

    key = "category"
    exhaustive = False

    category: Name
    prefix: Annotated[int | None, Field(ge=1, le=LONGEST)] = None
    named: Annotated[tuple[Prefix, ...], Field(alias="levels", max_length=1000)] = ()
    map: LocalPath | None = None

    @property
    def text(self) -> str:
        if self.map is None:
            return f"first {self.prefix} of {self.category}"
        return f"{self.category} by map {hashlib.sha256(canonical_bytes([*map(list, self.entries)])).hexdigest()}"

    @property
    def levels(self) -> tuple[str, ...]:
        return self.named if self.map is None else tuple(dict.fromkeys(level for _, level in self.entries))

    @cached_property
    def entries(self) -> tuple[tuple[str, str], ...]:
        """First characters and level of each line of the map, or of each level."""
        return tuple((level, level) for level in self.named) if self.map is None else _read_map(self.map)

    def check(self, sources: Sequence[Source]) -> None:
        if not isinstance(sources[0], CodeColumn):
            raise ValueError(f'category: {self.category} is no column of codes; one is declared with kind = "code"')  # noqa: TRY004 - what pydantic reports
        if (self.prefix is None) == (self.map is None):
            raise ValueError("category: takes either prefix and levels, or map")
        if self.map is not None and self.named:
            raise ValueError("levels: are those of the map; leave them out")
        if self.prefix is not None:
            if not self.named:
                raise ValueError("levels: name the first characters that are levels; all others are 'other'")
            for level in self.named:
                if len(normal(level)) != self.prefix:
                    raise ValueError(
                        f"levels: {level!r} has {len(normal(level))} characters, and prefix is {self.prefix}"
                    )
        ((code, count),) = Counter(normal(code) for code, _ in self.entries).most_common(1)
        if count > 1:
            raise ValueError(f"{'levels' if self.map is None else 'map'}: {code} is there twice")

    def values(self, *sources: Floats) -> Floats:
        places = {level: float(place) for place, level in enumerate((*self.levels, OTHER))}
        of_entry = np.array([*(places[level] for _, level in self.entries), places[OTHER]])  # -1 is the last
        found = of_entry[longest_start(sources[0], [code for code, _ in self.entries]).astype(np.intp)]
        return np.where(np.isnan(sources[0]), np.nan, found)


def _read_map(path: Path) -> tuple[tuple[str, str], ...]:
    """Code and level of each line.

    Raises:
        ValueError: it cannot be read, or is not what it should be.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = [[cell.strip() for cell in line] for line in islice(csv.reader(file), _MOST_LINES + 2) if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"map: cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if not lines or lines[0] != ["code", "level"]:
        raise ValueError(f"map: the first line of {path} is code,level")
    if not 1 < len(lines) <= _MOST_LINES + 1:
        raise ValueError(f"map: {path} has 1 to {_MOST_LINES:,} codes below its header")
    for number, line in enumerate(lines[1:], 2):
        if len(line) != 2 or math.isnan(code_number(line[0])) or not line[1]:
            raise ValueError(
                f"map: line {number} of {path} has no code of 1 to {LONGEST} letters and digits, and a level"
            )
    return tuple((code, level) for code, level in lines[1:])


_TERMS = 11  # what is left out is below 2^-55 of the sum, as |s| <= 3 - sqrt(8)
_LN2_HIGH, _LN2_LOW = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")
"""ln 2 in two parts, the first of so few bits that its product with an exponent is exact."""


def ln(values: Floats) -> Floats:
    """Natural logarithm by its series in s = (m - 1) / (m + 1), where x = m 2^e and 1/sqrt(2) <= m < sqrt(2).

    A library's logarithm differs in the last bit between processors and versions. A code that differs after an upgrade is no
    longer what an approval commits to (docs/format.md 7).
    The error is below one unit in the last place. Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 4.1.27.

    Args:
        values: any shape; NaN wherever they are not positive and finite.
    """
    known = np.isfinite(values) & (values > 0)
    mantissa, exponent = np.frexp(np.where(known, values, 1.0))
    small = mantissa < np.sqrt(0.5)
    mantissa, exponent = np.where(small, 2 * mantissa, mantissa), exponent - small
    f = mantissa - 1.0  # exact
    s = f / (2.0 + f)
    square = s * s
    tail = np.full_like(s, 1 / (2 * _TERMS + 1))
    for term in range(_TERMS - 1, 0, -1):
        tail = 1 / (2 * term + 1) + square * tail
    # 2 s = f - s f: the leading term is exact, and only what is small is rounded.
    found = exponent * _LN2_HIGH + (f - (s * (f - 2.0 * square * tail) - exponent * _LN2_LOW))
    return np.where(known, found, np.nan)


class Log(Formula):
    """Natural logarithm of a number plus an offset, in the unit of that number."""

    key = "log"

    log: Name
    plus: Number = 0.0

    @property
    def text(self) -> str:
        return f"log({_shifted(self.log, self.plus)})"

    def check(self, sources: Sequence[Source]) -> None:
        _, upper = ends_of("log", sources[0])
        if upper + self.plus <= 0:
            raise ValueError(f"plus: {self.log} is at most {upper:g}, so there is never a logarithm")

    def bounds(self, sources: Sequence[Source]) -> tuple[float, float]:
        lower, upper = self.values(np.array(ends_of("log", sources[0]))).tolist()
        return (-math.inf if math.isnan(lower) else lower, upper)

    def values(self, *sources: Floats) -> Floats:
        return ln(sources[0] + self.plus)


class Square(Formula):
    """Square of a number plus an offset. From the middle of its range, a square hardly goes together with the number itself."""

    key = "square"

    square: Name
    plus: Number = 0.0

    @property
    def text(self) -> str:
        shifted = _shifted(self.square, self.plus)
        return f"({shifted})^2" if self.plus else f"{shifted}^2"

    def check(self, sources: Sequence[Source]) -> None:
        ends_of("square", sources[0])

    def bounds(self, sources: Sequence[Source]) -> tuple[float, float]:
        lower, upper = (end + self.plus for end in ends_of("square", sources[0]))
        corners = (lower * lower, upper * upper)
        return (0.0 if lower <= 0 <= upper else min(corners), max(corners))

    def values(self, *sources: Floats) -> Floats:
        shifted = sources[0] + self.plus
        return shifted * shifted


class Product(Formula):
    """Product of two numbers or binaries."""

    key = "product"

    product: tuple[Name, Name]

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


class Missing(CategoryFormula):
    """Tells whether a cell has no value, as it is missing or unreadable: 1 or 0, and never missing itself."""

    key = "missing"
    of_missing = True

    missing: Name

    @property
    def text(self) -> str:
        return f"{self.missing} is missing"

    def check(self, sources: Sequence[Source]) -> None:
        pass

    def values(self, *sources: Floats) -> Floats:
        return 1.0 - np.isnan(sources[0])


class Indicator(CategoryFormula):
    """Tells whether a category has a level, a number is at least ``from`` and less than ``to``, or a code is one of some."""

    key = "indicator"

    indicator: Name
    named: Annotated[str | None, Field(alias="level")] = None
    start: Annotated[Number | None, Field(alias="from")] = None
    end: Annotated[Number | None, Field(alias="to")] = None
    codes: Annotated[tuple[Prefix, ...], Field(max_length=100)] = ()

    @property
    def text(self) -> str:
        if self.named is not None:
            return f"{self.indicator} = {level_text(self.named)}"
        if self.codes:
            return f"{self.indicator} starts with {' or '.join(map(level_text, self.codes))}"
        start = "" if self.start is None else f"{number_text(self.start)} <= "
        return start + self.indicator + ("" if self.end is None else f" < {number_text(self.end)}")

    def check(self, sources: Sequence[Source]) -> None:
        source, ends = sources[0], {"from": self.start, "to": self.end}
        declared = {key: end for key, end in ends.items() if end is not None}
        if isinstance(source, CodeColumn) != bool(self.codes):
            raise ValueError(f"codes: {source.name} {'is of codes; name some' if not self.codes else 'has no codes'}")
        if (self.named is not None) + bool(declared) + bool(self.codes) != 1:
            raise ValueError("indicator: takes either level, or from, to, or both of these, or codes")
        if self.codes:
            return
        if self.named is not None:
            if not source.values:
                raise ValueError(f"level: {source.name} is no category; of a number say from or to")
            if self.named not in source.values:
                raise ValueError(f"level: {source.name} has no level {self.named!r}, only {listed(source.vocabulary)}")
            return
        ends_of("indicator", source)
        for key, end in declared.items():
            check_parts(key, end, source)
        if len(declared) == 2 and not declared["from"] < declared["to"]:
            raise ValueError(f"from: {declared['from']:g} is not less than to, {declared['to']:g}")

    def entering(self, source: Source) -> tuple[str, ...]:
        return (self.named or "",)

    def values(self, *sources: Floats) -> Floats:
        cells = sources[0]
        if self.named is not None:
            return 1.0 - cells
        if self.codes:
            return np.where(np.isnan(cells), np.nan, longest_start(cells, self.codes) < 0)
        start, end = (-math.inf if self.start is None else self.start, math.inf if self.end is None else self.end)
        return np.where(np.isnan(cells), np.nan, ~((cells >= start) & (cells < end)))


def _shifted(name: str, plus: float) -> str:
    return f"{name} {'-' if plus < 0 else '+'} {number_text(abs(plus))}" if plus else name


def _iso(value: object) -> object:
    return value.isoformat() if type(value) is date else value


def _name_or_date(text: str) -> str:
    if _fixed(text) is None and not re.fullmatch(NAME, text):
        raise ValueError(f"{text!r} is neither a column's name nor a date such as 2011-01-31")
    return text


Day = Annotated[str, BeforeValidator(_iso), AfterValidator(_name_or_date)]
"""Name of a column of dates, or a date as ISO 8601 writes it."""


class _TwoDates(Formula):
    """A formula of two dates.

    Attributes:
        quantity: what it counts from the first to the second.
    """

    quantity: ClassVar[str]

    @property
    def pair(self) -> tuple[str, str]:
        """Both dates, as declared."""
        pair: tuple[str, str] = getattr(self, self.key)
        return pair

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(text for text in self.pair if _fixed(text) is None)

    @property
    def text(self) -> str:
        return f"{self.quantity} from {self.pair[0]} to {self.pair[1]}"

    def check(self, sources: Sequence[Source]) -> None:
        for source in sources:
            check_date(self.key, source)
        if not sources:
            raise ValueError(f"{self.key}: both dates are fixed; name a column of dates")
        if len(set(self.pair)) < 2:
            raise ValueError(f"{self.key}: names {self.pair[0]} twice")

    def _both(self, sources: Sequence[Floats]) -> tuple[Floats, Floats]:
        """(n,) days since 1970-01-01 of either date."""
        given = iter(sources)
        fixed = [_fixed(text) for text in self.pair]
        first, second = (next(given) if day is None else np.array([day]) for day in fixed)
        return first, second


class Days(_TwoDates):
    """Days from one date to another, negative if it is earlier; no bounds follow."""

    key = "days"
    quantity = "days"

    days: tuple[Day, Day]

    def values(self, *sources: Floats) -> Floats:
        first, second = self._both(sources)
        return second - first


class Age(_TwoDates):
    """Birthdays from one date to another, negative if it is earlier; one on 29 February is on 1 March in other years."""

    key = "age"
    quantity = "whole years"

    age: tuple[Day, Day]

    def values(self, *sources: Floats) -> Floats:
        first, second = self._both(sources)
        (year, in_year), (later, in_later) = (_year_and_day(days) for days in (first, second))
        return later - year - (in_later < in_year)


def _year_and_day(days: Floats) -> tuple[Floats, Floats]:
    """(n,) years, and 100 times the month plus the day of it; NaN where there is no date."""
    known = np.isfinite(days)
    whole = np.where(known, days, 0).astype("datetime64[D]")
    months = whole.astype("datetime64[M]")
    year = whole.astype("datetime64[Y]").astype(np.int64) + 1970
    month = months.astype(np.int64) % 12
    day = (whole - months).astype(np.int64)
    return np.where(known, year, np.nan), np.where(known, 100 * month + day, np.nan)


def _fixed(text: str) -> float | None:
    """Days since 1970-01-01 of a date as text; None of what is none."""
    if not re.fullmatch(DATE, text):
        return None
    try:
        return float((date.fromisoformat(text) - date(1970, 1, 1)).days)
    except ValueError as error:
        raise ValueError(f"there is no date {text}") from error


_FORMULAS: dict[str, type[Formula]] = {
    each.key: each for each in (Log, Square, Indicator, Product, Days, Age, Missing, Bands, Exit, Category)
}


def read_formula(derived: object) -> Formula:
    """A formula from what ``derived`` says.

    Raises:
        ValueError: it says none, or more than one; `Mistakes` if keys are wrong.
    """
    found = (
        [key for key in _FORMULAS if key in derived and derived[key] is not True] if isinstance(derived, dict) else []
    )
    if len(found) != 1:
        raise ValueError(f'name one of {", ".join(_FORMULAS)}, as in {{ square = "age" }}')
    try:
        return _FORMULAS[found[0]].model_validate(derived)
    except ValidationError as error:
        raise Mistakes(mistakes(error, _FORMULAS[found[0]], derived)) from error
