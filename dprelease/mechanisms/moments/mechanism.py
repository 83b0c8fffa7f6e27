"""Mechanism ``moments`` behind the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dprelease.canonical import read_part, sha256
from dprelease.data.bounding import BoundedRows, Codes
from dprelease.mechanisms.base import FIRST_ROUND, Columns, Earlier, Integers, Mechanism
from dprelease.mechanisms.continual import NOTHING_KEPT, Kept
from dprelease.mechanisms.draft import Draft, Numbers
from dprelease.mechanisms.linear import Floats, Linear, Stretch
from dprelease.mechanisms.moments import check, words
from dprelease.mechanisms.moments.first_round import in_ranges, with_terms
from dprelease.mechanisms.moments.outcome_calibration import check_public_norm
from dprelease.mechanisms.moments.own_products import schedule_of
from dprelease.mechanisms.moments.privatize import coded, drawn, exact_share, masked
from dprelease.mechanisms.moments.propose import MomentsOptions, check_outcomes, propose_moments
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
    """The noisy Gram matrix of all hospitals' columns; `dprelease.mechanisms.base.Mechanism` says what each method is.

    Args:
        first: mechanism of a first round, where the terms have one: what it reads has ``ranges`` of all private numbers.
    """

    name = "moments"
    purpose = "noisy sums of products of all columns, computed by the hospitals together"
    terms = JointMoments
    options = MomentsOptions
    checks_sum = True

    def __init__(self, first: Mechanism[Any]) -> None:
        self._first = first
        self._latest: tuple[str, Any, SpecBase] | None = None

    def read_terms(self, data: object) -> JointMoments:
        return read_part(JointMoments, data, self._first)

    def outcomes(self, options: MomentsOptions, columns: Columns) -> tuple[str, ...]:
        return check_outcomes(options.outcomes, columns)

    def propose(self, options: MomentsOptions, draft: Draft) -> Numbers:
        return propose_moments(options, draft, self._first)

    def cost(self, spec: SpecBase) -> Cost:
        own, before = check.cost(spec, self.own(spec)), self._before(spec)
        if before is None:
            return own
        first = self._first.cost(before)
        return replace(own.after(first), rounds={self._first.name: first.charges, self.name: own.charges})

    def check(self, spec: SpecBase) -> None:
        check.check(spec, self.own(spec))
        before = self._before(spec)
        if before is not None:
            self._first.check(before)

    def rounds(self, spec: SpecBase) -> tuple[int, ...]:
        before = self._before(spec)
        return (1,) if before is None else (*self._first.rounds(before), 1)

    def shapes(self, spec: SpecBase, party: str) -> tuple[tuple[int, int], ...]:
        before, own = self._before(spec), (1, layout_of(spec).entries)
        return (own,) if before is None else (*self._first.shapes(before, party), own)

    def schedule(self, spec: SpecBase) -> Schedule | None:
        return schedule_of(spec) if len(spec.parties) > 1 else None

    def check_round(self, spec: SpecBase, earlier: Earlier) -> None:
        self._in_ranges(spec, earlier)

    def matrix(self, rows: BoundedRows, spec: SpecBase, earlier: Earlier = FIRST_ROUND) -> Codes:
        return coded(rows, self._in_ranges(spec, earlier))

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
        before = self._before(spec)
        if before is not None and len(earlier.get(party, ())) < sum(self._first.rounds(before)):
            return self._first.privatize(rows, before, party, noise, earlier=earlier)
        return super().privatize(rows, self._in_ranges(spec, earlier), party, noise, products)

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

    def check_reach(self, spec: SpecBase, stretch: Stretch) -> None:
        check.check_reach(spec, self.own(spec), stretch)

    def read(
        self, spec: SpecBase, values: Mapping[str, tuple[Integers, ...]], public: Codes
    ) -> NoisyMoments | OutcomeMoments:
        spec = self._in_ranges(spec, _before_the_last(values))
        last = {party: blocks[-1] for party, blocks in values.items()}
        return self.view([spec], self.opened(spec, last, Stretch(spec.rows)), 1.0, public)

    def first_ranges(self, spec: SpecBase, values: Mapping[str, tuple[Integers, ...]]) -> Any:
        return self._read_first(spec, _before_the_last(values))[0]

    def ranged(self, spec: SpecBase) -> frozenset[str]:
        before = self._before(spec)
        return frozenset() if before is None else self._first.ranged(before)

    def _before(self, spec: SpecBase) -> SpecBase | None:
        """The spec as the first round's mechanism reads it; None without one."""
        first = self.own(spec).first
        return None if first is None else with_terms(spec, first)

    def _in_ranges(self, spec: SpecBase, earlier: Earlier) -> SpecBase:
        """The spec with the ranges that everybody recomputes from the first round; itself without one."""
        return self._read_first(spec, earlier)[1]

    def _read_first(self, spec: SpecBase, earlier: Earlier) -> tuple[Any, SpecBase]:
        """Ranges of the first round, None without one; and the spec with them."""
        before = self._before(spec)
        if before is None:
            return None, spec
        blocks = [sha256(block.tobytes()) for part in spec.parties for block in earlier[part.party]]
        name, latest = ":".join([spec.digest(), *blocks]), self._latest
        if latest is None or latest[0] != name:  # to read takes a tenth of a second a column, and a session asks often
            found = self._first.read(before, earlier, np.zeros((spec.rows, 0), np.int32))
            self._latest = latest = name, found, in_ranges(spec, found.ranges)
        return latest[1:]

    def guarantee(self, spec: SpecBase, figures: Mapping[str, str | None], joint: str, delta: str) -> tuple[str, ...]:
        before = self._before(spec)
        cost = None if before is None else self._first.cost(before)
        return words.guarantee(spec, check.cost(spec, self.own(spec)), joint, delta, cost)

    def words(self, spec: SpecBase) -> Words:
        found, before = words.words(spec, self.own(spec)), self._before(spec)
        return found if before is None else words.after(self._first.words(before), found)

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


def _before_the_last(values: Mapping[str, tuple[Integers, ...]]) -> Earlier:
    """What all parties sent before the moments."""
    return {party: blocks[:-1] for party, blocks in values.items()}
