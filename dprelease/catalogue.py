"""A party's catalogue: the public description of its table that proposals are made from."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from dprelease.canonical import Digest, Rows, RowsPerSubject, Value
from dprelease.data.columns import Column, Name, distinct_names
from dprelease.errors import NotFound

COMPARE_KEYS = (
    "compare the key check that party-node check prints, which has to be the same at all hospitals, and how they write "
    "identifiers"
)
"""Advice if hospitals find nobody, or not everybody, in common: one of them may hold another alignment key."""

FEWEST_COMPARED = 20
"""Least patients of a reported batch, and of a whole table that is compared without an alignment run. A thousand candidates
have more than 2^128 sets of 20, and a hundred have more than 2^68."""


class Batch(Value):
    """Rows of a table that came together: the new patients of one checkpoint of a stream.

    Attributes:
        number: t, from 1: which checkpoint's.
        rows: how many.
        alignment: keyed digest of their ordered identifiers, as of a table that has no others.
    """

    number: Rows
    rows: Rows
    alignment: Digest


class Catalogue(Value):
    """Statement of a party to the coordinator about its table. It contains no cell and no identifier.

    Attributes:
        party: name in its certificate.
        roster: name of the set of patients; the budget is kept per roster.
        rows: n, public by agreement.
        rows_per_subject: q, most rows that one patient may have.
        alignment: keyed digest of the ordered identifiers; equal digests mean equal rows.
        comparable: whether digests of other hospitals can be equal to it: there was an alignment run, or its owner says that all
            hospitals have just these patients. Left out of canonical bytes where they can.
        columns: declarations.
        batches: rows that came together, in the order of their numbers; none where the source says nothing of that, and then left
            out of canonical bytes.
        identifiers: rules that bring identifiers to their normal form, as text; empty, and then left out of canonical bytes, where
            white space at their ends is all that is taken away.
        aligned: the alignment run whose patients the rows are, and no others; None where there was none, and then left out
            of canonical bytes.
        subjects: patients of the whole table; 0 where there are as many as rows, and then left out of canonical bytes.
    """

    most_bytes: ClassVar[int] = 1 << 20

    format: Literal[1] = 1
    party: Name
    roster: Name
    rows: Rows
    rows_per_subject: RowsPerSubject
    alignment: Digest
    comparable: Annotated[bool, Field(exclude_if=lambda comparable: comparable)] = True
    columns: Annotated[tuple[Column, ...], Field(min_length=1)]
    batches: Annotated[tuple[Batch, ...], Field(exclude_if=lambda batches: not batches)] = ()
    identifiers: Annotated[str, Field(max_length=4000, exclude_if=lambda rules: not rules)] = ""
    aligned: Annotated[Digest | None, Field(exclude_if=lambda run: run is None)] = None
    subjects: Annotated[int, Field(ge=0, le=2**53, exclude_if=lambda subjects: not subjects)] = 0

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Catalogue:
        if not distinct_names(self.columns):
            raise ValueError("column names must be distinct")
        if any(one.number >= two.number for one, two in pairwise(self.batches)):
            raise ValueError("batches stand once each, in the order of their numbers")
        if sum(batch.rows for batch in self.batches) > self.rows:
            raise ValueError("batches have no more rows than the table")
        return self

    @property
    def patients(self) -> int:
        """How many patients the whole table has, those included that other hospitals do not have."""
        return self.subjects or self.rows

    def column(self, name: str) -> Column | None:
        """The named column's declaration, or None."""
        return next((column for column in self.columns if column.name == name), None)

    def of_batch(self, number: int) -> Catalogue:
        """The catalogue of a table that has the rows of one batch only.

        Raises:
            NotFound: it is not there; which is the last.
        """
        found = next((batch for batch in self.batches if batch.number == number), None)
        if found is None:
            last = f"its last one is {self.batches[-1].number}" if self.batches else "its source names none"
            raise NotFound(f"the table of {self.party} has no batch {number}; {last}")
        return self.model_copy(update={"rows": found.rows, "alignment": found.alignment, "batches": ()})
