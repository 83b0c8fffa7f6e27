"""Cells of one column of a batch: what each holds, and which are missing, unreadable or outside what is declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dprelease.arrays import Floats, Mask
from dprelease.data.column import RawColumn
from dprelease.errors import DataRefused
from party_node.declarations.dates import DateColumn
from party_node.declarations.declarations import Declaration
from party_node.declarations.formulas import Source
from party_node.settings import SourceSettings
from party_node.source.days import read_days
from party_node.source.numbers import NumberStyle, absent_in, floats, present, read_numbers, without

_A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
"""How many units of a timestamp a day has."""

WHITE = "".join(letter for letter in map(chr, range(0x3001)) if letter.isspace())
"""Letters that `str.strip` takes away."""


@dataclass(frozen=True)
class Cells:
    """Cells of a column.

    Attributes:
        values: (n,) as `bound` takes them; of dates, days since 1970-01-01.
        missing: (n,) empty cells.
        unreadable: (n,) cells that are no number or date, or not finite.
        outside: (n,) numbers beyond the bounds, or values that are no declared level.
    """

    values: RawColumn
    missing: Mask
    unreadable: Mask
    outside: Mask


def read_cells(cells: pa.Array, declared: Declaration, source: SourceSettings) -> Cells:
    """Read a column's cells.

    Args:
        cells: as Arrow has them.
        declared: the column's declaration.
        source: how the source writes cells.

    Raises:
        DataRefused: they are of a type that the declaration cannot be of.
    """
    cells, column, rules = _decoded(cells), declared.column, declared.reading
    name, missing = str(declared.read_from), (*source.missing, *rules.missing)
    if column.values:
        return _categories(cells, name, column.vocabulary, declared.reading.level_of, missing)
    if rules.aggregate == "count":
        numbers, absent = _ones(cells, missing)
    elif isinstance(column, DateColumn):
        numbers, absent = _days(cells, name, column, missing)
    else:
        numbers, absent = _numbers(cells, name, style_of(declared, source), missing)
    return of_numbers(numbers, absent, column)


def style_of(declared: Declaration, source: SourceSettings) -> NumberStyle:
    """How a column's numbers are written, by its own rules and by those of the source."""
    rules = declared.reading
    return NumberStyle(
        decimal=rules.decimal or source.decimal,
        thousands=source.thousands if rules.thousands is None else rules.thousands,
        suffixes=rules.suffix,
        ends=declared.ends if rules.bands else None,
    )


def _categories(
    cells: pa.Array, name: str, vocabulary: tuple[str, ...], level_of: Mapping[str, str], missing: tuple[str, ...]
) -> Cells:
    kinds = cells.dictionary_encode()
    found = texts(kinds.dictionary, name, missing)
    words = [*(word if word is None else level_of.get(word, word) for word in found), None]
    places = kinds.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False)
    absent = np.array([word is None for word in words])[places]
    outside = np.array([word not in (*vocabulary, None) for word in words])[places]
    return Cells(np.array(words, object)[places].tolist(), absent, np.zeros_like(absent), outside)


def of_numbers(numbers: Floats, absent: Mask, column: Source) -> Cells:
    """Cells that are numbers or no numbers.

    Args:
        numbers: (n,), not finite where there is none.
        absent: (n,) where there is none because the cell is missing.
        column: whose bounds count.
    """
    finite = np.isfinite(numbers)
    lower, upper = column.ends
    outside = finite & ((numbers < lower) | (numbers > upper))
    return Cells(numbers, absent, ~finite & ~absent, outside)


def texts(cells: pa.Array, name: str, missing: tuple[str, ...]) -> list[str | None]:
    """Texts without white space at their ends, None where there is none."""
    cells = _decoded(cells)
    if pa.types.is_integer(cells.type) or pa.types.is_boolean(cells.type):
        cells = cells.cast(pa.string())
    if not _is_text(cells.type):
        raise DataRefused(f"column {name} holds {cells.type}; identifiers and categories must be text or whole numbers")
    found: list[str | None] = without(pc.utf8_trim(cells, characters=WHITE), missing).to_pylist()
    return found


def _numbers(cells: pa.Array, name: str, style: NumberStyle, missing: tuple[str, ...]) -> tuple[Floats, Mask]:
    """Numbers, not finite where there is none, and where cells are missing."""
    if _is_text(cells.type):
        return read_numbers(cells, style, missing)
    if pa.types.is_boolean(cells.type) or _is_number(cells.type):
        return floats(cells), absent_in(cells)
    raise DataRefused(f"column {name} holds {cells.type}, which is not a number; convert it first")


def _ones(cells: pa.Array, missing: tuple[str, ...]) -> tuple[Floats, Mask]:
    """1 for each cell that is there, whatever it holds, and where cells are missing."""
    absent = present(cells, missing)[1] if _is_text(cells.type) else absent_in(cells)
    return np.where(absent, np.nan, 1.0), absent


def _days(cells: pa.Array, name: str, column: DateColumn, missing: tuple[str, ...]) -> tuple[Floats, Mask]:
    """Days since 1970-01-01, NaN where there is no date, and where cells are missing."""
    if _is_text(cells.type):
        return read_days(cells, column, missing)
    if pa.types.is_date(cells.type) or (pa.types.is_timestamp(cells.type) and cells.type.tz is None):
        absent, kind = absent_in(cells), cells.type
        whole = cells.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64()).fill_null(0).to_numpy()
        # In whole numbers: Arrow's own rounding refuses all cells for one at the end of its range.
        days = whole // (1 if pa.types.is_date32(kind) else _A_DAY["ms" if pa.types.is_date64(kind) else kind.unit])
        return np.where(absent, np.nan, days), absent
    raise DataRefused(f"column {name} holds {cells.type}, which is not a date; convert it first")


def _decoded(cells: pa.Array) -> pa.Array:
    """The cells themselves where a dictionary stands for them; a column that holds nothing at all counts as text."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    return cells.cast(pa.string()) if pa.types.is_null(cells.type) else cells


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
