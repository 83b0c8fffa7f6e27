"""How the cells of one column are written in the source: rules of party.toml, applied as they stand and never guessed."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from dprelease.files.settings import Settings
from party_node.declarations.formulas import Source

Decimal = Literal[".", ","]
Thousands = Literal["", ".", ",", " ", "'"]
Aggregate = Literal["first", "last", "min", "max", "sum", "mean", "count"]

_OF_NUMBERS = ("decimal", "thousands", "suffix", "bands")


def _listed(words: object) -> object:
    return (words,) if isinstance(words, str) else words


_CONTINUES = re.compile(r"[\d.,'\s]*(e[+-]?\d+)?", re.IGNORECASE)
"""Text that makes another number of a number before it: digits, marks between them, an exponent."""

Words = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_listed)]
"""Texts, of which one may stand without brackets."""


class Reading(Settings):
    """How a column's cells are written.

    Attributes:
        missing: texts that mean a missing cell, beside those of the source.
        decimal: decimal mark, where it is not the source's.
        thousands: mark between groups of three digits, where it is not the source's; a blank stands for every kind of blank.
        suffix: texts of which one may follow a number, such as ``kg`` or ``%``; they change nothing of it.
        bands: whether a number may be written as a band, such as ``[70-80)`` or ``80+``, and is then its midpoint.
        spellings: of a category, level to other texts that mean it.
        aggregate: what a patient's several cells become, where the source has several rows a patient.
    """

    missing: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    decimal: Decimal | None = None
    thousands: Thousands | None = None
    suffix: Words = ()
    bands: bool = False
    spellings: dict[str, Words] = Field(default_factory=dict)
    aggregate: Aggregate | None = None

    @property
    def level_of(self) -> dict[str, str]:
        """Text to the level that it means."""
        return {word: level for level, words in self.spellings.items() for word in words}

    @property
    def follows_order(self) -> bool:
        """Tells whether the order of a patient's rows decides which of their cells counts."""
        return self.aggregate in (None, "first", "last")

    def check(self, column: Source) -> None:
        """Raise a ValueError that begins with the key, if the rules do not fit a column."""
        used = self.model_dump(exclude_defaults=True)
        for key in _OF_NUMBERS if not column.measured else ():
            if key in used:
                raise ValueError(f"{key}: only numbers have it")
        if self.bands and not column.bounded:
            raise ValueError("bands: one that is open, such as 80+, ends at a declared bound; declare lower and upper")
        for word in self.suffix:
            if _CONTINUES.fullmatch(word):
                raise ValueError(
                    f"suffix: {word!r} behind a number makes another number; leave it out, and declare that one's bounds"
                )
        if column.values:
            self._check_spellings(column)
        elif self.spellings:
            raise ValueError("spellings: only categories have them")
        if self.aggregate not in (None, *column.aggregates):
            raise ValueError(f'aggregate: kind = "{column.kind}" takes {", ".join(column.aggregates)}')

    def _check_spellings(self, column: Source) -> None:
        known = {*column.values, *self.missing}
        for level, words in self.spellings.items():
            if level not in column.vocabulary:
                raise ValueError(f"spellings: {level!r} is not one of its levels")
            for word in words:
                if word in known:
                    raise ValueError(f"spellings: {word!r} means something already; a text means one level")
                known.add(word)


KEYS = tuple(Reading.model_fields)
"""The keys of party.toml that say how a column's cells are written."""

PLAIN = Reading()
"""Cells as the source has them."""
