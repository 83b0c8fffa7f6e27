"""What `plan` asks for and does in every role that has it: guesses as options, mechanisms side by side, a plot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from dprelease.data.columns import Column
from dprelease.files.extras import require
from dprelease.mechanisms.registry import names
from dprelease.planning.assumptions import Setting
from dprelease.planning.comparison import SIGNALS, Comparison, compare
from dprelease.planning.expected_error import EVEN_SPREAD
from dprelease.planning.plot import draw

Command = TypeVar("Command", bound=Callable[..., Any])

outcomes_option = click.option(
    "--outcomes", type=click.IntRange(min=1), metavar="L", help="The last L columns are outcomes only; for moments."
)
"""Gives a command `outcomes`, a number, or None."""


def _drawable(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    """The file to draw to, once it is certain that there is something to draw with."""
    if path is not None:
        require("matplotlib")
    return path


_GUESSES = (
    click.option(
        "--mechanism", "mechanisms", multiple=True, type=click.Choice(names()), help="May be repeated; or all."
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


def _weights(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, int] | None:
    """``NAME=2``, repeated, as a mapping; None if there is none."""
    pairs = [text.partition("=") for text in given]
    wrong = [text for text, (name, _, weight) in zip(given, pairs, strict=True) if not (name and weight.isdecimal())]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r} is not a column and its weight, such as glucose=2")
    return {name: int(weight) for name, _, weight in pairs} or None


weight_option = click.option(
    "--weight",
    multiple=True,
    metavar="NAME=W",
    callback=_weights,
    help="Give a column W times less noise than others have, for mixed and rows; may be repeated.",
)
"""Gives a command `weight`, column to weight, or None."""


def last_columns(parties: Mapping[str, tuple[Column, ...]], count: int | None) -> tuple[str, ...]:
    """Names of the last columns of all parties; none for None."""
    names = tuple(column.name for columns in parties.values() for column in columns)
    return names[-count:] if count else ()


def with_guesses(command: Command) -> Command:
    """Give a command `--mechanism`, `--signal`, `--spread` and `--plot`.

    It receives them as `mechanisms`, `signals`, `spread` and `plot`.
    """
    for option in reversed(_GUESSES):
        command = option(command)
    return command


def compared(setting: Setting, mechanisms: Sequence[str], signals: Sequence[float], plot: Path | None) -> Comparison:
    """Mechanisms side by side; all of them, and the usual R^2, where nothing was asked for. Draws the plot if asked to.

    Raises:
        InvalidInput: a signal is not in (0, 1], or the plot cannot be written.
    """
    found = compare(setting, mechanisms, signals or SIGNALS)
    if plot is not None:
        draw(found, plot)
    return found
