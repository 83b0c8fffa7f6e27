"""Columns whose rows lie in heaps: what is printed of them holds, and what the counts show of rows beyond a window is exact."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from dprelease.arrays import Floats
from dprelease.data.bounding import BoundedRows, bound
from dprelease.data.ranges import STEPS
from dprelease.mechanisms.ranges.beyond import DECAY, LONG, hidden, octaves, shown
from dprelease.mechanisms.ranges.calibration import CELLS
from dprelease.mechanisms.ranges.distribution import CELL, EDGES, Distribution
from dprelease.mechanisms.ranges.prefix_sums import FRACTION_BITS, factor
from dprelease.mechanisms.ranges.released import Ranges
from dprelease.mechanisms.ranges.rounds import Row
from dprelease.privatization import privatize
from dprelease.release.release import Release
from tests.support.noise import SeededNoise, ZeroNoise
from tests.support.specs import build_spec, numeric

HEAPS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "stays": lambda random, n: random.choice([1.0, 2.0, 3.0], n),
    "visits": lambda random, n: np.where(random.random(n) < 0.1, random.integers(1, 11, n), 0.0),
    "diagnosis": lambda random, n: np.where(random.random(n) < 0.03, 10.0, 0.0),
    "doses": lambda random, n: np.where(random.random(n) < 0.3, 9.0, 1.5),
    "grades": lambda random, n: np.where(random.random(n) < 0.5, 5.5, 6.0),
    "scores": lambda random, n: np.rint(random.normal(5.5, 1.8, n).clip(0, 10)),
}
"""Columns in bounds 0 to 10."""
COLUMNS = tuple(numeric(name, 0.0, 10.0) for name in HEAPS)
CENTRE, SCALE = -0.5 + CELL / 2, 0.02


def released(rows: int, epsilon: float, seed: int) -> tuple[Ranges, dict[str, Floats]]:
    """One release of fresh patients, and their cells."""
    spec = build_spec({"north": COLUMNS}, mechanism="ranges", rows=rows, epsilon=epsilon, delta=1e-6, grid_bits=16)
    random = np.random.default_rng(seed)
    cells = {name: draw(random, rows) for name, draw in HEAPS.items()}
    block = privatize(BoundedRows(bound(cells, COLUMNS, 16), COLUMNS, 16), spec, "north", SeededNoise(seed))
    return Release(spec, {"north": block}, ()).ranges(), cells


@pytest.mark.parametrize(("rows", "epsilon"), [(900, 0.32), (900, 2.0), (5000, 1.0)])
def test_mean_and_spread_hold_within_two_errors(rows: int, epsilon: float) -> None:
    """Of 12 x 6 columns at most 2 (1 - .954) are to miss in mean or spread, plus five standard errors of so many."""
    missed = []
    for seed in range(12):
        found, cells = released(rows, epsilon, seed)
        for each in found.columns:
            told = (each.mean - cells[each.column.name].mean()) / each.mean_error
            spread = (each.deviation - cells[each.column.name].std()) / each.deviation_error
            missed.append(max(abs(told), abs(spread)) > 2)
    rate = 2 * (1 - 0.954)
    assert sum(missed) <= len(missed) * rate + 5 * math.sqrt(len(missed) * rate * (1 - rate))


def test_two_far_heaps_are_in_range_where_counts_show_them() -> None:
    """At 5,000 patients noise of a count is 1 % of the rows, and either heap has 30."""
    for seed in range(5):
        found, cells = released(5000, 2.0, seed)
        range_ = found.of("doses").range
        assert range_.half_width / STEPS * 5 > 2 * cells["doses"].std()
        assert abs(5 + 5 * range_.centre / STEPS - cells["doses"].mean()) < 0.5 * cells["doses"].std()


def test_the_window_reaches_a_cell_around_its_centre() -> None:
    column = (numeric("constant", 0.0, 10.0),)
    spec = build_spec({"north": column}, mechanism="ranges", rows=500, epsilon=20.0, grid_bits=16)
    rows = BoundedRows(bound({"constant": np.full(500, 7.01)}, column, 16), column, 16)
    (block,) = privatize(rows, spec, "north", ZeroNoise())
    first = Row.of(block.values[0]).first
    assert 4 * first.scale >= CELL * STEPS
    (found,) = Release(spec, {"north": (block,)}, ()).ranges().columns
    assert found.mean == pytest.approx(7.01, abs=0.01)
    assert found.deviation <= 2 * found.deviation_error + 1e-3


def counted(cells: Floats, noise: float) -> Distribution:
    """The counts of (n,) cells without noise, read as if they had noise of this share of the rows."""
    histogram = np.histogram(cells, EDGES)[0]
    return Distribution.of(factor(CELLS) @ histogram, len(cells), noise * len(cells) * 2**FRACTION_BITS)


def test_without_noise_rows_beyond_a_window_are_counted_whole() -> None:
    """Rows at middles of cells: trapezoids are exact for them, but for E x^2, which has a twelfth of a cell squared more."""
    middles = (EDGES[:-1] + EDGES[1:]) / 2
    cells = np.random.default_rng(1).choice(middles, 2000)
    law = counted(cells, 1e-12)
    gains, _ = shown(octaves(law, CENTRE, SCALE), law)
    clipped = np.clip(cells, CENTRE - 4 * SCALE, CENTRE + 4 * SCALE)
    assert gains[0] == pytest.approx(cells.mean() - clipped.mean(), abs=CELL / 4)
    square = ((cells - CENTRE) ** 2).mean() - ((clipped - CENTRE) ** 2).mean()
    assert gains[1] == pytest.approx(square, abs=CELL / 4)


def test_the_noise_of_an_octave_is_that_of_its_counts() -> None:
    """Gains of 400 draws of noise have the stated standard deviation within 5 s.e. 1/sqrt(800)."""
    random, rows, scale = np.random.default_rng(2), 1000, 40_000.0
    exact = factor(CELLS) @ np.full(CELLS, 4)
    found = []
    for _ in range(400):
        law = Distribution.of(exact + np.rint(random.normal(0, scale, CELLS - 1)).astype(np.int64), rows, scale)
        found.append(octaves(law, CENTRE, SCALE))
    for at, each in enumerate(found[0]):
        measured = np.std([draw[at].gains for draw in found], axis=0)
        np.testing.assert_allclose(measured, each.sds, rtol=5 / math.sqrt(800))


def test_a_heap_hides_what_noise_does_and_a_law_only_a_long_tail() -> None:
    law = counted(np.full(1000, CENTRE), 0.05)
    outside, variance = octaves(law, CENTRE, SCALE), SCALE**2
    anywhere, tail = (hidden(outside, law, variance, heap=heap) for heap in (True, False))
    assert np.all(anywhere > 5 * tail)
    most = LONG * math.sqrt(law.noise_sd.max()) * variance / (1 - DECAY)
    assert 0 < tail[1] <= math.sqrt(2) * most
    assert 0 < tail[0] <= math.sqrt(2) * most / (8 * SCALE)
    clear = counted(np.full(1000, CENTRE), 1e-12)
    np.testing.assert_allclose(hidden(octaves(clear, CENTRE, SCALE), clear, variance, heap=True), 0, atol=1e-9)
