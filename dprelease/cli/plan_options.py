"""Options and output of `plan` in every role that has it: guesses, mechanisms side by side, a plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from dprelease.data.column import EVEN_SPREAD
from dprelease.files.extras import require
from dprelease.mechanisms.assumptions import Scenario
from dprelease.mechanisms.registry import names_for_fits
from dprelease.planning.comparison import SIGNALS, Comparison, compare
from dprelease.planning.plot import draw

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
