"""What a fit on a release will be worth, before anything is spent: from public numbers and guesses, never from data.

Noise and prices are those of the spec that the coordinator would propose; what a fit makes of them is in
`dprelease.expected_error`, what is guessed about the data in `dprelease.assumptions`. A fit is called useful when it is
expected to keep more than half of what least squares on the private rows explain, and to beat the exact mean. Below that,
the best anybody can do with the release is close to the mean (utility.md 2: "below it nothing linear helps").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from dprelease import calibration
from dprelease.assumptions import Setting
from dprelease.columns import Column, integer_sensitivity, weights_of
from dprelease.expected_error import Assumed, bounded, kept, moments_error, rows_error
from dprelease.moments import association, scales
from dprelease.moments.layout import Kind, Layout
from dprelease.moments.parameters import Dealer, least_noise, spent
from dprelease.moments.sensitivity import sensitivity
from dprelease.moments.terms import split_charge
from dprelease.planning import plan_mixing

HALF = 0.5
"""Part of the signal that a useful fit keeps at least."""
MOST_ROWS = 10**12
"""Where the search for enough patients ends."""
MOST_EPSILON = 100.0
"""Where the search for enough epsilon ends."""

_LEAST_EPSILON = 1e-3
_CLOSE = 1.01


@dataclass(frozen=True)
class Release:
    """What would be released, from public numbers alone.

    Attributes:
        outputs: k of ``mixed``.
        anchor_weight: rho of ``mixed``.
        variance: party to the noise variance of a released number of weight 1, scaled units: of an entry of its rows, or
            for moments of a sum, per patient.
        prices: party to the mu^2 that its ledger would be charged, exactly.
        association: the noise variance of a sum of moments that an outcome only takes part in, per patient.
    """

    outputs: int | None
    anchor_weight: Fraction | None
    variance: Mapping[str, float]
    prices: Mapping[str, Fraction]
    association: float = 0.0


@dataclass(frozen=True)
class Forecast:
    """What is expected of one fit.

    Attributes:
        signal: R^2 of least squares on the private rows, as assumed.
        error_ratio: error of the fit before shrinking, in what is explained; infinite with too few released rows.
        kept: part of what is explained that the default method keeps.
        r2: share of the outcome's variance that the fit explains on the private rows; below 0 it is worse than the exact mean.
        constant_r2: the same of the released mean, which noise moves.
    """

    signal: float
    error_ratio: float
    kept: float
    r2: float
    constant_r2: float

    @property
    def coefficient_error(self) -> float:
        """Root mean square error of all coefficients, each times its feature's standard deviation, in their own size."""
        return math.sqrt(max(1 - self.kept, 0.0))

    @property
    def useful(self) -> bool:
        """Whether half of the signal or more is kept and the exact mean beaten."""
        return self.kept >= HALF and self.r2 > 0


def proposed(setting: Setting) -> Release:
    """The release that the coordinator would propose."""
    q, bits = setting.rows_per_subject, setting.grid_bits
    if setting.mechanism == "moments":
        return _proposed_moments(setting)
    sensitivity2 = {
        name: integer_sensitivity(
            columns, q, bits, weights_of(columns, setting.weights), mixed=setting.mechanism == "mixed"
        )
        for name, columns in setting.parties.items()
    }
    shares = calibration.shares(setting.target, sensitivity2)
    outputs, weight = None, None
    if setting.mechanism == "mixed":
        plan = plan_mixing(setting.rows, dict(setting.parties), setting.target, q, setting.weights)
        outputs = plan.outputs if setting.outputs is None else setting.outputs
        weight = plan.anchor_weight if setting.anchor_weight is None else setting.anchor_weight
    norm, rho = outputs or 1, weight or Fraction(0)
    noise = {name: calibration.party_noise(name, shares[name], sensitivity2[name], norm, rho) for name in shares}
    return Release(
        outputs,
        weight,
        {name: float(1 - rho) / norm * (own.scale * 2.0**-bits) ** 2 for name, own in noise.items()},
        {name: calibration.spent(own, sensitivity2[name], norm) for name, own in noise.items()},
    )


def _proposed_moments(setting: Setting) -> Release:
    layout, parties = Layout(setting.columns, setting.outcomes), len(setting.parties)
    budget = calibration.budget(setting.target)
    dealer: Dealer = "coordinator"  # whoever deals, the noise is the same
    fixed = parties, setting.pooled, dealer, setting.grid_bits, setting.rows_per_subject
    moments = least_noise(layout, budget, *fixed, public_norm2=setting.public_norm2)
    price = spent(layout, moments, parties, setting.grid_bits, setting.rows_per_subject)
    variance = {
        kind: (scales.released_sd(scale, parties) / 4**setting.grid_bits / setting.rows) ** 2
        for kind, scale in moments.scales.items()
    }
    prices = split_charge(price, setting.parties, setting.parts)
    within = dict.fromkeys(setting.parties, variance[Kind.PRODUCT])
    return Release(None, None, within, prices, variance[Kind.ASSOCIATION])


def mean_variance(setting: Setting, release: Release) -> float:
    """Noise variance of a released number, the mean over released columns."""
    found = [
        value
        for name, columns in setting.parties.items()
        for column in columns
        for value in [_variance(setting, release, name, column)] * len(column.released)
    ]
    return sum(found) / len(found)


def _variance(setting: Setting, release: Release, party: str, column: Column) -> float:
    """Noise variance of a released number of this column, which may be public."""
    if setting.mechanism == "moments":
        return release.association if column.name in setting.outcomes else release.variance[party]
    return release.variance[party] / setting.weights.get(column.name, 1) ** 2


def forecast(setting: Setting, signal: float) -> Forecast:
    """What to expect.

    Args:
        setting: public numbers and guesses.
        signal: R^2, a guess in (0, 1].

    Raises:
        InvalidInput: `signal` is not in that range.
    """
    assumed, release = setting.assumed(signal), proposed(setting)
    exact = {column.name for column in setting.columns if column.public and setting.mechanism != "moments"}
    variance = {
        column.name: 0.0 if column.name in exact else _variance(setting, release, party, column)
        for party, columns in setting.parties.items()
        for column in columns
    }
    noise = setting.spread_out([variance[name] for name in setting.features])
    own = variance[setting.outcome]
    if setting.mechanism == "moments":
        weight = 1 / float(_diagonal_weight(setting))
        diagonal = [setting.guess(name).own for name in setting.features]
        error = moments_error(
            assumed,
            math.sqrt(max(release.variance.values())),
            setting.spread_out([weight if each is None else each for each in diagonal]),
            math.sqrt(own),
        )
        length = 1.0
    else:
        rho = float(release.anchor_weight or 0)
        patients = setting.rows * (1 - rho)
        error = rows_error(assumed, patients, release.outputs or setting.rows, noise, own)
        length = rho * setting.rows**2 + patients  # squared length of the constant column as released
    return _forecast(
        assumed,
        error,
        constant=bounded(own / length, setting.guess(setting.outcome).reach),
        slopes=float(assumed.squares @ noise) / length,
    )


def _diagonal_weight(setting: Setting) -> Fraction:
    layout = Layout(setting.columns, setting.outcomes)
    if setting.outcomes:
        return association.Moves.of(layout).diagonal_weight
    return sensitivity(layout.variables).diagonal_weight


def _forecast(assumed: Assumed, error: float, *, constant: float, slopes: float) -> Forecast:
    """From the errors of the slopes before shrinking, of the released mean, and what unshrunk slopes add to the latter."""
    left = kept(assumed.explained, error, len(assumed.free))
    offset = constant + max(left, 0.0) * slopes
    return Forecast(
        signal=assumed.signal,
        error_ratio=error / assumed.explained,
        kept=left,
        r2=assumed.signal * left - offset / assumed.outcome_variance,
        constant_r2=-constant / assumed.outcome_variance,
    )


def rows_needed(setting: Setting, signal: float) -> int | None:
    """About the least n with which a fit is useful, all else as it is; None above `MOST_ROWS`."""
    least = setting.outputs or 1
    found = _least(lambda n: forecast(replace(setting, rows=math.ceil(n)), signal).useful, least, MOST_ROWS)
    return None if found is None else math.ceil(found)


def epsilon_needed(setting: Setting, signal: float) -> float | None:
    """About the least epsilon with which a fit is useful, all else as it is; None above `MOST_EPSILON`."""

    def useful(epsilon: float) -> bool:
        target = setting.target.model_copy(update={"epsilon": epsilon})
        return forecast(replace(setting, target=target), signal).useful

    return _least(useful, _LEAST_EPSILON, MOST_EPSILON)


def _least(useful: Callable[[float], bool], low: float, high: float) -> float | None:
    """The least number, within 1 %, that is useful, all larger ones being so too."""
    if useful(low):
        return low
    if not useful(high):
        return None
    while high > _CLOSE * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if useful(middle) else (middle, high)
    return high
