"""Mechanism ``ranges`` behind the contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dprelease.arrays import Codes, Integers
from dprelease.data.columns import numbers
from dprelease.errors import InvalidInput
from dprelease.files.settings import Settings
from dprelease.mechanisms.base import Inputs, Mechanism
from dprelease.mechanisms.draft import Draft, Numbers
from dprelease.mechanisms.ranges import check, words
from dprelease.mechanisms.ranges.box import WIDTH as DECADES_WIDTH
from dprelease.mechanisms.ranges.calibration import WIDTH, numbers_without_bounds
from dprelease.mechanisms.ranges.propose import propose
from dprelease.mechanisms.ranges.released import NO_FIT, Ranges
from dprelease.mechanisms.ranges.terms import RangesTerms
from dprelease.mechanisms.statement import Cost, Words
from dprelease.spec_base import SpecBase

if TYPE_CHECKING:
    from dprelease.mechanisms.assumptions import PlannedFit
    from dprelease.mechanisms.expected_error import Forecast, ReleasedNoise


class RangesMechanism(Mechanism[RangesTerms]):
    """Centre and scale of private numeric columns; `dprelease.mechanisms.base.Mechanism` says what each method is."""

    name = "ranges"
    purpose = "centre, scale and quantiles of single numbers, for readers, and for later releases, which use them at no charge"
    terms = RangesTerms
    checks_sum = True
    fits = False

    def propose(self, options: Settings, draft: Draft) -> Numbers:
        return propose(draft)

    def cost(self, spec: SpecBase) -> Cost:
        return check.cost(spec, self.own(spec))

    def check(self, spec: SpecBase) -> None:
        check.check(spec, self.own(spec))

    def shapes(self, spec: SpecBase, party: str) -> tuple[tuple[int, int], ...]:
        part = spec.part(party)
        own = (len(numbers(part.columns)), WIDTH)
        if self.own(spec).decades_scale is None:
            return (own,)
        return (len(numbers_without_bounds(part.columns)), DECADES_WIDTH), own

    def rounds(self, spec: SpecBase) -> tuple[int, ...]:
        return (1,) if self.own(spec).decades_scale is None else (2,)

    def privatize(self, spec: SpecBase, party: str, inputs: Inputs) -> tuple[Integers, ...]:
        from dprelease.mechanisms.ranges.privatize import noisy_blocks  # slow to load, and only hospitals ask

        return noisy_blocks(inputs.rows, spec, self.own(spec), inputs.noise)

    def read(
        self, spec: SpecBase, values: Mapping[str, tuple[Integers, ...]], public: Codes, upto: int | None = None
    ) -> Ranges:
        from dprelease.mechanisms.ranges.read import read  # slow to load, and only learners ask

        return read(spec, self.own(spec), values)

    def ranged(self, spec: SpecBase) -> frozenset[str]:
        return frozenset(column.name for column in numbers(spec.columns))

    def guarantee(
        self, spec: SpecBase, figures: Mapping[str, str | None], joint: str, delta: str, *, alone: bool = True
    ) -> tuple[str, ...]:
        return words.guarantee(figures, joint, delta)

    def words(self, spec: SpecBase) -> Words:
        return words.words(spec, self.own(spec))

    def released_noise(self, spec: SpecBase, times: float = 1.0) -> ReleasedNoise:
        raise InvalidInput(NO_FIT)

    def forecast(self, spec: SpecBase, fit: PlannedFit, signal: float, times: float = 1.0) -> Forecast:
        raise InvalidInput(NO_FIT)


RANGES = RangesMechanism()
