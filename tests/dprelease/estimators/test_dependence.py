"""The prior of how variables depend on each other: its density by regressions written out, its gradients, singular points."""

import numpy as np
import pytest

from dprelease.arrays import Floats
from dprelease.estimators.evidence.density import Dependence

SIZE = 4


def roots(spread: float = 1.0) -> Floats:
    """T of three points."""
    random = np.random.default_rng(1)
    rows: Floats = np.tril(spread * random.normal(size=(3, SIZE, SIZE)))
    diagonal = np.einsum("jaa->ja", rows)
    diagonal[:] = 0.5 + np.abs(diagonal)
    return rows


def at(triangle: Floats) -> Dependence:
    return Dependence.of(triangle, np.linalg.norm(triangle, axis=2))


def test_the_density_is_cauchys_of_regressions_on_the_earlier_variables():
    triangle = roots()
    for point, found in zip(triangle, at(triangle).value(), strict=True):
        u, expected = point / np.linalg.norm(point, axis=1)[:, None], 0.0
        for row in range(SIZE):
            earlier = u[:row, :row]
            psi = np.linalg.solve(earlier @ earlier.T, earlier @ point[row, :row])
            expected += np.log1p(psi**2).sum() + np.linalg.slogdet(earlier)[1]
        assert found == pytest.approx(expected)


def test_it_bends_as_the_density_does_where_variables_are_unrelated():
    """By differences of values in F, the part of T below its diagonal, with the diagonal, and hence U, as good as held."""
    triangle = roots(1e-4)[:1]
    blocks, step = at(triangle).bend(), 1e-3
    for row in range(SIZE):
        hessian = np.zeros(SIZE)
        for column in range(row):
            ahead, behind = triangle.copy(), triangle.copy()
            ahead[:, row, column] += step
            behind[:, row, column] -= step
            values = [
                np.log1p(Dependence.of(each, np.linalg.norm(triangle, axis=2)).psi ** 2).sum()
                for each in (ahead, triangle, behind)
            ]
            hessian[column] = (values[0] - 2 * values[1] + values[2]) / step**2
        np.testing.assert_allclose(np.diag(blocks[row]), hessian, atol=1e-4)
