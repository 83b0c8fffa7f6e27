"""Coefficients over the checkpoints of a stream as a picture, one panel each. matplotlib is needed here only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dprelease.document.cells import LEVEL
from dprelease.errors import InvalidInput
from dprelease.estimators import FitResult
from dprelease.estimators.intervals.clipped import WIDER
from dprelease.files.extras import require
from dprelease.one_line import one_line

COLUMNS = 3
"""Panels beside one another."""


def draw(fits: Mapping[int, FitResult], path: Path) -> None:
    """Write the picture; the ending of the file's name says in which format.

    Raises:
        InvalidInput: matplotlib is missing or does not know the format, or the file cannot be written.
    """
    require("matplotlib")
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    first = next(iter(fits.values()))
    across = min(len(first.features), COLUMNS)
    lines = -(-len(first.features) // across)
    figure = Figure(figsize=(3.4 * across + 0.4, 2.5 * lines + 0.8), layout="constrained")
    axes = figure.subplots(lines, across, squeeze=False).ravel()
    found = [fit.inference for fit in fits.values()]
    estimate = np.array([each.estimate[0] for each in found])
    lower, upper = (np.array(ends) for ends in zip(*(each.interval(LEVEL) for each in found), strict=True))
    for place, name in enumerate(first.features):
        axis, centre = axes[place], estimate[:, place]
        ends = [np.where(np.isfinite(end[:, 0, place]), end[:, 0, place], np.nan) for end in (lower, upper)]
        axis.fill_between(list(fits), *ends, alpha=0.25)
        axis.vlines(list(fits), *ends, linewidth=0.8)
        axis.plot(list(fits), centre, marker="o", markersize=3)
        axis.axhline(0, color="black", linewidth=0.8)
        axis.set_xlim(0.5, max(fits) + 0.5)
        axis.set_title(_text(name), fontsize="medium")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axis in axes[len(first.features) :]:
        axis.set_axis_off()
    for axis in axes[len(first.features) - across : len(first.features)]:
        axis.set_xlabel("checkpoint")
    titles = [_text(f"Coefficients for {first.targets[0]}, {LEVEL:.0%} intervals")]
    if found[-1].reaches:
        titles.append(f"about all rows; {WIDER}")
    figure.suptitle("\n".join(titles), fontsize="medium")
    try:
        figure.savefig(path, dpi=110)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot write the plot {path}: {error}") from error


def _text(text: str) -> str:
    """A stranger's text, of which nothing is read as a formula."""
    return one_line(text).replace("$", r"\$")
