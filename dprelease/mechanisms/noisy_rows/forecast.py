"""What a fit on noisy rows will be worth, from public numbers and guesses alone."""

from __future__ import annotations

from fractions import Fraction

from dprelease.mechanisms.assumptions import Setting
from dprelease.mechanisms.expected_error import Forecast, Proposed, bounded, expected, rows_error
from dprelease.mechanisms.noisy_rows import calibration
from dprelease.mechanisms.noisy_rows.defaults import plan_mixing


def proposed(setting: Setting, *, mixed: bool) -> Proposed:
    """The release that the coordinator would propose.

    Args:
        setting: public numbers and guesses.
        mixed: random mixtures of all rows; else one row for each patient.
    """
    q, bits = setting.rows_per_subject, setting.grid_bits
    sensitivity2 = calibration.sensitivities(setting.parties, q, bits, setting.weights, mixed=mixed)
    shares = calibration.shares(setting.target, sensitivity2)
    outputs, weight, shape = None, None, f"{setting.rows} rows"
    if mixed:
        plan = plan_mixing(setting.rows, dict(setting.parties), setting.target, q, setting.weights)
        outputs = plan.outputs if setting.outputs is None else setting.outputs
        weight = plan.anchor_weight if setting.anchor_weight is None else setting.anchor_weight
        shape = f"{outputs} mixed rows, rho = {weight}"
    norm, rho = outputs or 1, weight or Fraction(0)
    noise = {name: calibration.party_noise(name, shares[name], sensitivity2[name], norm, rho) for name in shares}
    variance = {name: float(1 - rho) / norm * (own.scale * 2.0**-bits) ** 2 for name, own in noise.items()}
    return Proposed(
        variance=variance,
        columns={
            column.name: variance[name] / setting.weights.get(column.name, 1) ** 2
            for name, columns in setting.parties.items()
            for column in columns
        },
        prices={name: calibration.spent(own, sensitivity2[name], norm) for name, own in noise.items()},
        shape=shape,
        unit="of a scaled cell",
        outputs=outputs,
        anchor_weight=weight,
    )


def forecast(setting: Setting, signal: float, *, mixed: bool) -> Forecast:
    """What to expect of a fit; arguments as of `proposed` and `dprelease.planning.forecast.forecast`."""
    assumed, release = setting.assumed(signal), proposed(setting, mixed=mixed)
    exact = {column.name for column in setting.columns if column.public}
    variance = {name: 0.0 if name in exact else value for name, value in release.columns.items()}
    noise, own = setting.spread_out([variance[name] for name in setting.features]), variance[setting.outcome]
    rho = float(release.anchor_weight or 0)
    patients = setting.rows * (1 - rho)
    length = rho * setting.rows**2 + patients  # squared length of the constant column as released
    return expected(
        assumed,
        rows_error(assumed, patients, release.outputs or setting.rows, noise, own),
        constant=bounded(own / length, setting.guess(setting.outcome).reach),
        slopes=float(assumed.squares @ noise) / length,
    )
