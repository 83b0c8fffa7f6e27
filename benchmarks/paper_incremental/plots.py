"""The plots of `paper_incremental`: excess risk against T and d, and errors of prefix sums with T known and unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.ticker import NullLocator

from benchmarks.common.plots import legend, subplots
from benchmarks.paper_incremental.curves import METHODS, Point, bound_of_batch, bound_of_regression

_STYLES: dict[str, dict[str, Any]] = {
    "trivial": {"color": "black", "linestyle": ":"},
    "reg1": {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    "reg1 tree": {"color": "#56B4E9", "marker": "o", "linestyle": "--"},
    "reg2": {"color": "#009E73", "marker": "D", "linestyle": "-"},
    "erm": {"color": "#D55E00", "marker": "s", "linestyle": "-"},
    "every": {"color": "#CC79A7", "marker": "v", "linestyle": "-"},
    "fw": {"color": "#E69F00", "marker": "^", "linestyle": "-"},
}
"""Colours of Okabe and Ito."""


def risks(lengths: Sequence[Point], widths: Sequence[Point], sparse: Sequence[Point], path: Path) -> None:
    """Excess risk against T and d of dense rows, with the paper's bounds, and against d of sparse ones."""
    figure, axes = subplots(1, 3, (16, 5.6))
    panels = (
        (lengths, "T", [point.length for point in lengths], f"dense rows, d = {lengths[0].width}"),
        (widths, "d", [point.width for point in widths], f"dense rows, T = {widths[0].length:,}"),
        (sparse, "d", [point.width for point in sparse], f"sparse rows, L1 ball, T = {sparse[0].length:,}"),
    )
    for axis, (points, label, places, title) in zip(axes, panels, strict=True):
        for method in (method for method in METHODS if method in points[0].excess):
            faint = {"alpha": 0.35} if method.endswith(" p") else {}
            style = {"markersize": 4.5, "label": METHODS[method], **_STYLES[method.removesuffix(" p")]} | faint
            axis.plot(places, [point.mean(method) for point in points], **style)
        if points is not sparse:
            bounds = [bound_of_regression(point.length, point.width, 1.0) for point in points]
            axis.plot(places, bounds, color="#0072B2", lw=0.8, linestyle="-.", label="theorem 4.2, constant 1")
            bounds = [bound_of_batch(point.length, point.width, 4.0, 1.0) for point in points]
            axis.plot(places, bounds, color="#D55E00", lw=0.8, linestyle="-.", label="theorem 3.1, constant 1")
        axis.set(xscale="log", yscale="log", xlabel=label, title=title)
        axis.set_xticks(places, [f"{place:,}" for place in places])
        axis.xaxis.set_minor_locator(NullLocator())
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("largest excess risk over the stream")
    legend(figure, axes, 4, fontsize=8)
    figure.savefig(path, dpi=100)


def sums(
    table: Sequence[Mapping[str, float]], unknown: Mapping[str, Sequence[float]], at: Sequence[int], path: Path
) -> None:
    """Worst errors of prefix sums against T, and what not knowing T costs."""
    figure, axes = subplots(1, 2, (12, 4.6))
    for name in ("tree", "square root", "normalised"):
        axes[0].plot([row["T"] for row in table], [row[f"{name}, worst"] for row in table], marker="o", label=name)
    axes[0].set(xscale="log", xlabel="T", ylabel="largest standard deviation, units of Delta/mu", title="T is known")
    for name, ratios in unknown.items():
        axes[1].plot(at, ratios, label=name)
    axes[1].axhline(1.5, color="grey", lw=0.8)
    axes[1].set(
        xscale="log", xlabel="T", ylabel="largest variance over that of known T", title="T is unknown", ylim=(0.9, None)
    )
    for axis in axes:
        axis.grid(alpha=0.25)
        axis.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=100)
