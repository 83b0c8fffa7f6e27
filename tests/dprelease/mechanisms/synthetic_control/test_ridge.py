"""Ridge weights in integers: as rationals give them, however badly conditioned the donors are."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dprelease.mechanisms.synthetic_control.ridge import WORST_CONDITION, ridge_weights
from dprelease.mechanisms.synthetic_control.sensitivity import WEIGHT_BITS


def exact(donors: np.ndarray, target: tuple[int, ...], penalty: Fraction, grid_bits: int) -> list[Fraction]:
    """f in rationals, by elimination."""
    size = len(target)
    gram = donors.T.astype(object) @ donors.astype(object)
    rows = [[Fraction(int(each)) for each in gram[row]] + [Fraction(target[row])] for row in range(size)]
    for row in range(size):
        rows[row][row] += penalty / 2 * 4**grid_bits
    for pivot in range(size):
        rows[pivot] = [each / rows[pivot][pivot] for each in rows[pivot]]
        for other in set(range(size)) - {pivot}:
            rows[other] = [a - rows[other][pivot] * b for a, b in zip(rows[other], rows[pivot], strict=True)]
    solution = [row[-1] for row in rows]
    return [sum((int(code) * x for code, x in zip(donor, solution, strict=True)), Fraction(0)) for donor in donors]


@pytest.mark.parametrize("penalty", ["1/1000000", "1/7", "5", "100000"])
@pytest.mark.parametrize(("donors", "before"), [(2, 1), (3, 9), (12, 6)])
def test_they_are_those_of_rationals(penalty: str, donors: int, before: int) -> None:
    rng = np.random.default_rng(4)
    codes = rng.integers(-(1 << 16), (1 << 16) + 1, (donors, before)).astype(np.int32)
    codes[-1] = codes[0]  # as alike as donors can be
    target = tuple(int(each) for each in rng.integers(-(1 << 16), (1 << 16) + 1, before))
    found = ridge_weights(codes, target, Fraction(penalty), 16)
    true = exact(codes, target, Fraction(penalty), 16)
    off = [Fraction(int(each)) - other * 2**WEIGHT_BITS for each, other in zip(found, true, strict=True)]
    assert max(map(abs, off)) <= 1  # half a step before rounding, and half by it


@pytest.mark.parametrize(("donors", "before", "grid_bits"), [(2, 1000, 1), (300, 300, 16), (1000, 40, 24)])
def test_the_worst_condition_that_is_allowed_converges(donors: int, before: int, grid_bits: int) -> None:
    penalty = Fraction(2 * donors * before, WORST_CONDITION)
    codes = np.full((donors, before), 1 << grid_bits, np.int32)
    codes[0, 0] = 0
    target = (*[1 << grid_bits] * (before - 1), -(1 << grid_bits))
    found = ridge_weights(codes, target, penalty, grid_bits) / 2.0**WEIGHT_BITS
    assert np.linalg.norm(found) <= np.sqrt(before / (2 * float(penalty))) * (1 + 1e-6)
    scaled, y = codes / 2.0**grid_bits, np.array(target) / 2.0**grid_bits
    gradient = scaled @ (scaled.T @ found - y) + float(penalty) / 2 * found
    assert np.abs(gradient).max() <= donors * before * 2.0**-WEIGHT_BITS
