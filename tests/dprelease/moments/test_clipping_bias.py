"""What clipping leaves of normal rows: against rows that are drawn and clipped."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dprelease.data.ranges import Range
from dprelease.mechanisms.moments.clipping import Clipping, Norm
from dprelease.mechanisms.moments.clipping_bias import Ball, balls, is_biased, within
from dprelease.mechanisms.moments.entries import Layout
from tests.support.specs import categorical, numeric


@pytest.mark.parametrize("numbers", [1, 2, 4, 12])
@pytest.mark.parametrize("k", [0.0, 1.0, 2.0])
def test_parts_that_are_kept(numbers: int, k: float) -> None:
    rows = np.random.default_rng(numbers).normal(size=(200_000, numbers))
    radius2 = numbers + k * math.sqrt(2 * numbers)
    norms2 = (rows**2).sum(axis=1)
    drawn = np.minimum(norms2, radius2) / numbers
    assert abs(within(numbers, radius2) - drawn.mean()) < 5 * drawn.std() / math.sqrt(len(rows))


def test_known_values() -> None:
    assert [round(within(1, 1 + k * math.sqrt(2)), 2) for k in (0, 1, 2, 4)] == [0.52, 0.80, 0.91, 0.98]
    assert [round(within(12, 12 + k * math.sqrt(24)), 2) for k in (0, 1, 2)] == [0.84, 0.95, 0.99]


def test_balls_and_whether_they_are_so_small_that_it_matters() -> None:
    columns = (numeric("x"), numeric("y"), categorical("b", "yes"), numeric("z"))
    clipping = Clipping(
        constant=100,
        weights=(300, 300, 100, 300),
        ranges=tuple(map(Range.whole, "xyz")),
        norms=(Norm(columns=("x", "y"), squared=2 * 100**2),),
        square_weight="1/2",
    )
    assert is_biased(clipping, Layout(columns))
    reach = 2**0.5 * 100 / 300
    together, alone = balls(clipping, Layout(columns))
    assert (together.places, alone) == ((1, 2), Ball((4,), (1.0,)))
    np.testing.assert_allclose(together.radii, reach)
    gentle = Norm(columns=("x", "y"), squared=int((2 + 2 * math.sqrt(4)) * 100**2) - 1)
    assert not is_biased(clipping.model_copy(update={"norms": (gentle,)}), Layout(columns))
