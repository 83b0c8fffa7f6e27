"""Sensitivity of ridge weights: printed values, attained where it is exact, and never exceeded by a search.

Ridge weights in integers: as rationals give them, however badly conditioned the donors are.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from dprelease.mechanisms.synthetic_control.ridge import (
    WEIGHT_BITS,
    WORST_CONDITION,
    ridge_weights,
    root_up,
    squared_donors,
    squared_weights,
    squared_weights_on_grid,
)


def weights(donors: np.ndarray, target: np.ndarray, penalty: float) -> np.ndarray:
    """f of the objective |y - X'f|^2/T0 + lambda |f|^2/(2 T0)."""
    return np.linalg.solve(donors @ donors.T + penalty / 2 * np.eye(len(donors)), donors @ target)


def bound(before: int, penalty: float, norm2: float | None = None, q: int = 1) -> float:
    norm = Fraction(before) if norm2 is None else Fraction(norm2)
    return math.sqrt(squared_weights(norm, before, Fraction(penalty), q))


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [(0.1, 4.472136), (1, 1.414214), (2, 1.000000), (5, 0.599319342), (10, 0.341565026), (50, 0.077307)],
)
def test_values_for_a_target_at_the_bounds(ratio: float, expected: float) -> None:
    for before in (1, 10, 100):
        assert bound(before, ratio * before) == pytest.approx(
            expected, abs=1e-6 if expected != round(expected, 9) else 5e-7
        )


def test_it_is_attained_by_a_donor_and_its_mirror_image() -> None:
    donor, target = np.full((1, 10), math.sqrt(0.5)), np.ones(10)
    found = weights(donor, target, 10.0)
    assert found[0] == pytest.approx(0.7071067811865, abs=1e-13)
    assert abs(weights(-donor, target, 10.0) - found)[0] == pytest.approx(math.sqrt(2), abs=1e-12)
    assert bound(10, 10) == pytest.approx(math.sqrt(2), abs=1e-12)


def test_the_weights_are_those_of_the_stated_objective() -> None:
    rng = np.random.default_rng(1)
    donors, target, penalty, before = rng.uniform(-1, 1, (4, 7)), rng.uniform(-1, 1, 7), 3.0, 7
    found = weights(donors, target, penalty)
    gradient = 2 / before * donors @ (donors.T @ found - target) + penalty / before * found
    np.testing.assert_allclose(gradient, 0, atol=1e-13)


def test_a_search_never_exceeds_it() -> None:
    rng = np.random.default_rng(2)
    for _ in range(4000):
        donors, before = int(rng.integers(1, 7)), int(rng.integers(1, 7))
        penalty = float(before * 10 ** rng.uniform(-1.5, 1.5))
        target = rng.uniform(-1, 1, before) if rng.random() < 0.5 else rng.choice([-1.0, 1.0], before)
        first = rng.uniform(-1, 1, (donors, before)) * rng.uniform(0, 1)
        second = first.copy()
        second[0] = rng.choice([-1.0, 1.0], before) if rng.random() < 0.5 else rng.uniform(-1, 1, before)
        if rng.random() < 0.3:
            second[0] = -first[0]
        one, two = weights(first, target, penalty), weights(second, target, penalty)
        norm2 = float(target @ target)
        assert np.linalg.norm(one - two) <= bound(before, penalty, norm2) * (1 + 1e-9)
        assert np.linalg.norm(one) <= math.sqrt(norm2 / (2 * penalty)) * (1 + 1e-9)


def test_several_series_of_one_person() -> None:
    rng = np.random.default_rng(3)
    for _ in range(500):
        penalty = float(4 * 10 ** rng.uniform(-1, 1.5))
        first, second = rng.choice([-1.0, 1.0], (3, 4)), rng.choice([-1.0, 1.0], (3, 4))
        first[0] = second[0]
        target = np.ones(4)
        moved = np.linalg.norm(weights(first, target, penalty) - weights(second, target, penalty))
        assert moved <= bound(4, penalty, q=2) * (1 + 1e-9)
    assert bound(4, 4, q=3) == bound(4, 4)
    assert bound(4, 4000, q=2) == 2 * bound(4, 4000)


def test_noise_for_epsilon_one() -> None:
    """(1, 1e-6), lambda = T0, three times after, equal halves of mu^2."""
    from dprelease.privacy.gaussian import mu_of

    half = mu_of(1.0, 1e-6) / math.sqrt(2)
    assert bound(10, 10) / half == pytest.approx(8.44936, abs=1e-5)
    assert math.sqrt(squared_donors(3, 1, 0)) / half == pytest.approx(20.6966, abs=1e-4)


def test_it_is_at_least_eight_times_below_the_papers() -> None:
    for donors in (1, 10, 100, 1000):
        assert 4 * math.sqrt(8 + donors) / bound(10, 10) >= 8


def test_the_grid_has_room_for_rounding() -> None:
    squared = Fraction(2)
    assert math.isqrt(squared_weights_on_grid(squared, 10)) >= math.sqrt(2) * 2**24 + 1 + math.sqrt(10)
    assert [root_up(Fraction(each)) for each in (0, 1, 2, 4, 5)] == [0, 1, 2, 2, 3]
    assert root_up(Fraction(9, 4)) == 2


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
