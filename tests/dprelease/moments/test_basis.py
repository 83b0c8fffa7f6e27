"""The basis of public features: orthonormal, within the grid whatever the rows are, and the same for whoever has the features."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.bounding import bound
from dprelease.columns import Column
from dprelease.errors import InvalidInput
from dprelease.moments.basis import Basis, orthonormal
from dprelease.moments.layout import Layout, code
from tests.support.specs import categorical, numeric, random_raw

COLUMNS: tuple[Column, ...] = (numeric("x1"), categorical("g", "one", "two"), categorical("s", "yes"), numeric("x2"))
LAYOUT = Layout(COLUMNS)


def features(rows: int, grid_bits: int, seed: int = 0) -> np.ndarray:
    return code(bound(random_raw(COLUMNS, rows, np.random.default_rng(seed)), COLUMNS, grid_bits), COLUMNS)


@given(rows=st.integers(8, 60), grid_bits=st.sampled_from([8, 14, 20]), seed=st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_no_row_is_longer_than_the_grid_unit_and_the_longest_nearly_is(rows: int, grid_bits: int, seed: int) -> None:
    codes = features(rows, grid_bits, seed)
    try:
        basis = Basis.of(LAYOUT, codes, grid_bits)
    except InvalidInput:  # a level that nobody has, for instance
        return
    lengths = (basis.codes.astype(object) ** 2).sum(axis=1)
    assert max(lengths) <= 4**grid_bits
    assert max(lengths) >= 4**grid_bits * (1 - 8 / 2**grid_bits)


def test_one_outlier_does_not_lengthen_its_row() -> None:
    """Leverage 1: a patient who alone has a level."""
    values = np.zeros((50, 1), np.int32)
    values[7] = 1 << 12
    values[3] = 1
    basis = Basis.of(Layout((numeric("x"),)), values, 12)
    assert (basis.codes.astype(np.int64) ** 2).sum(axis=1).max() <= 1 << 24


def test_replacing_a_patients_outcomes_moves_what_is_released_by_no_more_than_the_noise_is_for() -> None:
    codes, unit = features(40, 10), 1 << 10
    basis = Basis.of(LAYOUT, codes, 10).codes.astype(np.int64)
    worst = max(np.linalg.norm(np.outer(row, np.full(3, 2 * unit))) for row in basis)  # y to -y, l = 3
    assert 0.98 * 2 * np.sqrt(3) * unit**2 < worst <= 2 * np.sqrt(3) * unit**2


def test_columns_are_orthonormal_and_carry_the_features() -> None:
    values = features(200, 14) / 2.0**14
    kept = [0, 2, 3, 4, 5]  # but the group's first level
    q = orthonormal(values[:, kept])
    np.testing.assert_allclose(q.T @ q, np.eye(6), atol=1e-12)
    np.testing.assert_allclose(q[:, 0], 1 / np.sqrt(200))
    np.testing.assert_allclose(q @ (q.T @ values), values, atol=1e-12)
    basis = Basis.of(LAYOUT, features(200, 14), 14)
    assert not basis.codes[:, 2].any()
    np.testing.assert_allclose(basis.codes[:, [0, 1, 3, 4, 5, 6]], basis.scale * q * 2**14, atol=0.51)
    np.testing.assert_allclose(basis.codes.T @ values / (basis.scale * 2**14), basis.coordinates[:, 1:], atol=0.01)


def test_rows_in_another_order_have_the_same_basis() -> None:
    codes, order = features(60, 14), np.random.default_rng(1).permutation(60)
    first, second = Basis.of(LAYOUT, codes, 14), Basis.of(LAYOUT, codes[order], 14)
    assert np.abs(first.codes[order] - second.codes).max() <= 1


@pytest.mark.parametrize("rows", [3, 40])
def test_features_that_follow_from_others_have_none(rows: int) -> None:
    codes = features(rows, 10)
    codes[:, 5] = codes[:, 0]
    with pytest.raises(InvalidInput, match="follow from one another and the constant"):
        Basis.of(LAYOUT, codes, 10)
    with pytest.raises(InvalidInput, match="leave out columns"):
        orthonormal(np.ones((9, 1)))
