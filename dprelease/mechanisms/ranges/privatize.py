"""Bounded rows in, noisy integers of every private numeric column out: counts, a range from them, sums in that range."""

from __future__ import annotations

import numpy as np

from dprelease.data.bounding import MAX_GRID_BITS, BoundedRows, Codes
from dprelease.mechanisms.ranges.calibration import CELLS, LARGEST_CODE, WIDTH, numbers
from dprelease.mechanisms.ranges.prefix_sums import Integers, factor
from dprelease.mechanisms.ranges.rounds import Row, after_counts, after_sums, final, first, window
from dprelease.mechanisms.ranges.terms import RangesTerms
from dprelease.privacy.noise import NoiseSource
from dprelease.spec_base import SpecBase


def noisy_ranges(bounded: BoundedRows, spec: SpecBase, terms: RangesTerms, noise: NoiseSource) -> Integers:
    """One party's (p_nj, `WIDTH`) integers, a row for each of its private numbers.

    Guarantee: for tables that differ in all private cells of one patient (replace-one), they are mu_j-GDP with mu_j^2 =
    p_nj mu_c^2, mu_c^2 = `Scales.spent`; derived in `dprelease.mechanisms.ranges.calibration`. Cells are used twice: in the
    histogram, and in two sums whose range depends on the noisy counts alone. All else is computed from noisy integers.

    Args:
        bounded: the party's rows, (n, d_j) codes.
        spec: a spec that `accounting.check_spec` accepted.
        terms: its terms.
        noise: secret noise; `SecureNoise` outside tests.
    """
    columns, codes, scales, n = numbers(bounded.columns), _codes(bounded), terms.scales, spec.rows
    if not columns:
        return np.zeros((0, WIDTH), np.int64)
    exact = np.array([factor(CELLS) @ histogram(each, bounded.grid_bits) for each in codes.T])
    counts = exact + noise.discrete_gaussian(scales.counts, exact.shape)
    found = [after_counts(each, n, scales) for each in counts]
    used = [first(each) for each in found]
    sums = np.array(
        [
            second_round(window(column, at).code(own, bounded.grid_bits, LARGEST_CODE))
            for column, at, own in zip(columns, used, codes.T, strict=True)
        ]
    )
    totals = sums[:, 0] + noise.discrete_gaussian(scales.total, (1, len(columns)))[0]
    squares = sums[:, 1] + noise.discrete_gaussian(scales.squares, (1, len(columns)))[0]
    rows = []
    for own, located, at, total, square in zip(counts, found, used, totals.tolist(), squares.tolist(), strict=True):
        last = final(after_sums(located, at, total, square, n, scales))
        rows.append(Row(own, at, total, square, last).to_integers())
    return np.array(rows)


def histogram(codes: Codes, grid_bits: int) -> Integers:
    """(K,) rows in each of K equal cells of the public bounds; the last cell has its upper end.

    Args:
        codes: (n,) on the public grid.
        grid_bits: b of that grid.
    """
    place = (codes.astype(np.int64) << (MAX_GRID_BITS - grid_bits)) + (1 << MAX_GRID_BITS)
    return np.bincount(np.minimum((place * CELLS) >> (MAX_GRID_BITS + 1), CELLS - 1), minlength=CELLS).astype(np.int64)


def second_round(codes: Codes) -> tuple[int, int]:
    """Sum of codes and of their squares."""
    wide = codes.astype(np.int64)
    return int(wide.sum()), int((wide * wide).sum())


def _codes(bounded: BoundedRows) -> Codes:
    """(n, p_nj) codes of the private numbers."""
    taken = {column.name for column in numbers(bounded.columns)}
    return bounded.codes[:, [name in taken for column in bounded.columns for name in column.released]]
