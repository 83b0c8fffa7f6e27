"""Cells of derived columns: a formula of the cells of the same row, each clipped to its own column's public bounds first.

So a derived cell is what anybody would compute from its sources' cells as they are released, but for missing ones: it is missing
where one of its sources is, and takes its own column's fill value. An indicator of missing cells alone is never missing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dprelease.arrays import Floats
from dprelease.data.columns import OTHER
from party_node.declarations.formulas import Formula, Source
from party_node.source.cells import Cells, of_numbers


def derive(formula: Formula, sources: Sequence[tuple[Source, Cells]], column: Source) -> Cells:
    """The cells of a derived column, from those of its sources in the order of the formula's arguments.

    Args:
        formula: that it is derived by.
        sources: declaration and cells of each source, in the order of the formula's arguments.
        column: its own declaration.

    Returns:
        Its cells: missing where a source is missing, unreadable where a source is or the formula is not defined.
    """
    absent = np.any([cells.missing for _, cells in sources], axis=0) & (not formula.of_missing)
    with np.errstate(over="ignore"):  # what is too large to compute with is unreadable, as it is in the source
        found = formula.values(*(_clipped(source, cells, formula) for source, cells in sources))
    if column.measured:
        return of_numbers(found, absent, column)
    unreadable = np.isnan(found) & ~absent
    words = np.where(found == 1, column.vocabulary[0], OTHER).astype(object)
    words[absent | unreadable] = None
    return Cells(words.tolist(), absent, unreadable, found == 0)


def _clipped(source: Source, cells: Cells, formula: Formula) -> Floats:
    """(n,) numbers, NaN where a cell is missing or unreadable; a category is 1 for the formula's level."""
    if source.values:
        level = formula.level(source)
        same = cells.outside if level == OTHER else np.array([cell == level for cell in cells.values], bool)
        return np.where(cells.missing | (cells.outside & (OTHER not in source.values)), np.nan, same)
    values = np.asarray(cells.values, np.float64)
    known = np.where(np.isfinite(values), values, np.nan)
    return np.clip(known, *source.ends)
