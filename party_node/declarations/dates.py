"""Columns of dates: never released themselves, for a date is no number; the days between two of them are."""

from __future__ import annotations

import math
import re
from functools import cache
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import field_validator

from dprelease.data.columns import Name
from dprelease.files.settings import Settings

ISO_8601 = "%Y-%m-%d"

_DIRECTIVES = {
    "%Y": "(?P<year>[0-9]{4})",
    "%m": "(?P<month>[0-9]{2})",
    "%d": "(?P<day>[0-9]{2})",
    "%-m": "(?P<month>[0-9]{1,2})",
    "%-d": "(?P<day>[0-9]{1,2})",
    "%H": "[0-9]{2}",
    "%M": "[0-9]{2}",
    "%S": "[0-9]{2}",
    "%%": "%",
}
"""Directive of a format to its pattern; the time of day is read over."""


class SourceColumn(Settings):
    """A column of the source from which others are derived: its cells are read as numbers, with no bounds and no fill value.

    It answers what `dprelease.data.column.DeclaredColumn` answers of cells.
    """

    values: ClassVar[tuple[str, ...]] = ()
    vocabulary: ClassVar[tuple[str, ...]] = ()
    measured: ClassVar[bool] = False
    bounded: ClassVar[bool] = True
    ends: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    fill: ClassVar[float] = math.nan


class DateColumn(SourceColumn):
    """A column of dates: days since 1970-01-01.

    Attributes:
        format: how a date is written as text, in directives of C's strftime; others than those above have no one meaning.
    """

    aggregates: ClassVar[tuple[str, ...]] = ("first", "last", "min", "max")

    kind: Literal["date"]
    name: Name
    format: str = ISO_8601

    @field_validator("format")
    @classmethod
    def _format_gives_one_date(cls, text: str) -> str:
        if text != text.strip():
            raise ValueError(f"{text!r} has blanks at its ends; leave them out, for those of cells never count")
        parts = [part.replace("-", "") for part in re.findall(r"%-?.?", text)]
        unknown = [part for part in re.findall(r"%-?.?", text) if part not in _DIRECTIVES]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is none of {', '.join(_DIRECTIVES)}")
        if [parts.count(part) for part in ("%Y", "%m", "%d")] != [1, 1, 1]:
            raise ValueError("a date has one year (%Y), one month (%m or %-m) and one day (%d or %-d)")
        return text

    @property
    def pattern(self) -> str:
        """The regular expression of a date as text, with groups ``year``, ``month`` and ``day``."""
        parts = re.split(r"(%-?.)", self.format)
        return f"^{''.join(_DIRECTIVES.get(part, re.escape(part)) for part in parts)}$"


def day_numbers(
    year: npt.NDArray[np.int64], month: npt.NDArray[np.int64], day: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """(n,) days since 1970-01-01 in the Gregorian calendar; NaN where there is no such date."""
    first = _first_days()
    months = year * 12 + month - 1
    known = (month >= 1) & (month <= 12) & (months >= 0) & (months < len(first) - 1)
    months = np.where(known, months, 0)
    exists = known & (day >= 1) & (day <= first[months + 1] - first[months])
    return np.where(exists, first[months] + (day - 1), np.nan)


@cache
def _first_days() -> npt.NDArray[np.int64]:
    """Days since 1970-01-01 of the first day of every month from year 0 on, of one after year 9999 too."""
    months = np.arange("0000-01", "10000-02", dtype="datetime64[M]")
    return months.astype("datetime64[D]").astype(np.int64)
