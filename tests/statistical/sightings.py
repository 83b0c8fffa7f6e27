"""What an attacker who knows both of two neighbouring tables sees in each round of a release."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dprelease.arrays import Integers
from dprelease.data.bounding import MAX_GRID_BITS, BoundedRows
from dprelease.data.columns import Column, numbers, released_names
from dprelease.data.decades import CELLS as DECADE_CELLS
from dprelease.data.decades import Box
from dprelease.mechanisms.moments.terms import joint_moments, layout_of
from dprelease.mechanisms.ranges.privatize import decade_histogram, histogram, second_round
from dprelease.mechanisms.ranges.rounds import Row, window
from dprelease.mechanisms.ranges.terms import CELLS, LARGEST_CODE, factor
from dprelease.release.block import Block
from dprelease.release.spec import ReleaseSpec
from tests.statistical.auditor import Sighting
from tests.support.joint import entries, exact_gram

Tables = Mapping[str, BoundedRows]


def first_of(column: Column, rows: int, bits: int, code: int, others: int) -> BoundedRows:
    """A table of one column: the first patient's code, and one that all others share."""
    codes = np.full((rows, 1), others, np.int32)
    codes[0] = code
    return BoundedRows(codes, (column,), bits)


def of_ranges(spec: ReleaseSpec, blocks: Mapping[str, Block], tables: Sequence[Tables]) -> Sighting:
    """The first round, of every private number of all parties.

    Args:
        spec: from `tests.support.rounds.ranges_first`, all its numbers with bounds.
        blocks: party to its block of the first round.
        tables: the two.
    """
    terms: Any = joint_moments(spec).first
    sd = np.array([terms.scales.counts] * (CELLS - 1) + [terms.scales.total, terms.scales.squares])
    found = []
    for party, block in blocks.items():
        columns = tables[0][party].columns
        for own, column in zip(block.values, numbers(columns), strict=True):
            row, place, exact = Row.of(own), released_names(columns).index(column.name), []
            for table in tables:
                codes, bits = table[party].codes[:, place], table[party].grid_bits
                sums = second_round(window(column, row.first).code(codes, bits, LARGEST_CODE))
                exact.append(np.array([*(factor(CELLS) @ histogram(codes, bits)), *sums], np.float64))
            noisy = np.array([*row.counts, row.total, row.squares], np.float64)
            found.append(Sighting((noisy - exact[0]) / sd, (exact[1] - exact[0]) / sd))
    return together(*found)


def without_bounds(spec: ReleaseSpec, blocks: Sequence[Integers], tables: Sequence[BoundedRows]) -> Sighting:
    """The same of a party whose one column is a number without bounds: its counts of decades, and its range.

    Args:
        spec: as mechanism ``ranges`` reads it.
        blocks: integers of both.
        tables: the party's two.
    """
    terms: Any = spec.terms
    (column,), scales = spec.columns, terms.scales
    (counts,), (integers,) = blocks
    row, box = Row.of(integers), Box(low=int(counts[-2]), high=int(counts[-1]))
    decades, exact = factor(DECADE_CELLS), []
    sd = np.array([scales.decades] * len(decades) + [scales.counts] * (CELLS - 1) + [scales.total, scales.squares])
    for table in tables:
        codes = box.code(table.codes[:, 0], table.grid_bits)
        sums = second_round(window(column, row.first).code(codes, MAX_GRID_BITS, LARGEST_CODE))
        first = decades @ decade_histogram(table.codes[:, 0], table.grid_bits)
        exact.append(np.array([*first, *(factor(CELLS) @ histogram(codes, MAX_GRID_BITS)), *sums], np.float64))
    noisy = np.array([*counts[:-2], *row.counts, row.total, row.squares], np.float64)
    return Sighting((noisy - exact[0]) / sd, (exact[1] - exact[0]) / sd)


def of_moments(known: ReleaseSpec, released: Sequence[Integers], tables: Sequence[Tables]) -> list[Sighting]:
    """Second rounds that follow the same first one, for an attacker whom one party's noise alone is hidden from.

    Args:
        known: the spec in the ranges that the first round published.
        released: (E,) integers of each.
        tables: the two.
    """
    layout, scales = layout_of(known), joint_moments(known).scales
    sd = np.array([scales[kind] for kind in sorted(scales)])[layout.kinds]
    exact = [np.array(entries(known, exact_gram(known, table)), np.float64) for table in tables]
    return [Sighting((each - exact[0]) / sd, (exact[1] - exact[0]) / sd) for each in released]


def together(*seen: Sighting) -> Sighting:
    """All of them as one."""
    return Sighting(np.concatenate([each.residual for each in seen]), np.concatenate([each.shift for each in seen]))
