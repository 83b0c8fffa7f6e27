"""Mechanisms ``mixed`` and ``rows`` behind the contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from dprelease.data.bounding import BoundedRows, Codes
from dprelease.data.columns import released_names
from dprelease.mechanisms.base import FIRST_ROUND, Cost, Draft, Earlier, Integers, Mechanism, Numbers, Words
from dprelease.mechanisms.continual import NOTHING_KEPT, Kept
from dprelease.mechanisms.noisy_rows import check, words
from dprelease.mechanisms.noisy_rows.privatize import noisy_rows
from dprelease.mechanisms.noisy_rows.propose import MixedOptions, RowsOptions, propose_mixed, propose_rows
from dprelease.mechanisms.noisy_rows.released import NoisyRows, read
from dprelease.mechanisms.noisy_rows.terms import MixedTerms, NoisyRowsTerms, RowsTerms
from dprelease.mpc.session import Products
from dprelease.privacy.noise import NoiseSource
from dprelease.spec_base import SpecBase

if TYPE_CHECKING:
    from dprelease.mechanisms.assumptions import Setting
    from dprelease.mechanisms.expected_error import Forecast, Proposed

AnyRows = TypeVar("AnyRows", bound=NoisyRowsTerms)


class _NoisyRows(Mechanism[AnyRows]):
    """What both share; `dprelease.mechanisms.base.Mechanism` says what each method is."""

    weighs_columns = True

    def cost(self, spec: SpecBase) -> Cost:
        return check.cost(spec, self.own(spec))

    def check(self, spec: SpecBase) -> None:
        check.check(spec, self.own(spec))

    def privatize(
        self,
        rows: BoundedRows,
        spec: SpecBase,
        party: str,
        noise: NoiseSource,
        products: Products | None = None,
        earlier: Earlier = FIRST_ROUND,
        kept: Kept = NOTHING_KEPT,
    ) -> tuple[Integers, ...]:
        return (noisy_rows(rows, spec, self.own(spec), party, noise),)

    def read(self, spec: SpecBase, values: Mapping[str, tuple[Integers, ...]], public: Codes) -> NoisyRows:
        return read(spec, self.own(spec), {party: only for party, (only,) in values.items()}, public)

    def guarantee(self, spec: SpecBase, figures: Mapping[str, str | None], joint: str, delta: str) -> tuple[str, ...]:
        return words.guarantee(figures, joint, delta)

    def words(self, spec: SpecBase) -> Words:
        return words.words(spec, self.own(spec))

    def scenario(self, options: RowsOptions, draft: Draft) -> dict[str, Any]:
        return {"weights": options.weights}

    def scenario_of(self, spec: SpecBase) -> dict[str, Any]:
        return {"weights": spec.weights}

    def proposed(self, setting: Setting) -> Proposed:
        from dprelease.mechanisms.noisy_rows import forecast  # slow to load, and only planners ask

        return forecast.proposed(setting, mixed=not self.row_per_patient)

    def forecast(self, setting: Setting, signal: float) -> Forecast:
        from dprelease.mechanisms.noisy_rows import forecast

        return forecast.forecast(setting, signal, mixed=not self.row_per_patient)


class Mixed(_NoisyRows[MixedTerms]):
    """Random mixtures of all patients' rows."""

    name = "mixed"
    terms = MixedTerms
    options = MixedOptions

    def propose(self, options: MixedOptions, draft: Draft) -> Numbers:
        return propose_mixed(options, draft)

    def shapes(self, spec: SpecBase, party: str) -> tuple[tuple[int, int], ...]:
        terms = self.own(spec)
        return ((terms.mixing.outputs + (1 if terms.rho else 0), private_width(spec, party)),)

    def least_rows(self, spec: SpecBase) -> int:
        return self.own(spec).mixing.outputs

    def scenario(self, options: RowsOptions, draft: Draft) -> dict[str, Any]:
        assert isinstance(options, MixedOptions)  # noqa: S101 - they were read as such
        return {**super().scenario(options, draft), "outputs": options.k, "anchor_weight": options.anchor_weight}

    def scenario_of(self, spec: SpecBase) -> dict[str, Any]:
        terms = self.own(spec)
        return {**super().scenario_of(spec), "outputs": terms.mixing.outputs, "anchor_weight": terms.rho}


class Rows(_NoisyRows[RowsTerms]):
    """One noisy row for each patient."""

    name = "rows"
    terms = RowsTerms
    options = RowsOptions
    row_per_patient = True

    def propose(self, options: RowsOptions, draft: Draft) -> Numbers:
        return propose_rows(options, draft)

    def shapes(self, spec: SpecBase, party: str) -> tuple[tuple[int, int], ...]:
        return ((spec.rows, private_width(spec, party)),)


def private_width(spec: SpecBase, party: str) -> int:
    """Released columns of a party's private ones."""
    part = spec.party(party)
    assert part is not None, party  # noqa: S101 - callers hold a party of this spec
    return len(released_names(part.private))


MIXED, ROWS = Mixed(), Rows()
