"""The plots of `paper_synthetic_control`: errors against lambda, epsilon and the theorems; private paths beside plain ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.plots import subplots
from benchmarks.paper_synthetic_control.curves import METHODS, Point
from benchmarks.paper_synthetic_control.data import Panel
from dprelease.arrays import Floats

_STYLE: dict[str, dict[str, Any]] = {
    "ridge": {"color": "black", "linestyle": ":"},
    "out": {"color": "#D55E00", "marker": "s", "linestyle": "--"},
    "obj": {"color": "#CC79A7", "marker": "v", "linestyle": "--"},
    "obj gauss": {"color": "#E69F00", "marker": "^", "linestyle": "--"},
    "tight laplace": {"color": "#56B4E9", "marker": "D", "linestyle": "-"},
    "tight": {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    "posterior": {"color": "#009E73", "marker": "*", "linestyle": "-"},
}
_FRAMES = {"raw": "raw values: not private", "bounds": "in public bounds"}


def curves(sets: Sequence[Sequence[Point]], along: str, path: Path) -> None:
    """Errors: one column of panels for each setting, one row for each frame.

    Args:
        sets: points of one setting and frame each, with rising `along`.
        along: ``penalty`` or ``epsilon``.
        path: PNG to write.
    """
    width = len(sets) // 2
    figure, axes = subplots(2, width, (4 * width, 7), layout=None, squeeze=False)
    for points in sets:
        first = points[0]
        row = [*_FRAMES].index(first.frame)
        column = [each[0].data for each in sets if each[0].frame == first.frame].index(first.data)
        axis = axes[row][column]
        for method in METHODS:
            if method in first.rmse:
                x = [getattr(point, along) for point in points]
                axis.plot(x, [point.rmse[method] for point in points], label=METHODS[method], **_STYLE[method])
        axis.set(
            xscale="log",
            yscale="log",
            xlabel="lambda" if along == "penalty" else along,
            title=f"{first.data}, {_FRAMES[first.frame]}",
        )
    axes[0][0].set_ylabel("RMSE after the intervention")
    axes[1][0].set_ylabel("RMSE after the intervention")
    handles, labels = axes[1][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=2, fontsize="small")
    figure.tight_layout(rect=(0, 0.11, 1, 1))
    figure.savefig(path, dpi=110)


def bounds(points: Sequence[Point], found: Mapping[str, Sequence[tuple[float, float]]], path: Path) -> None:
    """The paper's Figure 4: errors as published beside what its Theorems 3.2 and 3.5 allow.

    Args:
        points: of one setting, with rising lambda.
        found: method to error and bound at each of them.
        path: PNG to write.
    """
    figure, axes = subplots(1, len(found), (5 * len(found), 4), layout=None, sharey=True, squeeze=False)
    penalties = [point.penalty for point in points]
    for axis, (method, pairs) in zip(axes[0], found.items(), strict=True):
        color = _STYLE[method]["color"]
        axis.plot(penalties, [each[1] for each in pairs], color="black", linestyle="-.", label="allowed by the theorem")
        axis.plot(penalties, [each[0] for each in pairs], color=color, marker="o", label="measured")
        axis.set(xscale="log", yscale="log", xlabel="lambda", title=METHODS[method])
        axis.title.set_fontsize("small")
        axis.legend(fontsize="small")
    axes[0][0].set_ylabel(f"RMSE after the intervention, {points[0].data}")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def paths(found: Sequence[tuple[Panel, Floats, float, Floats, Floats]], path: Path) -> None:
    """Real panels: target, path without privacy, and one private path with its band.

    Args:
        found: panel, path without privacy, epsilon, private path and standard deviations.
        path: PNG to write.
    """
    figure, axes = subplots(1, len(found), (5 * len(found), 4), layout=None, squeeze=False)
    for axis, (panel, exact, epsilon, private, sd) in zip(axes[0], found, strict=True):
        after = panel.times[panel.before :]
        axis.plot(panel.times, panel.target, color="black", label="target")
        axis.plot(after, exact, color="black", linestyle=":", label="synthetic, without privacy")
        axis.plot(after, private, color="#0072B2", label=f"synthetic, epsilon = {epsilon:g}")
        axis.fill_between(after, private - 1.96 * sd, private + 1.96 * sd, color="#0072B2", alpha=0.2)
        axis.axvline(panel.times[panel.before] - 0.5, color="grey", linewidth=0.8)
        axis.set_title(panel.name)
        axis.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
