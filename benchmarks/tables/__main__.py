"""Synthetic rows of releases of joint moments, at (epsilon, delta) = (1, 1e-5), beside rivals that trust one machine with all.

    mixture   a release of three hospitals, t = 1 curious, replace-one of a whole row; the fit for rows of `learner synthesize`
    mst       a spanning tree of noisy pairs (`rivals`), one trusted machine
    aim loop  the worst pair, again and again (`rivals`), one trusted machine
    real      the real rows that were released

Distances are total variation between made-up and real rows that no method has seen, over tables of two and of three columns. AUC
is that of models trained on 20,000 made-up rows and tested on real ones. "Real" rows of the stays in a hospital are made up, too;
nothing was chosen on them. A permuted table, whose columns are unrelated, says what is found where nothing is. The noise of the
release has the mechanism's scale and a continuous law.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.files import at_hand
from benchmarks.common.plots import legend, subplots
from benchmarks.common.report import RESULTS, Results, main
from benchmarks.tables.data import SOURCES, Coded
from benchmarks.tables.mixture import DELTA, EPSILON, MADE_UP, SEED, mixture, release
from benchmarks.tables.rivals import aim_loop, mst
from benchmarks.tables.scores import aucs, cramers_v, variation
from dprelease.arrays import Integers
from dprelease.estimators.joint.fit import fit_joint
from dprelease.privacy.gaussian import mu_of
from dprelease.privacy.public_stream import PublicNormals

Cell = dict[str, Any]
"""One table, size, method and draw, JSON-ready."""

QUICK_MADE_UP = 4_000
DRAWS = 5
METHODS = ("mixture", "mst", "aim loop", "real")
MEASURES = ("two columns", "three columns", "logistic", "boosting")
SETTINGS = (("Adult", 36_000), ("Adult", 6_000), ("Stays", 20_000), ("SUPPORT2", 6_000))
REACH: Mapping[tuple[str, int], tuple[float | None, ...]] = {
    ("Adult", 36_000): (0.036, 0.078, 0.897, 0.885),
    ("Adult", 6_000): (0.065, 0.126, 0.865, 0.85),
    ("Stays", 20_000): (0.021, None, None, None),
    ("SUPPORT2", 6_000): (0.074, 0.143, 0.685, 0.69),
}
"""By `MEASURES`: at most, at most, at least, at least."""
LESS_THAN_REAL = -0.02
"""AUC of logistic models of the made-up stays less that of real rows, at least."""
BESIDE = 1.1, -0.03
"""Of a distance over that of AIM's loop, at most, and of an AUC less its own, at least."""
SECONDS = 5.0
"""Of a fit for rows, 14 columns in 153 values, on one idle core."""
CONVERGED, CONVERGED_SECONDS = 8, 8.0
"""Columns of a fit for intervals, and its seconds on one idle core."""
NULL_ROWS = 6_000


def run(quick: bool) -> Results:
    """Errors of tables and AUC of models by method, five draws of each, and the time of fits.

    When quick, there is one draw of one table, without AIM's loop and boosting.
    """
    results, cells = Results(), list[Cell]()
    mu, count = mu_of(EPSILON, DELTA), QUICK_MADE_UP if quick else MADE_UP
    methods = [each for each in METHODS if not quick or each != "aim loop"]
    for name, rows in SETTINGS[3:] if quick else SETTINGS:
        path, read = SOURCES[name]
        if not at_hand(name, path):
            continue
        table = read()
        found = [
            cell
            for draw in range(1 if quick else DRAWS)
            for cell in measure(table, rows, mu, draw, methods, count, boosting=not quick)
        ]
        _judge(results, name, rows, found, aims=not quick)
        cells += found
    name = "SUPPORT2" if quick else "Adult"
    path, read = SOURCES[name]
    if at_hand(name, path):
        table = read()
        _null(results, table, mu, count, aims=not quick)
        _converged(results, table, mu, aims=not quick)
    results.details["cells"] = cells
    if cells and not quick:
        plot(cells, RESULTS / "tables.png")
    return results


def measure(
    table: Coded, rows: int, mu: float, draw: int, methods: Sequence[str], count: int, *, boosting: bool
) -> list[Cell]:
    """Figures of all methods on the same people."""
    random = np.random.default_rng([SEED, rows, draw])
    order = random.permutation(len(table.codes))
    people, others = table.codes[order[:rows]], table.codes[order[rows:]]
    found = []
    for place, method in enumerate(methods):
        own = np.random.default_rng([SEED, rows, draw, place])
        began = time.process_time()
        made_up = _rows(method, table, people, mu, own, count)
        seconds = time.process_time() - began
        distances = [variation(table, made_up, others, order) for order in (2, 3)]
        measures = (*distances, *aucs(table, made_up, others, boosting=boosting))
        found.append(
            {"table": table.name, "n": rows, "method": method, "draw": draw, "seconds": seconds}
            | dict(zip(MEASURES, measures, strict=False))
        )
    return found


def _rows(method: str, table: Coded, people: Integers, mu: float, random: np.random.Generator, count: int) -> Integers:
    if method == "real":
        return people
    if method == "mst":
        return mst(table, people, count, mu, random)
    if method == "aim loop":
        return aim_loop(table, people, mu, random).draw(count, PublicNormals(random.bytes(32)))
    return mixture(table, people, mu, random, count)


def _judge(results: Results, name: str, rows: int, cells: Sequence[Cell], *, aims: bool) -> None:
    reach = REACH[name, rows]
    for method in METHODS:
        own = [cell for cell in cells if cell["method"] == method]
        measured = [(measure, aim) for measure, aim in zip(MEASURES, reach, strict=True) if own and measure in own[0]]
        for measure, aim in measured:
            column = measure in MEASURES[:2]
            words = f"{'distance of ' if column else 'AUC, '}{measure}"
            goal = aim if aims and method == "mixture" else None
            results.add(f"{name}, n = {rows:,}: {words}, {method}", _mean(own, measure), goal, "<=" if column else ">=")
        if method == "mixture" and rows == SETTINGS[0][1]:
            results.add(f"{name}, n = {rows:,}: processor seconds of fit and rows", _mean(own, "seconds"), SECONDS)
    if aims:
        ours, theirs = (
            np.array([_mean([cell for cell in cells if cell["method"] == method], measure) for measure in MEASURES])
            for method in ("mixture", "aim loop")
        )
        title = f"beside AIM's loop, {name}, n = {rows:,}"
        results.add(f"{title}: largest ratio of distances", (ours / theirs)[:2].max(), BESIDE[0])
        results.add(f"{title}: least difference of AUC", (ours - theirs)[2:].min(), BESIDE[1], ">=")
    if aims and name == "Stays":
        real = _mean([cell for cell in cells if cell["method"] == "real"], "logistic")
        results.add(
            f"{name}, n = {rows:,}: AUC, logistic, less that of real rows", ours[2] - real, LESS_THAN_REAL, ">="
        )


def _mean(cells: Sequence[Cell], measure: str) -> float:
    return float(np.mean([cell[measure] for cell in cells]))


def _null(results: Results, table: Coded, mu: float, count: int, *, aims: bool) -> None:
    """What is found in a table whose columns are unrelated."""
    random = np.random.default_rng([SEED, 0])
    permuted = table.permuted(random)
    people, others = permuted.codes[:NULL_ROWS], permuted.codes[NULL_ROWS:]
    made_up = mixture(permuted, people, mu, random, count)
    for words, value in zip(MEASURES[2:], aucs(permuted, made_up, others, boosting=aims), strict=False):
        results.add(
            f"{permuted.name}, n = {NULL_ROWS:,}: AUC less 1/2, {words}, size", abs(value - 0.5), 0.02 if aims else None
        )
    largest = cramers_v(permuted, made_up)
    results.add(f"{permuted.name}, n = {NULL_ROWS:,}: largest Cramer's V in {count:,} made-up rows", largest)


def _converged(results: Results, table: Coded, mu: float, *, aims: bool) -> None:
    """Seconds of a fit for intervals to the columns that come first."""
    few = Coded(table.name, table.names[:CONVERGED], table.sizes[:CONVERGED], table.codes[:, :CONVERGED], 0)
    random = np.random.default_rng([SEED, 1])
    moments = release(few, few.codes[:NULL_ROWS], mu, random)
    began = time.process_time()
    fit_joint(moments, "intervals", random.bytes(32))
    title = f"{table.name}, {CONVERGED} columns, n = {NULL_ROWS:,}: processor seconds of a converged fit"
    results.add(title, time.process_time() - began, CONVERGED_SECONDS if aims else None)


def plot(cells: Sequence[Cell], path: Path) -> None:
    """Write one panel for each measure, with a line for each method and a mark for each table."""
    settings = list(dict.fromkeys((cell["table"], cell["n"]) for cell in cells))
    figure, axes = subplots(1, len(MEASURES), (12, 3.8))
    for axis, measure in zip(axes, MEASURES, strict=True):
        for method, marker in zip(METHODS, "o^sx", strict=True):
            own = [
                [cell for cell in cells if (cell["table"], cell["n"]) == setting and cell["method"] == method]
                for setting in settings
            ]
            axis.plot(range(len(settings)), [_mean(each, measure) for each in own], marker, label=method, ms=7)
        names = [f"{name}\n{rows:,}" for name, rows in settings]
        axis.set_xticks(range(len(settings)), names, fontsize=8)
        axis.set_xlim(-0.5, len(settings) - 0.5)
        distance = measure in MEASURES[:2]
        axis.set_title(f"total variation, {measure}" if distance else f"AUC on real rows, {measure}", fontsize=9)
        axis.grid(alpha=0.3)
    legend(figure, axes[:1], 4)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main("tables", run)
