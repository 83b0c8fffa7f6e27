"""Panels of pictures, drawn without a display."""

from __future__ import annotations

from typing import Any


def subplots(
    down: int, across: int, size: tuple[float, float], layout: Any = "constrained", **how: Any
) -> tuple[Any, Any]:
    """A figure of this size, inches, and its axes as of matplotlib's `subplots`."""
    from matplotlib.figure import Figure as Canvas  # only pictures need it

    figure = Canvas(figsize=size, layout=layout)
    return figure, figure.subplots(down, across, **how)


def legend(figure: Any, axes: Any, ncols: int, **how: Any) -> None:
    """Below the panels, one entry for each label on them."""
    shown: dict[str, Any] = {}
    for axis in axes:
        shown |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    figure.legend(list(shown.values()), list(shown), loc="outside lower center", ncols=ncols, frameon=False, **how)
