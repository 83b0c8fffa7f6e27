"""The symmetric solve."""

import numpy as np
import pytest

from dprelease.estimators.normal_equations import solve


def spectrum(values: list[float], seed: int = 0) -> np.ndarray:
    basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(values), len(values))))[0]
    return (basis * values) @ basis.T


def test_definite_matrices_are_solved_for_all_right_hand_sides_at_once():
    matrix = spectrum([4.0, 1.0, 0.25, 0.01])
    right = np.random.default_rng(1).normal(size=(4, 7))
    solution = solve(matrix, right)
    np.testing.assert_allclose(matrix @ solution.weights, right, atol=1e-12)
    np.testing.assert_allclose(solution.inverse, np.linalg.inv(matrix), rtol=1e-10)
    assert solution.smallest_eigenvalue == pytest.approx(0.01)
    assert solution.condition_number == pytest.approx(400)
    assert not solution.indefinite
    assert not solution.singular


def test_a_singular_matrix_is_flagged_and_its_null_direction_gets_no_weight():
    """The third column is the sum of the others; with the null direction (1, 1, -1) left out, (3, 0, 0) is (2, -1, 1)."""
    x = np.random.default_rng(2).normal(size=(30, 2))
    x = np.column_stack([x, x.sum(axis=1)])
    solution = solve(x.T @ x, x.T @ (3 * x[:, :1]))
    assert solution.singular
    np.testing.assert_allclose(solution.weights[:, 0], [2, -1, 1], rtol=1e-10)
