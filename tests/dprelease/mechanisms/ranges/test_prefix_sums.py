"""The integer factor of prefix sums: the square root, its constants, and the largest move over all pairs of cells."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from dprelease.mechanisms.ranges.calibration import CELLS
from dprelease.mechanisms.ranges.prefix_sums import FRACTION_BITS, factor, recovery, squared_sensitivity

CONSTANTS = {
    16: (1.65052, 2.289),
    32: (1.78628, 2.6233),
    64: (1.90932, 2.948),
    121: (2.01416, 3.241),
    128: (2.02312, 3.267),
    256: (2.13012, 3.583),
}
"""K to D1 in units of the factor, and the largest standard deviation of a prefix count, in units of 1/mu_1."""


def move2(cells: int, one: int, other: int) -> int:
    """|C' e_i - C' e_j|^2 in Python's integers."""
    first, second = (factor(cells)[:, place].tolist() for place in (one, other))
    return sum((a - b) ** 2 for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("cells", CONSTANTS)
def test_the_constants(cells: int) -> None:
    moved, prefix = CONSTANTS[cells]
    d1 = math.sqrt(squared_sensitivity(cells)) / 2**FRACTION_BITS
    assert d1 == pytest.approx(moved, abs=2e-4)  # those of the factor before it is rounded
    largest = math.sqrt(squared_sensitivity(cells)) * np.linalg.norm(recovery(cells), axis=1).max()
    assert largest == pytest.approx(prefix, abs=2e-3)


@pytest.mark.parametrize("cells", [2, 3, 5, 32, 64])
def test_no_pair_of_cells_moves_further(cells: int) -> None:
    moves = {pair: move2(cells, *pair) for pair in combinations(range(cells), 2)}
    assert max(moves.values()) == squared_sensitivity(cells)


def test_the_worst_pair_is_the_first_cell_and_one_inside() -> None:
    """So neither neighbours nor the two ends may stand for all pairs."""
    worst = max(combinations(range(CELLS), 2), key=lambda pair: move2(CELLS, *pair))
    assert worst == (0, 210)
    assert move2(CELLS, *worst) == squared_sensitivity(CELLS)
    assert move2(CELLS, 0, CELLS - 1) < squared_sensitivity(CELLS)
    assert max(move2(CELLS, at, at + 1) for at in range(CELLS - 1)) < squared_sensitivity(CELLS) / 3


@pytest.mark.parametrize("cells", CONSTANTS)
def test_it_is_a_square_root_of_prefix_sums(cells: int) -> None:
    root = factor(cells)[:, :-1] / 2.0**FRACTION_BITS
    np.testing.assert_allclose(root @ root, np.tril(np.ones((cells - 1, cells - 1))), atol=cells * 2.0**-FRACTION_BITS)
    assert not factor(cells)[:, -1].any()


@pytest.mark.parametrize("cells", [2, 16, 32, CELLS])
def test_prefix_sums_come_back_from_the_rounded_factor(cells: int) -> None:
    counts = np.random.default_rng(1).integers(0, 10**6, cells)
    found = recovery(cells) @ (factor(cells) @ counts)
    np.testing.assert_allclose(found, np.cumsum(counts)[:-1], rtol=1e-12, atol=1e-6)
