"""Columns of the source that are never released themselves, and are read as numbers: dates, and codes such as ICD and ATC.

A date is no number; the days between two of them are. Codes are compared in capitals and without points and blanks, so that
``e11.9`` and ``E119`` are one code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache
from typing import Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, field_validator

from dprelease.arrays import Floats
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


LONGEST = 10
"""Most characters of a code: 37^10 is below 2^53, so that a code is a number, exactly."""

_BASE = 37
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def normal(code: str) -> str:
    """The normal form of a code, or of its first characters."""
    return re.sub(r"[.\s]", "", code).upper()


def code_number(text: str) -> float:
    """The number that stands for a code; NaN of a text that is none."""
    code = normal(text)
    if not code or len(code) > LONGEST or any(letter not in _LETTERS for letter in code):
        return math.nan
    digits = [_LETTERS.index(letter) + 1 for letter in code] + [0] * (LONGEST - len(code))
    return float(sum(digit * _BASE**place for place, digit in enumerate(reversed(digits))))


def code_text(number: float) -> str:
    """The code, in its normal form, that a number stands for."""
    digits = [int(number) // _BASE**place % _BASE for place in reversed(range(LONGEST))]
    return "".join(_LETTERS[digit - 1] for digit in digits if digit)


class CodeColumn(SourceColumn):
    """A column of codes, from which categories are derived."""

    aggregates: ClassVar[tuple[str, ...]] = ("first", "last")

    kind: Literal["code"]
    name: Name


def _a_code(text: str) -> str:
    if math.isnan(code_number(text)):
        raise ValueError(f"{text!r} is no code: one has 1 to {LONGEST} letters A to Z and digits, points not counted")
    return text


Prefix = Annotated[str, AfterValidator(_a_code)]
"""The first characters of codes."""


def longest_start(cells: Floats, starts: Sequence[str]) -> Floats:
    """(n,) the place, from 0 on, of the longest of some starts with which each code begins; -1 where there is none."""
    place_of = {normal(start): place for place, start in enumerate(starts)}
    kinds, places = np.unique(cells, return_inverse=True)  # a table has few different codes
    codes = ["" if math.isnan(kind) else code_text(kind) for kind in kinds.tolist()]
    heads = ((code[:length] for length in range(len(code), 0, -1)) for code in codes)
    found = [next((place_of[head] for head in each if head in place_of), -1) for each in heads]
    return np.array(found, np.float64)[places]
