"""Dates as text, in the one format that their column declares."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dprelease.arrays import Floats, Mask
from party_node.declarations.dates import DateColumn, day_numbers
from party_node.source.numbers import present


def read_days(cells: pa.Array, column: DateColumn, missing: tuple[str, ...]) -> tuple[Floats, Mask]:
    """Days since 1970-01-01 from texts, each of which is read once, however many cells have it.

    Args:
        cells: (n,) texts.
        column: whose format they have.
        missing: texts that mean a missing cell.

    Returns:
        (n,) days, NaN where there is no date; and where cells are missing.
    """
    kinds = cells.dictionary_encode()
    texts, absent = present(kinds.dictionary, missing)
    parts = pc.extract_regex(texts, column.pattern)
    known = parts.is_valid().to_numpy(zero_copy_only=False)
    year, month, day = (_whole(pc.struct_field(parts, [part]), known) for part in ("year", "month", "day"))
    days = np.where(known, day_numbers(year, month, day), np.nan)
    places = kinds.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    return np.append(days, np.nan)[places], np.append(absent, True)[places]  # the last one is of cells that are null


def _whole(cells: pa.Array, known: Mask) -> npt.NDArray[np.int64]:
    """Digits as whole numbers, 1 where there are none."""
    digits = pc.if_else(pa.array(known), cells, "1")
    return np.asarray(digits.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)
