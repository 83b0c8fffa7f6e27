"""The public side: its decomposition, and by how much its coordinates shrink to fit what bounded rows can give."""

import numpy as np
import pytest

from dprelease.errors import InvalidInput
from dprelease.estimators.moments.public_columns import PublicSide

SHAPES = [(40, 5), (5, 40), (12, 12), (300, 1), (1, 7)]


def public(rows: int, columns: int, condition: float = 10.0, seed: int = 0) -> np.ndarray:
    """A matrix with singular values from 1 down to 1/condition."""
    generator = np.random.default_rng(seed)
    left, values, right = np.linalg.svd(generator.normal(size=(rows, columns)), full_matrices=False)
    return left * np.geomspace(1, 1 / condition, len(values)) @ right


def problem(shape: tuple[int, int], noise: float, seed: int = 0, columns: int = 30) -> tuple[np.ndarray, ...]:
    """(P, C~, radius) with private columns of different radii, some of them full."""
    generator = np.random.default_rng(seed)
    p = public(*shape, seed=seed)
    radius = np.sqrt(shape[0]) * generator.uniform(0.1, 2, columns)
    z = generator.normal(size=(shape[0], columns))
    z *= radius * generator.uniform(0.2, 1, columns) / np.linalg.norm(z, axis=0)
    return p, p.T @ z + noise * generator.normal(size=(shape[1], columns)), radius


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("noise", [1e-3, 1.0, 1e3])
def test_coordinates_shrink_onto_their_radius_and_only_if_they_are_longer(shape: tuple[int, int], noise: float):
    p, noisy, radius = problem(shape, noise)
    side = PublicSide.of_rows(p)
    along = side.right.T @ noisy
    multiplier = side.multipliers(along, radius)
    lengths, given = (
        np.linalg.norm(shrunk * along / side.singular[:, None], axis=0) for shrunk in (side.shrinkage(multiplier), 1.0)
    )
    np.testing.assert_array_equal(multiplier > 0, given > radius)
    np.testing.assert_allclose(lengths, np.minimum(given, radius), rtol=1e-9)


def test_what_rounding_leaves_of_constants_has_rank_zero():
    p = np.tile([0.1, -0.7, 0.3], (1000, 1))
    gram, sums = p.T @ p, p.sum(axis=0)
    centred = gram - np.outer(sums, sums) / 1000
    assert np.linalg.eigvalsh(centred)[-1] > 0
    assert len(PublicSide.of_gram(centred, gram.max()).singular) == 0
    varied = centred + np.diag([1e-8, 0.0, 0.0])
    assert len(PublicSide.of_gram(varied, gram.max()).singular) == 1


def test_bad_input_is_refused():
    for values in (np.zeros((0, 3)), np.zeros((3, 0)), np.zeros(3), [[np.nan]], [[np.inf]]):
        with pytest.raises(InvalidInput):
            PublicSide.of_rows(values)
    for gram in (np.zeros((2, 3)), np.zeros((0, 0)), [[np.nan]]):
        with pytest.raises(InvalidInput):
            PublicSide.of_gram(gram)
