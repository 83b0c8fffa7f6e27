"""How the cells of one column are written in the source: rules of party.toml, applied as they stand and never guessed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from dprelease.data.columns import CategoricalColumn, NumericColumn
from dprelease.files.settings import Settings
from party_node.declarations.dates import DateColumn
from party_node.declarations.formulas import Source

Decimal = Literal[".", ","]
Thousands = Literal["", ".", ",", " ", "'"]
Aggregate = Literal["first", "last", "min", "max", "sum", "mean", "count"]

_OF_NUMBERS = ("decimal", "thousands", "suffix", "bands")
_AGGREGATES = {CategoricalColumn: ("first", "last"), DateColumn: ("first", "last", "min", "max")}


class Reading(Settings):
    """How a column's cells are written.

    Attributes:
        missing: texts that mean a missing cell, beside those of the source.
        decimal: decimal mark, where it is not the source's.
        thousands: mark between groups of three digits, where it is not the source's; a blank stands for every kind of blank.
        suffix: texts of which one may follow a number, such as ``kg`` or ``%``; they change nothing of it.
        bands: whether a number may be written as a band, such as ``[70-80)`` or ``80+``, and is then its midpoint.
        aggregate: what a patient's several cells become, where the source has several rows a patient.
    """

    missing: tuple[str, ...] = ()
    decimal: Decimal | None = None
    thousands: Thousands | None = None
    suffix: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    bands: bool = False
    aggregate: Aggregate | None = None

    @field_validator("missing", "suffix", mode="before")
    @classmethod
    def _one_is_a_list_of_one(cls, words: object) -> object:
        return (words,) if isinstance(words, str) else words

    def check(self, column: Source) -> None:
        """Raise a ValueError that begins with the key, if the rules do not fit a column."""
        used = self.model_dump(exclude_defaults=True)
        for key in _OF_NUMBERS if not isinstance(column, NumericColumn) else ():
            if key in used:
                raise ValueError(f"{key}: only numbers have it")
        if self.bands and isinstance(column, NumericColumn) and not column.bounded:
            raise ValueError("bands: one that is open, such as 80+, ends at a declared bound; declare lower and upper")
        allowed = _AGGREGATES.get(type(column), (self.aggregate,))
        if self.aggregate not in (None, *allowed):
            raise ValueError(f"aggregate: of a {column.kind} column it is one of {', '.join(map(str, allowed))}")


KEYS = tuple(Reading.model_fields)
"""The keys of party.toml that say how a column's cells are written."""

PLAIN = Reading()
"""Cells as the source has them."""
