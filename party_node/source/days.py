"""Dates as text, in the one format that their column declares.

Texts that all have the format's length are taken apart by their bytes. Only a batch that has others is looked at more closely, with
the same result for those that are as the format says.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from party_node.declarations.dates import DateColumn, day_numbers
from party_node.source.numbers import Floats, Mask, absent_in, present, with_digits, without


def read_days(cells: pa.Array, column: DateColumn, missing: tuple[str, ...]) -> tuple[Floats, Mask]:
    """Days since 1970-01-01 from texts.

    Args:
        cells: (n,) texts.
        column: whose format they have.
        missing: texts that mean a missing cell.

    Returns:
        (n,) days, NaN where there is no date; and where cells are missing.
    """
    of_one_length = _by_bytes(without(cells, with_digits(missing)), column)
    if of_one_length is not None:
        return of_one_length
    cells, absent = present(cells, missing)
    parts = pc.extract_regex(cells, column.pattern)
    known = parts.is_valid().to_numpy(zero_copy_only=False)
    year, month, day = (_whole(pc.struct_field(parts, [part]), known) for part in ("year", "month", "day"))
    return np.where(known, day_numbers(year, month, day), np.nan), absent


def _by_bytes(cells: pa.Array, column: DateColumn) -> tuple[Floats, Mask] | None:
    """Days and missing cells, where all others have the letters that the format wants; and nothing otherwise."""
    places = column.places
    _, ends, data = cells.buffers()
    absent = absent_in(cells)
    if places is None or data is None:
        return None
    offsets = np.frombuffer(ends, np.int64 if pa.types.is_large_string(cells.type) else np.int32)
    offsets = offsets[cells.offset : cells.offset + len(cells) + 1]
    if not np.array_equal(np.diff(offsets), np.where(absent, 0, len(places))):
        return None
    letters = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].reshape(-1, len(places))
    numbers = {wanted: np.zeros(len(letters), np.int64) for wanted in places}
    for place, wanted in enumerate(places):
        found = letters[:, place]
        digits = found - np.uint8(ord("0"))  # of other letters it wraps round to more than 9
        if not np.all(found == ord(wanted) if len(wanted) == 1 else digits <= 9):
            return None
        if len(wanted) > 1:
            numbers[wanted] = numbers[wanted] * 10 + digits
    days = np.full(len(cells), np.nan)
    days[~absent] = day_numbers(numbers["%Y"], numbers["%m"], numbers["%d"])
    return days, absent


def _whole(cells: pa.Array, known: Mask) -> npt.NDArray[np.int64]:
    """Digits as whole numbers, 1 where there are none."""
    digits = pc.if_else(pa.array(known), cells, "1")
    return np.asarray(digits.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)
