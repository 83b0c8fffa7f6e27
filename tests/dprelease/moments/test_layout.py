"""Coded columns and the entries of their Gram matrix: what is noisy, what is public, what follows from the rest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.arrays import Integers
from dprelease.data.bounding import BoundedRows, bound
from dprelease.data.columns import Column, NumericColumn, released_names
from dprelease.mechanisms.moments.entries import Layout, code, variables
from tests.support.kinds import is_binary, kind_of
from tests.support.specs import categorical, numeric, random_raw

FOUR = (numeric("age"), categorical("stage", "I", "II"), categorical("smoker", "yes"), numeric("weight"))


@st.composite
def declarations(draw: st.DrawFn) -> tuple[Column, ...]:
    """Columns of any kinds in any order: 0 stands for a number, k for a category of k declared levels, -k of k exhaustive ones."""
    kinds = draw(st.lists(st.integers(-4, 4).filter(lambda kind: kind != -1), min_size=1, max_size=7))
    whole = {"exhaustive": True, "fill": "level 1"}
    return tuple(
        categorical(f"c{place}", *(f"level {level}" for level in range(abs(kind))), **(whole if kind < 0 else {}))
        if kind
        else numeric(f"c{place}")
        for place, kind in enumerate(kinds)
    )


tables = st.tuples(declarations(), st.integers(1, 20), st.integers(1, 16), st.integers(0, 2**32 - 1))


def bounded(columns: tuple[Column, ...], rows: int, grid_bits: int, seed: int) -> BoundedRows:
    raw = random_raw(columns, rows, np.random.default_rng(seed))
    return BoundedRows(bound(raw, columns, grid_bits), columns, grid_bits)


def gram(rows: BoundedRows) -> Integers:
    """[G Z]^T [G Z] in exact integers."""
    coded = code(rows.codes, rows.columns).astype(np.int64)
    x = np.column_stack([np.full(len(coded), 1 << rows.grid_bits), coded])
    return np.asarray(x.T @ x)


# Variables.


def test_columns_become_named_variables() -> None:
    assert [(each.name, kind_of(each), each.column) for each in Layout(FOUR).variables] == [
        ("age", "numeric", 0),
        ("stage=I", "level", 1),
        ("stage=II", "level", 1),
        ("stage=other", "level", 1),
        ("smoker=yes", "binary", 2),
        ("weight", "numeric", 3),
    ]


@pytest.mark.parametrize(
    ("column", "binary"),
    [(numeric("x"), False), (categorical("b", "yes"), True), (categorical("g", "a", "b"), False)],
    ids=["number", "one level", "two levels"],
)
def test_only_a_category_of_one_level_is_binary(column: Column, binary: bool) -> None:
    assert is_binary(column) == binary


def test_rows_are_coded_as_the_table_says() -> None:
    raw = {
        "age": np.array([1.0, -7.0, np.nan]),
        "stage": ["II", None, "I"],
        "smoker": ["yes", "no", None],
        "weight": np.array([0.5, -0.25, 1.0]),
    }
    assert code(bound(raw, FOUR, 3), FOUR).tolist() == [
        [8, 0, 8, 0, 8, 4],
        [-8, 0, 0, 8, -8, -2],
        [0, 8, 0, 0, -8, 8],
    ]


@given(tables)
def test_codes_keep_to_the_ranges_that_the_sensitivity_rests_on(
    table: tuple[tuple[Column, ...], int, int, int],
) -> None:
    rows = bounded(*table)
    unit, coded = 1 << rows.grid_bits, code(rows.codes, rows.columns)
    found = variables(rows.columns)
    assert coded.dtype == np.int32
    assert coded.flags.c_contiguous
    assert coded.shape == (len(rows.codes), len(found))
    allowed = {"numeric": range(-unit, unit + 1), "binary": (-unit, unit), "level": (0, unit)}
    for place, variable in enumerate(found):
        assert all(value in allowed[kind_of(variable)] for value in coded[:, place].tolist())
    for group in {variable.column for variable in found if kind_of(variable) == "level"}:
        members = [variable.column == group for variable in found]
        assert (coded[:, members].sum(axis=1) == unit).all()


@given(tables, st.integers(0, 7))
def test_parties_code_their_columns_apart_as_they_would_together(
    table: tuple[tuple[Column, ...], int, int, int], cut: int
) -> None:
    rows = bounded(*table)
    width = len(released_names(rows.columns[:cut]))
    parts = [
        code(codes, columns)
        for codes, columns in (
            (rows.codes[:, :width], rows.columns[:cut]),
            (rows.codes[:, width:], rows.columns[cut:]),
        )
        if columns
    ]
    assert np.array_equal(np.hstack(parts), code(rows.codes, rows.columns))


# Entries.


@given(declarations())
def test_noisy_entries_are_the_upper_triangle_without_what_is_public_or_derived(columns: tuple[Column, ...]) -> None:
    layout = Layout(columns)
    size = 1 + sum(
        1 if isinstance(column, NumericColumn) or is_binary(column) else len(column.released) for column in columns
    )
    left_out = 1
    for column in columns:
        levels = len(column.released)
        left_out += 0 if isinstance(column, NumericColumn) else 1 if is_binary(column) else levels * (levels + 1) // 2
    assert layout.entries == len(layout.rows) == len(layout.cols) == len(layout.diagonal)
    assert layout.entries == size * (size + 1) // 2 - left_out
    assert (layout.rows <= layout.cols).all()
    assert (np.diff(size * layout.rows + layout.cols) > 0).all()  # row by row, each entry once
    assert layout.rows.dtype == layout.cols.dtype == np.int64


@given(declarations())
def test_the_diagonal_entries_are_the_squares_of_the_numbers(columns: tuple[Column, ...]) -> None:
    layout = Layout(columns)
    squares = [place for place, variable in enumerate(layout.variables, 1) if kind_of(variable) == "numeric"]
    assert layout.rows[layout.diagonal].tolist() == layout.cols[layout.diagonal].tolist() == squares
    assert (layout.rows < layout.cols)[~layout.diagonal].all()


def test_entries_of_a_small_table() -> None:
    layout = Layout((categorical("stage", "I", "II"), numeric("age"), categorical("smoker", "yes")))
    entries = list(zip(layout.rows.tolist(), layout.cols.tolist(), layout.diagonal.tolist(), strict=True))
    assert entries == [
        *((0, column, False) for column in range(1, 6)),
        *((level, column, False) for level in (1, 2, 3) for column in (4, 5)),
        (4, 4, True),
        (4, 5, False),
    ]


# From entries to the matrix.


@given(tables)
def test_the_matrix_of_exact_entries_is_the_whole_gram_matrix(table: tuple[tuple[Column, ...], int, int, int]) -> None:
    rows = bounded(*table)
    layout, exact = Layout(rows.columns), gram(rows)
    square = len(rows.codes) << (2 * rows.grid_bits)
    assert np.abs(exact).max() < 2**53
    values = exact[layout.rows, layout.cols].astype(np.float64)
    assert np.array_equal(layout.matrix(values, float(square)), exact)


@given(tables)
def test_what_is_left_out_is_public_or_follows_from_the_counts(
    table: tuple[tuple[Column, ...], int, int, int],
) -> None:
    rows = bounded(*table)
    layout, exact = Layout(rows.columns), gram(rows)
    unit = 1 << rows.grid_bits
    kinds, owners = zip(("constant", -1), *((kind_of(each), each.column) for each in layout.variables), strict=True)
    noisy = set(zip(layout.rows.tolist(), layout.cols.tolist(), strict=True))
    for row, column in zip(*np.triu_indices(len(kinds)), strict=True):
        if (row, column) in noisy:
            continue
        assert owners[row] == owners[column]
        if kinds[row] in ("constant", "binary"):
            assert exact[row, column] == len(rows.codes) * unit**2
        elif row == column:
            assert exact[row, row] == exact[0, row] == unit * code(rows.codes, rows.columns)[:, row - 1].sum()
        else:
            assert exact[row, column] == 0
            assert kinds[row] == kinds[column] == "level"


@given(declarations(), st.integers(0, 2**32 - 1))
def test_the_matrix_puts_every_noisy_entry_in_its_place(columns: tuple[Column, ...], seed: int) -> None:
    layout = Layout(columns)
    values = np.random.default_rng(seed).normal(size=layout.entries)
    matrix = layout.matrix(values, 7.0)
    assert np.array_equal(matrix, matrix.T)
    assert np.array_equal(matrix[layout.rows, layout.cols], values)
    for place, variable in enumerate(layout.variables, 1):
        if kind_of(variable) != "numeric":
            assert matrix[place, place] == (7.0 if kind_of(variable) == "binary" else matrix[0, place])
    assert matrix[0, 0] == 7.0


def test_a_layout_is_the_same_for_the_same_columns() -> None:
    assert Layout(FOUR) == Layout(tuple(FOUR))
    assert hash(Layout(FOUR)) == hash(Layout(tuple(FOUR)))
    assert Layout(FOUR) != Layout(FOUR[::-1])
