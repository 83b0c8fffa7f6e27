"""Figure 2, Figure 3 and Table 1 of the multi-party paper, for its own methods and for ours.

The paper is "Differentially Private Multi-Party Data Release for Linear Regression". Methods: OLS (not private), BGM, DGM and
RMGM as published; our default on blocks (mechanism ``mixed``, method ``calibrated``), at the same nominal (epsilon, delta) for
each party's block, in Table 1 with the weight of the outcome that `coordinator plan` recommends; our default on joint
moments (method ``shrinkage``), with that (epsilon, delta) for the whole row. Data and tables are described in
`synthetic`, `tables` and `common.paper_data`, the simulation of releases in `common.block_releases`; releases by the
library itself (`common.exact_releases`) check it, once for each table.
"""

from __future__ import annotations

import itertools

from benchmarks.blocks_utility import EPSILONS, S0, S1
from benchmarks.common.paper_data import TABLES
from benchmarks.common.report import RESULTS, Results, main
from benchmarks.paper_multiparty import plots
from benchmarks.paper_multiparty.synthetic import Cell, exact_check
from benchmarks.paper_multiparty.synthetic import measure as measure_synthetic
from benchmarks.paper_multiparty.tables import Losses
from benchmarks.paper_multiparty.tables import measure as measure_table

FIGURE_2 = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
LARGEST = 10_000_000
"""n of the largest cell."""
AGREE = 5.0
"""Standard errors within which an exact release and simulated ones agree: its noise is secret, so the threshold is wide."""
RMGM_REACH = {S0.name: 1 / 1.4, S1.name: 1 / 1.55}
SAFE = 1.15
LOSS_REACH = 1 / 1.5
MANY = 10_000
"""Rows from which on moments are to beat the constant predictor."""


def run(quick: bool) -> Results:
    """Figure 2, Figure 3 and Table 1 of the multi-party release paper, and our defaults beside its methods."""
    results = Results()

    cells: list[Cell] = []
    sizes = (10_000, 100_000, 1_000_000) if quick else (*FIGURE_2, LARGEST)
    for setting, n in itertools.product((S0, S1), sizes):
        joint = (1 if quick else 8) if setting is S0 and n <= FIGURE_2[-1] else 0
        cells += measure_synthetic(setting, n, 40 if quick else 200, joint)
        results.progress(f"{setting.name}, n = {n:,}")
    _synthetic_figures(results, cells)
    off = exact_check(10_000 if quick else 100_000, 10 if quick else 40)
    results.add("synthetic: one exact release of each method, standard errors off at most", _furthest(off), AGREE)
    losses: list[Losses] = []
    for table in TABLES:
        joint_draws = {1.0: 3 if quick else 50 if table.rows >= MANY else 10, 0.3: 2, 0.1: 2}
        epsilons = (1.0,) if quick else EPSILONS
        losses += measure_table(table, epsilons, 1 if quick else 4, 20 if quick else 50, joint_draws)
        results.progress(f"{table.name}: {table.source}")
    _table_figures(results, losses)
    figure_2 = [cell for cell in cells if cell.setting == S0.name and cell.patients <= FIGURE_2[-1]]
    results.details = {
        "figure 2": plots.figure_2_table(figure_2),
        "table 1": plots.table_1(losses),
        "tables": {table.name: table.source for table in TABLES},
        "synthetic cells": [cell.plain() for cell in cells],
        "table cells": [cell.plain() for cell in losses],
        "synthetic: exact release, standard errors off": off,
    }
    print("\n".join(["", *results.details["figure 2"], "", *results.details["table 1"]]), flush=True)
    if not quick:
        RESULTS.mkdir(exist_ok=True)
        plots.figure_2(figure_2, RESULTS / "paper_multiparty_figure2.png")
        large = next(cell for cell in figure_2 if (cell.patients, cell.epsilon) == (1_000_000, 1.0))
        plots.figure_3(large, losses[0], RESULTS / "paper_multiparty_figure3.png")
        plots.table_1_plot(losses, RESULTS / "paper_multiparty_table1.png")
    return results


def _synthetic_figures(results: Results, cells: list[Cell]) -> None:
    for cell in cells:
        if (cell.patients, cell.epsilon) == (1_000_000, 1.0):
            found, error = cell.ratio("default", "rmgm")
            draws = len(cell.distances["default"])
            name = f"{cell.setting}, epsilon = 1, n = 1,000,000, {draws} draws, se {error:.2g}"
            results.add(f"{name}: default's error over that of RMGM as published", found, RMGM_REACH[cell.setting])
    worst = max(cells, key=lambda cell: cell.ratio("default", "zero")[0])
    where = f"{worst.setting}, epsilon = {worst.epsilon:g}, n = {worst.patients:,}"
    results.add(
        f"worst of the grid ({where}): default's error over the zero vector's", worst.ratio("default", "zero")[0], SAFE
    )
    worst = max(cells, key=Cell.against_mean)
    where = f"{worst.setting}, epsilon = {worst.epsilon:g}, n = {worst.patients:,}"
    title = f"worst of the grid ({where}): default's excess squared error over the mean predictor's"
    results.add(title, worst.against_mean(), SAFE)


def _table_figures(results: Results, losses: list[Losses]) -> None:
    for cell in losses:
        if cell.epsilon != 1:
            continue
        name, draws = f"{cell.table.name}, epsilon = 1", len(cell.losses["default"])
        found, error = cell.against_rmgm()
        title = f"{name}, {draws} draws, se {error:.2g}: default's loss over that of RMGM, its k by oracle"
        results.add(title, found, LOSS_REACH)
        results.add(f"{name}: the same, k by oracle for each release anew", cell.against_each_rmgm()[0])
        results.add(f"{name}: default's loss over that of the constant predictor", cell.against_constant("default")[0])
        found, error = cell.against_constant("moments")
        title = (
            f"{name}, {len(cell.losses['moments'])} draws, se {error:.2g}: moments' loss over the constant predictor's"
        )
        results.add(title, found, 1.0 if cell.table.rows >= MANY else None)
        title = f"{name}: one exact release of each method, standard errors off at most"
        results.add(title, _furthest(cell.exact), AGREE)


def _furthest(off: dict[str, float]) -> float:
    return max(map(abs, off.values()))


if __name__ == "__main__":
    main("paper_multiparty", run)
