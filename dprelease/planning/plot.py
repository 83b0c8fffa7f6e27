"""A comparison of mechanisms as a picture: expected R^2 against n and against epsilon. matplotlib is needed here only."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.files.extras import require
from dprelease.mechanisms.assumptions import Scenario
from dprelease.planning.comparison import Comparison
from dprelease.planning.forecast import MOST_ROWS, forecast

POINTS = 49
DECADES = 2
"""How far n goes on either side of the scenario's; epsilon goes half as far."""


def over_rows(scenario: Scenario, signal: float) -> tuple[Floats, Floats]:
    """(n, expected R^2), each (`POINTS`,)."""
    now = scenario.draft.agreed.rows
    rows = np.rint(np.geomspace(max(now / 10**DECADES, 2), min(now * 10**DECADES, MOST_ROWS), POINTS))
    return rows, np.array([_r2(scenario.having(rows=int(n)), signal) for n in rows])


def over_epsilon(scenario: Scenario, signal: float) -> tuple[Floats, Floats]:
    """(epsilon, expected R^2), each (`POINTS`,)."""
    target = scenario.draft.target
    epsilons = target.epsilon * np.geomspace(10 ** (-DECADES / 2), 10 ** (DECADES / 2), POINTS)
    targets = [target.model_copy(update={"epsilon": float(epsilon)}) for epsilon in epsilons]
    return epsilons, np.array([_r2(scenario.having(target=target), signal) for target in targets])


def _r2(scenario: Scenario, signal: float) -> float:
    """The expected R^2; not a number, which leaves a gap in the line, where there is no such release."""
    try:
        return forecast(scenario, signal).r2
    except InvalidInput:
        return math.nan


def draw(comparison: Comparison, path: Path) -> None:
    """Write the picture; the ending of the file's name says in which format.

    Raises:
        InvalidInput: matplotlib is missing or does not know the format, or the file cannot be written.
    """
    require("matplotlib")
    from matplotlib.figure import Figure

    signals, first = comparison.signals, comparison.scenarios[0]
    figure = Figure(figsize=(3.2 * len(signals) + 1, 6.4), layout="constrained")
    axes = figure.subplots(2, len(signals), sharey=True, squeeze=False)
    now = (first.draft.agreed.rows, first.draft.target.epsilon)
    for line, (curve, name, at) in enumerate(zip((over_rows, over_epsilon), ("n", "epsilon"), now, strict=True)):
        for axis, signal in zip(axes[line], signals, strict=True):
            for scenario in comparison.scenarios:
                axis.plot(*curve(scenario, signal), label=scenario.plan)
            axis.axhline(signal, color="grey", linestyle=":", label="least squares, no privacy")
            axis.axhline(0, color="black", linewidth=0.8, label="exact mean")
            axis.axvline(at, color="grey", linewidth=0.8)
            axis.set(xscale="log", xlabel=name, ylim=(-0.15, 1), title=f"R² = {signal:g} without privacy")
        axes[line][0].set_ylabel("expected R²")
    axes[0][0].legend(fontsize="small")
    figure.suptitle("Forecast from public numbers and guesses; no data were read", fontsize="medium")
    try:
        figure.savefig(path, dpi=110)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot write the plot {path}: {error}") from error
