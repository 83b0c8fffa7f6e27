"""The plots of `paper_primo`: R^2 against l, log-ratios against n, and one outcome of many features."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.plots import legend, subplots
from benchmarks.paper_primo.curves import METHODS, Point

LOWEST = -0.5
"""R^2 at which curves leave the plot."""
PANELS = {
    "at the paper's noise": ("ols", "naive p", "gauss p", "gauss feature p", "proj box p", "proj p"),
    "at corrected noise": (
        "ols",
        "naive",
        "descent plain",
        "descent",
        "gauss",
        "gauss ours",
        "gauss feature",
        "proj",
        "proj columns",
        "proj ours",
    ),
    "features public": ("ols", "proj label p", "gauss label", "proj label", "label ours", "leverage"),
}
_BASE: dict[str, dict[str, Any]] = {
    "ols": {"color": "black", "linestyle": ":"},
    "naive": {"color": "#E69F00", "marker": "s", "linestyle": "--"},
    "descent plain": {"color": "#CC79A7", "marker": "v", "linestyle": "--"},
    "descent": {"color": "#CC79A7", "marker": "^", "linestyle": "-"},
    "gauss": {"color": "#D55E00", "marker": "o", "linestyle": "--"},
    "gauss ours": {"color": "#D55E00", "marker": "o", "linestyle": "-"},
    "gauss feature": {"color": "#56B4E9", "marker": "D", "linestyle": "--"},
    "proj": {"color": "#0072B2", "marker": "D", "linestyle": "-"},
    "proj box": {"color": "grey", "marker": "x", "linestyle": "--"},
    "proj columns": {"color": "#009E73", "marker": "d", "linestyle": "--"},
    "proj ours": {"color": "#009E73", "marker": "*", "linestyle": "-", "markersize": 9},
    "proj label": {"color": "#0072B2", "marker": "P", "linestyle": "-"},
    "gauss label": {"color": "#56B4E9", "marker": "P", "linestyle": "--"},
    "label ours": {"color": "#009E73", "marker": "P", "linestyle": "-"},
    "leverage": {"color": "#F0E442", "marker": "P", "linestyle": "-"},
}
"""Colours of Okabe and Ito, which the colour-blind can tell apart; full lines are what we would take."""


def against_outcomes(sets: Sequence[Sequence[Point]], path: Path) -> None:
    """R^2 against l: one row of panels for each data set."""
    figure, axes = subplots(len(sets), len(PANELS), (14, 3.4 * len(sets)), sharex=True, sharey=True, squeeze=False)
    for row, points in zip(axes, sets, strict=True):
        for axis, (title, methods) in zip(row, PANELS.items(), strict=True):
            counts = [point.outcomes for point in points]
            for method in (method for method in methods if method in points[0].r_squared):
                faint = {"alpha": 0.4} if title == "features public" and method.endswith(" p") else {}
                axis.plot(counts, [point.mean(method) for point in points], **_style(method) | faint)
            axis.axhline(0, color="grey", lw=0.8)
            axis.set(xscale="log", ylim=(LOWEST, 0.65), title=f"{points[0].data}, {title}")
            axis.grid(alpha=0.25)
        row[0].set_ylabel(f"mean R², n = {points[0].rows:,}")
    for axis in axes[-1]:
        axis.set_xlabel("outcomes l")
    legend(figure, axes.flat, 3, fontsize=8)
    figure.savefig(path, dpi=100)


def against_rows(sets: Sequence[Sequence[Point]], path: Path) -> None:
    """log of the squared error over that of OLS, against n: one panel for each l."""
    figure, axes = subplots(1, len(sets), (6 * len(sets), 4.6), sharey=True, squeeze=False)
    methods = ("gauss p", "proj p", "gauss", "gauss ours", "gauss feature", "proj", "proj ours")
    for axis, points in zip(axes[0], sets, strict=True):
        for method in methods:
            style = _style(method) | ({"alpha": 0.35} if method.endswith(" p") else {})
            axis.plot([point.rows for point in points], [point.log_ratio(method) for point in points], **style)
        axis.set(xscale="log", yscale="log", xlabel="rows n", title=f"{points[0].data}, l = {points[0].outcomes:,}")
        axis.grid(alpha=0.25)
    axes[0, 0].set_ylabel("log(squared error / that of OLS)")
    legend(figure, axes[0, :1], 3, fontsize=8)
    figure.savefig(path, dpi=100)


def one_outcome(by_outcomes: Sequence[Point], by_rows: Sequence[Point], path: Path) -> None:
    """R^2 of methods under full privacy with many features: against l, and for l = 1 against n."""
    figure, axes = subplots(1, 2, (12, 4.6), sharey=True)
    methods = ("ols", "naive", "descent plain", "descent", "gauss p", "gauss", "gauss ours")
    panels = (
        ([point.outcomes for point in by_outcomes], by_outcomes, "outcomes l", f"n = {by_outcomes[0].rows:,}"),
        ([point.rows for point in by_rows], by_rows, "rows n", "l = 1"),
    )
    for axis, (places, points, label, title) in zip(axes, panels, strict=True):
        for method in methods:
            style = _style(method) | ({"alpha": 0.35} if method.endswith(" p") else {})
            axis.plot(places, [point.mean(method) for point in points], **style)
        axis.axhline(0, color="grey", lw=0.8)
        axis.set(xscale="log", ylim=(LOWEST, 0.65), xlabel=label, title=f"{points[0].data}, {title}")
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("mean R²")
    legend(figure, axes[:1], 3, fontsize=8)
    figure.savefig(path, dpi=100)


def _style(method: str) -> dict[str, Any]:
    title, guarantee = METHODS[method]
    noise = ", paper's noise" if method.endswith(" p") else ""
    return {"markersize": 4.5, "label": f"{title} ({guarantee}{noise})", **_BASE[method.removesuffix(" p")]}
