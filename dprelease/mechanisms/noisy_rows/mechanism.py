"""Mechanisms ``mixed`` and ``rows`` behind the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from dprelease.arrays import Codes, Floats, Integers
from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import released_names
from dprelease.errors import IntegrityError
from dprelease.mechanisms.draft import Draft, Numbers
from dprelease.mechanisms.linear import Linear, Stretch
from dprelease.mechanisms.noisy_rows import check, words
from dprelease.mechanisms.noisy_rows.privatize import drawn, integer_query, weighted
from dprelease.mechanisms.noisy_rows.propose import MixedOptions, RowsOptions, propose_mixed, propose_rows
from dprelease.mechanisms.noisy_rows.released import NoisyRows, read
from dprelease.mechanisms.noisy_rows.terms import MixedTerms, NoisyRowsTerms, RowsTerms
from dprelease.mechanisms.statement import Cost, Words
from dprelease.mpc.session import Products
from dprelease.privacy.noise import NoiseSource
from dprelease.spec_base import SpecBase

if TYPE_CHECKING:
    from dprelease.mechanisms.assumptions import PlannedFit
    from dprelease.mechanisms.expected_error import Forecast, ReleasedNoise

AnyRows = TypeVar("AnyRows", bound=NoisyRowsTerms)


class _NoisyRows(Linear[AnyRows]):
    """The part that both share; `dprelease.mechanisms.base.Mechanism` says what each method is."""

    weighs_columns = True

    def cost(self, spec: SpecBase) -> Cost:
        return check.cost(spec, self.own(spec))

    def check(self, spec: SpecBase, stretch: Stretch | None = None) -> None:
        check.check(spec, self.own(spec), stretch or Stretch(spec.rows))

    def exact(self, rows: BoundedRows, spec: SpecBase, party: str, products: Products | None) -> Integers:
        return integer_query(weighted(rows, spec, party), spec, self.own(spec))

    def noise(self, spec: SpecBase, party: str, source: NoiseSource, stretch: Stretch) -> Integers:
        return drawn(spec, self.own(spec), party, source, stretch)

    def opened(self, spec: SpecBase, values: Mapping[str, Integers], stretch: Stretch) -> Integers:
        found = np.hstack([values[part.party] for part in spec.parties])
        if ((found >= check.EXACT) | (found <= -check.EXACT)).any():
            raise IntegrityError("a party sent integers of 2^53 or more, which no honest block of this release has")
        return found

    def view(self, batches: Sequence[SpecBase], sums: Floats | Integers, noise: float, public: Codes) -> NoisyRows:
        return read(batches, [self.own(spec) for spec in batches], sums, noise, public)

    def shapes(self, spec: SpecBase, party: str) -> tuple[tuple[int, int], ...]:
        return ((self.own(spec).released_rows(spec), len(released_names(spec.part(party).private))),)

    def guarantee(
        self, spec: SpecBase, figures: Mapping[str, str | None], joint: str, delta: str, *, alone: bool = True
    ) -> tuple[str, ...]:
        return words.guarantee(figures, joint, delta)

    def words(self, spec: SpecBase) -> Words:
        return words.words(spec, self.own(spec))

    def released_noise(self, spec: SpecBase, times: float = 1.0) -> ReleasedNoise:
        from dprelease.mechanisms.noisy_rows import forecast  # slow to load, and only planners ask

        return forecast.released_noise(spec, self.own(spec), times)

    def forecast(self, spec: SpecBase, fit: PlannedFit, signal: float, times: float = 1.0) -> Forecast:
        from dprelease.mechanisms.noisy_rows import forecast

        return forecast.forecast(spec, self.own(spec), fit, signal, times)


class Mixed(_NoisyRows[MixedTerms]):
    """Random mixtures of all patients' rows."""

    name = "mixed"
    purpose = "noisy random mixtures of rows, made by each hospital alone"
    terms = MixedTerms
    options = MixedOptions

    def propose(self, options: MixedOptions, draft: Draft) -> Numbers:
        return propose_mixed(options, draft)


class Rows(_NoisyRows[RowsTerms]):
    """One noisy row for each patient."""

    name = "rows"
    purpose = "one noisy row for each patient, made by each hospital alone"
    terms = RowsTerms
    options = RowsOptions
    row_per_patient = True

    def propose(self, options: RowsOptions, draft: Draft) -> Numbers:
        return propose_rows(options, draft)


MIXED, ROWS = Mixed(), Rows()
