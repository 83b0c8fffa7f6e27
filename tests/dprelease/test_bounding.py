"""From raw cells to codes: within the bounds whatever the cell, each cell by itself."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.data.bounding import BoundedRows, RawColumn, bound
from dprelease.data.columns import Column, NumericColumn
from dprelease.errors import DataRefused, InvalidInput
from tests.support.specs import categorical, numeric

AGE = numeric("age", 20.0, 100.0)
SEX = categorical("sex", "female", "male", fill="male")
BITS = 10
GRID = 1 << BITS

anything = st.floats(allow_nan=True, allow_infinity=True)


def codes_of(cells: list[float], column: NumericColumn = AGE, bits: int = BITS) -> list[int]:
    return [int(code) for code in bound({column.name: np.array(cells)}, (column,), bits)[:, 0]]


def test_bounds_midpoint_and_quarter_have_their_codes() -> None:
    assert codes_of([20.0, 40.0, 60.0, 80.0, 100.0]) == [-GRID, -GRID // 2, 0, GRID // 2, GRID]


def test_numbers_are_rounded_to_the_nearest_code() -> None:
    step = AGE.half_width / GRID
    assert codes_of([60 + 0.4 * step, 60 + 0.6 * step, 60 - 0.6 * step]) == [0, 1, -1]


def test_outside_values_become_the_nearest_bound() -> None:
    assert codes_of([-1e300, 19.9, 100.1, 1e300]) == [-GRID, -GRID, GRID, GRID]


def test_unreadable_values_become_the_fill() -> None:
    filled = numeric("age", 20.0, 100.0, fill=80.0)
    assert codes_of([math.nan, math.inf, -math.inf], filled) == [GRID // 2] * 3


def test_levels_fill_and_other() -> None:
    codes = bound({"sex": ["male", "female", None, "unknown", ""]}, (SEX,), BITS)
    assert (codes / GRID).tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]]


@given(
    st.floats(-1e308, 1e308),
    st.floats(-1e308, 1e308),
    st.lists(anything, min_size=1, max_size=8),
    st.integers(1, 24),
)
def test_codes_never_leave_the_grid(one: float, two: float, cells: list[float], bits: int) -> None:
    lower, upper = sorted((one, two))
    if not (0 < (upper - lower) / 2 < math.inf):
        return
    column = numeric("x", lower, upper, fill=lower)
    for code in codes_of([*cells, lower, upper, math.nextafter(upper, math.inf)], column, bits):
        assert -(1 << bits) <= code <= 1 << bits


@given(st.lists(anything, min_size=2, max_size=20), st.data())
def test_a_cell_changes_no_other_cell(cells: list[float], data: st.DataObject) -> None:
    where = data.draw(st.integers(0, len(cells) - 1))
    changed = list(cells)
    changed[where] = data.draw(anything)
    before, after = codes_of(cells), codes_of(changed)
    assert before[:where] + before[where + 1 :] == after[:where] + after[where + 1 :]


@pytest.mark.parametrize("level", ["male", "martian", None, "", "female "])
def test_a_category_changes_no_other_cell(level: str | None) -> None:
    columns: tuple[Column, ...] = (AGE, SEX)
    ages = np.array([30.0, math.nan, 90.0])
    tables: list[dict[str, RawColumn]] = [
        {"age": ages, "sex": ["female", cell, "female"]} for cell in ("female", level)
    ]
    before, after = (bound(table, columns, BITS) for table in tables)
    changed = before != after
    assert not changed[[0, 2]].any()
    assert not changed[:, 0].any()


@given(st.lists(anything, min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(cells: list[float], random: object) -> None:
    order = list(range(len(cells)))
    random.shuffle(order)  # type: ignore[attr-defined]
    assert codes_of([cells[i] for i in order]) == [codes_of(cells)[i] for i in order]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_clipping_twice_is_clipping_once(cells: list[float]) -> None:
    once = np.clip(cells, AGE.lower, AGE.upper)
    assert codes_of(list(once)) == codes_of(cells)
    back = AGE.midpoint + AGE.half_width * np.array(codes_of(cells)) / GRID
    assert codes_of(list(back)) == codes_of(cells)


def test_unknown_cells_of_exhaustive_levels_become_the_fill() -> None:
    column = categorical("sex", "female", "male", "diverse", exhaustive=True, fill="male")
    codes = bound({"sex": ["female", "martian", None, "other", "diverse"]}, (column,), BITS)
    assert (codes / GRID).tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]]


def test_columns_keep_their_declared_order() -> None:
    raw = {"age": np.array([60.0]), "sex": ["female"]}
    assert bound(raw, (SEX, AGE), BITS).tolist() == [[GRID, 0, 0, 0]]
    assert bound(raw, (AGE, SEX), BITS).tolist() == [[0, GRID, 0, 0]]


def test_missing_column_and_ragged_batch_are_refused() -> None:
    with pytest.raises(DataRefused, match="no column 'sex'"):
        bound({"age": np.array([1.0])}, (AGE, SEX), BITS)
    with pytest.raises(DataRefused, match="different lengths"):
        bound({"age": np.array([1.0]), "sex": ["male", "male"]}, (AGE, SEX), BITS)


@pytest.mark.parametrize("bits", [0, -1, 25])
def test_grid_bits_out_of_range_are_refused(bits: int) -> None:
    with pytest.raises(InvalidInput, match="between 1 and 24"):
        bound({"age": np.array([1.0])}, (AGE,), bits)


def rows(codes: npt.NDArray[np.generic], columns: tuple[Column, ...] = (AGE,), bits: int = BITS) -> BoundedRows:
    return BoundedRows(codes, columns, bits)  # type: ignore[arg-type]


@pytest.mark.parametrize("codes", [np.zeros((3, 2), np.int32), np.zeros((3, 1), np.int64), np.zeros(3, np.int32)])
def test_rows_of_another_shape_or_type_are_refused(codes: npt.NDArray[np.generic]) -> None:
    with pytest.raises(InvalidInput, match="int32 array of 1 columns"):
        rows(codes)


@pytest.mark.parametrize("code", [GRID + 1, -GRID - 1, -(2**31)])
def test_rows_beyond_the_grid_cannot_be_made(code: int) -> None:
    with pytest.raises(InvalidInput):
        rows(np.array([[0], [code]], np.int32))


@pytest.mark.parametrize("row", [[0, 0, 0], [GRID, GRID, 0], [GRID, 0, 1], [-GRID, 0, 0], [2 * GRID, 0, 0]])
def test_rows_that_are_not_one_hot_cannot_be_made(row: list[int]) -> None:
    rows(np.array([[0, GRID, 0]], np.int32), (SEX,))
    with pytest.raises(InvalidInput):
        rows(np.array([[0, GRID, 0], row], np.int32), (SEX,))


def test_digest_knows_every_code_their_order_and_the_grid() -> None:
    base = np.array([[1], [2]], np.int32)
    digests = {
        rows(base).digest(),
        rows(base[::-1]).digest(),
        rows(np.array([[1], [3]], np.int32)).digest(),
        rows(base, bits=BITS + 1).digest(),
        rows(np.array([[1, 0], [2, 0]], np.int32), (AGE, numeric("bmi"))).digest(),
    }
    assert len(digests) == 5
    assert rows(base).digest() == rows(np.asfortranarray(base)).digest()
