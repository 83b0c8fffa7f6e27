"""Columns of codes of the source, such as ICD and ATC: never released themselves, and read as numbers, as dates are.

Codes are compared in capitals and without points and blanks, so that ``e11.9`` and ``E119`` are one code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator

from dprelease.arrays import Floats
from dprelease.data.columns import Name
from party_node.declarations.dates import SourceColumn

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
