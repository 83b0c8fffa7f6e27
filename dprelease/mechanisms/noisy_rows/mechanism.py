"""Mechanisms ``mixed`` and ``rows`` behind the contract, and the terms that a request gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
from pydantic import Field

from dprelease.arrays import Codes, Floats, Integers, PieceMap, one_by_one
from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import (
    Name,
    check_weights,
    integer_sensitivity,
    needs_bounds,
    numbers,
    private,
    released_names,
    weights_of,
)
from dprelease.errors import InvalidInput, SpecRefused
from dprelease.files.settings import Settings
from dprelease.mechanisms.base import COARSEST, EarlierRounds, Linear, NoiseScaling, Values
from dprelease.mechanisms.draft import FIRST, Draft, ProposedTerms, read_weight
from dprelease.mechanisms.noisy_rows.calibration import mixing_of, party_noise, plan_mixing, shares, spent
from dprelease.mechanisms.noisy_rows.privatize import drawn, integer_query, weighted
from dprelease.mechanisms.noisy_rows.released import NoisyRows, check_exact, read
from dprelease.mechanisms.noisy_rows.terms import EXACT, MixedTerms, MixingKind, NoisyRowsTerms, PartyNoise, RowsTerms
from dprelease.mechanisms.statement import OWN_NOISE, Cost, Statements, own_blocks
from dprelease.mpc.session import Products
from dprelease.privacy.noise import NoiseSource
from dprelease.spec_base import SpecBase, Weight

if TYPE_CHECKING:
    from dprelease.mechanisms.assumptions import PlannedFit, Scenario
    from dprelease.mechanisms.expected_error import Forecast, ReleasedNoise

SEED_BYTES = 32

AnyRows = TypeVar("AnyRows", bound=NoisyRowsTerms)


TRUST = ("Each block was noised inside its hospital; no other party, the coordinator or the hub saw a row.", OWN_NOISE)


class RowsOptions(Settings):
    """Keys of a request for one noisy row of each patient.

    Attributes:
        weights: column to how many times smaller its noise is than that of a column of weight 1, at the cost of the others.
        ranges: how numbers are coded: ``none`` for their public bounds; ``first`` for ranges that a first round of the release
            itself publishes.
    """

    weights: dict[Name, Weight] = Field(default_factory=dict)
    ranges: Literal["none", "first"] = "none"


class MixedOptions(RowsOptions):
    """Keys of a request for random mixtures.

    Attributes:
        k: mixing rows; by the rule of `plan_mixing` when absent.
        rho: weight of the anchor row; by the same rule when absent.
        mixing: how patients enter the mixing rows; by the rule of `mixing_of` when absent.
    """

    k: int | None = None
    rho: float | str | None = None
    mixing: MixingKind | None = None

    @property
    def anchor_weight(self) -> Fraction | None:
        """rho as an exact rational."""
        return None if self.rho is None else read_weight("rho", self.rho)


def _charges(options: RowsOptions, draft: Draft, *, mixed: bool) -> tuple[dict[str, Fraction], dict[str, int]]:
    """mu_j^2 and D2_j by party."""
    refused = needs_bounds(draft.everything)
    if refused is not None:
        raise InvalidInput(refused)
    check_weights(draft.everything, options.weights)
    q, bits = draft.agreed.rows_per_subject, draft.grid_bits
    sensitivity2 = {
        party: integer_sensitivity(columns, q, bits, weights_of(columns, options.weights), mixed=mixed)
        for party, columns in draft.columns.items()
    }
    return shares(draft.mu2, draft.target.scope, sensitivity2), sensitivity2


def _noise(
    charges: dict[str, Fraction], sensitivity2: dict[str, int], squared_norm: int, rho: Fraction
) -> tuple[PartyNoise, ...]:
    return tuple(party_noise(name, charges[name], sensitivity2[name], squared_norm, rho) for name in charges)


class _NoisyRows(Linear[AnyRows]):
    """The part that both share; `dprelease.mechanisms.base.Mechanism` says what each method is."""

    by_part = True
    weighs_columns = True

    def plans(self, scenario: Scenario) -> tuple[Scenario, ...]:
        """In public bounds, where all numbers have some, and in a first round's ranges if a request for a joint target asks."""
        plain = {key: value for key, value in scenario.asked.items() if key != "ranges"}
        in_bounds = super().plans(replace(scenario, asked=plain))
        asked, joint = scenario.asked.get("ranges") == FIRST, scenario.draft.target.scope == "joint"
        if not (asked and joint and numbers(scenario.fit.columns)):
            return in_bounds
        return *in_bounds, replace(scenario, way="in ranges")

    def cost(self, spec: SpecBase) -> Cost:
        """mu_j^2 of every party's block; a patient is in every block, so together they are one Gaussian mechanism of the sum."""
        terms = self.own(spec)
        charges = {
            noise.party: spent(noise, terms.squared_sensitivity(spec, noise.party), terms.squared_norm)
            for noise in terms.noise
        }
        return Cost(sum(charges.values(), Fraction(0)), charges, charges)

    def check(self, spec: SpecBase, scaling: NoiseScaling | None = None) -> None:
        """Refuse scales that are not those of the declared bounds and share, a coarse grid, or integers of 2^53."""
        terms = self.own(spec)
        scaling = scaling or NoiseScaling(spec.rows)
        for noise in terms.noise:
            sensitivity2 = terms.squared_sensitivity(spec, noise.party)
            share = Fraction(noise.mu2)
            if sensitivity2 and share <= 0:
                raise SpecRefused(f"{noise.party}: a share mu^2 of {noise.mu2} is not positive")
            if noise != party_noise(noise.party, share, sensitivity2, terms.squared_norm, terms.rho):
                raise SpecRefused(f"{noise.party}: the noise scales are not those of its declared bounds and share")
            if sensitivity2 < COARSEST**2 * share:
                raise SpecRefused(f"{noise.party}: the grid of 2^-{spec.grid_bits} is too coarse; raise grid_bits")
        for noise, part in zip(terms.noise, spec.parties, strict=True):
            largest = scaling.scale(max(noise.scale, noise.anchor_scale or 0.0))
            sums = scaling.rows * scaling.largest * max(part.weights, default=1) << spec.grid_bits
            if sums + 20 * largest >= EXACT:
                raise SpecRefused("released integers could reach 2^53; lower grid_bits, or most_rows of a stream")

    def exact(
        self, rows: BoundedRows, spec: SpecBase, party: str, products: Products | None, run: PieceMap = one_by_one
    ) -> Integers:
        (shape,) = self.shapes(spec, party)
        if not shape[1]:
            return np.zeros(shape, np.int64)
        weighed = (weighted(piece, spec, party) for piece in rows.pieces())
        return integer_query(weighed, spec, self.own(spec), run)

    def noise(self, spec: SpecBase, party: str, source: NoiseSource, scaling: NoiseScaling) -> Integers:
        return drawn(spec, self.own(spec), party, source, scaling)

    def opened(self, spec: SpecBase, values: Mapping[str, Integers], scaling: NoiseScaling) -> Integers:
        found = np.hstack([values[part.party] for part in spec.parties])
        check_exact(found)
        return found

    def read(
        self, spec: SpecBase, values: Values, public: Codes, earlier: EarlierRounds, upto: int | None = None
    ) -> NoisyRows:
        """The same view without a copy of the blocks, which may be larger than memory."""
        blocks = [only for part in spec.parties for only in values[part.party]]
        return read([spec], [self.own(spec)], blocks, 1.0, public)

    def view(self, batches: Sequence[SpecBase], sums: Floats | Integers, noise: float, public: Codes) -> NoisyRows:
        return read(batches, [self.own(spec) for spec in batches], [sums], noise, public)

    def shapes(self, spec: SpecBase, party: str) -> tuple[tuple[int, int], ...]:
        return ((self.own(spec).released_rows(spec), len(released_names(spec.part(party).private))),)

    def guarantee(
        self, spec: SpecBase, figures: Mapping[str, str | None], joint: str, delta: str, *, alone: bool = True
    ) -> tuple[str, ...]:
        """The guarantee as sentences; arguments as of `Mechanism.guarantee`."""
        return own_blocks("a patient who is in every block", "nothing private", figures, joint, delta)

    def statements(self, spec: SpecBase) -> Statements:
        """Every other sentence."""
        terms = self.own(spec)
        width, columns = len(private(spec.columns)), len(spec.columns)
        if not isinstance(terms, MixedTerms):
            return Statements(
                would_publish=f"{spec.rows} noisy rows of {width} columns, one for each patient, in keyed order",
                trust=TRUST,
                content=f"{columns} columns, {spec.rows} released rows (rows)",
                summary=f"rows: {spec.rows} rows, one noisy row for each patient",
                figures={"rho": terms.anchor_weight},
            )
        anchor = " and one row of column sums" if terms.rho else ""
        outputs, rows = terms.mixing.outputs, terms.mixing.outputs + (1 if terms.rho else 0)
        shape, mixed, of = (
            f"k = {outputs}, rho = {terms.anchor_weight}",
            "random mixtures of all",
            f"{spec.rows} patients",
        )
        if terms.mixing.kind == "buckets":
            each = f"at least {spec.rows // (outputs * spec.rows_per_subject)} patients each"
            shape, mixed, of = f"{shape}, in buckets", "sums with random signs, of", each
        return Statements(
            would_publish=f"{outputs} noisy {mixed} {of}{anchor}, {width} columns",
            trust=TRUST,
            content=f"{columns} columns, {rows} released rows (mixed)",
            summary=f"mixed: {rows} rows, noisy {mixed} patients",
            shape=shape,
            figures={"k": outputs, "rho": terms.anchor_weight},
        )

    def released_noise(self, spec: SpecBase, times: float = 1.0) -> ReleasedNoise:
        from dprelease.mechanisms.expected_error import ReleasedNoise  # slow to load, and only planners ask

        terms, unit = self.own(spec), times * 2.0**-spec.grid_bits
        share = float(1 - terms.rho) / terms.squared_norm
        variance = {noise.party: share * (noise.scale * unit) ** 2 for noise in terms.noise}
        return ReleasedNoise(
            variance=variance,
            columns={
                column.name: variance[part.party] / spec.weights.get(column.name, 1) ** 2
                for part in spec.parties
                for column in part.columns
            },
            shape=f"{terms.mixing.outputs} mixed rows, rho = {terms.rho}"
            if isinstance(terms, MixedTerms)
            else f"{spec.rows} rows",
            unit="of a scaled cell",
        )

    def forecast(self, spec: SpecBase, fit: PlannedFit, signal: float, times: float = 1.0) -> Forecast:
        from dprelease.mechanisms.expected_error import bounded, expected, rows_error

        terms, assumed, release = self.own(spec), fit.assumed(signal), self.released_noise(spec, times)
        exact = {column.name for column in spec.public}
        variance = {name: 0.0 if name in exact else value for name, value in release.columns.items()}
        noise, own = fit.spread_out([variance[name] for name in fit.features]), variance[fit.outcome]
        rho = float(terms.rho)
        patients = spec.rows * (1 - rho)
        length = rho * spec.rows**2 + patients  # squared length of the constant column as released
        outputs = terms.mixing.outputs if isinstance(terms, MixedTerms) else spec.rows
        return expected(
            assumed,
            rows_error(assumed, patients, outputs, noise, own),
            constant=bounded(own / length, fit.guess(fit.outcome).reach),
            slopes=float(assumed.squares @ noise) / length,
        )


class MixedMechanism(_NoisyRows[MixedTerms]):
    """Random mixtures of all patients' rows."""

    name = "mixed"
    noun = "mixtures"
    purpose = "noisy random mixtures of rows, made by each hospital alone"
    terms = MixedTerms
    options = MixedOptions

    def propose(self, options: MixedOptions, draft: Draft) -> ProposedTerms:
        charges, sensitivity2 = _charges(options, draft, mixed=True)
        rows, target, q = draft.agreed.rows, draft.target, draft.agreed.rows_per_subject
        plan = plan_mixing(rows, dict(draft.columns), target, q, options.weights, draft.part)
        outputs = plan.outputs if options.k is None else options.k
        if not 1 <= outputs <= rows:
            raise InvalidInput(f"k must lie between 1 and n = {rows:,}, not {outputs}")
        rho = plan.anchor_weight if options.anchor_weight is None else options.anchor_weight
        mixing, reason = mixing_of(options.mixing, outputs, rows, draft.draw(SEED_BYTES).hex(), q)
        noise = _noise(charges, sensitivity2, mixing.squared_norm, rho)
        terms = MixedTerms(mixing=mixing, anchor_weight=str(rho), noise=noise)
        return ProposedTerms(terms, charges, plan.explain() + reason, options.weights)

    def check(self, spec: SpecBase, scaling: NoiseScaling | None = None) -> None:
        if scaling is not None and self.own(spec).mixing.kind == "buckets":
            raise SpecRefused("a stream has no buckets: too few patients of one checkpoint would share one")
        super().check(spec, scaling)


class RowsMechanism(_NoisyRows[RowsTerms]):
    """One noisy row for each patient."""

    name = "rows"
    noun = "noisy copies"
    purpose = "one noisy row for each patient, made by each hospital alone"
    terms = RowsTerms
    options = RowsOptions
    row_per_patient = True

    def propose(self, options: RowsOptions, draft: Draft) -> ProposedTerms:
        charges, sensitivity2 = _charges(options, draft, mixed=False)
        terms = RowsTerms(noise=_noise(charges, sensitivity2, 1, Fraction(0)))
        return ProposedTerms(terms, charges, weights=options.weights)


MIXED, ROWS = MixedMechanism(), RowsMechanism()
