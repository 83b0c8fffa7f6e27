"""Formulas of two dates, of which one may be the same public date for everybody: days between them, or whole years."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import Annotated, ClassVar

import numpy as np
from pydantic import AfterValidator, BeforeValidator

from dprelease.arrays import Floats
from dprelease.data.column import DATE, NAME
from party_node.declarations.formulas import Formula, Source


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
        key: that names both of them.
        quantity: what it counts from the first to the second.
    """

    key: ClassVar[str]
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
            if source.measured or source.values:
                raise ValueError(
                    f'{self.key}: {source.name} is no date; a column of dates is declared with kind = "date"'
                )
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
