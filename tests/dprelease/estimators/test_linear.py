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


def test_the_ridge_is_added_to_the_matrix_and_to_what_is_reported():
    matrix, right = spectrum([2.0, 1.0]), np.array([[1.0], [2.0]])
    solution = solve(matrix, right, ridge=0.5)
    np.testing.assert_allclose(solution.weights, np.linalg.solve(matrix + 0.5 * np.eye(2), right), rtol=1e-12)
    assert solution.smallest_eigenvalue == pytest.approx(1.5)


def test_an_indefinite_matrix_is_solved_as_it_is_and_said_to_be_indefinite():
    matrix, right = spectrum([1.0, 0.5, -0.25]), np.eye(3)
    solution = solve(matrix, right)
    np.testing.assert_allclose(matrix @ solution.weights, right, atol=1e-12)
    assert solution.indefinite
    assert solution.smallest_eigenvalue == pytest.approx(-0.25)
    assert solution.condition_number == pytest.approx(4)
    assert not solution.singular


def test_a_singular_matrix_is_flagged_and_its_null_direction_gets_no_weight():
    """The third column is the sum of the others; with the null direction (1, 1, -1) left out, (3, 0, 0) is (2, -1, 1)."""
    x = np.random.default_rng(2).normal(size=(30, 2))
    x = np.column_stack([x, x.sum(axis=1)])
    solution = solve(x.T @ x, x.T @ (3 * x[:, :1]))
    assert solution.singular
    np.testing.assert_allclose(solution.weights[:, 0], [2, -1, 1], rtol=1e-10)


def test_a_ridge_does_not_hide_that_the_matrix_was_singular():
    solution = solve(np.ones((2, 2)), np.ones((2, 1)), ridge=1e-5)
    assert solution.singular
    assert not solution.indefinite
    np.testing.assert_allclose(solution.weights, 1 / (2 + 1e-5), rtol=1e-9)


def test_a_matrix_of_zeros_gives_zeros_without_a_warning():
    solution = solve(np.zeros((2, 2)), np.ones((2, 1)))
    assert solution.singular
    assert solution.condition_number == np.inf
    np.testing.assert_array_equal(solution.weights, 0)


def test_a_column_that_fills_a_millionth_of_its_range_is_not_lost():
    x = np.random.default_rng(3).uniform(-1, 1, (200, 3)) * [1.0, 1e-6, 1.0]
    weights = np.array([[0.5], [2e5], [-1.0]])
    solution = solve(x.T @ x, x.T @ (x @ weights))
    assert not solution.singular
    np.testing.assert_allclose(solution.weights, weights, rtol=1e-3)
