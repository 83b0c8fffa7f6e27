"""What benchmarks without public bounds are made of: bounds from decades, the rivals' sensitivities, ranges before moments."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from benchmarks.accuracy.problem import Problem
from benchmarks.accuracy.ranges import bounded_rows, by_ranges, in_ranges, published_ranges
from benchmarks.accuracy.tables import TABLES
from benchmarks.plug_and_play import ours as plug_ours
from benchmarks.plug_and_play import rivals as plug_rivals
from benchmarks.plug_and_play.tables import Schema
from dprelease.data.columns import NumericColumn

NO_NOISE = 1e9


@pytest.fixture(scope="module")
def redbook() -> Problem:
    (table,) = (table for table in TABLES if table.name == "redbook")
    return Problem.of(table)


def test_a_table_without_bounds_is_fitted_and_predicted() -> None:
    """Lengths of some 1e-4 and counts of some 1e5, of which nothing is declared; one cell is out of all proportion."""
    schema = Schema("made up", "", {"a": ("length",), "b": ("count",), "c": ("cost",)}, "cost")
    random = np.random.default_rng(4)
    length, count = 1e-4 * random.normal(5, 1, 4000), random.gamma(4, 3e4, 4000)
    frame = pd.DataFrame({"length": length, "count": count, "cost": 2e7 * length + 0.02 * count})
    frame.loc[0, "count"] = 1e200
    train, test = frame.iloc[:3600], frame.iloc[3600:]
    predicted = plug_ours.predictions(schema, train, test, 1.0, np.random.default_rng(5))
    cost = test["cost"].to_numpy(np.float64)
    assert np.mean((predicted - cost) ** 2) < 0.1 * np.var(cost)


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
    for found in ranges.ranges:
        cells = redbook.outcomes[found.name]
        assert found.centre / 2**24 == pytest.approx(cells.mean(), abs=0.02)
        if found.name != "affairs":  # whose tail the second round cuts off
            assert found.deviation * found.half_width / 2**24 == pytest.approx(cells.std(), rel=0.05)


def test_ranges_first_find_the_relation(redbook: Problem) -> None:
    scores = by_ranges(redbook, ["yrs_married"], 2.0, 1, np.random.default_rng(4))
    assert scores["yrs_married"][0] > 0.8


def test_boosted_adassp_without_noise_is_least_squares_on_clipped_features() -> None:
    random = np.random.default_rng(5)
    x = np.column_stack([np.ones(2000), random.normal(size=(2000, 3))])
    y = plug_rivals.clipped(x) @ np.array([0.3, 0.2, -0.4, 0.1]) + random.normal(size=2000) / 10
    model = plug_rivals.boosted_adassp(x, y, NO_NOISE, random)
    assert model == pytest.approx(np.linalg.lstsq(plug_rivals.clipped(x), y, rcond=None)[0], abs=1e-3)


def test_boosted_adassp_adds_the_noise_of_all_its_rounds() -> None:
    """One feature of a large Gram matrix: the model's variance is that of the rounds' sum, and each forgets the last."""
    x, y, mu = np.ones((4000, 1)), np.zeros(4000), 2.0
    models = [plug_rivals.boosted_adassp(x, y, mu, np.random.default_rng(seed))[0] for seed in range(400)]
    expected = math.sqrt(3 * plug_rivals.ROUNDS) / mu / 4000
    assert np.std(models) == pytest.approx(expected, rel=5 / math.sqrt(2 * 400))


def test_a_model_of_tukey_lies_among_the_deep_ones() -> None:
    random = np.random.default_rng(6)
    x = np.column_stack([np.ones(20_000), random.normal(size=(20_000, 2))])
    y = x @ np.array([1.0, 2.0, -3.0]) + random.normal(size=20_000)
    model = plug_rivals.tukey(x, y, 1000, math.log(3), 1e-5, random)
    assert model is not None
    assert model == pytest.approx([1, 2, -3], abs=0.2)


def test_tukey_refuses_too_few_models() -> None:
    random = np.random.default_rng(7)
    x, y = np.column_stack([np.ones(400), random.normal(size=(400, 3))]), random.normal(size=400)
    assert plug_rivals.tukey(x, y, 40, math.log(3), 1e-5, random) is None
