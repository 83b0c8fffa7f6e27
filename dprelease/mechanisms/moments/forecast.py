"""What a fit on joint moments will be worth, from public numbers and guesses alone."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from dprelease.mechanisms.assumptions import Setting
from dprelease.mechanisms.expected_error import Forecast, Proposed, bounded, expected, moments_error
from dprelease.mechanisms.moments import calibration as scales
from dprelease.mechanisms.moments import outcome_calibration as association
from dprelease.mechanisms.moments.entries import Kind, Layout
from dprelease.mechanisms.moments.parameters import least_noise, spent
from dprelease.mechanisms.moments.sensitivity import sensitivity
from dprelease.mechanisms.moments.terms import split_charge
from dprelease.privacy.calibration import budget

TRUST = "hospitals have to trust one another's software for it"


def proposed(setting: Setting) -> Proposed:
    """The release that the coordinator would propose; its noise does not depend on who deals."""
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
    )


def forecast(setting: Setting, signal: float) -> Forecast:
    """What to expect of a fit; arguments as of `dprelease.planning.forecast.forecast`."""
    setting = replace(setting, signs=True)
    assumed, release = setting.assumed(signal), proposed(setting)
    noise, own = (
        setting.spread_out([release.columns[name] for name in setting.features]),
        release.columns[setting.outcome],
    )
    weight = 1 / float(_diagonal_weight(setting))
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
        constant=bounded(own, setting.guess(setting.outcome).reach),
        slopes=float(assumed.squares @ noise),
    )


def _diagonal_weight(setting: Setting) -> Fraction:
    layout = Layout(setting.columns, setting.outcomes)
    if setting.outcomes:
        return association.Moves.of(layout).diagonal_weight
    return sensitivity(layout.variables).diagonal_weight
