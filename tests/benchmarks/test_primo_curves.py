"""PRIMO's curves and claims: every method measured, on outcomes that are the same, and every claim judged by what is found."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.paper_primo import claims, data, descent, plots
from benchmarks.paper_primo.curves import METHODS, ONE_BY_ONE, Point, Target, against_outcomes, against_rows
from dprelease.arrays import Floats
from tests.benchmarks.primo import box

TARGET = Target(1.0, 1e-5)


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> list[Point]:
    """R^2 of all methods on a small table, at l = 1 and 8."""
    monkeypatch.setattr(descent, "MANY_STEPS", 5)
    monkeypatch.setattr(descent, "STEPS", (2,))
    features = box(120, 4, np.random.default_rng(15))
    return against_outcomes(features, features.outcomes(8, np.random.default_rng(16)), (1, 8), TARGET, 3, 0)


@pytest.fixture
def grown() -> list[Point]:
    """The same of those that are measured against n, at n = 60 and 120."""
    return against_rows(box(120, 4, np.random.default_rng(17)), (60, 120), 3, TARGET, 2, 1)


def test_every_method_is_measured_and_every_claim_judged_twice(points: list[Point], grown: list[Point]) -> None:
    for point in points:
        assert set(point.r_squared) == set(METHODS)
        assert {len(values) for values in point.r_squared.values()} == {3}
    assert [point.rows for point in grown] == [60, 120]
    found = claims.of_outcomes(points, 4) + claims.of_one_outcome(points, points) + claims.of_laws(points, points)
    found += claims.of_rows([grown])
    lines = claims.table(found)
    assert all(line.count("|") == 5 for line in lines)
    assert len(lines) == 2 + len(found) / 2
    assert points[0].plain()["l"] == 1


def test_methods_that_fit_one_at_a_time_are_compared_on_the_outcomes_they_were_given() -> None:
    features = data.gaussian(50, 3, np.random.default_rng(21))
    y = features.outcomes(10, np.random.default_rng(22))
    sums, few = data.Sums.of(features.x, y), data.Sums.of(features.x, y[:, :8])
    point, nothing = Point("made up", 50, 10), np.zeros((3, 10))
    point.note("ols", sums, sums.least_squares())
    point.note("gauss", sums, nothing)
    point.note("naive", few, few.least_squares())
    assert point.gap("ols", "naive")[0] == pytest.approx(0, abs=1e-6)
    assert point.pair("gauss", "naive")[0] == pytest.approx([few.r_squared(nothing[:, :8]).mean()])
    assert point.pair("ols", "gauss")[0] == pytest.approx([sums.r_squared(sums.least_squares()).mean()])


def test_no_method_exceeds_least_squares_on_the_same_outcomes(points: list[Point]) -> None:
    for point, method in itertools.product(points, ONE_BY_ONE):
        best, found = point.pair("ols", method)
        assert np.all(found <= best + 1e-6)


def test_a_lead_shrinks_only_if_there_was_one_and_a_loser_below_zero_is_marked() -> None:
    def point(count: int, descent: float, gauss: float) -> Point:
        values = {"descent": descent, "descent plain": descent, "gauss": gauss, "gauss p": gauss}
        noise = np.array([-0.01, 0.0, 0.01])
        lists = {name: lasting(noise, value) for name, value in values.items()}
        return Point("made up", 10, count, lists, lists)

    def less_ahead(first: Point, last: Point) -> set[bool]:
        found = claims.of_one_outcome([first, last], [first, last])
        return {claim.holds for claim in found if "less ahead" in claim.words}

    assert less_ahead(point(1, 0.3, 0.1), point(100, 0.1, 0.05)) == {True}
    assert less_ahead(point(1, 0.1, 0.3), point(100, -0.4, 0.05)) == {False}


def test_claims_say_where_the_loser_is_worse_than_predicting_zero(points: list[Point]) -> None:
    found = claims.of_outcomes(points, 4)
    assert any(claim.idle for claim in found)
    assert all(claim.idle == claim.found.endswith(claims.WORTHLESS) for claim in found)


def test_log_gaps_have_the_error_of_paired_releases() -> None:
    point = Point("made up", 10, 1, ratio={"a": [2.0, 2.2], "b": [1.0, 1.1]})
    gap, error = point.log_gap("a", "b")
    assert gap == pytest.approx(math.log(2))
    assert error == pytest.approx(0, abs=1e-12)


@pytest.mark.slow
def test_plots_are_drawn(points: list[Point], grown: list[Point], tmp_path: Path) -> None:
    plots.against_outcomes([points], tmp_path / "l.png")
    plots.against_rows([grown], tmp_path / "n.png")
    plots.one_outcome(points, points, tmp_path / "one.png")
    assert len(list(tmp_path.glob("*.png"))) == 3


def test_columns_of_a_ball_have_no_bounds_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    normal = data.gaussian(400, 3, np.random.default_rng(1))
    monkeypatch.setattr(descent, "MANY_STEPS", 5)
    monkeypatch.setattr(descent, "STEPS", (2,))
    (point,) = against_outcomes(normal, normal.outcomes(2, np.random.default_rng(18)), (2,), TARGET, 2, 0)
    assert set(METHODS) - set(point.r_squared) == {"proj columns"}


def lasting(values: Floats, start: float = 0.0) -> list[float]:
    return [start + value for value in values]


def test_a_method_is_ahead_from_the_least_count_after_which_it_stays_so() -> None:
    noise = np.array([-0.01, 0.0, 0.01])
    leads = (0.2, -0.1, 0.1, 0.3)
    points = [
        Point("made up", 10, count, {"a": lasting(noise, lead), "b": lasting(noise[::-1])})
        for count, lead in zip((1, 10, 100, 1000), leads, strict=True)
    ]
    assert claims.first_ahead(points, "a", "b") == 100
    assert claims.first_ahead(points, "b", "a") == math.inf
    assert [points[0].ahead(*pair) for pair in itertools.permutations("ab")] == [True, False]
