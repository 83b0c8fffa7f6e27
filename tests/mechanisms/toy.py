"""A mechanism that the product does not know: noisy column sums, twice, in two blocks a party.

It shows what adding one takes: a class of terms, a class of options, and `Mechanism`'s methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from dprelease.arrays import Codes, Integers
from dprelease.canonical import Rational, Value
from dprelease.data.columns import Column, Name, integer_sensitivity, is_public, released_names
from dprelease.errors import SpecRefused
from dprelease.files.settings import Settings
from dprelease.mechanisms.base import EarlierRounds, Inputs, Mechanism, Values
from dprelease.mechanisms.draft import Draft, ProposedTerms
from dprelease.mechanisms.noisy_rows.released import NoisyRows
from dprelease.mechanisms.registry import register
from dprelease.mechanisms.statement import Cost, Statements
from dprelease.privacy.calibration import GRID_VARIANCE, budget, least_scale
from dprelease.spec_base import SpecBase, Terms

if TYPE_CHECKING:
    from dprelease.mechanisms.assumptions import PlannedFit
    from dprelease.mechanisms.expected_error import Forecast, ReleasedNoise

BLOCKS = 2


class PartySums(Value):
    """One party's noise: the scale of every sum, in grid units."""

    party: Name
    mu2: Rational
    scale: Annotated[float, Field(ge=0)]


class SumsTerms(Terms):
    mechanism: Literal["sums"] = "sums"
    noise: tuple[PartySums, ...]

    def consistent(self, spec: SpecBase) -> None:
        """Whether noise names the parties."""
        if [noise.party for noise in self.noise] != [part.party for part in spec.parties]:
            raise ValueError("noise must name the same parties, in the same order")


class SumsOptions(Settings):
    """What a request may say: hospitals whose columns count twice as much."""

    doubled: tuple[Name, ...] = ()


def moved(columns: tuple[Column, ...], rows_per_subject: int, grid_bits: int) -> int:
    """Squared sensitivity of a party's sums, squared grid units."""
    return integer_sensitivity(columns, rows_per_subject, grid_bits)


def noise_for(party: str, mu2: Fraction, sensitivity2: int) -> PartySums:
    """The least noise with which two sums cost mu^2 together."""
    if not sensitivity2:
        return PartySums(party=party, mu2="0", scale=0.0)
    return PartySums(party=party, mu2=str(mu2), scale=least_scale(BLOCKS * sensitivity2, mu2))


class Sums(Mechanism[SumsTerms]):
    name = "sums"
    terms = SumsTerms
    options = SumsOptions

    def propose(self, options: SumsOptions, draft: Draft) -> ProposedTerms:
        weight = {party: 2 if party in options.doubled else 1 for party in draft.columns}
        total = budget(draft.target)
        share = {party: total * weight[party] / sum(weight.values()) for party in draft.columns}
        q, bits = draft.agreed.rows_per_subject, draft.grid_bits
        noise = tuple(noise_for(party, share[party], moved(own, q, bits)) for party, own in draft.columns.items())
        return ProposedTerms(SumsTerms(noise=noise), {each.party: Fraction(each.mu2) for each in noise}, "sums, twice")

    def _moved(self, spec: SpecBase) -> dict[str, int]:
        return {part.party: moved(part.columns, spec.rows_per_subject, spec.grid_bits) for part in spec.parties}

    def cost(self, spec: SpecBase) -> Cost:
        sensitivity2, charges = self._moved(spec), {}
        for each in self.own(spec).noise:
            room = Fraction(each.scale) ** 2 - GRID_VARIANCE
            charges[each.party] = BLOCKS * sensitivity2[each.party] / room if room > 0 else Fraction(0)
        return Cost(sum(charges.values(), Fraction(0)), charges, charges)

    def check(self, spec: SpecBase) -> None:
        sensitivity2 = self._moved(spec)
        for each in self.own(spec).noise:
            if sensitivity2[each.party] and Fraction(each.mu2) <= 0:
                raise SpecRefused(f"{each.party}: a share is not positive")
            if each != noise_for(each.party, Fraction(each.mu2), sensitivity2[each.party]):
                raise SpecRefused(f"{each.party}: the noise scale is not that of its declared bounds and share")

    def shapes(self, spec: SpecBase, party: str) -> tuple[tuple[int, int], ...]:
        part = spec.party(party)
        assert part is not None
        return ((1, len(released_names(part.private))),) * BLOCKS

    def privatize(self, spec: SpecBase, party: str, inputs: Inputs) -> tuple[Integers, ...]:
        scale = next(each.scale for each in self.own(spec).noise if each.party == party)
        exact = inputs.rows.private.sum(axis=0, dtype=np.int64)[None, :]
        return tuple(exact + inputs.noise.discrete_gaussian(scale, exact.shape) for _ in range(BLOCKS))

    def read(
        self, spec: SpecBase, values: Values, public: Codes, earlier: EarlierRounds, upto: int | None = None
    ) -> NoisyRows:
        grid, shown = 2.0**-spec.grid_bits, is_public(spec.columns)
        sums = np.empty((BLOCKS, len(shown)))
        sums[:, shown] = public.sum(axis=0)
        sums[:, ~shown] = np.hstack([np.vstack(values[part.party]) for part in spec.parties])
        scale = {each.party: each.scale for each in self.own(spec).noise}
        sd = np.concatenate([np.full(len(part.released), scale[part.party] * grid) for part in spec.parties])
        sd[shown] = 0.0
        return NoisyRows(
            spec.released, sums * grid, np.full(BLOCKS, float(spec.rows)), sd, spec.rows, spec.columns, False
        )

    def guarantee(
        self, spec: SpecBase, figures: Mapping[str, str | None], joint: str, delta: str, *, alone: bool = True
    ) -> tuple[str, ...]:
        return (f"Joint: (epsilon, delta) = ({joint}, {delta}) for the sums of every hospital, twice.",)

    def statements(self, spec: SpecBase) -> Statements:
        return Statements(
            would_publish=f"{BLOCKS} noisy sums of each of {len(spec.released)} columns",
            trust=("Each sum was noised inside its hospital.",),
            content=f"sums of {len(spec.released)} columns",
            summary="sums: one row of noisy sums, twice",
        )

    def released_noise(self, spec: SpecBase, times: float = 1.0) -> ReleasedNoise:
        from dprelease.mechanisms.expected_error import ReleasedNoise

        variance = {each.party: (times * each.scale * 2.0**-spec.grid_bits) ** 2 for each in self.own(spec).noise}
        columns = {column.name: variance[part.party] for part in spec.parties for column in part.columns}
        return ReleasedNoise(variance, columns, f"{BLOCKS} sums", "of a sum")

    def forecast(self, spec: SpecBase, fit: PlannedFit, signal: float, times: float = 1.0) -> Forecast:
        from dprelease.mechanisms.expected_error import expected

        constant = self.released_noise(spec, times).columns[fit.outcome] / BLOCKS / spec.rows**2
        return expected(fit.assumed(signal), np.inf, constant=constant, slopes=0.0)


SUMS = Sums()


def add() -> None:
    register(SUMS)
