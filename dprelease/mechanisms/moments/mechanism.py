"""Mechanism ``moments`` behind the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dprelease.arrays import Codes, Floats, Integers
from dprelease.data.bounding import BoundedRows
from dprelease.mechanisms.base import FIRST_ROUND, Earlier
from dprelease.mechanisms.draft import Draft, Numbers
from dprelease.mechanisms.linear import Linear, Stretch
from dprelease.mechanisms.moments import check, words
from dprelease.mechanisms.moments.outcome_calibration import check_public_norm
from dprelease.mechanisms.moments.own_products import schedule_of
from dprelease.mechanisms.moments.privatize import coded, drawn, exact_share, masked
from dprelease.mechanisms.moments.propose import MomentsOptions, propose_moments
from dprelease.mechanisms.moments.public_side import check_public_features
from dprelease.mechanisms.moments.released import NoisyMoments, add_up, limits, public_gram
from dprelease.mechanisms.moments.released_outcomes import OutcomeMoments
from dprelease.mechanisms.moments.terms import JointMoments, layout_of
from dprelease.mechanisms.statement import Cost, Words
from dprelease.mpc.schedule import Schedule
from dprelease.mpc.session import Products
from dprelease.privacy.noise import NoiseSource
from dprelease.spec_base import SpecBase

if TYPE_CHECKING:
    from dprelease.mechanisms.assumptions import PlannedFit, Setting
    from dprelease.mechanisms.expected_error import Forecast, ReleasedNoise


class Moments(Linear[JointMoments]):
    """The noisy Gram matrix of all hospitals' columns; `dprelease.mechanisms.base.Mechanism` says what each method is."""

    name = "moments"
    purpose = "noisy sums of products of all columns, computed by the hospitals together"
    terms = JointMoments
    options = MomentsOptions
    checks_sum = True

    def propose(self, options: MomentsOptions, draft: Draft) -> Numbers:
        return propose_moments(options, draft)

    def cost(self, spec: SpecBase) -> Cost:
        return check.cost(spec, self.own(spec))

    def check(self, spec: SpecBase, stretch: Stretch | None = None) -> None:
        check.check(spec, self.own(spec), stretch or Stretch(spec.rows))

    def shapes(self, spec: SpecBase, party: str) -> tuple[tuple[int, int], ...]:
        return ((1, layout_of(spec).entries),)

    def schedule(self, spec: SpecBase) -> Schedule | None:
        return schedule_of(spec) if len(spec.parties) > 1 else None

    def matrix(self, rows: BoundedRows, spec: SpecBase, earlier: Earlier = FIRST_ROUND) -> Codes:
        return coded(rows, spec)

    def exact(self, rows: BoundedRows, spec: SpecBase, party: str, products: Products | None) -> Integers:
        return exact_share(products or Products(coded(rows, spec), {}, {}), spec, party)

    def noise(self, spec: SpecBase, party: str, source: NoiseSource, stretch: Stretch) -> Integers:
        return drawn(spec, source, stretch)

    def masked(self, values: Integers, spec: SpecBase, party: str, products: Products | None) -> Integers:
        return masked(values, spec, party, {} if products is None else products.masks)

    def opened(self, spec: SpecBase, values: Mapping[str, Integers], stretch: Stretch) -> Integers:
        parts = [values[part.party] for part in spec.parties]
        scales = {kind: stretch.scale(scale) for kind, scale in self.own(spec).scales.items()}
        shape = stretch.rows * stretch.largest, spec.grid_bits, scales, len(parts)
        return add_up(parts, limits(layout_of(spec), *shape)).reshape(parts[0].shape)

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

    def words(self, spec: SpecBase) -> Words:
        return words.words(spec, self.own(spec))

    def check_public(self, rows: BoundedRows, spec: SpecBase, party: str) -> None:
        check_public_features(rows, spec, self.own(spec), party)

    def review_reasons(self, spec: SpecBase, party: str, *, named: bool) -> tuple[str, ...]:
        return words.review_reasons(spec, self.own(spec), party, named=named)

    def plans(self, setting: Setting) -> tuple[Setting, ...]:
        from dprelease.mechanisms.moments import forecast

        return forecast.plans(setting)

    def released_noise(self, spec: SpecBase, times: float = 1.0) -> ReleasedNoise:
        from dprelease.mechanisms.moments import forecast  # slow to load, and only planners ask

        return forecast.released_noise(spec, self.own(spec), times)

    def forecast(self, spec: SpecBase, fit: PlannedFit, signal: float, times: float = 1.0) -> Forecast:
        from dprelease.mechanisms.moments import forecast

        return forecast.forecast(spec, self.own(spec), fit, signal, times)


MOMENTS = Moments()
