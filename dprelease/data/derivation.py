"""Derivations: formulas, as text, by which a column's owner computes it from other columns of the same row.

A derivation is a public declaration like a unit: nobody but the owner can check that cells follow it, and no guarantee rests on it,
for a derived cell is clipped to its own column's bounds like any other cell.
"""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import Field

NAME = r"[A-Za-z_][A-Za-z0-9_.-]{0,63}"
"""A column's name, as a regular expression."""

DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
"""A date as ISO 8601 writes it, as a regular expression."""

_DAY = f"({NAME}|{DATE})"
_POSITIVE = r"[0-9]+(\.[0-9]+)?(e[+-][0-9]+)?"
_NUMBER = f"-?{_POSITIVE}"
_LEVEL = r'"([^"\\\x00-\x1f]|\\["\\bfnrt]|\\u[0-9a-f]{4})+"'

FORMS = (
    rf"log\({NAME}( [+-] {_POSITIVE})?\)",
    rf"{NAME}\^2",
    rf"\({NAME} [+-] {_POSITIVE}\)\^2",
    rf"{NAME} \* {NAME}",
    rf"days from {_DAY} to {_DAY}",
    rf"{NAME} = {_LEVEL}",
    rf"{_NUMBER} <= {NAME}( < {_NUMBER})?",
    rf"{NAME} < {_NUMBER}",
    rf"whole years from {_DAY} to {_DAY}",
    rf"{NAME} is missing",
)
"""Every form of a derivation, as a regular expression; docs/format.md 2 says what each means."""

Derivation = Annotated[
    str, Field(pattern=rf"^({'|'.join(FORMS)})?$", max_length=1000, exclude_if=lambda text: not text)
]
"""A derivation in one of its forms; empty, and then left out of canonical bytes, of a column that is not derived."""


def number_text(number: float) -> str:
    """The shortest decimal that reads back to the same double, without ``.0``."""
    return repr(float(number)).removesuffix(".0")


def level_text(level: str) -> str:
    """A level in quotation marks, as a derivation has it."""
    return json.dumps(level, ensure_ascii=False)
