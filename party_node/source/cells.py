"""Cells of one column of a batch: what each holds, and which are missing, unreadable or outside what is declared.

Numbers are read as people write them: other decimal marks, marks between thousands, units behind them, bands. A text is read by
itself: as the number or band that it is, or else as what is left of it without its suffix. All values come from Arrow's conversion
of one text. If that takes every text of a batch nothing else is asked: it takes none that the grammar of a plain number refuses.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dprelease.arrays import Floats, Mask
from dprelease.data.column import RawColumn
from dprelease.data.columns import OTHER
from dprelease.errors import DataRefused
from party_node.declarations.declarations import Declaration
from party_node.declarations.formula import Formula, Source
from party_node.declarations.source_columns import CodeColumn, DateColumn, code_number, day_numbers
from party_node.settings import SourceSettings
from party_node.source.limits import is_text

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"

_BLANKS = " \u00a0\u2009\u202f"
"""Blanks between thousands: also the ones at which no line is broken."""

_END = r"([+-]?\d[\d.,']*)"
_BANDS = (
    (re.compile(rf"[\[(]\s*{_END}\s*(?:-|\u2013|,|;|to)\s*{_END}\s*[\])]", re.ASCII), (1, 2)),
    (re.compile(rf"{_END}\s*(?:-|\u2013|to)\s*{_END}", re.ASCII), (1, 2)),
    (re.compile(rf"(?:<=?|\u2264)\s*{_END}", re.ASCII), (None, 1)),
    (re.compile(rf"(?:>=?|\u2265)\s*{_END}", re.ASCII), (1, None)),
    (re.compile(rf"{_END}\s*\+", re.ASCII), (1, None)),
)
"""How bands are written, and which group of the text is either end; None where it is open."""


@dataclass(frozen=True)
class NumberStyle:
    """How numbers are written.

    Attributes:
        decimal: decimal mark.
        thousands: mark between groups of three digits; empty where there is none.
        suffixes: texts of which one may follow a number.
        ends: at which open bands end; None where there are no bands.
    """

    decimal: str = "."
    thousands: str = ""
    suffixes: tuple[str, ...] = ()
    ends: tuple[float, float] | None = None


def read_numbers(cells: pa.Array, style: NumberStyle, missing: tuple[str, ...]) -> tuple[Floats, Mask]:
    """Numbers from texts.

    Args:
        cells: (n,) texts.
        style: how they are written.
        missing: texts that mean a missing cell.

    Returns:
        (n,) numbers, not finite where there is none; and where cells are missing.
    """
    plain = _all_plain(cells, style, missing)
    if plain is not None:
        return plain
    cells, absent = present(cells, missing)
    numbers = _as_written(cells, style)
    if style.suffixes:
        (rest,) = np.nonzero(np.isnan(numbers) & ~absent)
        suffixes = "|".join(map(re.escape, sorted(style.suffixes, key=len, reverse=True)))
        bare = pc.replace_substring_regex(cells.take(pa.array(rest)), rf"\s*(?:{suffixes})$", "", max_replacements=1)
        numbers[rest] = _as_written(bare, style)
    return numbers, absent


def present(cells: pa.Array, missing: tuple[str, ...]) -> tuple[pa.Array, Mask]:
    """Texts without white space at their ends, null where they mean a missing cell; and where that is."""
    cells = without(pc.utf8_trim_whitespace(cells), missing)
    return cells, absent_in(cells)


def without(cells: pa.Array, words: tuple[str, ...]) -> pa.Array:
    """Texts, null where they are one of some words."""
    return pc.if_else(pc.is_in(cells, value_set=pa.array(words, cells.type)), None, cells) if words else cells


def absent_in(cells: pa.Array) -> Mask:
    """(n,) where cells are null."""
    return np.asarray(cells.is_null().to_numpy(zero_copy_only=False), bool)


def floats(cells: pa.Array) -> Floats:
    """(n,) doubles, NaN where cells are null; of single precision those whose decimals are the same, as a text file has them."""
    if pa.types.is_float32(cells.type):
        cells = cells.cast(pa.string())  # the shortest decimals that tell them apart: 0.1, not 0.10000000149
    return np.asarray(cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


def _each_once(cells: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int32]]:
    """The different cells, and (n,) which of them each cell is; one that is null is behind the last of them."""
    kinds = cells.dictionary_encode()
    return kinds.dictionary, kinds.indices.fill_null(len(kinds.dictionary)).to_numpy(zero_copy_only=False)


def _all_plain(cells: pa.Array, style: NumberStyle, missing: tuple[str, ...]) -> tuple[Floats, Mask] | None:
    """Numbers and missing cells, where all others are plain finite numbers, and nothing otherwise."""
    # Other words that mean a missing cell look like no number.
    cells = without(cells, tuple(word for word in missing if any(map(str.isdigit, word))))
    if style.decimal != ".":
        swapped = _with_points(cells, style.decimal)
        if swapped is None:
            return None
        cells = swapped
    try:
        numbers = floats(cells)
    except pa.ArrowInvalid:
        return None
    absent = absent_in(cells)
    return (numbers, absent) if bool(np.all(np.isfinite(numbers) | absent)) else None


def _with_points(cells: pa.Array, decimal: str) -> pa.Array | None:
    """Texts with points for their decimal marks; None where some have points already. In one pass over their bytes."""
    validity, offsets, data = cells.buffers()
    if data is None:
        return cells
    letters = data.to_pybytes()
    if b"." in letters:
        return None
    swapped = pa.py_buffer(letters.translate(bytes.maketrans(decimal.encode(), b".")))
    return pa.Array.from_buffers(cells.type, len(cells), [validity, offsets, swapped], cells.null_count, cells.offset)


def _as_written(cells: pa.Array, style: NumberStyle) -> Floats:
    """(n,) numbers and midpoints of bands, NaN where a text is neither."""
    numbers = np.array(_parsed(cells, style))  # a copy, for Arrow's memory is read-only
    if style.ends is not None:
        _add_midpoints(numbers, cells, style, style.ends)
    return numbers


def _parsed(cells: pa.Array, style: NumberStyle) -> Floats:
    """(n,) numbers, NaN where a text is none."""
    if style.thousands:
        mark = f"[{_BLANKS}]" if style.thousands == " " else re.escape(style.thousands)
        grouped = rf"^[+-]?\d{{1,3}}(?:{mark}\d{{3}})+(?:{re.escape(style.decimal)}\d*)?$"
        joined = pc.replace_substring_regex(cells, mark, "")
        cells = pc.if_else(pc.match_substring_regex(cells, grouped), joined, cells)
    if style.decimal != ".":
        swapped = pc.replace_substring(cells, style.decimal, ".")
        cells = pc.if_else(pc.match_substring(cells, "."), None, swapped)
    return floats(pc.if_else(pc.match_substring_regex(cells, _NUMBER), cells, None))


def _add_midpoints(numbers: Floats, cells: pa.Array, style: NumberStyle, ends: tuple[float, float]) -> None:
    """Put the midpoint of each band where there is no number."""
    places = np.flatnonzero(np.isnan(numbers))
    bands, kinds = _each_once(cells.take(pa.array(places)))
    found = [_ends_of(text) for text in bands.to_pylist()]
    low, high = (
        np.where(
            [end[side] is None for end in found],
            ends[side],
            _parsed(pa.array([end[side] for end in found], cells.type), style),
        )
        for side in (0, 1)
    )
    midpoints = np.append(
        np.where(low <= high, (low + high) / 2, np.nan), np.nan
    )  # NaN comes last, for cells that are null
    numbers[places] = midpoints[kinds]


def _ends_of(text: str) -> tuple[str | None, str | None]:
    """The two ends of a band as they are written, None where it is open; what is no band is no number either."""
    for pattern, groups in _BANDS:
        if match := pattern.fullmatch(text):
            low, high = (None if group is None else match[group] for group in groups)
            return low, high
    return text, text


def read_days(cells: pa.Array, column: DateColumn, missing: tuple[str, ...]) -> tuple[Floats, Mask]:
    """Days since 1970-01-01 from texts, each of which is read once, however many cells have it.

    Args:
        cells: (n,) texts.
        column: whose format they have.
        missing: texts that mean a missing cell.

    Returns:
        (n,) days, NaN where there is no date; and where cells are missing.
    """
    kinds, places = _each_once(cells)
    texts, absent = present(kinds, missing)
    parts = pc.extract_regex(texts, column.pattern)
    known = parts.is_valid().to_numpy(zero_copy_only=False)
    year, month, day = (_whole(pc.struct_field(parts, [part]), known) for part in ("year", "month", "day"))
    days = np.where(known, day_numbers(year, month, day), np.nan)
    return np.append(days, np.nan)[places], np.append(absent, True)[places]  # the last one is of cells that are null


def _whole(cells: pa.Array, known: Mask) -> npt.NDArray[np.int64]:
    """Digits as whole numbers, 1 where there are none."""
    digits = pc.if_else(pa.array(known), cells, "1")
    return np.asarray(digits.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)


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
    elif isinstance(column, CodeColumn):
        numbers, absent = _codes(cells, name, missing)
    else:
        numbers, absent = _numbers(cells, name, style_of(declared, source), missing)
    return of_numbers(numbers, absent, column)


def style_of(declared: Declaration, source: SourceSettings) -> NumberStyle:
    """How a column's numbers are written, by its own rules and by those of the source."""
    rules = declared.reading
    ends = declared.ends if rules.bands else None
    return NumberStyle(*rules.marks(source.decimal, source.thousands), rules.suffix, ends)


def _categories(
    cells: pa.Array, name: str, vocabulary: tuple[str, ...], level_of: Mapping[str, str], missing: tuple[str, ...]
) -> Cells:
    kinds, places = _each_once(cells)
    words = [*(word if word is None else level_of.get(word, word) for word in texts(kinds, name, missing)), None]
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
    if not is_text(cells.type):
        raise DataRefused(f"column {name} holds {cells.type}; identifiers and categories must be text or whole numbers")
    found: list[str | None] = without(pc.utf8_trim(cells, characters=WHITE), missing).to_pylist()
    return found


def _numbers(cells: pa.Array, name: str, style: NumberStyle, missing: tuple[str, ...]) -> tuple[Floats, Mask]:
    """Numbers, not finite where there is none, and where cells are missing."""
    if is_text(cells.type):
        return read_numbers(cells, style, missing)
    if pa.types.is_boolean(cells.type) or is_number_type(cells.type):
        return floats(cells), absent_in(cells)
    raise DataRefused(f"column {name} holds {cells.type}, which is not a number; convert it first")


def _ones(cells: pa.Array, missing: tuple[str, ...]) -> tuple[Floats, Mask]:
    """1 for each cell that is there, whatever it holds, and where cells are missing."""
    absent = present(cells, missing)[1] if is_text(cells.type) else absent_in(cells)
    return np.where(absent, np.nan, 1.0), absent


def _codes(cells: pa.Array, name: str, missing: tuple[str, ...]) -> tuple[Floats, Mask]:
    """Codes as numbers, each of which is read once, NaN where there is none, and where cells are missing."""
    kinds, places = _each_once(cells)
    found = [*texts(kinds, name, missing), None]
    numbers = np.array([math.nan if word is None else code_number(word) for word in found])
    return numbers[places], np.array([word is None for word in found])[places]


def _days(cells: pa.Array, name: str, column: DateColumn, missing: tuple[str, ...]) -> tuple[Floats, Mask]:
    """Days since 1970-01-01, NaN where there is no date, and where cells are missing."""
    if is_text(cells.type):
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


def is_number_type(kind: pa.DataType) -> bool:
    """Tells whether cells of a type are numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def derive(declared: Declaration, raw: Mapping[str, Cells], column: Source) -> Cells:
    """The cells of a derived column: a formula of the cells of the same row, each clipped to its own column's bounds first.

    So a derived cell is what anybody would compute from its sources' cells as they are released, but for missing ones: it is
    missing where one of its sources is, and takes its own column's fill value. An indicator of missing cells is never missing.

    Args:
        declared: says which formula of which columns it is.
        raw: name to cells, its sources' among them.
        column: its own declaration.

    Returns:
        Its cells: missing where a source is missing, unreadable where a source is or the formula is not defined.
    """
    formula, sources = declared.formula, [(of.column, raw[of.column.name]) for of in declared.sources]
    assert formula is not None  # noqa: S101 - it is derived
    absent = np.any([cells.missing for _, cells in sources], axis=0) & (not formula.of_missing)
    with np.errstate(over="ignore"):  # what is too large to compute with is unreadable, as it is in the source
        found = formula.values(*(_clipped(source, cells, formula) for source, cells in sources))
    if column.measured:
        return of_numbers(found, absent, column)
    unreadable = np.isnan(found) & ~absent
    words = np.array([*column.values, None], object)
    words = words[np.where(absent | unreadable, len(words) - 1, found).astype(np.intp)]
    return Cells(words.tolist(), absent, unreadable, words == OTHER)


def _clipped(source: Source, cells: Cells, formula: Formula) -> Floats:
    """(n,) numbers, NaN where a cell is missing or unreadable; a category is the place of its level among those that enter."""
    if source.values:
        place = {level: float(number) for number, level in enumerate(formula.entering(source), 1)}
        found = np.array([place.get(str(cell), 0.0) for cell in cells.values], np.float64)
        found[cells.outside] = place.get(OTHER, 0.0)
        return np.where(cells.missing | (cells.outside & (OTHER not in source.values)), np.nan, found)
    values = np.asarray(cells.values, np.float64)
    known = np.where(np.isfinite(values), values, np.nan)
    return np.clip(known, *source.ends)
