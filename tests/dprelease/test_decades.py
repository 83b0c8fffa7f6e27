"""The decade scale: cells, codes, and boxes cut out of it.

Codes of cells in a range: exact integers.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from dprelease.data.bounding import BoundedRows, bound
from dprelease.data.columns import NumericColumn
from dprelease.data.decades import CELLS, EDGES, LARGEST, Box, decade_cells, decade_codes, decade_values
from dprelease.data.ranges import STEPS, Range
from dprelease.errors import InvalidInput

COLUMN = NumericColumn(name="x", bounds="unknown")


def exact(end: int) -> Fraction:
    """An end of a cell, to the tenth of 1e-6."""
    return Fraction(round(Fraction(float(EDGES[end])) * 10**7), 10**7)


def test_cells_are_four_to_a_decade_and_one_around_nothing() -> None:
    assert (CELLS, len(EDGES), LARGEST) == (121, 122, 1e9)
    np.testing.assert_array_equal(EDGES, -EDGES[::-1])
    assert EDGES[61:70].tolist() == [1e-6, 1.8e-6, 3.2e-6, 5.6e-6, 1e-5, 1.8e-5, 3.2e-5, 5.6e-5, 1e-4]
    assert np.all(np.diff(EDGES) > 0)
    assert all(exact(end) == Fraction(repr(float(EDGES[end]))) for end in range(122))


@pytest.mark.parametrize("bits", [1, 10, 16, 24])
def test_codes_are_places_within_cells(bits: int) -> None:
    random = np.random.default_rng(bits)
    cells = np.concatenate([EDGES, random.choice([-1, 1], 500) * 10.0 ** random.uniform(-8, 11, 500), [0.0, 1e300]])
    codes = decade_codes(cells, bits)
    assert codes.dtype == np.int32
    assert np.all(np.diff(codes[np.argsort(cells)]) >= 0)
    assert decade_codes(np.zeros(1), bits).tolist() == [0]
    clipped = np.clip(cells, -LARGEST, LARGEST)
    at = np.clip(np.searchsorted(EDGES, clipped, "right") - 1, 0, CELLS - 1)
    width = EDGES[at + 1] - EDGES[at]
    # Half a step within a cell, and the upper end of a cell is the lower one of the next.
    assert np.all(np.abs(decade_values(codes, bits) - clipped) <= width * (2.0 ** -(bits + 1) + 1e-12))
    np.testing.assert_array_equal(decade_cells(decade_codes(EDGES[:-1], bits), bits), np.arange(CELLS))
    assert decade_cells(decade_codes(EDGES[-1:], bits), bits).tolist() == [CELLS - 1]


@pytest.mark.parametrize("bits", [1, 9, 24])
def test_a_box_s_grid_is_linear_and_exact_at_its_ends(bits: int) -> None:
    random = np.random.default_rng(bits)
    for _ in range(60):
        low = int(random.integers(0, CELLS))
        box = Box(low=low, high=int(random.integers(low + 1, CELLS + 1)))
        lower, upper = exact(box.low), exact(box.high)
        half = CELLS << (bits - 1)
        codes = random.integers(-half, half, 40, endpoint=True).astype(np.int32)
        found = box.code(codes, bits)
        for code, place in zip(codes.tolist(), found.tolist(), strict=True):
            cell = min((code + half) >> bits, CELLS - 1)
            within = Fraction(code + half - (cell << bits), 1 << bits)
            value = exact(cell) + (exact(cell + 1) - exact(cell)) * within
            linear = (2 * min(max(value, lower), upper) - lower - upper) / (upper - lower) * STEPS
            assert abs(place - linear) <= 1
        ends = decade_codes(np.array([box.lower, box.upper, -1e300, 1e300]), bits)
        assert box.code(ends, bits).tolist() == [-STEPS, STEPS, -STEPS, STEPS]
        assert np.all(np.diff(box.code(np.sort(codes), bits)) >= 0)
        # A box that has coded is the same value as one that has not: specs are looked up by their values.
        assert box == Box(low=box.low, high=box.high)


def test_what_is_no_box_is_refused() -> None:
    for low, high in ((3, 3), (4, 3), (-1, 3), (0, 122)):
        with pytest.raises(ValueError, match=r"box|greater|less"):
            Box(low=low, high=high)


def test_cells_that_cannot_be_read_take_the_fill_value() -> None:
    cells = np.array([math.nan, math.inf, -math.inf, 5.0])
    codes = bound({"x": cells}, (COLUMN,), 16)
    assert codes[:3, 0].tolist() == [0, 0, 0]
    filled = NumericColumn(name="x", bounds="unknown", fill=5.0)
    assert len(set(bound({"x": cells}, (filled,), 16)[:, 0].tolist())) == 1


def test_rows_are_within_the_scale() -> None:
    for bits in (1, 24):
        most = CELLS << (bits - 1)
        BoundedRows(np.array([[most], [-most]], np.int32), (COLUMN,), bits)
        with pytest.raises(InvalidInput, match="beyond the grid"):
            BoundedRows(np.array([[most + 1]], np.int32), (COLUMN,), bits)


def test_a_range_in_a_box() -> None:
    found = Range(name="x", centre=STEPS // 2, half_width=STEPS // 4, box=Box(low=85, high=89))
    seen = found.seen(COLUMN)
    assert (seen.lower, seen.upper, seen.bounds) == (6.625, 8.875, "declared")  # of 1 to 10: 7.75 and an eighth of 9
    assert seen.fill == 6.625
    codes = decade_codes(np.array([0.0, 6.0, 7.75, 8.0, 1e4]), 20)
    assert found.code(codes, 20, 90).tolist() == [-90, -90, 0, 20, 90]
    assert b'"box":{"high":89,"low":85}' in found.to_bytes()
    assert b"box" not in Range.whole("x").to_bytes()
    assert Range.from_bytes(found.to_bytes()) == found
    assert found.fits(COLUMN)
    assert not Range.whole("x").fits(COLUMN)


def test_a_declaration_without_bounds() -> None:
    assert (COLUMN.lower, COLUMN.upper, COLUMN.fill, COLUMN.extent) == (-1e9, 1e9, 0.0, "bounds unknown")
    assert NumericColumn.from_bytes(COLUMN.to_bytes()) == COLUMN
    assert b'"bounds":"unknown"' in COLUMN.to_bytes()
    assert b"bounds" not in NumericColumn(name="x", lower=0, upper=1).to_bytes()
    for wrong, why in (
        ({"lower": 0.0}, "leave out lower and upper"),
        ({"upper": 5.0}, "leave out lower and upper"),
        ({"public": True}, "a public column has bounds"),
        ({"fill": 2e9}, "fill"),
    ):
        with pytest.raises(ValueError, match=why):
            NumericColumn.model_validate({"name": "x", "bounds": "unknown", **wrong})
    with pytest.raises(ValueError, match="bounds"):
        NumericColumn.model_validate({"name": "x", "bounds": "wide", "lower": 0.0, "upper": 1.0})


def test_codes_are_the_nearest_and_clipped() -> None:
    random = np.random.default_rng(1)
    for _ in range(200):
        bits, largest = int(random.integers(1, 25)), int(random.integers(1, 1 << 24))
        centre = int(random.integers(-STEPS, STEPS, endpoint=True))
        half_width = int(random.integers(1, 16 * STEPS)) >> int(random.integers(0, 24)) or 1
        cells = random.integers(-(1 << bits), 1 << bits, 20, endpoint=True).astype(np.int32)
        found = Range(name="x", centre=centre, half_width=half_width).code(cells, bits, largest)
        for cell, code in zip(cells.tolist(), found.tolist(), strict=True):
            exact = Fraction((cell << (24 - bits)) - centre, half_width) * largest
            clipped = max(-largest, min(largest, exact))
            assert abs(clipped - code) <= Fraction(1, 2)
            assert abs(code) <= largest
        assert np.all(np.diff(found[np.argsort(cells)]) >= 0)


def test_the_public_box_is_a_range() -> None:
    cells = np.arange(-(1 << 8), (1 << 8) + 1, dtype=np.int32)
    whole = Range(name="x", centre=0, half_width=STEPS)
    assert np.array_equal(whole.code(cells, 8, 1 << 8), cells)
