"""Numbers as people write them: other decimal marks, marks between thousands, units behind them, bands.

A text is read by itself: as the number or band that it is, or else as what is left of it without its suffix. All values come from
Arrow's conversion of one text. If that takes every text of a batch nothing else is asked, for it takes none that the grammar
of a plain number does not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dprelease.arrays import Floats, Mask

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


def with_digits(words: tuple[str, ...]) -> tuple[str, ...]:
    """Words among some that may look like a number or a date."""
    return tuple(word for word in words if any(letter.isdigit() for letter in word))


def absent_in(cells: pa.Array) -> Mask:
    """(n,) where cells are null."""
    return np.asarray(cells.is_null().to_numpy(zero_copy_only=False), bool)


def floats(cells: pa.Array) -> Floats:
    """(n,) doubles, NaN where cells are null; of single precision those whose decimals are the same, as a text file has them."""
    if pa.types.is_float32(cells.type):
        cells = cells.cast(pa.string())  # the shortest decimals that tell them apart: 0.1, not 0.10000000149
    return np.asarray(cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


def _all_plain(cells: pa.Array, style: NumberStyle, missing: tuple[str, ...]) -> tuple[Floats, Mask] | None:
    """Numbers and missing cells, where all others are plain finite numbers, and nothing otherwise."""
    cells = without(cells, with_digits(missing))
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
    bands = cells.take(pa.array(places)).dictionary_encode()
    found = [_ends_of(text) for text in bands.dictionary.to_pylist()]
    low, high = (
        np.where(
            [end[side] is None for end in found],
            ends[side],
            _parsed(_array([end[side] for end in found], cells.type), style),
        )
        for side in (0, 1)
    )
    midpoints = np.append(
        np.where(low <= high, (low + high) / 2, np.nan), np.nan
    )  # NaN comes last, for cells that are null
    numbers[places] = midpoints[bands.indices.fill_null(len(found)).to_numpy(zero_copy_only=False)]


def _array(texts: list[str | None], kind: pa.DataType) -> pa.Array:
    return pa.array(texts, kind)


def _ends_of(text: str) -> tuple[str | None, str | None]:
    """The two ends of a band as they are written, None where it is open; what is no band is no number either."""
    for pattern, groups in _BANDS:
        if match := pattern.fullmatch(text):
            low, high = (None if group is None else match[group] for group in groups)
            return low, high
    return text, text
