"""What benchmarks without public bounds are made of: bounds from decades, the rivals' sensitivities, ranges before moments."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks import _plug_ours, _plug_rivals
from benchmarks._accuracy_problem import Problem
from benchmarks._accuracy_ranges import bounded_rows, by_ranges, in_ranges, published_ranges
from benchmarks._accuracy_tables import TABLES
from dprelease.data.columns import NumericColumn

NO_NOISE = 1e9


@pytest.fixture(scope="module")
def redbook() -> Problem:
    (table,) = (table for table in TABLES if table.name == "redbook")
    return Problem.of(table)


def test_bounds_without_noise_are_the_edges_of_the_decades_cells_around_two_quantiles() -> None:
    cells = np.concatenate([np.full(5, -70.0), np.linspace(2, 30, 90), np.full(5, 1e12)])
    lower, upper = _plug_ours.noisy_bounds(cells, NO_NOISE, np.random.default_rng(1))
    assert [lower, upper] == pytest.approx([-100, 1e9])
    inner = cells[3:-3]  # two rows beyond either end are below the least share
    lower, upper = _plug_ours.noisy_bounds(inner, NO_NOISE, np.random.default_rng(1))
    assert [lower, upper] == pytest.approx([10**0.25, 10**1.5])


def test_noise_moves_the_quantiles_inwards() -> None:
    """Of noise of 8 % of the rows a fifth may lie beyond either bound."""
    cells = np.repeat([2e-3, 2.0, 2e3], [50, 900, 50])
    lower, upper = _plug_ours.noisy_bounds(cells, 0.04, np.random.default_rng(2))
    assert 2e-3 < lower < 2 < upper < 2e3


def test_coded_rows_come_back_in_the_units_of_their_ranges(redbook: Problem) -> None:
    columns = tuple(
        column.model_copy(update={"lower": column.lower - 1, "upper": column.midpoint, "fill": column.lower})
        for column in redbook.layout.columns
        if isinstance(column, NumericColumn)
    )
    seen = in_ranges(redbook, columns)
    for place, (old, new) in enumerate(zip(redbook.layout.columns, columns, strict=True)):
        assert isinstance(old, NumericColumn)
        cells = old.midpoint + old.half_width * redbook.variables.rows[:, place]
        expected = np.minimum((cells - new.midpoint) / new.half_width, 1)
        assert seen.variables.rows[:, place] == pytest.approx(expected)
    best = redbook.regression("children", redbook.variables).best()
    assert seen.regression("children", seen.variables).best() < best + 1e-9


def test_ranges_of_a_generous_budget_are_means_and_standard_deviations(redbook: Problem) -> None:
    ranges = published_ranges(bounded_rows(redbook), 300.0, np.random.default_rng(3))
    for found in ranges:
        cells = redbook.outcomes[found.name]
        assert found.centre / 2**24 == pytest.approx(cells.mean(), abs=0.02)
        if found.name != "affairs":  # whose tail the second round cuts off
            assert found.half_width / 2**24 == pytest.approx(3 * cells.std(), rel=0.05)


def test_ranges_first_find_the_relation(redbook: Problem) -> None:
    scores = by_ranges(redbook, ["yrs_married"], 2.0, 1, np.random.default_rng(4))
    assert scores["yrs_married"][0] > 0.8


def test_boosted_adassp_without_noise_is_least_squares_on_clipped_features() -> None:
    random = np.random.default_rng(5)
    x = np.column_stack([np.ones(2000), random.normal(size=(2000, 3))])
    y = _plug_rivals.clipped(x) @ np.array([0.3, 0.2, -0.4, 0.1]) + random.normal(size=2000) / 10
    model = _plug_rivals.boosted_adassp(x, y, NO_NOISE, random)
    assert model == pytest.approx(np.linalg.lstsq(_plug_rivals.clipped(x), y, rcond=None)[0], abs=1e-3)


def test_boosted_adassp_adds_the_noise_of_all_its_rounds() -> None:
    """One feature of a large Gram matrix: the model's variance is that of the rounds' sum, and each forgets the last."""
    x, y, mu = np.ones((4000, 1)), np.zeros(4000), 2.0
    models = [_plug_rivals.boosted_adassp(x, y, mu, np.random.default_rng(seed))[0] for seed in range(400)]
    expected = math.sqrt(3 * _plug_rivals.ROUNDS) / mu / 4000
    assert np.std(models) == pytest.approx(expected, rel=5 / math.sqrt(2 * 400))


def test_a_model_of_tukey_lies_among_the_deep_ones() -> None:
    random = np.random.default_rng(6)
    x = np.column_stack([np.ones(20_000), random.normal(size=(20_000, 2))])
    y = x @ np.array([1.0, 2.0, -3.0]) + random.normal(size=20_000)
    model = _plug_rivals.tukey(x, y, 1000, math.log(3), 1e-5, random)
    assert model is not None
    assert model == pytest.approx([1, 2, -3], abs=0.2)


def test_tukey_refuses_too_few_models() -> None:
    random = np.random.default_rng(7)
    x, y = np.column_stack([np.ones(400), random.normal(size=(400, 3))]), random.normal(size=400)
    assert _plug_rivals.tukey(x, y, 40, math.log(3), 1e-5, random) is None
