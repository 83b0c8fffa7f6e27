"""Bounded rows in, noisy integers of every private numeric column out: counts, a range from them, sums in that range.

A column without bounds is counted on the decade scale first, and then in the box that follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from dprelease.arrays import Codes, Integers
from dprelease.data.bounding import MAX_GRID_BITS, BoundedRows
from dprelease.data.columns import Column, Number, numbers, released_names
from dprelease.data.decades import CELLS as DECADE_CELLS
from dprelease.data.decades import Box, decade_cells
from dprelease.data.ranges import on_fine_grid
from dprelease.mechanisms.ranges.box import WIDTH as DECADES_WIDTH
from dprelease.mechanisms.ranges.box import box_of
from dprelease.mechanisms.ranges.released import choose
from dprelease.mechanisms.ranges.rounds import Row, after_counts, after_sums, final, first, window
from dprelease.mechanisms.ranges.terms import CELLS, LARGEST_CODE, WIDTH, RangesTerms, factor, numbers_without_bounds
from dprelease.privacy.noise import NoiseSource
from dprelease.spec_base import SpecBase

NO_BOXES: Mapping[str, Box] = MappingProxyType({})
"""Every column has bounds."""


def noisy_blocks(bounded: BoundedRows, spec: SpecBase, terms: RangesTerms, noise: NoiseSource) -> tuple[Integers, ...]:
    """One party's blocks: of decades, where a column of the spec has no bounds, and of ranges; arguments as of `noisy_ranges`.

    Guarantee: together mu_j-GDP, mu_j^2 as of `RangesMechanism.cost`, for tables that differ in all private cells of one patient
    (replace-one).
    """
    if terms.decades_scale is None:
        return (noisy_ranges(bounded, spec, terms, noise),)
    decades = noisy_decades(bounded, spec, terms, noise)
    return decades, noisy_ranges(bounded, spec, terms, noise, boxes_in(decades, bounded.columns))


def boxes_in(decades: Integers, columns: tuple[Column, ...]) -> dict[str, Box]:
    """Column to box, as one party's block of decades has them."""
    names = [column.name for column in numbers_without_bounds(columns)]
    return {name: Box(low=int(row[-2]), high=int(row[-1])) for name, row in zip(names, decades, strict=True)}


def noisy_decades(bounded: BoundedRows, spec: SpecBase, terms: RangesTerms, noise: NoiseSource) -> Integers:
    """One party's (p_uj, 122) integers, a row for each of its private numbers without bounds: noisy counts and their box.

    Guarantee: mu-GDP under replace-one with mu^2 = p_uj times `Scales.spent_on_decades`; derived in
    `dprelease.mechanisms.ranges.terms`. Arguments as of `noisy_ranges`.
    """
    columns, scale = numbers_without_bounds(bounded.columns), terms.scales.decades
    if not columns:
        return np.zeros((0, DECADES_WIDTH), np.int64)

    def counted(piece: BoundedRows) -> Integers:
        unbounded = (own for column, own in _codes(piece) if not column.bounded)
        return np.array([decade_histogram(own, piece.grid_bits) for own in unbounded])

    exact = np.array([factor(DECADE_CELLS) @ counts for counts in _added_up(bounded, counted)])
    counts = exact + noise.discrete_gaussian(scale, exact.shape)
    boxes = [box_of(each, spec.rows, scale) for each in counts]
    return np.hstack([counts, np.array([[box.low, box.high] for box in boxes], np.int64)])


def noisy_ranges(
    bounded: BoundedRows, spec: SpecBase, terms: RangesTerms, noise: NoiseSource, boxes: Mapping[str, Box] = NO_BOXES
) -> Integers:
    """One party's (p_nj, `WIDTH`) integers, a row for each of its private numbers.

    Guarantee: for tables that differ in all private cells of one patient (replace-one), they are mu_j-GDP with mu_j^2 =
    p_nj mu_c^2, mu_c^2 = `Scales.spent`; derived in `dprelease.mechanisms.ranges.terms`. Cells are used twice: in the
    histogram, and in two sums whose range depends on the noisy counts alone. All else is computed from noisy integers.

    Args:
        bounded: the party's rows, (n, d_j) codes.
        spec: a spec that `accounting.check_spec` accepted.
        terms: its terms.
        noise: secret noise; `SecureNoise` outside tests.
        boxes: of the columns without bounds, as published.
    """
    columns, scales, n = numbers(bounded.columns), terms.scales, spec.rows
    if not columns:
        return np.zeros((0, WIDTH), np.int64)

    def on_grid(piece: BoundedRows) -> list[Codes]:
        return [on_fine_grid(own, piece.grid_bits, boxes.get(column.name)) for column, own in _codes(piece)]

    def counted(piece: BoundedRows) -> Integers:
        return np.array([histogram(each, MAX_GRID_BITS) for each in on_grid(piece)])

    exact = np.array([factor(CELLS) @ each for each in _added_up(bounded, counted)])
    counts = exact + noise.discrete_gaussian(scales.counts, exact.shape)
    found = [after_counts(each, n, scales) for each in counts]
    used = [first(each) for each in found]
    windows = [window(column, at) for column, at in zip(columns, used, strict=True)]

    def added(piece: BoundedRows) -> Integers:
        pairs = zip(windows, on_grid(piece), strict=True)
        return np.array([second_round(each.code(own, MAX_GRID_BITS, LARGEST_CODE)) for each, own in pairs])

    sums = _added_up(bounded, added)
    totals = sums[:, 0] + noise.discrete_gaussian(scales.total, (1, len(columns)))[0]
    squares = sums[:, 1] + noise.discrete_gaussian(scales.squares, (1, len(columns)))[0]
    rows = []
    for own, located, at, total, square in zip(counts, found, used, totals.tolist(), squares.tolist(), strict=True):
        last = final(after_sums(located, at, total, square, n, scales))
        rows.append(Row(own, at, total, square, last, 0))
    margins = [row.margin(each.law) for row, each in zip(rows, found, strict=True)]
    reaches = choose(margins, terms.guess(spec))
    return np.array([replace(row, reach=j).to_integers() for row, j in zip(rows, reaches, strict=True)])


def decade_histogram(codes: Codes, grid_bits: int) -> Integers:
    """(121,) rows in each cell of the decade scale.

    Args:
        codes: (n,) on it.
        grid_bits: b of them.
    """
    return np.bincount(decade_cells(codes, grid_bits), minlength=DECADE_CELLS).astype(np.int64)


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


def _added_up(bounded: BoundedRows, of: Callable[[BoundedRows], Integers]) -> Integers:
    """Exact integers of some rows, added up over all pieces."""
    return sum(map(of, bounded.pieces()), start=np.zeros((), np.int64))


def _codes(bounded: BoundedRows) -> list[tuple[Number, Codes]]:
    """Every private number and its (n,) codes."""
    places = {name: at for at, name in enumerate(released_names(bounded.columns))}
    return [(column, bounded.codes[:, places[column.name]]) for column in numbers(bounded.columns)]
