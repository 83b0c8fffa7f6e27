"""A fit on a simulated release, beside what least squares on the made-up rows give and what the planner expected.

Only a simulation can say all three: its rows are nobody's, so they may be looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coordinator.dry_run.simulate import Simulated
from dprelease.arrays import Floats
from dprelease.data.columns import unbounded
from dprelease.data.decades import decade_values
from dprelease.errors import InvalidInput
from dprelease.estimators import FitResult, fit
from dprelease.mechanisms.assumptions import PlannedFit
from dprelease.mechanisms.expected_error import Forecast
from dprelease.mechanisms.registry import mechanism_of
from dprelease.release.spec import ReleaseSpec

_LEAST_SIGNAL = 1e-6


@dataclass(frozen=True)
class Trial:
    """One fit of one draw of noise.

    Attributes:
        result: the fit, by the default method.
        signal: R^2 of least squares on the made-up rows themselves.
        r2: share of the outcome's variance that the fit explains on the made-up rows.
        constant_r2: the same of the released mean.
        expected: what the planner says of such a fit, told the signal.
    """

    result: FitResult
    signal: float
    r2: float
    constant_r2: float
    expected: Forecast


def trial(simulated: Simulated, outcome: str) -> Trial:
    """Fit the outcome on every other column.

    Args:
        simulated: a simulation.
        outcome: name of a declared column; of a category, its first level is fitted.

    Raises:
        InvalidInput: there is no other column, too little was released to fit on, or the made-up outcome does not vary.
    """
    spec, release = simulated.spec, simulated.release
    column = next(column for column in spec.columns if column.name == outcome)
    result = fit(release, [column.released[0]])
    values = _values(simulated)
    y, x = values[result.targets[0]], np.column_stack([values[name] for name in result.features])
    if not np.ptp(y):
        raise InvalidInput(f"{outcome} is the same in all {len(y)} made-up rows, so there is nothing to explain")
    signal = explained(y, _least_squares(x, y))
    return Trial(
        result=result,
        signal=signal,
        r2=explained(y, result.predict(x)[:, 0]),
        constant_r2=explained(y, np.full(len(y), result.constant[0])),
        expected=mechanism_of(spec).forecast(spec, _planned(spec, outcome), min(max(signal, _LEAST_SIGNAL), 1.0)),
    )


def explained(y: Floats, predicted: Floats) -> float:
    """Share of the variance of y, (n,), that a prediction explains; below 0 it is worse than the mean."""
    return float(1 - np.mean((y - predicted) ** 2) / np.var(y))


def _values(simulated: Simulated) -> dict[str, Floats]:
    """Released name to (n,) made-up values, original units."""
    spec = simulated.spec
    midpoint, half_width = simulated.release.original_units()
    codes = np.hstack([simulated.rows[part.party].codes for part in spec.parties])
    values = midpoint + half_width * codes * 2.0**-spec.grid_bits
    for column in unbounded(spec.columns):
        place = spec.released.index(column.name)
        values[:, place] = decade_values(codes[:, place], spec.grid_bits)
    return dict(zip(spec.released, values.T, strict=True))


def _least_squares(x: Floats, y: Floats) -> Floats:
    centred = (x - x.mean(axis=0)) / np.ptp(x, axis=0).clip(min=np.finfo(float).tiny)
    slopes = np.linalg.lstsq(centred, y - y.mean(), rcond=None)[0]
    fitted: Floats = y.mean() + centred @ slopes
    return fitted


def _planned(spec: ReleaseSpec, outcome: str) -> PlannedFit:
    features = tuple(column.name for column in spec.columns if column.name not in {outcome, *spec.outcomes})
    return PlannedFit(spec.columns, outcome, features)
