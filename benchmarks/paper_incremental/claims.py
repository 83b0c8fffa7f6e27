"""What "Private Incremental Regression" says, in our words, and whether it comes out: at the paper's noise, and at corrected noise.

The paper proves bounds up to constants and logarithms and has no experiments. What it says of one mechanism beside another, and of
growth in T and d, is looked at on made-up streams; its privacy by computation. A method "at the paper's noise" has its tree.
Bounds are for the worst rows; on others an excess risk below its bound may grow faster in d, or in T, than the bound does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from benchmarks.paper_incremental.curves import DELTA, EPSILON, Point, bound_of_regression, rows_of_projection
from benchmarks.paper_incremental.factors import levels
from benchmarks.paper_incremental.noise import fit_mu, kept_by_tree, published, published_node
from benchmarks.paper_primo.claims import NOISES, Claim
from dprelease.privacy.gaussian import epsilon_of, mu_of

WORTHLESS = ", the latter worse than weights 0"
SLACK = 0.1
"""By which a measured power may exceed the one claimed."""


def power(points: Sequence[Point], method: str, of: str) -> float:
    """Slope of log excess risk against log T or log d, least squares."""
    places = np.log([point.length if of == "T" else point.width for point in points])
    return float(np.polyfit(places, np.log([point.mean(method) for point in points]), 1)[0])


def _where(point: Point) -> str:
    return f"{point.data}, T = {point.length:,}, d = {point.width}"


def _versus(words: str, point: Point, noise: str, better: str, worse: str) -> Claim:
    low, high, nothing = point.mean(better), point.mean(worse), point.mean("trivial")
    numbers = f"{low:.4g} against {high:.4g}{WORTHLESS if high > nothing else ''}"
    return Claim(words, _where(point), noise, point.ahead(better, worse), numbers, idle=high > nothing)


def _below(words: str, point: Point, noise: str, method: str) -> Claim:
    numbers = f"{point.mean(method):.4g} against {point.mean('trivial'):.4g}"
    return Claim(words, _where(point), noise, point.ahead(method, "trivial"), numbers)


def _grows(words: str, points: Sequence[Point], noise: str, method: str, of: str, most: float) -> Claim:
    found = power(points, method, of)
    return Claim(words, points[0].data, noise, found <= most + SLACK, f"{of}^{found:.2f}, from {_span(points, of)}")


def _span(points: Sequence[Point], of: str) -> str:
    first, last = ((point.length if of == "T" else point.width) for point in (points[0], points[-1]))
    return f"{of} = {first:,} to {last:,}"


def of_lengths(points: Sequence[Point]) -> list[Claim]:
    """Claims about rising T at one d.

    Args:
        points: with rising T.
    """
    found, last = [], points[-1]
    for noise, mark in NOISES.items():
        reg, erm, every = (f"{name}{mark}" for name in ("reg1", "erm", "every"))
        found += [_below("Reg1 errs less than weights 0 for large T", last, noise, reg)]
        found += [_below("PrivIncERM errs less than weights 0 for large T", last, noise, erm)]
        found += [_versus("Reg1 errs less than PrivIncERM", point, noise, reg, erm) for point in points]
        found += [
            _versus("PrivIncERM errs less than a fit at every step", point, noise, erm, every) for point in points
        ]
        for point in points:
            bound = bound_of_regression(point.length, point.width, 1.0)
            words, numbers = (
                "Reg1 stays below theorem 4.2 with the constant 1",
                f"{point.mean(reg):.4g}, bound {bound:.4g}",
            )
            found.append(Claim(words, _where(point), noise, point.mean(reg) <= bound, numbers))
        later = points[1:]
        growth, allowed = (
            last.mean(reg) / later[0].mean(reg),
            (math.log(last.length) / math.log(later[0].length)) ** 1.5,
        )
        numbers = f"{growth:.2f} times from {_span(later, 'T')}, log^1.5: {allowed:.2f}"
        words = "Reg1's excess risk grows like a power of log T only"
        found.append(Claim(words, last.data, noise, growth <= allowed, numbers))
        words = "PrivIncERM's excess risk grows like T^(1/3) at most"
        found.append(_grows(words, later, noise, erm, "T", 1 / 3))
    return found


def of_widths(points: Sequence[Point]) -> list[Claim]:
    """Claims about rising d at one T.

    Args:
        points: with rising d, weights 0 err more than the mechanisms could at each.
    """
    found = []
    for noise, mark in NOISES.items():
        found.append(_grows("Reg1's excess risk grows like sqrt(d) at most", points, noise, f"reg1{mark}", "d", 1 / 2))
        words = "PrivIncERM's excess risk grows like d^(1/3) at most"
        found.append(_grows(words, points, noise, f"erm{mark}", "d", 1 / 3))
    return found


def of_projections(sparse: Sequence[Point], dense: Point, entries: int) -> list[Claim]:
    """Claims about Reg2.

    Args:
        sparse: rows of small width, with rising d.
        dense: rows of full width.
        entries: of a sparse row.
    """
    found, last = [], sparse[-1]
    for noise, mark in NOISES.items():
        one, two, by_ends = (f"{name}{mark}" for name in ("reg1", "reg2", "fw"))
        words = "Reg2 errs less than Reg1 where rows and set have a small width and d is large"
        found += [_versus(words, point, noise, two, one) for point in (sparse[0], last)]
        found.append(_versus("Reg2 errs more than Reg1 where rows are dense", dense, noise, one, two))
        found.append(_versus("Reg2 errs less than PrivIncERM by Frank-Wolfe", last, noise, two, by_ends))
        found.append(_below("Reg2 errs less than weights 0", last, noise, two))
        found.append(_below("PrivIncERM by Frank-Wolfe errs less than weights 0", last, noise, by_ends))
        rows = rows_of_projection(last.length, last.width, entries)
        words = "the m of algorithm 3 is below d"
        found.append(Claim(words, _where(last), noise, rows < last.width, f"m = {rows:,.0f}"))
    return found


def of_others(clean: Point, spoilt: Point, labels: Point) -> list[Claim]:
    """Claims about rows outside G and about losses that are not squared."""
    found = []
    for noise, mark in NOISES.items():
        method = f"reg2{mark}"
        numbers = f"{spoilt.mean(method):.4g} with them, {clean.mean(method):.4g} without"
        words = "rows outside G change Reg2's excess risk on G by less than half where a test leaves them out"
        close = 0.5 * clean.mean(method) <= spoilt.mean(method) <= 1.5 * clean.mean(method)
        found.append(Claim(words, spoilt.data, noise, close, numbers))
        words = "PrivIncERM errs less than weights 0 with the logistic loss"
        found.append(_below(words, labels, noise, f"erm{mark}"))
    return found


def of_privacy(footnote: tuple[tuple[int, int], float]) -> list[Claim]:
    """Claims about what is kept of (epsilon, delta).

    Args:
        footnote: (m, d) and the largest singular value of a Phi of that shape.
    """
    found = []
    for length in (1, 2, 1024):
        node = published_node(length, 2.0, EPSILON, DELTA)
        kept = kept_by_tree(length, 2.0, node, DELTA)
        both = published(length, EPSILON, DELTA).mu(math.sqrt(levels(length)))
        reg = epsilon_of(both, DELTA) if math.isfinite(both) else math.inf
        for words, value in (("TreeMech", kept), ("Reg1", reg)):
            said = f"{words} keeps its epsilon"
            noise, corrected = NOISES
            found.append(
                Claim(
                    said, f"T = {length:,}", noise, value <= EPSILON * (1 + 1e-9), f"keeps {value:.3g} of {EPSILON:g}"
                )
            )
            found.append(Claim(said, f"T = {length:,}", corrected, True, "by calibration"))
    noise, corrected = NOISES
    kept = epsilon_of(math.sqrt(10) * fit_mu(10, EPSILON, DELTA, paper=True), DELTA)
    said, where = "PrivIncERM keeps its epsilon", "l = 10"
    found.append(Claim(said, where, noise, kept <= EPSILON, f"keeps {kept:.3g} of {EPSILON:g}"))
    found.append(Claim(said, where, corrected, True, "by calibration"))
    (rows, width), largest = footnote
    moved = math.sqrt(2) * largest**2
    said, where = "Reg2 need not keep the lengths of rows (footnote 15)", f"m = {rows}, d = {width}"
    over = epsilon_of(moved / math.sqrt(2) * mu_of(EPSILON, DELTA), DELTA)
    numbers = f"u u' moves by {moved:.1f}, not {math.sqrt(2):.2f}: epsilon {over:.3g} instead of {EPSILON:g}"
    return [*found, *(Claim(said, where, each, False, numbers) for each in NOISES)]
