"""Mechanism ``synthetic-control`` behind the contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dprelease.arrays import Codes, Integers
from dprelease.errors import InvalidInput
from dprelease.mechanisms.base import Inputs, Mechanism
from dprelease.mechanisms.draft import Draft, Numbers
from dprelease.mechanisms.statement import Cost, Words
from dprelease.mechanisms.synthetic_control import check, released, words
from dprelease.mechanisms.synthetic_control.privatize import noisy_panel
from dprelease.mechanisms.synthetic_control.propose import SyntheticControlOptions, propose
from dprelease.mechanisms.synthetic_control.terms import SyntheticControlTerms
from dprelease.spec_base import SpecBase

if TYPE_CHECKING:
    from dprelease.document.document import Document
    from dprelease.mechanisms.assumptions import PlannedFit
    from dprelease.mechanisms.expected_error import Forecast, ReleasedNoise


class SyntheticControl(Mechanism[SyntheticControlTerms]):
    """Ridge weights of donors for a public target; `dprelease.mechanisms.base.Mechanism` says what each method is."""

    name = "synthetic-control"
    purpose = "what a public series of one hospital would have been without a measure, from its private donors"
    terms = SyntheticControlTerms
    options = SyntheticControlOptions
    checks_sum = True
    row_per_patient = True
    fits = False

    def propose(self, options: SyntheticControlOptions, draft: Draft) -> Numbers:
        return propose(options, draft)

    def cost(self, spec: SpecBase) -> Cost:
        return check.cost(spec, self.own(spec))

    def check(self, spec: SpecBase) -> None:
        check.check(spec, self.own(spec))

    def shapes(self, spec: SpecBase, party: str) -> tuple[tuple[int, int], ...]:
        problem = self.own(spec).problem(spec)
        return (problem.donors, 1), (problem.donors, len(problem.columns) - problem.before)

    def privatize(self, spec: SpecBase, party: str, inputs: Inputs) -> tuple[Integers, ...]:
        return noisy_panel(inputs.rows, spec, self.own(spec), inputs.noise)

    def read(
        self, spec: SpecBase, values: Mapping[str, tuple[Integers, ...]], public: Codes, upto: int | None = None
    ) -> released.Panel:
        ((weights, donors),) = values.values()
        return released.read(spec, self.own(spec), weights, donors)

    def guarantee(
        self, spec: SpecBase, figures: Mapping[str, str | None], joint: str, delta: str, *, alone: bool = True
    ) -> tuple[str, ...]:
        return words.guarantee(spec, self.own(spec), figures, joint, delta)

    def words(self, spec: SpecBase) -> Words:
        return words.words(spec, self.own(spec))

    def released_noise(self, spec: SpecBase, times: float = 1.0) -> ReleasedNoise:
        raise InvalidInput(released.NO_FIT)

    def forecast(self, spec: SpecBase, fit: PlannedFit, signal: float, times: float = 1.0) -> Forecast:
        raise InvalidInput(released.NO_FIT)

    def expected(self, options: SyntheticControlOptions, draft: Draft, spread: float) -> Document:
        from dprelease.mechanisms.synthetic_control.forecast import expectation  # only planners ask

        return expectation(options, draft, spread)


SYNTHETIC_CONTROL = SyntheticControl()
