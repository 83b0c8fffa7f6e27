"""Options and output of `plan` in every role that has it: guesses, mechanisms side by side, a plot of expected R^2."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np

from dprelease.arrays import Floats
from dprelease.data.column import EVEN_SPREAD
from dprelease.errors import InvalidInput
from dprelease.files.extras import require
from dprelease.mechanisms.assumptions import Scenario
from dprelease.mechanisms.registry import names_for_fits
from dprelease.planning.comparison import SIGNALS, Comparison, compare
from dprelease.planning.forecast import MOST_ROWS, forecast

Command = TypeVar("Command", bound=Callable[..., Any])


def _drawable(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    """The file to draw to, once it is certain that there is something to draw with."""
    if path is not None:
        require("matplotlib")
    return path


_GUESSES = (
    click.option(
        "--mechanism", "mechanisms", multiple=True, type=click.Choice(names_for_fits()), help="May be repeated; or all."
    ),
    click.option("--signal", "signals", multiple=True, type=float, help="R^2 that you expect; may be repeated."),
    click.option(
        "--spread",
        type=float,
        default=EVEN_SPREAD,
        show_default="1/3, evenly over the range",
        help="Variance that you expect of a number scaled to [-1, 1].",
    ),
    click.option(
        "--plot",
        type=click.Path(dir_okay=False, path_type=Path),
        callback=_drawable,
        help="Draw R^2 to this file, e.g. plan.png; needs matplotlib, the extra plot.",
    ),
)


def with_guesses(command: Command) -> Command:
    """Give a command `--mechanism`, `--signal`, `--spread` and `--plot`.

    It receives them as `mechanisms`, `signals`, `spread` and `plot`.
    """
    for option in reversed(_GUESSES):
        command = option(command)
    return command


def compared(scenario: Scenario, mechanisms: Sequence[str], signals: Sequence[float], plot: Path | None) -> Comparison:
    """Mechanisms side by side; all of them, and the usual R^2, where nothing was asked for. Draws the plot if asked to.

    Raises:
        InvalidInput: a signal is not in (0, 1], or the plot cannot be written.
    """
    found = compare(scenario, mechanisms, signals or SIGNALS)
    if plot is not None:
        draw(found, plot)
    return found


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
