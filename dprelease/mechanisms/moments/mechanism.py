"""Mechanism ``moments`` behind the contract."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dprelease.data.bounding import BoundedRows, Codes
from dprelease.mechanisms.base import (
    Columns,
    Cost,
    Draft,
    Integers,
    Mechanism,
    Numbers,
    Words,
)
from dprelease.mechanisms.moments import check, words
from dprelease.mechanisms.moments.clipping_words import scenario_of
from dprelease.mechanisms.moments.outcome_calibration import check_public_norm
from dprelease.mechanisms.moments.own_products import schedule_of
from dprelease.mechanisms.moments.privatize import coded, noisy_share
from dprelease.mechanisms.moments.propose import MomentsOptions, check_outcomes, parts_of, propose_moments
from dprelease.mechanisms.moments.public_side import check_public_features
from dprelease.mechanisms.moments.released import NoisyMoments, add_up, limits, public_gram
from dprelease.mechanisms.moments.released_outcomes import ApartMoments
from dprelease.mechanisms.moments.terms import JointMoments, layout_of
from dprelease.mpc.schedule import Schedule
from dprelease.mpc.session import Products
from dprelease.privacy.noise import NoiseSource
from dprelease.spec_base import SpecBase

if TYPE_CHECKING:
    from dprelease.mechanisms.assumptions import Setting
    from dprelease.mechanisms.expected_error import Forecast, Proposed


class Moments(Mechanism[JointMoments]):
    """The noisy Gram matrix of all hospitals' columns; `dprelease.mechanisms.base.Mechanism` says what each method is."""

    name = "moments"
    terms = JointMoments
    options = MomentsOptions
    checks_sum = True

    def outcomes(self, options: MomentsOptions, columns: Columns) -> tuple[str, ...]:
        return check_outcomes(options.outcomes, columns)

    def propose(self, options: MomentsOptions, draft: Draft) -> Numbers:
        return propose_moments(options, draft)

    def cost(self, spec: SpecBase) -> Cost:
        return check.cost(spec, self.own(spec))

    def check(self, spec: SpecBase) -> None:
        check.check(spec, self.own(spec))

    def shapes(self, spec: SpecBase, party: str) -> tuple[tuple[int, int], ...]:
        return ((1, layout_of(spec).entries),)

    def schedule(self, spec: SpecBase) -> Schedule | None:
        return schedule_of(spec) if len(spec.parties) > 1 else None

    def matrix(self, rows: BoundedRows, spec: SpecBase) -> Codes:
        return coded(rows, spec)

    def privatize(
        self, rows: BoundedRows, spec: SpecBase, party: str, noise: NoiseSource, products: Products | None = None
    ) -> tuple[Integers, ...]:
        made = products or Products(self.matrix(rows, spec), {}, {})
        return (noisy_share(made, spec, party, noise),)

    def read(
        self, spec: SpecBase, values: Mapping[str, tuple[Integers, ...]], public: Codes
    ) -> NoisyMoments | ApartMoments:
        terms, layout = self.own(spec), layout_of(spec)
        shape = spec.rows, spec.grid_bits, terms.scales, len(spec.parties)
        total = add_up([values[part.party][0] for part in spec.parties], limits(layout, *shape))
        if terms.association is None:
            gram = public_gram(public, spec.public, spec.grid_bits) if spec.public else 0
            return NoisyMoments.read(layout, total, *shape, gram, terms.clipping)
        if terms.public_norm2 is not None:
            check_public_norm(public, layout, terms.public_norm2, spec.grid_bits)
        return ApartMoments.read(layout, total, *shape, public)

    def guarantee(self, spec: SpecBase, figures: Mapping[str, str | None], joint: str, delta: str) -> tuple[str, ...]:
        return words.guarantee(spec, self.cost(spec), joint, delta)

    def words(self, spec: SpecBase) -> Words:
        return words.words(spec, self.own(spec))

    def check_public(self, rows: BoundedRows, spec: SpecBase, party: str) -> None:
        check_public_features(rows, spec, self.own(spec), party)

    def review_reasons(self, spec: SpecBase, party: str, *, named: bool) -> tuple[str, ...]:
        return words.review_reasons(spec, self.own(spec), party, named=named)

    def scenario(self, options: MomentsOptions, columns: Columns) -> dict[str, Any]:
        return {
            "curious": options.curious or None,
            "outcomes": self.outcomes(options, columns),
            "public_norm2": options.public_norm2,
            "parts": parts_of(columns, options.charge),
            "ranges": None if options.ranges is None else Fraction(0),
            "clip": options.k,
            "number_weights": options.outcome_weight,
        }

    def scenario_of(self, spec: SpecBase) -> dict[str, Any]:
        terms = self.own(spec)
        return {
            "curious": terms.curious or None,
            "outcomes": terms.outcomes,
            "public_norm2": terms.public_norm2,
            **(scenario_of(terms.clipping, spec) if terms.clipping is not None else {}),
        }

    def plans(self, setting: Setting) -> tuple[Setting, ...]:
        from dprelease.mechanisms.moments import forecast

        return forecast.plans(setting)

    def proposed(self, setting: Setting) -> Proposed:
        from dprelease.mechanisms.moments import forecast  # slow to load, and only planners ask

        return forecast.proposed(setting)

    def forecast(self, setting: Setting, signal: float) -> Forecast:
        from dprelease.mechanisms.moments import forecast

        return forecast.forecast(setting, signal)


MOMENTS = Moments()
