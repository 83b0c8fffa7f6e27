"""The terms of joint moments: what is released of the columns' products, with how much noise, and against whom.

The parameters follow from a target by the least noise that reaches it; their cost follows from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field, model_validator

from dprelease.canonical import Rational, Value
from dprelease.data.columns import Column, Name, needs_bounds, private, public
from dprelease.data.ranges import Range
from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.calibration import best_split, share_scales
from dprelease.mechanisms.moments.clipping import Clipping
from dprelease.mechanisms.moments.entries import EntryKind, Layout, by_kind
from dprelease.mechanisms.moments.sensitivity import Sensitivity, clipped_sensitivity, outcome_sensitivity, sensitivity
from dprelease.mechanisms.then import TermsInRanges, with_terms
from dprelease.spec_base import Label, ModulusName, SpecBase, label_of

Dealer = Literal["none", "rotating", "coordinator"]


def split_charge(
    mu2: Fraction, parties: Mapping[str, tuple[Column, ...]], parts: tuple[Fraction, ...] = ()
) -> dict[str, Fraction]:
    """Each party's part of a release's mu^2, for its ledger: 0 without a private column; together exactly mu^2.

    Args:
        mu2: of the release.
        parties: party to its columns.
        parts: one for each party with a private column, adding up to 1; equal ones unless given.
    """
    charged = [party for party, columns in parties.items() if private(columns)]
    chosen = parts or (Fraction(1, len(charged)),) * len(charged)
    return dict.fromkeys(parties, Fraction(0)) | {
        party: part * mu2 for party, part in zip(charged, chosen, strict=True)
    }


class Association(Value):
    """Outcome-only columns (PRIMO) beside the features, whose covariance has noise of its own.

    Their association with the features is released, their products with one another are not.

    Attributes:
        outcomes: names of columns; every other column is a feature.
        split: q, how much of the budget the association gets (`calibration`); 1 where every feature is public.
        scale: noise scale of each party's share of an entry of the association.
        square_scale: the same for the square of an outcome; 0 where no outcome is a private number.
        public_norm2: T2, the largest squared norm of a patient's public outcomes, in scaled units, as the one party that has them
            states it; None for what their bounds allow, 1 for each column.
    """

    outcomes: Annotated[tuple[Name, ...], Field(min_length=1)]
    split: Rational
    scale: Annotated[float, Field(gt=0)]
    square_scale: Annotated[float, Field(ge=0)]
    public_norm2: Annotated[Rational | None, Field(exclude_if=lambda norm2: norm2 is None)] = None


class JointMoments(TermsInRanges):
    """The parameters of mechanism ``moments``; scales are in units of the Gram matrix's integers, squared grid steps.

    Attributes:
        curious: t, hospitals that may pool what they saw and still learn no more than the guarantee says.
        dealer: who deals the randomness of a pair of hospitals: ``none`` (one party), ``rotating`` (another hospital) or
            ``coordinator``.
        groups: in how many groups hospitals deal for one another (`Schedule`); 0, and then left out of canonical bytes, for none.
        mu2: mu^2 of the release, which every party with a private column is exposed to, and charged a part of.
        scale: noise scale of each party's share of an entry; with an association, of the covariance's, 0 where every
            feature is public.
        diagonal_scale: the same for the square of a number.
        association: scales and split of the association, where some columns are outcomes only. None where there are none;
            canonical bytes then leave the key out.
        clipping: how rows are coded in ranges, weighted and clipped; None where every number is coded in its public bounds, and
            then left out of canonical bytes.
        parts: what part of mu^2 each party with a private column is charged, in the spec's order; none where all parts are
            equal, and then left out of canonical bytes.
        modulus: what blocks are computed modulo; None for 2^64, as all were before, and then left out of canonical bytes.
        range_proofs: whether hospitals prove to one another that their masked columns keep to `claims`; left out of canonical
            bytes where they do not.
    """

    mechanism: Literal["moments"] = "moments"
    curious: Annotated[int, Field(ge=0)]
    dealer: Literal["none", "rotating", "coordinator"]
    mu2: Rational
    scale: Annotated[float, Field(ge=0)]
    diagonal_scale: Annotated[float, Field(ge=0)]
    association: Annotated[Association | None, Field(exclude_if=lambda association: association is None)] = None
    clipping: Annotated[Clipping | None, Field(exclude_if=lambda clipping: clipping is None)] = None
    parts: Annotated[tuple[Rational, ...], Field(exclude_if=lambda parts: not parts)] = ()
    modulus: Annotated[ModulusName | None, Field(exclude_if=lambda modulus: modulus is None)] = None
    range_proofs: Annotated[bool, Field(exclude_if=lambda proofs: not proofs)] = False
    groups: Annotated[int, Field(ge=0, exclude_if=lambda groups: not groups)] = 0

    @model_validator(mode="after")
    def _scales_are_positive(self) -> JointMoments:
        if self.association is None and not (self.scale and self.diagonal_scale):
            raise ValueError("joint moments have positive noise scales")
        if self.association is not None and self.clipping is not None:
            raise ValueError("rows are not clipped where outcomes are named; leave out one of the two")
        if self.first is not None and (self.clipping is None or self.clipping.ranges or self.clipping.source):
            raise ValueError("ranges that a first round publishes are for clipped rows, and are in no spec")
        return self

    def in_ranges(self, spec: SpecBase, ranges: Sequence[Range]) -> SpecBase:
        """The spec with the ranges in which its mechanism codes and clips rows; bounds stay."""
        assert self.clipping is not None  # noqa: S101 - validated
        clipping = self.clipping.model_copy(update={"ranges": tuple(ranges)})
        return with_terms(spec, self.model_copy(update={"clipping": clipping, "first": None}))

    @property
    def modulo(self) -> ModulusName | None:
        """The modulus of blocks; None for 2^64."""
        return self.modulus

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Names of the columns that are outcomes only."""
        return self.association.outcomes if self.association is not None else ()

    @property
    def kinds(self) -> tuple[EntryKind, ...]:
        """The kinds of entries that noise is drawn for, in this order."""
        return tuple(kind for kind, scale in self.scales.items() if scale)

    @property
    def scales(self) -> dict[EntryKind, float]:
        """Noise scale of each party's share of an entry, by kind of entry; 0 where there are none."""
        outcome_only = self.association
        others = (outcome_only.scale, outcome_only.square_scale) if outcome_only is not None else (0.0, 0.0)
        return by_kind(self.scale, self.diagonal_scale, *others)

    @property
    def split(self) -> Fraction:
        """The part of the budget that the association gets; 0 without."""
        return Fraction(self.association.split if self.association is not None else 0)

    @property
    def public_norm2(self) -> Fraction | None:
        """T2 as it is stated."""
        stated = self.association.public_norm2 if self.association is not None else None
        return None if stated is None else Fraction(stated)

    def label(self, columns: tuple[Column, ...]) -> Label | None:
        """The name of the guarantee if outcomes are named; None where they are not."""
        return None if self.association is None else label_of(columns, self.outcomes)

    def consistent(self, spec: SpecBase) -> None:
        """Checks that these are terms for the spec's parties and target, none of whose columns has a weight."""
        if any(part.weights for part in spec.parties):
            raise ValueError("mechanism 'moments' has no weights of columns; use 'mixed' or 'rows'")
        if spec.target.scope != "joint":
            raise ValueError("joint moments have one target for the whole row: scope 'joint'")
        refused = needs_bounds(spec.columns) if self.clipping is None else None
        if refused is not None:
            raise ValueError(refused)
        self.check(spec.columns_by_party)
        if self.clipping is not None:
            self.clipping.check(
                tuple(part.columns for part in spec.parties), spec.grid_bits, later=self.first is not None
            )
        super().consistent(spec)

    def check(self, parties: Mapping[str, tuple[Column, ...]]) -> None:
        """Checks that these are terms for these parties.

        Raises:
            ValueError: they are not; why.
        """
        if len(parties) == 1:
            if self.curious or self.dealer != "none":
                raise ValueError("one party alone has curious = 0 and dealer 'none'")
        elif not 1 <= self.curious < len(parties):
            raise ValueError(f"curious must lie between 1 and {len(parties) - 1}: a hospital always sees its own noise")
        elif self.dealer == "none" or (self.dealer == "rotating" and (len(parties) == 2 or self.curious > 1)):
            raise ValueError("a rotating dealer needs three parties and curious = 1; otherwise the coordinator deals")
        if self.groups and not (self.dealer == "rotating" and 3 <= self.groups <= len(parties)):
            raise ValueError(
                "a rotating dealer has three groups or more, and no group is empty; other dealers have none"
            )
        parts = [Fraction(part) for part in self.parts]
        if parts and (len(parts) != sum(bool(private(columns)) for columns in parties.values()) or min(parts) <= 0):
            raise ValueError("parts of the charge are positive, one for each party with a private column")
        if parts and (sum(parts) != 1 or len(set(parts)) == 1):
            raise ValueError("parts of the charge add up to 1, and are left out where they are equal")
        if self.association is not None:
            self._check_outcomes(parties)

    def _check_outcomes(self, parties: Mapping[str, tuple[Column, ...]]) -> None:
        named, known = set(self.outcomes), {column.name for columns in parties.values() for column in columns}
        if len(named) != len(self.outcomes) or not named < known:
            raise ValueError("outcomes are distinct columns of the release, and at least one column is none of them")
        shown = {party for party, columns in parties.items() for each in public(columns) if each.name in named}
        if self.public_norm2 is not None and (len(shown) != 1 or self.public_norm2 <= 0):
            raise ValueError("a norm of public outcomes is positive, and stated where one party has all of them")


def joint_moments(spec: SpecBase) -> JointMoments:
    """The terms of a spec of joint moments.

    Raises:
        InvalidInput: it is of another mechanism.
    """
    if not isinstance(spec.terms, JointMoments):
        raise InvalidInput(f"a release of mechanism {spec.mechanism!r} has no moments")
    return spec.terms


def layout_of(spec: SpecBase) -> Layout:
    """The entries of the Gram matrix that a spec releases."""
    return _layout(spec.columns, spec.outcomes)


@lru_cache(maxsize=32)
def _layout(columns: tuple[Column, ...], outcomes: tuple[str, ...]) -> Layout:
    return Layout(columns, outcomes)


def norm_owner(spec: SpecBase) -> str | None:
    """The party that states how long its public outcomes are at most; None where bounds alone count."""
    if joint_moments(spec).public_norm2 is None:
        return None
    return next(part.party for part in spec.parties if any(each.name in spec.outcomes for each in part.public))


def least_noise(
    layout: Layout,
    mu2: Fraction,
    parties: int,
    curious: int,
    dealer: Dealer,
    grid_bits: int,
    rows_per_subject: int,
    public_norm2: Fraction | None = None,
    clipping: Clipping | None = None,
    modulus: ModulusName | None = "2^61-1",
) -> JointMoments:
    """The parameters of a release, with the least noise of each party's share that gives mu.

    Args:
        layout: columns, and which of them are outcomes only.
        mu2: mu^2 > 0.
        parties: m.
        curious: t < m.
        dealer: who deals.
        grid_bits: b.
        rows_per_subject: q.
        public_norm2: T2, as the party that has all public outcomes states it.
        clipping: of rows; none where outcomes are named.
        modulus: of blocks; that of new releases unless told.

    Raises:
        InvalidInput: nothing is private, or every column is an outcome, or the clipping is not possible.
    """
    moved = sensitivity_of(layout, clipping, grid_bits, public_norm2)
    split = best_split(layout) if layout.outcomes else Fraction(0)
    least = share_scales(moved, mu2, parties, curious, grid_bits, rows_per_subject, split)
    association = (
        Association(
            outcomes=layout.outcomes,
            split=str(split),
            scale=least[EntryKind.ASSOCIATION],
            square_scale=least[EntryKind.OUTCOME_SQUARE],
            public_norm2=None if public_norm2 is None else str(public_norm2),
        )
        if layout.outcomes
        else None
    )
    return JointMoments(
        curious=curious,
        dealer=dealer,
        mu2=str(mu2),
        scale=least[EntryKind.PRODUCT],
        diagonal_scale=least[EntryKind.SQUARE],
        association=association,
        clipping=clipping,
        modulus=modulus,
    )


def sensitivity_of(
    layout: Layout, clipping: Clipping | None, grid_bits: int, public_norm2: Fraction | None = None
) -> Sensitivity:
    """How far one patient moves the entries of a release; arguments as of `least_noise`.

    Raises:
        InvalidInput: nothing is private, or every column is an outcome, or the clipping is not possible.
    """
    if layout.outcomes:
        return outcome_sensitivity(layout, public_norm2)
    if clipping is None:
        return sensitivity(layout.variables)
    return clipped_sensitivity(layout, clipping, grid_bits)


def moved_by(spec: SpecBase) -> Sensitivity:
    """How far one patient moves the entries of a spec of joint moments; raises as `sensitivity_of`."""
    terms = joint_moments(spec)
    return sensitivity_of(layout_of(spec), terms.clipping, spec.grid_bits, terms.public_norm2)
