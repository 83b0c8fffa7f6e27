"""What a fit on joint moments will be worth, from public numbers and guesses alone."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from dprelease.data.columns import unbounded
from dprelease.data.ranges import REACH, parts, share
from dprelease.mechanisms.assumptions import Setting
from dprelease.mechanisms.expected_error import Forecast, Proposed, bounded, expected, moments_error
from dprelease.mechanisms.moments.calibration import released_sd
from dprelease.mechanisms.moments.clipping import Clipping, numbers_of
from dprelease.mechanisms.moments.clipping_rule import Situation, choose_clipping, deviation, guess_of
from dprelease.mechanisms.moments.entries import Kind, Layout
from dprelease.mechanisms.moments.first_round import reuse_in_words
from dprelease.mechanisms.moments.level_counts import levels_in_words
from dprelease.mechanisms.moments.outcome_calibration import Moves
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
    return _proposed(setting, clipping_of(setting))


def clipping_of(setting: Setting) -> Clipping | None:
    """How rows would be clipped; None in public bounds."""
    if setting.ranges is None:
        return None
    return choose_clipping(setting.parties, None, _situation(setting), setting.number_weights, setting.clip)


def _situation(setting: Setting) -> Situation:
    """What the rule of clipping reads, of a setting in ranges."""
    mu = math.sqrt(budget(setting.target) * (1 - (setting.ranges or Fraction(0)))) / setting.rows_per_subject
    return Situation(mu, setting.rows, len(setting.parties), setting.pooled, setting.grid_bits)


def _reach(setting: Setting) -> float:
    """Standard deviations in a unit of clipped numbers, as they are guessed before ranges are known."""
    return guess_of(setting.parties, _situation(setting)).reach


def _proposed(setting: Setting, clipping: Clipping | None) -> Proposed:
    """The same; of clipped rows lengths are in standard deviations as ranges tell them."""
    layout, parties, whole = Layout(setting.columns, setting.outcomes), len(setting.parties), budget(setting.target)
    before, bits, q = setting.ranges or Fraction(0), setting.grid_bits, setting.rows_per_subject
    mu2, norm2 = whole * (1 - before), setting.public_norm2
    terms = least_noise(layout, mu2, parties, setting.pooled, "coordinator", bits, q, norm2, clipping)
    prices = split_charge(spent(layout, terms, parties, bits, q), setting.parties, setting.parts)
    if before:
        shares = {party: parts(own) for party, own in setting.parties.items()}
        each = whole * before / sum(shares.values())
        prices = {party: own + each * shares[party] for party, own in prices.items()}
    unit = 4.0**bits if clipping is None else (deviation(clipping, setting.columns) / _reach(setting)) ** 2
    variance = {kind: (released_sd(scale, parties) / unit / setting.rows) ** 2 for kind, scale in terms.scales.items()}
    weights, named = {} if clipping is None else setting.number_weights, frozenset(setting.outcomes)
    trust = RANGES_FIRST if before else TRUST
    return Proposed(
        variance=dict.fromkeys(setting.parties, variance[Kind.PRODUCT]),
        columns={
            column.name: variance[Kind.ASSOCIATION if column.name in named else Kind.PRODUCT]
            / weights.get(column.name, 1.0) ** 2
            for column in setting.columns
        },
        prices=prices,
        shape=f"{layout.entries} sums{'' if clipping is None else ' of clipped rows'}",
        unit="of a sum, per patient" if clipping is None else "of a correlation",
        trust=trust if parties > 1 else "",
        levels=levels_in_words(layout, terms.scales, clipping, parties, setting.grid_bits),
        reuse=""
        if clipping is None or setting.source is None
        else reuse_in_words(setting.source, setting.rows, setting.columns),
    )


def forecast(setting: Setting, signal: float) -> Forecast:
    """What to expect of a fit; arguments as of `dprelease.planning.forecast.forecast`."""
    # In ranges lengths are standard deviations: what a number's cells do within its bounds plays no part.
    setting = replace(setting, signs=True, spread=setting.spread if setting.ranges is None else 1.0)
    reach, clipping = setting.guess(setting.outcome).reach, clipping_of(setting)
    release, assumed = _proposed(setting, clipping), setting.assumed(signal)
    noise = setting.spread_out([release.columns[name] for name in setting.features])
    own = release.columns[setting.outcome]
    weight = 1 / float(_square_weight(setting) if clipping is None else Fraction(clipping.square_weight))
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
        constant=bounded(own, reach if clipping is None else reach * (REACH * _reach(setting)) ** 2),
        slopes=float(assumed.squares @ noise),
    )


def _square_weight(setting: Setting) -> Fraction:
    """v in public bounds."""
    layout = Layout(setting.columns, setting.outcomes)
    if setting.outcomes:
        return Moves.of(layout).diagonal_weight
    return sensitivity(layout.variables).diagonal_weight
