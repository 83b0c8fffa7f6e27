"""Coded columns and the entries of their Gram matrix: what is noisy, what is public, what follows from the rest.

The terms of joint moments: which outcomes, bases and norms make sense, and what the guarantee is then called.

The least noise for a target, by the rule that every party recomputes; and what outcome-only columns are worth.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dprelease.arrays import Integers
from dprelease.canonical import canonical_bytes
from dprelease.data.bounding import BoundedRows, bound
from dprelease.data.columns import Column, NumericColumn
from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.calibration import share_scales
from dprelease.mechanisms.moments.entries import EntryKind, Layout, code, variables
from dprelease.mechanisms.moments.sensitivity import sensitivity
from dprelease.mechanisms.moments.terms import least_noise
from dprelease.privacy.calibration import budget
from dprelease.privacy.gaussian import mu_of
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import Target
from tests.dprelease.moments.test_outcome_only import spec_of, stated
from tests.support.kinds import is_binary, kind_of
from tests.support.specs import build_spec, categorical, numeric, random_raw

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


def test_rows_are_coded_as_the_table_says() -> None:
    raw = {
        "age": np.array([1.0, -7.0, np.nan]),
        "stage": ["II", None, "I"],
        "smoker": ["yes", "no", None],
        "weight": np.array([0.5, -0.25, 1.0]),
    }
    assert code(bound(raw, FOUR, 3), FOUR).tolist() == [[8, 0, 8, 0, 8, 4], [-8, 0, 0, 8, -8, -2], [0, 8, 0, 0, -8, 8]]


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


# From entries to the matrix.


@given(tables)
def test_the_matrix_of_exact_entries_is_the_whole_gram_matrix(table: tuple[tuple[Column, ...], int, int, int]) -> None:
    rows = bounded(*table)
    layout, exact = Layout(rows.columns), gram(rows)
    square = len(rows.codes) << (2 * rows.grid_bits)
    assert np.abs(exact).max() < 2**53
    values = exact[layout.rows, layout.cols].astype(np.float64)
    assert np.array_equal(layout.matrix(values, float(square)), exact)


def test_terms_without_outcomes_are_written_as_they_always_were() -> None:
    plain = build_spec({"a": (numeric("x"),)}, mechanism="moments")
    assert plain.terms.association is None
    assert b"association" not in plain.to_bytes()
    assert plain.terms.kinds == (EntryKind.PRODUCT, EntryKind.SQUARE)
    apart = spec_of("full")
    assert b"public_norm2" not in apart.to_bytes()
    for spec in (plain, apart, stated(Fraction(1))):
        assert ReleaseSpec.from_bytes(spec.to_bytes()) == spec
        assert canonical_bytes(spec.model_dump(mode="json")) == spec.to_bytes()


@pytest.mark.parametrize("outcomes", [("y1", "y1"), ("unknown",), ("y1", "x1", "s", "g", "h", "y2", "y3", "t")])
def test_outcomes_are_distinct_columns_and_leave_a_feature(outcomes: tuple[str, ...]) -> None:
    spec = spec_of("full")
    data = spec.model_dump()
    data["terms"]["association"]["outcomes"] = outcomes
    with pytest.raises(ValidationError, match="distinct columns of the release"):
        ReleaseSpec.model_validate(data)


@pytest.mark.parametrize(("name", "label"), [("features", "label-DP"), ("labels", "feature-DP"), ("labels", "mixed")])
def test_the_label_follows_from_the_outcomes(name: str, label: str) -> None:
    with pytest.raises(ValidationError, match="the guarantee is called"):
        ReleaseSpec.model_validate({**spec_of(name).model_dump(), "guarantee": label})


def test_a_norm_is_stated_where_one_party_has_all_public_outcomes() -> None:
    data = stated(Fraction(1)).model_dump()
    data["terms"]["association"]["public_norm2"] = "0"
    with pytest.raises(ValidationError, match="where one party has all of them"):
        ReleaseSpec.model_validate(data)
    with pytest.raises(ValidationError, match="where one party has all of them"):
        build_spec(
            {"a": (numeric("y1", public=True),), "b": (numeric("x1"), numeric("y2", public=True))},
            mechanism="moments",
            guarantee="feature-DP",
            outcomes=("y1", "y2"),
            public_norm2=Fraction(1),
        )


MU2 = budget(Target(scope="joint", epsilon=1.0, delta=1e-5))
COLUMNS = (numeric("x"), numeric("y"))


def test_without_outcomes_it_is_the_noise_of_all_products() -> None:
    found = least_noise(Layout(COLUMNS), MU2, 3, 1, "rotating", 14, 2)
    assert found.scales == share_scales(sensitivity(Layout(COLUMNS).variables), MU2, 3, 1, 14, 2)
    assert found.association is None


def test_more_rows_of_a_patient_and_more_curious_hospitals_take_more_noise() -> None:
    layout = Layout(COLUMNS, ("y",))
    base, rows, curious = (
        least_noise(layout, MU2, 3, pooled, "coordinator", 14, count).association
        for pooled, count in ((1, 1), (1, 2), (2, 1))
    )
    assert base is not None
    assert rows is not None
    assert curious is not None
    assert rows.scale == pytest.approx(2 * base.scale, rel=1e-6)
    assert curious.scale == pytest.approx(np.sqrt(2) * base.scale, rel=1e-6)


@pytest.mark.parametrize("outcomes", [("x", "y"), ("z",)])
def test_a_side_without_columns_is_refused(outcomes: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match="a feature and an outcome"):
        least_noise(Layout(COLUMNS, outcomes), MU2, 1, 0, "none", 14, 1)


def test_joint_calibration_needs_much_less_noise_than_halving_the_budget() -> None:
    """The paper's eps/2 + eps/2, delta/2 + delta/2 with correct sensitivities and exact noise, against formula (1)."""
    spec = spec_of("full")
    moments = spec.terms
    assert moments.association is not None
    half = Fraction(mu_of(0.5, 0.5e-5)) ** 2
    together = float(Fraction(moments.mu2))
    split = float(Fraction(moments.association.split))
    # s1 = Delta_1 (1 + q)/mu and s2 = Delta_2 (1 + q)/(2 sqrt(q) mu) against Delta_1/mu_half and Delta_2/mu_half.
    ratios = np.sqrt(together / float(half)) / np.array([1 + split, (1 + split) / (2 * np.sqrt(split))])
    assert np.sqrt(np.prod(ratios)) > 1.3
