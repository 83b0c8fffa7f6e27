"""Plots and tables of `paper_multiparty`: the paper's Figures 2 and 3 and its Table 1."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.plots import legend, subplots
from benchmarks.paper_multiparty.synthetic import FAR, METHODS, Cell
from benchmarks.paper_multiparty.tables import Losses

NAMES = {
    "ols": "OLS, not private",
    "bgm": "BGM",
    "dgm": "DGM (median)",
    "rmgm": "RMGM, as published",
    "default": "blocks, our default",
    "moments": "joint moments",
}
STYLES: dict[str, dict[str, Any]] = {
    "ols": {"color": "black", "marker": "*", "linestyle": ":", "markersize": 7},
    "bgm": {"color": "#E69F00", "marker": "s", "linestyle": "--", "markersize": 10},
    "dgm": {"color": "#D55E00", "marker": "v", "linestyle": "--", "markersize": 9},
    "rmgm": {"color": "#CC79A7", "marker": "^", "linestyle": "-", "markersize": 7},
    "default": {"color": "#0072B2", "marker": "o", "linestyle": "-", "markersize": 4.5},
    "moments": {"color": "#009E73", "marker": "D", "linestyle": "-", "markersize": 4},
}
"""Colours of Okabe and Ito, which the colour-blind can tell apart; markers differ too, and later ones are smaller, so that
none is hidden where several coincide."""


def figure_2(cells: Sequence[Cell], path: Path) -> None:
    """Errors of the weights, and how often they exceed 0.1, against n; one column for each epsilon."""
    epsilons = sorted({cell.epsilon for cell in cells}, reverse=True)
    figure, axes = subplots(2, len(epsilons), (12, 7), sharex=True, sharey="row")
    for place, epsilon in enumerate(epsilons):
        some = sorted((cell for cell in cells if cell.epsilon == epsilon), key=lambda cell: cell.patients)
        n = [cell.patients for cell in some]
        above, below = axes[0, place], axes[1, place]
        above.plot(n, [cell.error("zero") for cell in some], color="grey", lw=5, alpha=0.35, label="zero vector")
        for method in METHODS:
            above.plot(n, [cell.error(method) for cell in some], label=NAMES[method], **STYLES[method])
            below.plot(n, [cell.beyond(method, FAR[0]) for cell in some], **STYLES[method])
        above.set(xscale="log", yscale="log", title=f"ε = {epsilon:g}")
        below.set(xlabel="patients n", ylim=(-0.04, 1.04))
        for axis in (above, below):
            axis.grid(alpha=0.25)
    axes[0, 0].set_ylim(bottom=1e-4)
    lowest = min(cell.error("ols") for cell in cells)
    axes[0, 0].text(0.03, 0.04, f"OLS lies below, from {lowest:.0e}", transform=axes[0, 0].transAxes)
    axes[0, 0].set_ylabel("mean distance of the weights, |ŵ - w*|")
    axes[1, 0].set_ylabel(f"part of releases with |ŵ - w*| > {FAR[0]:g}")
    legend(figure, axes[0, :1], 7)
    figure.savefig(path, dpi=110)


def figure_3(cell: Cell, insurance: Losses, path: Path) -> None:
    """Distance from least squares against the Hessian's smallest |eigenvalue|: synthetic data, and Insurance."""
    figure, axes = subplots(1, 2, (11, 4.2))
    chosen = f"rmgm {insurance.outputs}"
    panels = (
        (f"synthetic, n = {cell.patients:,}, ε = {cell.epsilon:g}", cell.hessians, "rmgm"),
        (f"Insurance, ε = {insurance.epsilon:g}", insurance.hessians, chosen),
    )
    for axis, (title, hessians, mixed) in zip(axes, panels, strict=True):
        for method, label in (("dgm", "DGM"), (mixed, "RMGM, as published")):
            smallest, distance = np.array(hessians[method]).T
            style = STYLES["dgm" if method == "dgm" else "rmgm"] | {"linestyle": "none", "markersize": 4}
            axis.plot(smallest, distance, alpha=0.6, label=label, **style)
        axis.set(xscale="log", yscale="log", title=title, xlabel="smallest |eigenvalue| of the Hessian")
        axis.set_ylabel("distance of the weights from least squares")
        axis.grid(alpha=0.25)
    legend(figure, axes[:1], 2)
    figure.savefig(path, dpi=110)


def table_1_plot(cells: Sequence[Losses], path: Path) -> None:
    """Test losses over the constant predictor's, one panel for each epsilon."""
    epsilons = sorted({cell.epsilon for cell in cells}, reverse=True)
    tables = list(dict.fromkeys(cell.table.name for cell in cells))
    figure, axes = subplots(1, len(epsilons), (12, 4), sharey=True, sharex=True)
    for axis, epsilon in zip(axes, epsilons, strict=True):
        for shift, method in enumerate(METHODS):
            some = [cell for cell in cells if cell.epsilon == epsilon]
            height = [tables.index(cell.table.name) + 0.13 * (shift - 2.5) for cell in some]
            losses = [cell.loss(method) / cell.loss("constant") for cell in some]
            style = {**STYLES[method], "linestyle": "none", "markersize": 6}
            axis.plot(losses, height, label=NAMES[method], **style)
        axis.axvline(1, color="grey", lw=1)
        axis.set(xscale="log", title=f"ε = {epsilon:g}", xlabel="test loss / that of the constant predictor")
        axis.grid(alpha=0.25, axis="x")
        for line in np.arange(len(tables) - 1) + 0.5:
            axis.axhline(line, color="grey", lw=0.4, alpha=0.5)
    axes[0].set_yticks(range(len(tables)), tables)
    axes[0].invert_yaxis()
    legend(figure, axes[:1], 6)
    figure.savefig(path, dpi=110)


def figure_2_table(cells: Sequence[Cell]) -> list[str]:
    """Markdown: mean error / part of the draws beyond each of `FAR`."""
    lines = [
        "| epsilon | n | zero vector | " + " | ".join(NAMES[method] for method in METHODS) + " |",
        "|" + "---|" * (3 + len(METHODS)),
    ]
    for cell in sorted(cells, key=lambda cell: (-cell.epsilon, cell.patients)):
        found = []
        for method in ("zero", *METHODS):
            beyond = ", ".join(f"{cell.beyond(method, far):.2f}" for far in FAR)
            found.append(f"{cell.error(method):.3g} ({beyond})")
        lines.append(f"| {cell.epsilon:g} | {cell.patients:,} | " + " | ".join(found) + " |")
    return lines


def table_1(cells: Sequence[Losses]) -> list[str]:
    """Markdown: test losses, beside the paper's RMGM."""
    order = ("ols", "bgm", "dgm", "rmgm", "default", "moments")
    lines = [
        "| table (n, d, m) | rows | epsilon | constant | "
        + " | ".join(NAMES[name] for name in order)
        + " | k | RMGM in the paper |",
        "|" + "---|" * (6 + len(order)),
    ]
    for cell in cells:
        table = cell.table
        losses = " | ".join(f"{cell.loss(name):.4f}" for name in order)
        paper = table.published[(1.0, 0.3, 0.1).index(cell.epsilon)]
        shape = f"{table.name} ({table.rows:,}, {table.features}, {table.parties})"
        where = f"{table.source} | {cell.epsilon:g} | {cell.loss('constant'):.4f}"
        lines.append(f"| {shape} | {where} | {losses} | {cell.outputs:,} | {paper:.4f} |")
    return lines
