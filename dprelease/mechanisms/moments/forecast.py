"""Expected worth of a fit on joint moments, from public numbers and guesses alone."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from dprelease.data.columns import unbounded
from dprelease.data.ranges import REACH
from dprelease.errors import InvalidInput
from dprelease.mechanisms.assumptions import PlannedFit, Scenario
from dprelease.mechanisms.draft import AUTO, FIRST, NONE
from dprelease.mechanisms.expected_error import Forecast, ReleasedNoise, bounded, expected, moments_error
from dprelease.mechanisms.moments.calibration import released_sd
from dprelease.mechanisms.moments.clipping import numbers_of
from dprelease.mechanisms.moments.clipping_rule import ClippingInputs, deviation, guess_of
from dprelease.mechanisms.moments.entries import EntryKind
from dprelease.mechanisms.moments.terms import JointMoments, layout_of, moved_by
from dprelease.mechanisms.moments.words import levels_in_words, reuse_in_words
from dprelease.spec_base import SpecBase

TRUST = "hospitals have to trust one another's software for it"
PROVED = "hospitals have to trust range proofs for it, which nobody outside has reviewed"

_OF_RANGES = ("ranges", "clip", "outcome_weight")
"""Keys of a request that say how rows are coded in ranges."""


def plans(scenario: Scenario) -> tuple[Scenario, ...]:
    """Numbers in their public bounds, where all have some, and in ranges: published ones that fit, or a first round's."""
    joint = scenario.having(target=scenario.draft.target.model_copy(update={"scope": "joint"}))
    plain = {key: value for key, value in scenario.asked.items() if key not in _OF_RANGES}
    in_bounds = () if unbounded(scenario.fit.columns) else (replace(joint, asked={**plain, "ranges": NONE}),)
    if scenario.asked.get("outcomes") or not any(map(numbers_of, scenario.draft.columns.values())):
        return in_bounds
    ranges = scenario.asked.get("ranges", AUTO)
    if ranges == NONE or (ranges == AUTO and not _published(scenario)):
        ranges = FIRST
    return *in_bounds, replace(joint.asking(ranges=ranges), way="in ranges")


def _published(scenario: Scenario) -> bool:
    """True if an earlier release on this machine published ranges of all these numbers."""
    try:
        return scenario.draft.latest_ranges() is not None
    except InvalidInput:
        return False


def _reach(spec: SpecBase, terms: JointMoments) -> float:
    """Standard deviations in a unit of clipped numbers, as they are guessed before ranges are known."""
    mu = math.sqrt(Fraction(terms.mu2)) / spec.rows_per_subject
    inputs = ClippingInputs(mu, spec.rows, len(spec.parties), terms.curious, spec.grid_bits)
    return guess_of(spec.columns_by_party, inputs).reach


def released_noise(spec: SpecBase, terms: JointMoments, times: float) -> ReleasedNoise:
    """How noisy the sums are; of clipped rows lengths are in standard deviations as ranges tell them."""
    layout, parties, clipping = layout_of(spec), len(spec.parties), terms.clipping
    weights = {} if clipping is None else clipping.number_weights(spec.columns)
    least = min(weights.values(), default=1)
    unit = 4.0**spec.grid_bits if clipping is None else (deviation(clipping, spec.columns) / _reach(spec, terms)) ** 2
    variance = {
        kind: (times * released_sd(scale, parties) / unit / spec.rows) ** 2 for kind, scale in terms.scales.items()
    }
    named = frozenset(spec.outcomes)
    return ReleasedNoise(
        variance=dict.fromkeys(spec.columns_by_party, variance[EntryKind.PRODUCT]),
        columns={
            column.name: variance[EntryKind.ASSOCIATION if column.name in named else EntryKind.PRODUCT]
            * (least / weights.get(column.name, least)) ** 2
            for column in spec.columns
        },
        shape=f"{layout.entries} sums{'' if clipping is None else ' of clipped rows'}",
        unit="of a sum, per patient" if clipping is None else "of a correlation",
        trust=(PROVED if terms.range_proofs else TRUST) if parties > 1 else "",
        levels=levels_in_words(layout, terms.scales, clipping, parties, spec.grid_bits, times),
        in_ranges=clipping is not None,
        reuse=""
        if clipping is None or clipping.source is None
        else reuse_in_words(clipping.source, spec.rows, spec.columns),
    )


def forecast(spec: SpecBase, terms: JointMoments, fit: PlannedFit, signal: float, times: float) -> Forecast:
    """The expected worth of a fit; arguments as of `Mechanism.forecast`."""
    clipping = terms.clipping
    # In ranges lengths are standard deviations: what a number's cells do within its bounds plays no part.
    fit = replace(fit, signs=True, spread=fit.spread if clipping is None else 1.0)
    reach = fit.guess(fit.outcome).reach
    release, assumed = released_noise(spec, terms, times), fit.assumed(signal)
    noise = fit.spread_out([release.columns[name] for name in fit.features])
    own = release.columns[fit.outcome]
    weight = 1 / float(moved_by(spec).diagonal_weight)
    diagonal = [fit.guess(name).own for name in fit.features]
    error = moments_error(
        assumed,
        math.sqrt(max(release.variance.values())),
        fit.spread_out([weight if each is None else each for each in diagonal]),
        math.sqrt(own),
    )
    return expected(
        assumed,
        error,
        constant=bounded(own, reach if clipping is None else reach * (REACH * _reach(spec, terms)) ** 2),
        slopes=float(assumed.squares @ noise),
    )
