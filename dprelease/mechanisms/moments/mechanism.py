"""Mechanism ``moments`` behind the contract, and the terms that a request gets.

Terms follow from the declarations, n and the target alone: no party has looked at a row yet.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from dprelease.arrays import Codes, Floats, Integers, PieceMap, one_by_one
from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import Name, needs_bounds, private
from dprelease.errors import InvalidInput, SpecRefused, refused_as
from dprelease.files.settings import Settings
from dprelease.mechanisms.base import COARSEST, FIRST_ROUND, Columns, EarlierRounds, Linear, NoiseScaling
from dprelease.mechanisms.draft import AUTO, FIRST, NONE, Draft, ProposedTerms, PublishedRanges, read_positive
from dprelease.mechanisms.moments import calibration as scales
from dprelease.mechanisms.moments import words
from dprelease.mechanisms.moments.claims import unproved
from dprelease.mechanisms.moments.clipping import Clipping
from dprelease.mechanisms.moments.clipping_rule import HEAVIEST, ClippingInputs, choose_clipping
from dprelease.mechanisms.moments.entries import EntryKind, Layout
from dprelease.mechanisms.moments.privatize import coded, drawn, exact_share, masked, schedule_of
from dprelease.mechanisms.moments.public_side import check_public_features, check_public_norm
from dprelease.mechanisms.moments.released import NoisyMoments, OutcomeMoments, add_up, limits, public_gram
from dprelease.mechanisms.moments.terms import Dealer, JointMoments, layout_of, least_noise, moved_by, split_charge
from dprelease.mechanisms.moments.words import plan_in_words
from dprelease.mechanisms.statement import Cost, Statements
from dprelease.mpc.modulus import MODULI
from dprelease.mpc.schedule import Schedule, groups_of
from dprelease.mpc.session import Products
from dprelease.one_line import listed, quoted
from dprelease.privacy.noise import NoiseSource
from dprelease.spec_base import SpecBase

if TYPE_CHECKING:
    from dprelease.mechanisms.assumptions import PlannedFit, Scenario
    from dprelease.mechanisms.expected_error import Forecast, ReleasedNoise

MOST_CLIP = 1000

MOST_ENTRIES = 1 << 24
"""Most entries of joint moments, refused by counting: a block of them has 128 MiB."""
_SAMPLER = 2.0**56


def _read_proofs(value: object) -> object:
    if value != "auto" and not isinstance(value, bool):
        raise ValueError(f'write "auto", true or false, not {quoted(str(value))}')
    return value


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
        collusion_threshold: t, hospitals that may pool what they saw; 1 when absent, 0 for one party alone.
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
        range_proofs: whether hospitals prove to one another that their columns keep their bounds (`claims`); ``auto`` for yes
            wherever that is possible.
    """

    collusion_threshold: Annotated[int, Field(ge=0)] | None = None
    dealer: Dealer | None = None
    outcomes: tuple[Name, ...] | None = None
    outcome_norm2: float | str | None = None
    charge: dict[Name, float | str] = Field(default_factory=dict)
    ranges: Annotated[str, Field(min_length=1)] = AUTO
    clip: Annotated[Literal["auto", "none"] | float, BeforeValidator(_read_clip)] = "auto"
    outcome_weight: dict[Name, Annotated[float, Field(ge=1, le=HEAVIEST)]] = Field(default_factory=dict)
    range_proofs: Annotated[Literal["auto"] | bool, BeforeValidator(_read_proofs)] = "auto"

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


def proofs_of(options: MomentsOptions, draft: Draft, terms: JointMoments) -> bool:
    """Tells whether hospitals prove that their columns keep their bounds.

    Raises:
        InvalidInput: the request asks for proofs of what cannot be proved.
    """
    refused = unproved(draft.columns, terms, draft.grid_bits)
    if refused and options.range_proofs is True:
        raise InvalidInput(f"range_proofs: {refused}")
    return refused is None and options.range_proofs is not False


def clipping_of(options: MomentsOptions, draft: Draft, collusion_threshold: int) -> Clipping | None:
    """How rows are clipped; None where numbers are coded in their public bounds.

    Args:
        options: of the request.
        draft: what is fixed, with the part of the target that the moments may spend.
        collusion_threshold: t.

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
    situation = ClippingInputs(mu, draft.agreed.rows, len(draft.columns), collusion_threshold, draft.grid_bits)
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


def choose_dealer(parties: int, collusion_threshold: int | None, dealer: Dealer | None) -> tuple[int, Dealer]:
    """t and the dealer: those asked for if they are possible, else the defaults.

    Raises:
        InvalidInput: they are not possible.
    """
    if parties == 1:
        if collusion_threshold or dealer not in (None, "none"):
            raise InvalidInput("one party alone computes its moments itself: leave out collusion_threshold and dealer")
        return 0, "none"
    wanted = 1 if collusion_threshold is None else collusion_threshold
    if not 1 <= wanted < parties:
        raise InvalidInput(
            f"collusion_threshold must lie between 1 and {parties - 1} with {parties} parties, not {wanted}: "
            "a hospital knows its own noise, and somebody's noise must stay unknown"
        )
    may_rotate = parties > 2 and wanted == 1
    if dealer == "rotating" and not may_rotate:
        raise InvalidInput(
            "a rotating dealer needs three parties or more and collusion_threshold = 1; leave out dealer, and the coordinator deals"
        )
    if dealer == "none":
        raise InvalidInput("several parties need a dealer: leave it out, or write 'rotating' or 'coordinator'")
    return wanted, dealer or ("rotating" if may_rotate else "coordinator")


class MomentsMechanism(Linear[JointMoments]):
    """The noisy Gram matrix of all hospitals' columns; `dprelease.mechanisms.base.Mechanism` says what each method is."""

    name = "moments"
    purpose = "noisy sums of products of all columns, computed by the hospitals together"
    terms = JointMoments
    options = MomentsOptions
    checks_sum = True

    def propose(self, options: MomentsOptions, draft: Draft) -> ProposedTerms:
        if options.outcomes is None and options.outcome_norm2 is not None:
            raise InvalidInput("outcome_norm2 belongs to a release with outcomes; name them, or leave it out")
        if draft.target.scope != "joint":
            raise InvalidInput("joint moments have one target for a patient's whole row; scope must be 'joint'")
        outcomes = check_outcomes(options.outcomes, draft.columns)
        parties = len(draft.columns)
        collusion_threshold, dealer = choose_dealer(parties, options.collusion_threshold, options.dealer)
        layout, mu2, stated = Layout(draft.everything, outcomes), draft.mu2, options.public_norm2
        shape = parties, collusion_threshold, dealer, draft.grid_bits, draft.agreed.rows_per_subject
        clipping = clipping_of(options, draft, collusion_threshold)
        if clipping is None and (refused := needs_bounds(draft.everything)):
            raise InvalidInput(refused)
        terms = least_noise(layout, mu2, *shape, public_norm2=stated, clipping=clipping)
        parts, proofs = parts_of(draft.columns, options.charge), proofs_of(options, draft, terms)
        groups = groups_of(parties) if dealer == "rotating" else 0
        terms = terms.model_copy(update={"parts": tuple(map(str, parts)), "range_proofs": proofs, "groups": groups})
        return ProposedTerms(
            terms=terms,
            charges=split_charge(mu2, draft.columns, parts),
            explanation=plan_in_words(layout, terms, draft),
            advice="lower epsilon, or name other parts of the charge",
        )

    def cost(self, spec: SpecBase) -> Cost:
        """mu^2 of the release, and the parts of it that ledgers are charged."""
        terms = self.own(spec)
        joint = scales.spent(moved_by(spec), terms.scales, *_shared(spec, terms))
        charges = split_charge(joint, spec.columns_by_party, tuple(map(Fraction, terms.parts)))
        exposures = {party: joint if mu2 else Fraction(0) for party, mu2 in charges.items()}
        return Cost(joint, charges, exposures, terms.curious)

    def check(self, spec: SpecBase, scaling: NoiseScaling | None = None) -> None:
        """Refuse scales that are not those of the declared bounds, too many entries, a coarse grid, or sums that could wrap."""
        terms = self.own(spec)
        scaling = scaling or NoiseScaling(spec.rows)
        layout = layout_of(spec)
        outcomes = int(layout.outcome.sum())
        size = len(layout.variables) + 1 - outcomes
        if size * (size + 1) // 2 + (size + 1) * outcomes > MOST_ENTRIES:
            raise SpecRefused(
                f"{size - 1 + outcomes} variables make more than {MOST_ENTRIES} entries; release fewer columns or levels"
            )
        with refused_as(SpecRefused):
            moved = moved_by(spec)
        if terms.range_proofs and (refused := unproved(spec.columns_by_party, terms, spec.grid_bits)):
            raise SpecRefused(f"range_proofs: {refused}")
        mu2 = Fraction(terms.mu2)
        if mu2 <= 0:
            raise SpecRefused(f"mu^2 of {terms.mu2} is not positive")
        least = scales.share_scales(moved, mu2, *_shared(spec, terms), terms.split)
        if terms.scales != least:
            raise SpecRefused(
                "the noise scales are not those of the declared bounds, mu^2 and the number of curious hospitals"
            )
        finest = min(scale for scale in least.values() if scale)
        moves = moved.on_grid(spec.grid_bits, spec.rows_per_subject)
        smallest = min(move for kind in (EntryKind.PRODUCT, EntryKind.ASSOCIATION) if (move := moves[kind]))
        if finest < scales.FINEST or smallest < COARSEST**2 * mu2:
            raise SpecRefused(f"the grid of 2^-{spec.grid_bits} is too coarse; raise grid_bits")
        largest = scaling.scale(max(terms.scales.values()))
        # In integers: with doubles a sum near the bound could be rounded below it.
        reach = (scaling.rows * scaling.largest << (2 * spec.grid_bits)) + scales.noise_reach(
            largest, len(spec.parties)
        )
        bound = MODULI[terms.modulo].reach
        if reach >= bound or largest >= _SAMPLER:
            raise SpecRefused(
                f"sums could reach 2^{bound.bit_length() - 1} and wrap; lower grid_bits, or most_rows of a stream"
            )

    def shapes(self, spec: SpecBase, party: str) -> tuple[tuple[int, int], ...]:
        return ((1, layout_of(spec).entries),)

    def schedule(self, spec: SpecBase) -> Schedule | None:
        return schedule_of(spec) if len(spec.parties) > 1 else None

    def matrix(self, rows: BoundedRows, spec: SpecBase, earlier: EarlierRounds = FIRST_ROUND) -> Codes:
        return coded(rows, spec)

    def exact(
        self, rows: BoundedRows, spec: SpecBase, party: str, products: Products | None, run: PieceMap = one_by_one
    ) -> Integers:
        return exact_share(products or Products(coded(rows, spec), {}, {}), spec, party, run)

    def noise(self, spec: SpecBase, party: str, source: NoiseSource, scaling: NoiseScaling) -> Integers:
        return drawn(spec, source, scaling)

    def masked(self, values: Integers, spec: SpecBase, party: str, products: Products | None) -> Integers:
        return masked(values, spec, party, {} if products is None else products.masks)

    def opened(self, spec: SpecBase, values: Mapping[str, Integers], scaling: NoiseScaling) -> Integers:
        parts = [values[part.party] for part in spec.parties]
        scales = {kind: scaling.scale(scale) for kind, scale in self.own(spec).scales.items()}
        shape = scaling.rows * scaling.largest, spec.grid_bits, scales, len(parts)
        return add_up(parts, limits(layout_of(spec), *shape), MODULI[spec.terms.modulo]).reshape(parts[0].shape)

    def view(
        self, batches: Sequence[SpecBase], sums: Floats | Integers, noise: float, public: Codes
    ) -> NoisyMoments | OutcomeMoments:
        spec = batches[0]
        terms, layout = self.own(spec), layout_of(spec)
        scales = {kind: scale * noise for kind, scale in terms.scales.items()}
        shape = sum(each.rows for each in batches), spec.grid_bits, scales, len(spec.parties)
        if terms.association is None:
            gram = public_gram(public, spec.public, spec.grid_bits) if spec.public else 0
            return NoisyMoments.read(layout, sums[0], *shape, gram, terms.clipping)
        if terms.public_norm2 is not None:
            check_public_norm(public, layout, terms.public_norm2, spec.grid_bits)
        return OutcomeMoments.read(layout, sums[0], *shape, public)

    def guarantee(
        self, spec: SpecBase, figures: Mapping[str, str | None], joint: str, delta: str, *, alone: bool = True
    ) -> tuple[str, ...]:
        return words.guarantee(spec, self.cost(spec), joint, delta, alone=alone)

    def statements(self, spec: SpecBase) -> Statements:
        return words.words(spec, self.own(spec))

    def check_public(self, rows: BoundedRows, spec: SpecBase, party: str) -> None:
        check_public_features(rows, spec, self.own(spec), party)

    def review_reasons(self, spec: SpecBase, party: str, *, named: bool) -> tuple[str, ...]:
        return words.review_reasons(spec, self.own(spec), party, named=named)

    def plans(self, scenario: Scenario) -> tuple[Scenario, ...]:
        from dprelease.mechanisms.moments import forecast

        return forecast.plans(scenario)

    def released_noise(self, spec: SpecBase, times: float = 1.0) -> ReleasedNoise:
        from dprelease.mechanisms.moments import forecast  # slow to load, and only planners ask

        return forecast.released_noise(spec, self.own(spec), times)

    def forecast(self, spec: SpecBase, fit: PlannedFit, signal: float, times: float = 1.0) -> Forecast:
        from dprelease.mechanisms.moments import forecast

        return forecast.forecast(spec, self.own(spec), fit, signal, times)


def _shared(spec: SpecBase, terms: JointMoments) -> tuple[int, int, int, int]:
    return len(spec.parties), terms.curious, spec.grid_bits, spec.rows_per_subject


MOMENTS = MomentsMechanism()
