"""The public rule of clipping: what constant and binaries weigh, and which parties clip."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dprelease.data.columns import Column
from dprelease.data.ranges import Range
from dprelease.mechanisms.moments.clipped_sensitivity import Rows
from dprelease.mechanisms.moments.clipping import numbers_of
from dprelease.mechanisms.moments.clipping_rule import (
    REACH,
    Situation,
    choose_clipping,
    deviation,
    relative_noise,
)
from dprelease.mechanisms.moments.entries import Layout
from tests.support.specs import categorical, numeric

PARTIES: dict[str, tuple[Column, ...]] = {
    "a": (numeric("x"), numeric("y"), categorical("b", "yes")),
    "b": (numeric("z"), categorical("g", "u", "v")),
    "c": (categorical("h", "yes"),),
}
COLUMNS = tuple(column for own in PARTIES.values() for column in own)
RANGES = [Range.whole(name) for own in PARTIES.values() for name in numbers_of(own)]
SITUATION = Situation(mu=0.2, rows=2000, parties=3, curious=1, grid_bits=16)


@pytest.mark.parametrize("weights", [{}, {"z": 1.7}])
@pytest.mark.parametrize("k", [0.0, 1.0, 4.0, math.inf])
def test_columns_without_tails_weigh_what_makes_the_noise_of_all_products_least(
    k: float, weights: dict[str, float]
) -> None:
    clipping = choose_clipping(PARTIES, RANGES, SITUATION, weights, k)
    clipping.check(tuple(PARTIES.values()), SITUATION.grid_bits)
    one, fixed = deviation(clipping, COLUMNS), 1 + 3  # the constant, two binaries and a group
    found = clipping.constant / one
    squares = Rows.of(Layout(COLUMNS), clipping).numbers / one**2
    names = {each.name for each in RANGES}
    own = [
        (weight / one / REACH) ** 2
        for column, weight in zip(COLUMNS, clipping.weights, strict=True)
        if column.name in names
    ]
    tried = np.linspace(0.3, 4, 3701)
    noise = (fixed * tried**2 + squares) * (fixed / tried**2 + sum(1 / each for each in own))
    assert found == pytest.approx(tried[np.argmin(noise)], abs=2e-3)
    assert {clipping.weights[2], clipping.weights[4], clipping.weights[5]} == {clipping.constant}


def test_a_party_with_one_number_keeps_two_standard_deviations() -> None:
    clipping = choose_clipping(PARTIES, RANGES, SITUATION, {}, 0.0)
    one = deviation(clipping, COLUMNS)
    assert [norm.squared / one**2 for norm in clipping.norms] == pytest.approx([2, 4], rel=1e-4)


def test_more_patients_are_clipped_less() -> None:
    found = [choose_clipping(PARTIES, RANGES, Situation(0.2, rows, 3, 1, 16), {}) for rows in (500, 2000, 5000, 20_000)]
    kept = [Rows.of(Layout(COLUMNS), each).numbers / deviation(each, COLUMNS) ** 2 for each in found]
    assert kept == sorted(kept)
    assert kept[0] < kept[-1]


def test_noise_of_a_correlation_is_told_in_standard_deviations() -> None:
    clipping = choose_clipping(PARTIES, RANGES, SITUATION, {}, 0.0)
    radii, q2 = 2 + 4, math.sqrt(6 / 3)
    least = (4 * q2 + radii) * math.sqrt(3 / 2) / (0.2 * 2000)
    assert least <= relative_noise(clipping, COLUMNS, SITUATION) <= 1.05 * least  # more for less noise in squares
