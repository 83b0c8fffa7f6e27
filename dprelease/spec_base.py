"""The part of a release spec that every mechanism reads: parties, columns, patients, target, times, and its own terms.

A mechanism never sees more of a spec than this, so that it can be read, checked and priced without the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, SerializeAsAny, model_validator

from dprelease.about import About
from dprelease.canonical import Digest, Rows, RowsPerSubject, Value
from dprelease.canonical import Instant as Instant
from dprelease.canonical import instant as instant
from dprelease.canonical import moment as moment
from dprelease.data.columns import LARGEST_WEIGHT, Column, Name, distinct_names, private, public, released_names
from dprelease.errors import InvalidInput, SpecRefused
from dprelease.one_line import listed, nearest

Label = Literal["DP", "feature-DP", "label-DP", "mixed"]
"""Names of the guarantee: ``DP`` if it covers every column; else ``feature-DP`` if the public columns are outcomes,
``label-DP`` if they are features, ``mixed`` if they are some of both (docs/guarantees.md 6)."""

ModulusName = Literal["2^61-1"]
"""The prime that blocks may be computed modulo; 2^64 has no name."""

Weight = Annotated[int, Field(ge=1, le=LARGEST_WEIGHT)]
"""How much smaller a column's noise is made."""

NEIGHBOURS: Literal["replace-one"] = "replace-one"


class Target(Value):
    """The privacy target.

    Attributes:
        scope: ``joint`` bounds what all blocks together reveal about one patient; ``per-party`` bounds each block alone.
        epsilon: > 0.
        delta: in (0, 1).
    """

    scope: Literal["joint", "per-party"]
    epsilon: Annotated[float, Field(gt=0)]
    delta: Annotated[float, Field(gt=0, lt=1)]


class PartyColumns(Value):
    """One party's part of the spec.

    Attributes:
        party: name in its certificate.
        key: SHA-256 of its public key (SubjectPublicKeyInfo), as pinned by the other parties.
        columns: declarations, in released order.
        weights: what each column's codes are multiplied by before noise, and the released numbers divided by: a column of
            weight w has w times less noise than one of weight 1. None where all are 1, and then left out of canonical bytes.
    """

    party: Name
    key: Digest
    columns: Annotated[tuple[Column, ...], Field(min_length=1)]
    weights: Annotated[tuple[Weight, ...], Field(exclude_if=lambda weights: not weights)] = ()

    @model_validator(mode="after")
    def _weights_have_one_spelling(self) -> PartyColumns:
        if not self.weights:
            return self
        if len(self.weights) != len(self.columns) or not set(self.weights) - {1}:
            raise ValueError(f"{self.party}: one weight for each column, or none where all are 1")
        if any(column.public and weight != 1 for column, weight in zip(self.columns, self.weights, strict=True)):
            raise ValueError(f"{self.party}: a public column gets no noise, so its weight is 1")
        return self

    @property
    def released(self) -> tuple[str, ...]:
        """Released column names; d_j of them."""
        return released_names(self.columns)

    @property
    def private(self) -> tuple[Column, ...]:
        """The columns that the guarantee covers."""
        return private(self.columns)

    @property
    def public(self) -> tuple[Column, ...]:
        """The columns that are published exactly."""
        return public(self.columns)


def label_of(columns: tuple[Column, ...], outcomes: tuple[str, ...]) -> Label:
    """The name of the guarantee when outcomes are named: it follows from which columns are public.

    Args:
        columns: of all parties.
        outcomes: names of those that are outcomes only.
    """
    named = frozenset(outcomes)
    sides = {column.name in named for column in public(columns)}
    if len(sides) != 1:
        return "mixed" if sides else "DP"
    return "feature-DP" if True in sides else "label-DP"


@dataclass(frozen=True)
class Place:
    """The place of a release among those that continue one another: checkpoints of a stream, under one guarantee and one charge.

    A release that stands alone is the first and the last of itself. Source: docs/protocol.md, "Streams".

    Attributes:
        stream: digest of the first checkpoint's spec, by which a stream is known.
        number: t, from 1: which of the stream's checkpoints this is.
        last: T, how many checkpoints the stream may have; None where nobody knows.
        ended: whether no other can come after this one is published.
        batch: which batch of the source its rows are; None for the whole table, where the release stands alone.
        previous: digest of the spec of the checkpoint before; None at the first, which alone is charged.
        batches: checkpoint to its new patients, in order, of all that were published, and of this one; one that failed is left
            out for ever. Empty for a release that stands alone.
    """

    stream: str
    number: int = 1
    last: int | None = 1
    ended: bool = True
    batch: int | None = None
    previous: str | None = None
    batches: Mapping[int, int] = field(default_factory=dict)

    @property
    def past(self) -> tuple[int, ...]:
        """Earlier checkpoints that were published, in order."""
        return tuple(self.batches)[:-1]


class Terms(Value):
    """A mechanism's own part of a spec; every mechanism has a class of its own. A party's name stands under ``party``."""

    mechanism: str

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Names of the columns that are outcomes only."""
        return ()

    @property
    def modulo(self) -> ModulusName | None:
        """The modulus of integers in blocks of the last round (`dprelease.mpc.modulus`); None for 2^64."""
        return None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all mechanisms that a policy has to allow."""
        return (self.mechanism,)

    def least_rows(self, spec: SpecBase) -> int:
        """Fewest rows that a dry run of the spec can do with."""
        return 1

    def patients(self, rows: int) -> int:
        """How many patients a release tells about, where its spec describes so many rows."""
        return rows

    def most_patients(self, rows: int) -> int:
        """How many patients the guarantee is for at most, where its spec describes so many rows."""
        return rows

    def place(self, spec: SpecBase) -> Place:
        """The place of a release with these terms among those that continue one another."""
        return Place(spec.digest())

    def check_follows(self, spec: SpecBase, previous: SpecBase) -> None:
        """Refuses what is not the checkpoint after another one, in all but its rows, who they are and its times.

        Raises:
            SpecRefused: with what differs.
        """
        raise SpecRefused("they are not of one stream")

    def following(self, previous: SpecBase, checkpoint: int, rows: int) -> Terms:
        """Terms of a later checkpoint.

        Args:
            previous: spec of the last one that was published, whose terms these are.
            checkpoint: t, after those that were published or failed.
            rows: new patients.

        Raises:
            InvalidInput: there is no such checkpoint, or no room for so many rows.
        """
        raise InvalidInput("the release is no checkpoint of a stream; it stands alone")

    def reseeded(self, number: int) -> Self:
        """The same terms for another batch of patients: public randomness is drawn anew, all else stays."""
        return self

    def label(self, columns: tuple[Column, ...]) -> Label | None:
        """The name that the guarantee must have with all parties' columns; None where the terms do not name outcomes."""
        return None

    def consistent(self, spec: SpecBase) -> None:
        """Tells whether these terms have the shape that the rest of the spec calls for; numbers are `Mechanism.check`'s.

        Raises:
            ValueError: they have not; why.
        """


class SpecBase(Value):
    """The released columns, their parties and the guarantee. Field by field in docs/format.md."""

    most_bytes: ClassVar[int] = 1 << 20

    format: Literal[1] = 1
    title: Annotated[str, Field(min_length=1, max_length=200)]
    consortium: Name
    roster: Name
    rows: Rows
    rows_per_subject: RowsPerSubject
    alignment: Digest
    aligned: Annotated[Digest | None, Field(exclude_if=lambda run: run is None)] = None
    neighbours: Literal["replace-one"] = NEIGHBOURS
    guarantee: Label = "DP"
    grid_bits: Annotated[int, Field(ge=1, le=24)]
    target: Target
    parties: Annotated[tuple[PartyColumns, ...], Field(min_length=1)]
    terms: SerializeAsAny[Terms]
    created: Instant
    expires: Instant
    about: Annotated[About | None, Field(exclude_if=lambda about: about is None)] = None

    @model_validator(mode="after")
    def _is_consistent(self) -> SpecBase:
        names = [part.party for part in self.parties]
        if len(set(names)) != len(names) or len({part.key for part in self.parties}) != len(names):
            raise ValueError("parties and their keys must be distinct")
        if not distinct_names(self.columns):
            raise ValueError("column names must be distinct across parties")
        if not moment(self.created) < moment(self.expires):
            raise ValueError("a release is created before it expires")
        self.terms.consistent(self)
        self._check_public()
        self._check_about()
        return self

    def _check_about(self) -> None:
        declared = {column.name: column for column in self.columns}
        for each in self.about.columns if self.about else ():
            column = declared.get(each.name)
            if column is None:
                near = nearest(each.name, declared) or f"; it has {listed(declared)}"
                raise ValueError(f"about.columns: {each.name} is no column of the release{near}")
            if each.unit and (column.indicators or column.unit not in ("", each.unit)):
                unit = "is no number" if column.indicators else f"is declared in {column.unit!r}"
                raise ValueError(f"about.columns: {each.name} {unit}; leave out its unit")
        if self.target.scope == "joint" and self.about and 0 < self.about.budget < self.target.epsilon:
            declared_budget, alone = f"epsilon = {self.about.budget:g}", f"epsilon = {self.target.epsilon:g}"
            raise ValueError(f"about.budget: {declared_budget} is for all releases, and this one alone takes {alone}")

    def _check_public(self) -> None:
        if not self.public:
            if self.guarantee != "DP":
                raise ValueError(f"nothing is public, so the guarantee is DP, not {self.guarantee}")
            return
        if not private(self.columns):
            raise ValueError("every column is public, so there is nothing to protect; publish them without noise")
        if self.guarantee == "DP":
            raise ValueError("with public columns the guarantee is feature-DP, label-DP or mixed")
        fitting = self.terms.label(self.columns)
        if fitting not in (None, self.guarantee):
            raise ValueError(f"with these outcomes the guarantee is called {fitting}, not {self.guarantee}")

    @cached_property
    def _digest(self) -> str:
        return super().digest()

    def digest(self) -> str:
        """SHA-256 of the canonical bytes, in hexadecimal; computed once."""
        return self._digest

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Pydantic's copy, with a digest of its own."""
        copy = super().model_copy(update=update, deep=deep)
        for computed in ("_digest", "place", "_blocks"):
            copy.__dict__.pop(computed, None)
        return copy

    @property
    def mechanism(self) -> str:
        """Name of the mechanism."""
        return self.terms.mechanism

    @cached_property
    def place(self) -> Place:
        """Its place among the releases that continue one another; computed once."""
        return self.terms.place(self)

    @property
    def patients(self) -> int:
        """How many patients the release tells about: n, and those of earlier checkpoints that it adds up."""
        return self.terms.patients(self.rows)

    @property
    def counted(self) -> str:
        """The unit in which patients are counted in print: ``patients``, or ``rows`` where a patient may have several."""
        return "patients" if self.rows_per_subject == 1 else "rows"

    @property
    def most_patients(self) -> int:
        """How many patients the guarantee is for at most: n, or all that a stream has room for."""
        return self.terms.most_patients(self.rows)

    @property
    def columns(self) -> tuple[Column, ...]:
        """All declared columns, party after party."""
        return tuple(column for part in self.parties for column in part.columns)

    @property
    def columns_by_party(self) -> dict[str, tuple[Column, ...]]:
        """Party to its declared columns, in released order."""
        return {part.party: part.columns for part in self.parties}

    @property
    def public(self) -> tuple[Column, ...]:
        """The columns that are published exactly, party after party."""
        return public(self.columns)

    @property
    def released(self) -> tuple[str, ...]:
        """All released column names, party after party; p of them."""
        return released_names(self.columns)

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Names of the columns that are outcomes only."""
        return self.terms.outcomes

    @property
    def weights(self) -> dict[str, int]:
        """Column name to weight, of the columns whose weight is not 1."""
        weighed = [part for part in self.parties if part.weights]
        pairs = [pair for part in weighed for pair in zip(part.columns, part.weights, strict=True)]
        return {column.name: weight for column, weight in pairs if weight != 1}

    def part(self, name: str) -> PartyColumns:
        """The part of a party that the spec has."""
        return next(part for part in self.parties if part.party == name)

    def party(self, name: str) -> PartyColumns | None:
        """The named party's part, or None."""
        return next((part for part in self.parties if part.party == name), None)
