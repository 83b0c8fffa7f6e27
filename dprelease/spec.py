"""The release spec: everything that the parties agree on, fixed before anything data-dependent is computed.

A spec is immutable. Its SHA-256 over canonical bytes is the release's identity; every approval, block and manifest is
bound to it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from dprelease.canonical import Rational, Value
from dprelease.columns import (
    LARGEST_WEIGHT,
    Column,
    Name,
    distinct_names,
    integer_sensitivity,
    private,
    public,
    released_names,
)
from dprelease.moments.layout import Layout
from dprelease.moments.terms import JointMoments, Label
from dprelease.sequence import BlockShape

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""64 lower-case hexadecimal digits: a SHA-256, or a 32-byte seed."""

_INSTANT = "%Y-%m-%dT%H:%M:%SZ"


def _on_a_clock(text: str) -> str:
    if instant(moment(text)) != text:
        raise ValueError("a time is written as 2026-01-31T12:00:00Z")
    return text


Instant = Annotated[str, AfterValidator(_on_a_clock)]
"""A time in UTC, to the second: ``2026-01-31T12:00:00Z``."""

Weight = Annotated[int, Field(ge=1, le=LARGEST_WEIGHT)]
"""How much smaller a column's noise is made."""

NEIGHBOURS: Literal["replace-one"] = "replace-one"


def instant(moment: datetime) -> str:
    """A time as an `Instant`."""
    return moment.astimezone(UTC).strftime(_INSTANT)


def moment(text: str) -> datetime:
    """An `Instant` as a time in UTC."""
    return datetime.strptime(text, _INSTANT).replace(tzinfo=UTC)


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


class Mixing(Value):
    """The public mixing matrix.

    Attributes:
        kind: ``bernoulli``, independent +-1.
        outputs: k, mixing rows released.
        seed: the 32-byte public seed, drawn after alignment was fixed.
    """

    kind: Literal["bernoulli"] = "bernoulli"
    outputs: Annotated[int, Field(ge=1)]
    seed: Digest


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


class PartyNoise(Value):
    """One party's noise, in grid units; all 0 for a party whose columns are all public.

    Attributes:
        party: name.
        mu2: mu_j^2, the party's share of the guarantee.
        anchor_scale: noise scale of the anchor row; None without an anchor.
        scale: noise scale of every mixing row (or of every row, for mechanism ``rows``).
    """

    party: Name
    mu2: Rational
    anchor_scale: Annotated[float, Field(ge=0)] | None
    scale: Annotated[float, Field(ge=0)]


class ReleaseSpec(Value):
    """What is released, from whom, under which guarantee. Field by field in docs/format.md."""

    format: Literal[1] = 1
    title: Annotated[str, Field(min_length=1, max_length=200)]
    consortium: Name
    roster: Name
    rows: Annotated[int, Field(ge=1)]
    rows_per_subject: Annotated[int, Field(ge=1)]
    alignment: Digest
    neighbours: Literal["replace-one"] = NEIGHBOURS
    guarantee: Label = "DP"
    mechanism: Literal["mixed", "rows", "moments"]
    mixing: Mixing | None
    moments: JointMoments | None = None
    anchor_weight: Rational
    grid_bits: Annotated[int, Field(ge=1, le=24)]
    target: Target
    parties: Annotated[tuple[PartyColumns, ...], Field(min_length=1)]
    noise: tuple[PartyNoise, ...]
    created: Instant
    expires: Instant

    @model_validator(mode="after")
    def _shape_is_consistent(self) -> ReleaseSpec:
        if (self.mechanism == "mixed") != (self.mixing is not None):
            raise ValueError("mechanism 'mixed' needs mixing, no other mechanism has it")
        if (self.mechanism == "moments") != (self.moments is not None):
            raise ValueError("mechanism 'moments' needs moments, no other mechanism has them")
        weight = Fraction(self.anchor_weight)
        if not 0 <= weight < 1 or (weight and self.mechanism != "mixed"):
            raise ValueError("anchor_weight must lie in [0, 1), and be 0 but for mechanism 'mixed'")
        names = [part.party for part in self.parties]
        if len(set(names)) != len(names) or len({part.key for part in self.parties}) != len(names):
            raise ValueError("parties and their keys must be distinct")
        if not distinct_names(self.columns):
            raise ValueError("column names must be distinct across parties")
        if [noise.party for noise in self.noise] != ([] if self.moments else names):
            raise ValueError("noise must name the same parties, in the same order (none for mechanism 'moments')")
        if self.mechanism == "moments" and any(part.weights for part in self.parties):
            raise ValueError("mechanism 'moments' has no weights of columns; use 'mixed' or 'rows'")
        if any((noise.anchor_scale is not None) != bool(weight) for noise in self.noise):
            raise ValueError("an anchor scale is given exactly when anchor_weight is positive")
        if not moment(self.created) < moment(self.expires):
            raise ValueError("a release is created before it expires")
        if self.mixing is not None and self.mixing.outputs > self.rows:
            raise ValueError("more mixing rows than patients")
        if self.moments is not None:
            if self.target.scope != "joint":
                raise ValueError("joint moments have one target for the whole row: scope 'joint'")
            self.moments.check({part.party: part.columns for part in self.parties})
        self._check_public()
        return self

    def _check_public(self) -> None:
        if not self.public:
            if self.guarantee != "DP":
                raise ValueError(f"nothing is public, so the guarantee is DP, not {self.guarantee}")
            return
        if not private(self.columns):
            raise ValueError("every column is public, so there is nothing to protect; publish them without noise")
        if self.mechanism == "rows":  # privacy.md 3.4
            raise ValueError(
                "mechanism 'rows' with public columns would link every noisy row to a patient; use 'mixed'"
            )
        if self.guarantee == "DP":
            raise ValueError("with public columns the guarantee is feature-DP, label-DP or mixed")
        fitting = self.moments.label(self.columns) if self.moments is not None else None
        if fitting not in (None, self.guarantee):
            raise ValueError(f"with these outcomes the guarantee is called {fitting}, not {self.guarantee}")

    @property
    def columns(self) -> tuple[Column, ...]:
        """All declared columns, party after party."""
        return tuple(column for part in self.parties for column in part.columns)

    @property
    def public(self) -> tuple[Column, ...]:
        """The columns that are published exactly, party after party."""
        return public(self.columns)

    @property
    def released(self) -> tuple[str, ...]:
        """All released column names, party after party; p of them."""
        return released_names(self.columns)

    def party(self, name: str) -> PartyColumns | None:
        """The named party's part, or None."""
        return next((part for part in self.parties if part.party == name), None)

    def noise_of(self, name: str) -> PartyNoise:
        """The named party's noise; the party must be in the spec, whose mechanism is not ``moments``."""
        return next(noise for noise in self.noise if noise.party == name)

    @property
    def weights(self) -> dict[str, int]:
        """Column name to weight, of the columns whose weight is not 1."""
        weighed = [part for part in self.parties if part.weights]
        pairs = [pair for part in weighed for pair in zip(part.columns, part.weights, strict=True)]
        return {column.name: weight for column, weight in pairs if weight != 1}

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Names of the columns that are outcomes only."""
        return self.moments.outcomes if self.moments is not None else ()

    @property
    def layout(self) -> Layout:
        """The entries of the Gram matrix, for mechanism ``moments``."""
        return _layout(self.columns, self.outcomes)

    @property
    def basis_owner(self) -> str | None:
        """The party whose features an orthonormal basis is made of; None without such a basis."""
        if self.moments is None or not self.moments.by_leverage:
            return None
        return next(part.party for part in self.parties if any(each.name not in self.outcomes for each in part.columns))

    @property
    def norm_owner(self) -> str | None:
        """The party that states how long its public outcomes are at most; None where bounds alone count."""
        if self.moments is None or self.moments.public_norm2 is None:
            return None
        return next(part.party for part in self.parties if any(each.name in self.outcomes for each in part.public))

    def block_rows(self) -> int:
        """Rows of every block: the anchor (if any) and k mixing rows, or n rows, or 1 for ``moments``."""
        if self.mixing is not None:
            return self.mixing.outputs + (1 if Fraction(self.anchor_weight) else 0)
        return self.rows if self.moments is None else 1

    def blocks(self, party: str) -> tuple[BlockShape, ...]:
        """The shapes of all blocks that the party sends, by sequence number 0, 1, 2, ..."""
        part = self.party(party)
        assert part is not None, party  # noqa: S101 - callers hold a party of this spec
        columns = self.layout.entries if self.moments is not None else len(released_names(part.private))
        return (BlockShape(self.block_rows(), columns, len(released_names(part.public))),)

    def squared_norm(self) -> int:
        """c, the squared norm of a column of the integer matrix: k for bernoulli, 1 for rows."""
        return 1 if self.mixing is None else self.mixing.outputs

    def squared_sensitivity(self, party: str) -> int:
        """D2_j, recomputed from the declared bounds: never taken from a number in the spec."""
        part = self.party(party)
        assert part is not None, party  # noqa: S101 - callers hold a party of this spec
        shared = self.rows_per_subject, self.grid_bits, part.weights
        return integer_sensitivity(part.columns, *shared, mixed=self.mixing is not None)


@lru_cache(maxsize=32)
def _layout(columns: tuple[Column, ...], outcomes: tuple[str, ...]) -> Layout:
    return Layout(columns, outcomes)
