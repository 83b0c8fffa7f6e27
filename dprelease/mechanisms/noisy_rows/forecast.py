"""Expected worth of a fit on noisy rows, from public numbers and guesses alone."""

from __future__ import annotations

from dprelease.mechanisms.assumptions import PlannedFit
from dprelease.mechanisms.expected_error import Forecast, ReleasedNoise, bounded, expected, rows_error
from dprelease.mechanisms.noisy_rows.terms import MixedTerms, NoisyRowsTerms
from dprelease.spec_base import SpecBase


def released_noise(spec: SpecBase, terms: NoisyRowsTerms, times: float) -> ReleasedNoise:
    """How noisy the rows are; arguments as of `Mechanism.released_noise`."""
    unit = times * 2.0**-spec.grid_bits
    share = float(1 - terms.rho) / terms.squared_norm
    variance = {noise.party: share * (noise.scale * unit) ** 2 for noise in terms.noise}
    return ReleasedNoise(
        variance=variance,
        columns={
            column.name: variance[part.party] / spec.weights.get(column.name, 1) ** 2
            for part in spec.parties
            for column in part.columns
        },
        shape=f"{terms.mixing.outputs} mixed rows, rho = {terms.rho}"
        if isinstance(terms, MixedTerms)
        else f"{spec.rows} rows",
        unit="of a scaled cell",
    )


def forecast(spec: SpecBase, terms: NoisyRowsTerms, fit: PlannedFit, signal: float, times: float) -> Forecast:
    """The expected worth of a fit; arguments as of `Mechanism.forecast`."""
    assumed, release = fit.assumed(signal), released_noise(spec, terms, times)
    exact = {column.name for column in spec.public}
    variance = {name: 0.0 if name in exact else value for name, value in release.columns.items()}
    noise, own = fit.spread_out([variance[name] for name in fit.features]), variance[fit.outcome]
    rho = float(terms.rho)
    patients = spec.rows * (1 - rho)
    length = rho * spec.rows**2 + patients  # squared length of the constant column as released
    outputs = terms.mixing.outputs if isinstance(terms, MixedTerms) else spec.rows
    return expected(
        assumed,
        rows_error(assumed, patients, outputs, noise, own),
        constant=bounded(own / length, fit.guess(fit.outcome).reach),
        slopes=float(assumed.squares @ noise) / length,
    )
