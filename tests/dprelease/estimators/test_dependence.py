"""The prior of how variables depend on each other: its density by regressions written out, its gradients, singular points."""

from __future__ import annotations

import numpy as np
import pytest

from dprelease.estimators.moments.correlation_prior import bend, dependence
from dprelease.release.release import Floats

SIZE = 4


def roots(spread: float = 1.0) -> tuple[Floats, Floats]:
    """F and U of three points."""
    random = np.random.default_rng(1)
    rows = np.tril(spread * random.normal(size=(3, SIZE, SIZE)))
    diagonal = np.einsum("jaa->ja", rows)
    diagonal[:] = 0.5 + np.abs(diagonal)
    return np.tril(rows, -1), rows / np.linalg.norm(rows, axis=2)[:, :, None]


def test_the_density_is_cauchys_of_regressions_on_the_earlier_variables():
    free, u = roots()
    for point in range(3):
        expected = 0.0
        for row in range(SIZE):
            earlier = u[point, :row, :row]
            psi = np.linalg.solve(earlier @ earlier.T, earlier @ free[point, row, :row])
            expected += np.log1p(psi**2).sum() + np.linalg.slogdet(earlier)[1]
        assert dependence(free, u)[0][point] == pytest.approx(expected)


@pytest.mark.parametrize("which", [0, 1])
def test_gradients_are_those_of_the_value(which: int):
    point = roots()
    gradient, step = dependence(*point)[1 + which], 1e-6
    for row, column in np.argwhere(np.tril(np.ones((SIZE, SIZE)), which - 1)):
        ahead, behind = [each.copy() for each in point], [each.copy() for each in point]
        ahead[which][:, row, column] += step
        behind[which][:, row, column] -= step
        slope = (dependence(*ahead)[0] - dependence(*behind)[0]) / (2 * step)
        np.testing.assert_allclose(gradient[:, row, column], slope, rtol=1e-6, atol=1e-7)
    assert (np.triu(gradient, which) == 0).all()


def test_it_bends_as_the_density_does_where_variables_are_unrelated():
    free, u = roots(1e-4)
    blocks, step = bend(free[:1], u[:1]), 1e-5
    for row in range(SIZE):
        hessian = np.zeros((SIZE, SIZE))
        for column in range(row):
            ahead, behind = free[:1].copy(), free[:1].copy()
            ahead[:, row, column] += step
            behind[:, row, column] -= step
            hessian[column] = (dependence(ahead, u[:1])[1] - dependence(behind, u[:1])[1])[0, row] / (2 * step)
        np.testing.assert_allclose(blocks[row], hessian, atol=1e-4)


def test_a_point_that_no_rows_can_have_is_infinitely_unlikely_and_no_error():
    free, u = roots()
    u[0, 1, 1] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        values = dependence(free, u)[0]
    assert not np.isfinite(values[0])
    assert np.isfinite(values[1:]).all()
