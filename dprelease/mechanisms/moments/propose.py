"""From a request to the terms of joint moments: outcomes, dealer, parts of the charge, the least noise.

Everything here follows from the declarations, n and the target alone: no party has looked at a row yet.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from dprelease.data.columns import Name, needs_bounds, private
from dprelease.errors import InvalidInput
from dprelease.files.settings import Settings
from dprelease.mechanisms.base import Columns
from dprelease.mechanisms.draft import FIRST, Draft, Numbers, PublishedRanges
from dprelease.mechanisms.moments.calibration import released_sd
from dprelease.mechanisms.moments.clipping import Clipping
from dprelease.mechanisms.moments.clipping_rule import HEAVIEST, Situation, choose_clipping
from dprelease.mechanisms.moments.clipping_words import reuse_in_words
from dprelease.mechanisms.moments.entries import Kind, Layout
from dprelease.mechanisms.moments.level_counts import levels_in_words
from dprelease.mechanisms.moments.outcome_calibration import Moves
from dprelease.mechanisms.moments.parameters import Dealer, least_noise, sensitivity_of
from dprelease.mechanisms.moments.terms import JointMoments, split_charge
from dprelease.mechanisms.rational import read_positive
from dprelease.one_line import listed, quoted

AUTO, NONE = "auto", "none"
"""Values of ``ranges`` beside `FIRST`: published ranges if some fit, public bounds; a folder of such a name is ``./auto``."""

MOST_CLIP = 1000


def _read_clip(value: object) -> object:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value not in ("auto", "none") and not (number and 0 <= value <= MOST_CLIP):  # type: ignore[operator]
        raise ValueError(
            f'write "auto", "none" or how far rows are clipped, a number from 0 to {MOST_CLIP}; not {quoted(str(value))}'
        )
    return value


class MomentsOptions(Settings):
    """Keys of a request for joint moments.

    Attributes:
        curious: t, hospitals that may pool what they saw; 1 when absent, 0 for one party alone.
        dealer: who deals the randomness; when absent a rotating hospital if there are three and t = 1, else the coordinator.
        outcomes: names of columns that are outcomes only: their products with one another are not released.
        outcome_norm2: the largest squared norm of a patient's public outcomes in scaled units, as the one party that has them
            states it (`party-node public norm`); less of it is less noise.
        charge: hospital to its part of the price, for all with a private column; equal parts when absent.
        ranges: in which ranges numbers are coded and clipped: ``auto`` for the latest published ones that fit, or public bounds
            where there are none or outcomes are named; ``none`` for public bounds; ``first`` for ranges that a first round of the
            release itself publishes; or the folder of a fetched release that published some.
        clip: k, how far rows are clipped (`clipping_rule`): ``auto`` for 0, ``none``, or a number.
        outcome_weight: private number to its weight, to have less noise in it than in others; 1.7 suits a known outcome.
    """

    curious: Annotated[int, Field(ge=0)] | None = None
    dealer: Dealer | None = None
    outcomes: tuple[Name, ...] | None = None
    outcome_norm2: float | str | None = None
    charge: dict[Name, float | str] = Field(default_factory=dict)
    ranges: Annotated[str, Field(min_length=1)] = AUTO
    clip: Annotated[Literal["auto", "none"] | float, BeforeValidator(_read_clip)] = "auto"
    outcome_weight: dict[Name, Annotated[float, Field(ge=1, le=HEAVIEST)]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _outcomes_have_no_ranges(self) -> MomentsOptions:
        if self.ranges not in (AUTO, NONE) and self.outcomes is not None:
            raise ValueError("rows are not clipped where outcomes are named; leave out ranges or outcomes")
        return self

    @property
    def k(self) -> float:
        """`clip` as a number: infinite for none."""
        return {"auto": 0.0, "none": math.inf}[self.clip] if isinstance(self.clip, str) else self.clip

    @property
    def public_norm2(self) -> Fraction | None:
        """`outcome_norm2` as an exact rational."""
        return None if self.outcome_norm2 is None else read_positive("outcome_norm2", self.outcome_norm2)


@dataclass(frozen=True)
class MomentsPlan:
    """Expected noise of a release of joint moments, from public numbers alone.

    Attributes:
        variables: p, coded columns of all parties.
        delta: Delta, how far one row can move the released entries, in scaled units.
        noise_sd: standard deviation of the noise of an entry, in patients: an entry is a sum over patients of numbers
            in [-1, 1]. If some columns are outcomes only, of an entry of the features' covariance.
        rows: n.
        outcomes: variables that are outcomes only.
        association_sd: standard deviation of the noise of an entry of a feature and such an outcome; 0 without.
    """

    variables: int
    delta: float
    noise_sd: float
    rows: int
    outcomes: int = 0
    association_sd: float = 0.0

    @classmethod
    def of(cls, layout: Layout, moments: JointMoments, parties: int, rows: int, grid_bits: int) -> MomentsPlan:
        """From the parameters of a release."""
        outcomes = int(layout.outcome.sum())
        moved = Moves.of(layout).covariance if outcomes else sensitivity_of(layout, moments.clipping, grid_bits).squared
        sds = [released_sd(scale, parties) / 4**grid_bits for scale in moments.scales.values()]
        return cls(len(layout.variables), math.sqrt(moved), sds[Kind.PRODUCT], rows, outcomes, sds[Kind.ASSOCIATION])

    def explain(self) -> str:
        """One line: the noise, beside the number of patients."""
        if self.outcomes:
            covariance = f"{self.noise_sd:.4g} patients" if self.noise_sd else "0, as every feature is public"
            return (
                f"d = {self.variables - self.outcomes} features, l = {self.outcomes} outcomes, noise sd of an entry of the "
                f"covariance = {covariance}, of the association = {self.association_sd:.4g} patients "
                f"({self.association_sd / self.rows:.2%} of n = {self.rows:,}). Products of two outcomes are not released."
            )
        return (
            f"p = {self.variables} variables, Delta = {self.delta:.4g}, noise sd of an entry = {self.noise_sd:.4g} patients "
            f"({self.noise_sd / self.rows:.2%} of n = {self.rows:,})."
        )


def propose_moments(options: MomentsOptions, draft: Draft) -> Numbers:
    """Terms of joint moments.

    Args:
        options: of the request.
        draft: what is fixed.

    Raises:
        InvalidInput: outcomes, or curious and dealer, do not fit the parties, or parts of the charge do not add up.
    """
    if options.outcomes is None and options.outcome_norm2 is not None:
        raise InvalidInput("outcome_norm2 belongs to a release with outcomes; name them, or leave it out")
    if draft.target.scope != "joint":
        raise InvalidInput("joint moments have one target for a patient's whole row; scope must be 'joint'")
    outcomes = check_outcomes(options.outcomes, draft.columns)
    parties, rows = len(draft.columns), draft.agreed.rows
    curious, dealer = choose_dealer(parties, options.curious, options.dealer)
    layout, mu2 = Layout(draft.everything, outcomes), draft.mu2
    shape = parties, curious, dealer, draft.grid_bits, draft.agreed.rows_per_subject
    clipping = clipping_of(options, draft, curious)
    if clipping is None and (refused := needs_bounds(draft.everything)):
        raise InvalidInput(refused)
    terms = least_noise(layout, mu2, *shape, public_norm2=options.public_norm2, clipping=clipping)
    parts = parts_of(draft.columns, options.charge)
    plan = MomentsPlan.of(layout, terms, parties, rows, draft.grid_bits).explain()
    if clipping is not None and clipping.source is not None:
        plan = f"{reuse_in_words(clipping.source, rows, draft.everything)}; the key ranges of a request says otherwise. {plan}"
    levels = levels_in_words(layout, terms.scales, terms.clipping, parties, draft.grid_bits)
    return Numbers(
        terms=terms.model_copy(update={"parts": tuple(map(str, parts))}),
        charges=split_charge(mu2, draft.columns, parts),
        explanation=f"{plan} So {levels}." if levels else plan,
        advice="lower epsilon, or name other parts of the charge",
    )


def clipping_of(options: MomentsOptions, draft: Draft, curious: int) -> Clipping | None:
    """How rows are clipped; None where numbers are coded in their public bounds.

    Args:
        options: of the request.
        draft: what is fixed, with the part of the target that the moments may spend.
        curious: t.

    Raises:
        InvalidInput: the ranges cannot be read or lack a number, a weight is of no private number, or there are none to clip at.
    """
    found = _published(options, draft)
    if found is None and options.ranges != FIRST:
        if options.clip != "auto" or options.outcome_weight:
            raise InvalidInput(
                "clip and outcome_weight belong to a release with ranges: clipped at public bounds, rows would lose what they say; "
                'write ranges = "first", or name the folder of a release that published some'
            )
        return None
    # A patient with q rows moves q times as much.
    mu = math.sqrt(draft.mu2) / draft.agreed.rows_per_subject
    situation = Situation(mu, draft.agreed.rows, len(draft.columns), curious, draft.grid_bits)
    ranges, source = (None, None) if found is None else (found.ranges, found.source)
    return choose_clipping(draft.columns, ranges, situation, options.outcome_weight, options.k, source)


def _published(options: MomentsOptions, draft: Draft) -> PublishedRanges | None:
    """Ranges of an earlier release that are used; None for public bounds, and for a first round."""
    if options.ranges in (FIRST, NONE) or options.outcomes is not None:
        return None
    return draft.latest_ranges() if options.ranges == AUTO else draft.ranges(options.ranges)


def check_outcomes(outcomes: tuple[str, ...] | None, columns: Columns) -> tuple[str, ...]:
    """The columns that are outcomes only; none where the request does not say.

    Raises:
        InvalidInput: no column is named or one twice or one that is not released, or every column is one.
    """
    if outcomes is None:
        return ()
    if not outcomes:
        raise InvalidInput("outcomes: name at least one outcome, or leave it out")
    names = [column.name for declared in columns.values() for column in declared]
    unknown = [name for name in outcomes if name not in names]
    if unknown:
        raise InvalidInput(f"outcomes: not in this release: {listed(unknown)}; it has {listed(names)}")
    if len(set(outcomes)) < len(outcomes):
        twice = [name for name, times in Counter(outcomes).items() if times > 1]
        raise InvalidInput(f"outcomes: {listed(twice)} is named more than once")
    if len(outcomes) == len(names):
        raise InvalidInput("outcomes: every column is one; leave at least one as a feature")
    return outcomes


def parts_of(columns: Columns, charge: Mapping[str, float | str]) -> tuple[Fraction, ...]:
    """Parts of the charge as exact rationals, for each party with a private column in order; none where they are equal.

    Args:
        columns: party to its declared columns.
        charge: party to its part, as asked for; empty for equal parts.

    Raises:
        InvalidInput: the names are not those parties, or the parts do not add up to 1.
    """
    if not charge:
        return ()
    charged = [party for party, declared in columns.items() if private(declared)]
    if set(charge) != set(charged):
        raise InvalidInput(f"charge names the hospitals with a private column, each once: {', '.join(charged)}")
    parts = tuple(read_positive(f"charge.{party}", charge[party]) for party in charged)
    if sum(parts) != 1:
        raise InvalidInput(f"parts of the charge add up to 1, not to {sum(parts)}; write them as 1/3")
    return () if len(set(parts)) == 1 else parts


def choose_dealer(parties: int, curious: int | None, dealer: Dealer | None) -> tuple[int, Dealer]:
    """t and the dealer: those asked for if they are possible, else the defaults.

    Args:
        parties: m.
        curious: t as asked for.
        dealer: as asked for.

    Raises:
        InvalidInput: they are not possible.
    """
    if parties == 1:
        if curious or dealer not in (None, "none"):
            raise InvalidInput("one party alone computes its moments itself: leave out curious and dealer")
        return 0, "none"
    wanted = 1 if curious is None else curious
    if not 1 <= wanted < parties:
        raise InvalidInput(
            f"curious must lie between 1 and {parties - 1} with {parties} parties, not {wanted}: "
            "a hospital knows its own noise, and somebody's noise must stay unknown"
        )
    may_rotate = parties > 2 and wanted == 1
    if dealer == "rotating" and not may_rotate:
        raise InvalidInput(
            "a rotating dealer needs three parties or more and curious = 1; leave out dealer, and the coordinator deals"
        )
    if dealer == "none":
        raise InvalidInput("several parties need a dealer: leave it out, or write 'rotating' or 'coordinator'")
    return wanted, dealer or ("rotating" if may_rotate else "coordinator")
