"""The dot plot of `accuracy`: one line for each table and outcome, one dot for each method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.plots import subplots

LEAST = -0.3
"""R^2 at which dots stop: what lies below is drawn at the edge, as an open dot."""
STYLES = {
    "ranges": ("navy", "*", "ranges, then joint moments of clipped rows (three institutions, all outcomes)"),
    "ranges, known outcome": ("tab:cyan", "*", "the same with more weight on this outcome"),
    "moments": ("tab:blue", "o", "joint moments in public bounds (three institutions, all outcomes)"),
    "blocks": ("tab:green", "s", "mixed blocks (three institutions, all outcomes)"),
    "adassp": ("tab:orange", "^", "AdaSSP, recalibrated (curator, one outcome)"),
    "adassp oracle": ("tab:brown", "P", "joint AdaSSP, oracle's choices (curator, one outcome)"),
    "published": ("tab:red", "v", "AdaSSP as published (curator, one outcome)"),
    "descent": ("tab:purple", "D", "DP gradient descent, oracle's choices (curator, one outcome)"),
}


def plot(cells: Sequence[dict[str, Any]], path: Path) -> None:
    """Write the plot of the declared outcomes, one panel for each privacy target."""
    from matplotlib.lines import Line2D

    budgets = list(dict.fromkeys(cell["budget"] for cell in cells))
    lines = list(dict.fromkeys((cell["table"], cell["target"]) for cell in cells if cell["declared"]))
    figure, axes = subplots(1, len(budgets), (13, 2.1 + 0.5 * len(lines)), sharey=True)
    for axis, budget in zip(axes, budgets, strict=True):
        for place, line in enumerate(reversed(lines)):
            (cell,) = [each for each in cells if (each["table"], each["target"], each["budget"]) == (*line, budget)]
            axis.axhline(place, color="0.9", lw=0.8, zorder=0)
            axis.plot(cell["not private"], place, "k|", ms=16, mew=2)
            for shift, (method, (colour, marker, _)) in enumerate(STYLES.items()):
                found = cell["methods"].get(method)
                if found is None:  # not drawn at this target
                    continue
                height = place + 0.1 * ((len(STYLES) - 1) / 2 - shift)
                median, worst = max(found["median"], LEAST), max(found["q05"], LEAST)
                axis.plot([worst, median], [height, height], color=colour, lw=1)
                beyond = found["median"] < LEAST
                axis.plot(median, height, marker, color=colour, ms=5, mfc="none" if beyond else colour)
        axis.axvline(0, color="grey", lw=0.8)
        axis.set(xlim=(LEAST - 0.03, 1), title=f"(epsilon, delta) = {budget}", xlabel="R², median and 5 % quantile")
    axes[0].set_yticks(range(len(lines)), [f"{table}: {target}" for table, target in reversed(lines)])
    handles = [
        Line2D([], [], color=colour, marker=marker, ls="", label=label) for colour, marker, label in STYLES.values()
    ]
    handles.append(Line2D([], [], color="k", marker="|", ms=12, mew=2, ls="", label="not private"))
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=110)
