"""What a fit on joint moments will be worth, from public numbers and guesses alone."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from dprelease.data.columns import unbounded
from dprelease.data.ranges import REACH, parts
from dprelease.mechanisms.assumptions import Setting
from dprelease.mechanisms.expected_error import Forecast, Proposed, bounded, expected, moments_error
from dprelease.mechanisms.moments import calibration as scales
from dprelease.mechanisms.moments import outcome_calibration as association
from dprelease.mechanisms.moments.clipped_sensitivity import clipped_sensitivity
from dprelease.mechanisms.moments.clipping import Clipping, numbers_of
from dprelease.mechanisms.moments.clipping_rule import Situation, choose_clipping, deviation
from dprelease.mechanisms.moments.entries import Kind, Layout, by_kind
from dprelease.mechanisms.moments.first_round import share
from dprelease.mechanisms.moments.level_counts import levels_in_words
from dprelease.mechanisms.moments.parameters import least_noise, spent
from dprelease.mechanisms.moments.sensitivity import sensitivity
from dprelease.mechanisms.moments.terms import split_charge
from dprelease.privacy.calibration import budget

TRUST = "hospitals have to trust one another's software for it"

RANGES_FIRST = f"{TRUST}; a release of ranges comes first, for a part of the budget"


def plans(setting: Setting) -> tuple[Setting, ...]:
    """Numbers in their public bounds, where all have some, and in ranges that are released first."""
    in_bounds = () if unbounded(setting.columns) else (replace(setting, ranges=None),)
    if setting.ranges is not None:
        return *in_bounds, setting
    if setting.outcomes or not any(map(numbers_of, setting.parties.values())):
        return in_bounds
    return *in_bounds, replace(setting, ranges=share(setting.rows, setting.columns))


def proposed(setting: Setting) -> Proposed:
    """The release that the coordinator would propose; its noise does not depend on who deals."""
    return _in_bounds(setting) if setting.ranges is None else _in_ranges(setting, setting.ranges, clipping_of(setting))


def _in_ranges(setting: Setting, spent_before: Fraction, clipping: Clipping) -> Proposed:
    """Of clipped rows; lengths in standard deviations as ranges tell them.

    Args:
        setting: the scenario.
        spent_before: part of mu^2 that the ranges take.
        clipping: of `clipping_of`.
    """
    parties, layout, whole = len(setting.parties), Layout(setting.columns), budget(setting.target)
    mu2, shared = whole * (1 - spent_before), (setting.pooled, setting.grid_bits, setting.rows_per_subject)
    moved = clipped_sensitivity(layout, clipping, setting.grid_bits)
    scale, diagonal_scale = scales.share_scales(moved, mu2, parties, *shared)
    one = (scales.released_sd(scale, parties) / deviation(clipping, setting.columns) ** 2 / setting.rows) ** 2
    shares = {party: parts(own) for party, own in setting.parties.items()}
    price = scales.spent(moved, scale, diagonal_scale, parties, *shared)
    prices = split_charge(price, setting.parties, setting.parts)
    return Proposed(
        variance=dict.fromkeys(setting.parties, one),
        columns={each.name: one / setting.number_weights.get(each.name, 1.0) ** 2 for each in setting.columns},
        prices={
            party: own + whole * spent_before * shares[party] / sum(shares.values()) for party, own in prices.items()
        },
        shape=f"{layout.entries} sums of clipped rows",
        unit="of a correlation",
        trust=RANGES_FIRST if parties > 1 and spent_before else TRUST if parties > 1 else "",
        levels=levels_in_words(layout, by_kind(scale, diagonal_scale), clipping, parties, setting.grid_bits),
    )


def clipping_of(setting: Setting) -> Clipping:
    """How rows would be clipped."""
    mu = math.sqrt(budget(setting.target) * (1 - (setting.ranges or 0))) / setting.rows_per_subject
    situation = Situation(mu, setting.rows, len(setting.parties), setting.pooled, setting.grid_bits)
    return choose_clipping(setting.parties, None, situation, setting.number_weights, setting.clip)


def _in_bounds(setting: Setting) -> Proposed:
    layout, parties = Layout(setting.columns, setting.outcomes), len(setting.parties)
    terms = least_noise(
        layout,
        budget(setting.target),
        parties,
        setting.pooled,
        "coordinator",
        setting.grid_bits,
        setting.rows_per_subject,
        public_norm2=setting.public_norm2,
    )
    price = spent(layout, terms, parties, setting.grid_bits, setting.rows_per_subject)
    variance = {
        kind: (scales.released_sd(scale, parties) / 4**setting.grid_bits / setting.rows) ** 2
        for kind, scale in terms.scales.items()
    }
    named = frozenset(setting.outcomes)
    return Proposed(
        variance=dict.fromkeys(setting.parties, variance[Kind.PRODUCT]),
        columns={
            column.name: variance[Kind.ASSOCIATION if column.name in named else Kind.PRODUCT]
            for column in setting.columns
        },
        prices=split_charge(price, setting.parties, setting.parts),
        shape=f"{layout.entries} sums",
        unit="of a sum, per patient",
        trust=TRUST if parties > 1 else "",
        levels=levels_in_words(layout, terms.scales, None, parties, setting.grid_bits),
    )


def forecast(setting: Setting, signal: float) -> Forecast:
    """What to expect of a fit; arguments as of `dprelease.planning.forecast.forecast`."""
    # In ranges lengths are standard deviations: what a number's cells do within its bounds plays no part.
    setting = replace(setting, signs=True, spread=setting.spread if setting.ranges is None else 1.0)
    reach = setting.guess(setting.outcome).reach
    if setting.ranges is None:
        release, square_weight = _in_bounds(setting), _square_weight(setting)
    else:
        clipping = clipping_of(setting)
        release, square_weight = _in_ranges(setting, setting.ranges, clipping), Fraction(clipping.square_weight)
        reach *= REACH**2
    assumed = setting.assumed(signal)
    noise, own = (
        setting.spread_out([release.columns[name] for name in setting.features]),
        release.columns[setting.outcome],
    )
    weight = 1 / float(square_weight)
    diagonal = [setting.guess(name).own for name in setting.features]
    error = moments_error(
        assumed,
        math.sqrt(max(release.variance.values())),
        setting.spread_out([weight if each is None else each for each in diagonal]),
        math.sqrt(own),
    )
    return expected(
        assumed,
        error,
        constant=bounded(own, reach),
        slopes=float(assumed.squares @ noise),
    )


def _square_weight(setting: Setting) -> Fraction:
    """v in public bounds."""
    layout = Layout(setting.columns, setting.outcomes)
    if setting.outcomes:
        return association.Moves.of(layout).diagonal_weight
    return sensitivity(layout.variables).diagonal_weight
