"""Regression that is told no bounds: ours against TukeyEM, Boosted AdaSSP and least squares, R^2 on rows held out.

Every method keeps (epsilon, delta) = (ln 3, 1e-5) for the rows it is fitted to, nine in ten, and R^2 is counted on the others:

    ours              three institutions, t = 1, replace-one of a whole row; decades, ranges and moments of clipped rows share
                      the budget, and what they release serves every column as an outcome
    tukey             TukeyEM for this outcome, with as many models as rows allow, or with at most 1,000 of them: whichever has
                      the higher median on a table, an oracle's choice
    boosted adassp    Boosted AdaSSP for this outcome, clipping norms 1, 100 rounds
    not private       least squares

Ours declares every number with unknown bounds. Its ranges are the library's own; its moments simulate exact noise laws
(`ours`). The rivals are written from their papers (`rivals`); they trust one curator with all rows and protect under
add-or-remove. A model of Boosted AdaSSP is for features clipped to norm 1 and gets such; where TukeyEM's check fails, it
predicts 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.files import at_hand
from benchmarks.common.plots import subplots
from benchmarks.common.report import RESULTS, Results, main
from benchmarks.plug_and_play.ours import predictions
from benchmarks.plug_and_play.rivals import boosted_adassp, clipped, tukey
from benchmarks.plug_and_play.tables import SCHEMAS, Schema
from dprelease.arrays import Floats
from dprelease.privacy.gaussian import mu_of

Cell = dict[str, Any]
"""One table, JSON-ready."""

EPSILON, DELTA = math.log(3), 1e-5
SEED = 20261122
HELD_OUT = 0.1
SPLITS, QUICK_SPLITS = 10, 1
MODELS = 1000
"""Models of TukeyEM at most, in its second variant."""
PART, TABLES = 0.85, 0.8
"""Part of least squares' R^2 that ours should keep, and on which part of the tables."""
STYLES = {
    "ours": ("tab:blue", "o", "ranges, then moments of clipped rows (three institutions)"),
    "tukey": ("tab:orange", "^", "TukeyEM (curator, one outcome)"),
    "boosted adassp": ("tab:red", "v", "Boosted AdaSSP (curator, one outcome)"),
    "not private": ("k", "|", "not private"),
}
LEAST = -0.6
"""R^2 at which the plot's dots stop."""


def run(quick: bool) -> Results:
    """R^2 on held-out rows of tables without bounds, ten splits of each table (one when quick)."""
    results = Results()
    present = [schema for schema in SCHEMAS if at_hand(schema.name, schema.path)]
    cells: list[Cell] = []
    with ProcessPoolExecutor() as pool:
        for cell in pool.map(measure, present, repeat(QUICK_SPLITS if quick else SPLITS)):
            _judge(results, cell)
            cells.append(cell)
    if cells:
        close = [_median(cell, "ours") >= PART * _median(cell, "not private") for cell in cells]
        title = f"part of {len(cells)} tables on which ours keeps {PART:.0%} of least squares"
        results.add(title, float(np.mean(close)), TABLES, ">=")
        for method in ("ours", "tukey", "boosted adassp"):
            above = sum(_median(cell, method) > 0 for cell in cells)
            results.add(f"tables with a median R^2 above 0, {method}", above)
    results.details["cells"] = cells
    if cells and not quick:
        plot(cells, RESULTS / "plug_and_play.png")
    return results


def measure(schema: Schema, splits: int) -> Cell:
    """All methods on one table: R^2 of every split, the same splits for all."""
    frame = schema.read()
    found: dict[str, list[float]] = {}
    x, y = schema.design(frame), frame[schema.target].to_numpy(np.float64)
    for split in range(splits):
        random = np.random.default_rng([SEED, len(frame), split])
        order = random.permutation(len(frame))
        kept, out = np.split(order, [round(len(frame) * (1 - HELD_OUT))])
        guesses = _rivals(x[kept], y[kept], x[out], random)
        guesses["ours"] = predictions(schema, frame.iloc[kept], frame.iloc[out], mu_of(EPSILON, DELTA), random)
        for method, guess in guesses.items():
            score = 1 - float(np.mean((y[out] - guess) ** 2) / np.var(y[out]))
            found.setdefault(method, []).append(score)
    variants = [found.pop(name) for name in ("tukey, all models", "tukey, few models")]
    found["tukey"] = max(variants, key=np.median)
    return {"table": schema.name, "n": len(frame), "columns": x.shape[1], "target": schema.target, "methods": found}


def _rivals(x: Floats, y: Floats, new: Floats, random: np.random.Generator) -> dict[str, Floats]:
    """Predictions for new rows by method."""
    most = len(x) // x.shape[1]
    models = {
        name: tukey(x, y, count, EPSILON, DELTA, random)
        for name, count in (("tukey, all models", most), ("tukey, few models", min(most, MODELS)))
    }
    found = {name: np.zeros(len(new)) if model is None else new @ model for name, model in models.items()}
    found["boosted adassp"] = clipped(new) @ boosted_adassp(x, y, mu_of(EPSILON, DELTA), random)
    found["not private"] = new @ np.linalg.lstsq(x, y, rcond=None)[0]
    return found


def _median(cell: Cell, method: str) -> float:
    return float(np.median(cell["methods"][method]))


def _judge(results: Results, cell: Cell) -> None:
    """Figures of one table."""
    name = f"{cell['table']} (n = {cell['n']:,}, d = {cell['columns'] - 1})"
    for method in STYLES:
        results.add(f"{name}: median R^2, {method}", _median(cell, method))
    results.add(f"{name}: least R^2 over splits, ours", min(cell["methods"]["ours"]), 0.0, ">=")


def plot(cells: Sequence[Cell], path: Path) -> None:
    """Write the dot plot: one line for each table, one dot for each method, a line to its worst split."""
    figure, axis = subplots(1, 1, (9, 1.6 + 0.55 * len(cells)))
    for shift, (method, (colour, marker, label)) in enumerate(STYLES.items()):
        for place, cell in enumerate(reversed(cells)):
            worst, median = (max(each, LEAST) for each in (min(cell["methods"][method]), _median(cell, method)))
            height, beyond = place + 0.12 * (1.5 - shift), _median(cell, method) < LEAST
            axis.plot([worst, median], [height, height], color=colour, lw=1)
            inner = "none" if beyond else colour
            axis.plot(median, height, marker, color=colour, mfc=inner, ms=6, label=label if place == 0 else None)
    axis.set_yticks(range(len(cells)), [f"{cell['table']}: {cell['target']}" for cell in reversed(cells)])
    axis.axvline(0, color="grey", lw=0.8)
    axis.set(
        xlim=(LEAST - 0.04, 1),
        xlabel="R² on rows held out, median and worst split",
        title="no bounds given, (epsilon, delta) = (ln 3, 1e-5)",
    )
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main("plug_and_play", run)
