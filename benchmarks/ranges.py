"""How far centres and scales of ranges are off, on the tables of `accuracy`, through the code that hospitals run."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from benchmarks.accuracy.reaches import TIMES
from benchmarks.accuracy.tables import TABLES, Table, scaled
from benchmarks.common.files import at_hand
from benchmarks.common.report import Results, main
from dprelease.arrays import Codes
from dprelease.data.columns import Number, numbers
from dprelease.data.ranges import STEPS
from dprelease.mechanisms.ranges.privatize import histogram, second_round
from dprelease.mechanisms.ranges.rounds import after_counts, after_sums, final, first, window
from dprelease.mechanisms.ranges.terms import CELLS, LARGEST_CODE, Scales, factor
from dprelease.privacy.calibration import budget
from dprelease.spec_base import Target

TARGET = Target(scope="joint", epsilon=1.0, delta=1e-6)
SHARE = Fraction(1, 10)
"""Part of the target's mu^2 that ranges get."""

BITS, SEED = 24, 11


def errors(column: Number, codes: Codes, scales: Scales, random: np.random.Generator) -> tuple[float, float]:
    """Errors of one release of a column: of its centre in standard deviations, and of the logarithm of its scale.

    Args:
        column: its declaration.
        codes: (n,) on the finest grid.
        scales: of the noise; a rounded normal stands for the discrete Gaussian.
        random: source of it.
    """
    n = len(codes)

    def noise(scale: float, shape: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.rint(random.normal(0, scale, shape)).astype(np.int64)

    counts = factor(CELLS) @ histogram(codes, BITS) + noise(scales.counts, CELLS - 1)
    counted = after_counts(counts, n, scales)
    used = first(counted)
    total, squares = second_round(window(column, used).code(codes, BITS, LARGEST_CODE))
    total, squares = total + int(noise(scales.total, 1)[0]), squares + int(noise(scales.squares, 1)[0])
    found = final(after_sums(counted, used, total, squares, n, scales))
    mean, deviation = float(codes.mean()), float(codes.std())
    return (found.centre - mean) / deviation, math.log(found.scale / deviation)


def measure(table: Table, draws: int) -> tuple[float, float]:
    """Root mean squares of both errors over a table's columns and draws of noise."""
    cells, columns = table.read().dropna(how="all"), numbers(table.columns)
    scales = Scales.least(budget(TARGET) * SHARE / len(columns), 1)
    random, found = np.random.default_rng(SEED), []
    for column in columns:
        codes = np.rint(np.clip(scaled(column, cells[column.name])[:, 0], -1, 1) * STEPS).astype(np.int32)
        found += [errors(column, codes, scales, random) for _ in range(draws)]
    centre, scale = np.sqrt(np.mean(np.square(found), axis=0))
    return float(centre), float(scale)


def run(quick: bool) -> Results:
    """Errors of private ranges at a tenth of (epsilon, delta) = (1, 1e-6), root mean squares over columns and draws."""
    results = Results()
    for table in TABLES:
        if at_hand(table.name, table.path):
            for name, each in (
                (table.name, table),
                (f"{table.name}, bounds {TIMES} times as wide", table.wider(TIMES)),
            ):
                centre, scale = measure(each, 2 if quick else 20)
                results.add(f"{name}: error of the centre, in standard deviations", centre)
                results.add(f"{name}: error of the log scale", scale)
    return results


if __name__ == "__main__":
    main("ranges", run)
