"""Private incremental regression: excess risk of its three mechanisms, errors of continual sums, and what not knowing T costs.

The paper is "Private Incremental Regression" (Kasiviswanathan, Nissim and Jin 2017). A stream of T rows comes in, and after
every step there are to be weights with little more loss on the rows so far than the best of a convex set. Continual sums are in
`factors` and `unknown`, noise in `noise`, streams in `stream`, mechanisms in `regression` and `erm`, the paper's claims in
`claims`.

All mechanisms but PrivIncReg1 need the rows of one holder, who would see all columns; the product releases none of them.
The paper has no experiments. Streams are made up, at (1, 1e-5) for the row of one step; a patient with q rows needs q times the
noise.
"""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np

from benchmarks.common.report import RESULTS, Results, main
from benchmarks.paper_incremental import claims, plots, unknown
from benchmarks.paper_incremental.curves import (
    DELTA,
    EPSILON,
    METHODS,
    Point,
    batch,
    logistic,
    point,
    projecting,
    regression,
    robust,
    sparse_methods,
)
from benchmarks.paper_incremental.factors import fresh, levels, normalised, square_root, tree, unbounded
from benchmarks.paper_incremental.noise import LEAF, corrected, published
from benchmarks.paper_incremental.stream import dense, labels, sparse
from benchmarks.paper_primo.claims import judge
from dprelease.privacy.gaussian import epsilon_of, mu_of

SEED = 20170614
LENGTHS = (256, 1024, 4096, 16_384)
WIDTHS = (2, 4, 8, 16, 32)
SPARSE_WIDTHS = (25, 50, 100, 200)
ENTRIES, PROJECTED = 5, 20
"""Entries of a sparse row, and m."""
TABLE = (12, 52, 100, 365, 1000)
RATIO, LESS_NOISE, UNKNOWN = 0.33, 5.0, 1.5


def run(quick: bool) -> Results:
    """Excess risk against T and d, errors of prefix sums with T known and unknown, and what of the paper's claims is reproduced."""
    results = Results()

    sums = [_errors(length) for length in TABLE]
    _known(results)
    at, ratios = _unknown(results, 512 if quick else 4096)
    results.progress("prefix sums")
    releases = 3 if quick else 10
    lengths = []
    for place, length in enumerate(LENGTHS[:3] if quick else LENGTHS):
        stream = dense(length, 10, np.random.default_rng([SEED, 1, place]))
        lengths.append(point(stream, regression(stream) | batch(stream), releases, place))
    results.progress("excess risk against T")
    widths = []
    for place, width in enumerate(WIDTHS[:3] if quick else WIDTHS):
        stream = dense(lengths[-1].length, width, np.random.default_rng([SEED, 2, place]))
        widths.append(point(stream, regression(stream) | batch(stream), releases, 10 + place))
    results.progress("excess risk against d")
    narrow = []
    for place, width in enumerate(SPARSE_WIDTHS[:1] if quick else SPARSE_WIDTHS):
        stream = sparse(1024 if quick else 4096, width, ENTRIES, np.random.default_rng([SEED, 3, place]))
        few = max(releases // 2, 2) if width < SPARSE_WIDTHS[-1] else 2
        narrow.append(point(stream, sparse_methods(stream, PROJECTED), few, 20 + place))
    results.progress("sparse rows")
    by_rows = {
        str(rows): point(stream, projecting(stream, rows), 2, 40 + rows).mean("reg2")
        for rows in ((10, 20) if quick else (10, 20, 40, 80))
    }
    full = dense(narrow[-1].length, 2 * PROJECTED, np.random.default_rng([SEED, 4]))
    wide = point(full, regression(full) | projecting(full, PROJECTED), max(releases // 2, 2), 30)
    stream = sparse(narrow[-1].length, 50, ENTRIES, np.random.default_rng([SEED, 5]))
    clean, spoilt = robust(stream, 0.2, ENTRIES, PROJECTED, max(releases // 2, 2), 31)
    labelled = logistic(labels(lengths[-1].length // 2, 5, np.random.default_rng([SEED, 6])), releases, 32)
    results.progress("dense rows projected, rows outside G, labels")

    shape = (10, 100)
    phi = np.random.default_rng(SEED).normal(size=shape) / math.sqrt(shape[0])
    found = claims.of_privacy((shape, float(np.linalg.norm(phi, 2))))
    found += claims.of_lengths(lengths) + claims.of_widths(widths)
    found += claims.of_projections(narrow, wide, ENTRIES) + claims.of_others(clean, spoilt, labelled)
    _risks(results, lengths[-1], narrow[-1])
    words = (
        f"Reg2 over Reg1, largest excess risk, best of m = {', '.join(by_rows)}, sparse rows, d = {narrow[-1].width}"
    )
    results.add(words, min(by_rows.values()) / narrow[-1].mean("reg1"), 1.0)
    lines = judge(results, found, "weights 0")
    every = (*lengths, *widths, *narrow, wide, clean, spoilt, labelled)
    results.details = {
        "methods": METHODS,
        "claims": lines,
        "claims, one by one": [asdict(claim) for claim in found],
        "prefix sums, standard deviations in units of Delta/mu": sums,
        "T unknown, largest variance over that of known T": {"T": at, **ratios},
        "excess risk of Reg2 by m, sparse rows": by_rows,
        "excess risk": [each.plain() for each in every],
    }
    if not quick:
        RESULTS.mkdir(exist_ok=True)
        plots.risks(lengths, widths, narrow, RESULTS / "paper_incremental_risk.png")
        plots.sums(sums, ratios, at, RESULTS / "paper_incremental_sums.png")
    return results


def _errors(length: int) -> dict[str, float]:
    """A row of the table of prefix sums."""
    found: dict[str, float] = {"T": length, "each by itself, worst": fresh(length).worst}
    for name, used in (
        ("tree", tree(length)),
        ("square root", square_root(length)),
        ("normalised", normalised(length)),
    ):
        found |= {f"{name}, worst": used.worst, f"{name}, root mean square": used.root_mean_square}
    return found


def _known(results: Results) -> None:
    """Noise of continual sums and of PrivIncReg1, with T known."""
    by_tree, by_root = tree(1000).worst, normalised(1000).worst
    results.add("normalised square root over tree, worst error of a prefix sum, T = 1000", by_root / by_tree, RATIO)
    results.add("square root over tree, the same", square_root(1000).worst / by_tree)
    length, mu = 1024, mu_of(EPSILON, DELTA)
    theirs = published(length, EPSILON, DELTA)
    worst = theirs.matrix * tree(length).worst / tree(length).sensitivity
    ours = corrected(1.0, mu).matrix * normalised(length).worst
    results.add(
        "PrivIncReg1 as published over ours, noise of a prefix, T = 1024, same promise", worst / ours, LESS_NOISE, ">="
    )
    keeps = theirs.mu(math.sqrt(levels(length)))
    results.add("epsilon that PrivIncReg1 as published keeps there", epsilon_of(keeps, DELTA))
    results.add(
        "the same ratio where ours is given no more than that", worst / (LEAF * normalised(length).worst / keeps)
    )
    node = corrected(math.sqrt(levels(length)), mu).matrix
    results.add(
        "noise of a node, published over one calibration of the same tree", theirs.matrix / node, LESS_NOISE, ">="
    )


def _unknown(results: Results, most: int) -> tuple[list[int], dict[str, list[float]]]:
    """What not knowing T costs up to some T."""
    at, weight = unknown.lengths(most), unknown.best_weight(most)
    ratios = {
        f"segments, b = {weight:.3f}": unknown.beside_known(unknown.segments(most, weight), at),
        "one factor for any T": unknown.beside_known(unbounded(most).deviations ** 2, at),
    }
    for name, found in ratios.items():
        words = f"T unknown, {name}: largest variance over that of known T, T up to {most:,}"
        results.add(words, found.max(), UNKNOWN)
    few = 64 if most > 512 else 16
    results.add(f"T unknown, least that any matrix has at its worst T up to {few}", unknown.least_possible(few))
    return at, {name: [float(f"{value:.4f}") for value in found] for name, found in ratios.items()}


def _risks(results: Results, largest: Point, sparsest: Point) -> None:
    """Excess risks at the end of the curves."""
    where = f"T = {largest.length:,}, d = {largest.width}"
    for method in largest.excess:
        results.add(f"largest excess risk, {METHODS[method]}, dense rows, {where}", largest.mean(method))
    results.add(f"Reg1, tree over normalised square root, {where}", largest.mean("reg1 tree") / largest.mean("reg1"))
    where = f"T = {sparsest.length:,}, d = {sparsest.width}"
    for method in sparsest.excess:
        results.add(f"largest excess risk, {METHODS[method]}, sparse rows, {where}", sparsest.mean(method))


if __name__ == "__main__":
    main("paper_incremental", run)
