"""A party's catalogue: the public description of its table that proposals are made from."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from dprelease.canonical import Digest, Value
from dprelease.data.columns import Column, Name, distinct_names


class Catalogue(Value):
    """What a party tells the coordinator about its table. It contains no cell and no identifier.

    Attributes:
        party: name in its certificate.
        roster: name of the set of patients; the budget is kept per roster.
        rows: n, public by agreement.
        rows_per_subject: q, most rows that one patient may have.
        alignment: keyed digest of the ordered identifiers; equal digests mean equal rows.
        columns: declarations.
    """

    format: Literal[1] = 1
    party: Name
    roster: Name
    rows: Annotated[int, Field(ge=1)]
    rows_per_subject: Annotated[int, Field(ge=1)]
    alignment: Digest
    columns: Annotated[tuple[Column, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Catalogue:
        if not distinct_names(self.columns):
            raise ValueError("column names must be distinct")
        return self

    def column(self, name: str) -> Column | None:
        """The named column's declaration, or None."""
        return next((column for column in self.columns if column.name == name), None)
