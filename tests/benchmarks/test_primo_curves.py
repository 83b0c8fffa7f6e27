"""PRIMO's curves and claims: every method measured, on outcomes that are the same, and every claim judged by what is found.

PRIMO's noise scales: every published number, searches that never find more, and scales that give what they say.
"""

import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.paper_primo import claims, data, descent, plots
from benchmarks.paper_primo.calibration import Scales, covariance_ball, covariance_box, scales, spent
from benchmarks.paper_primo.curves import METHODS, ONE_BY_ONE, Point, Target, against_outcomes, against_rows
from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.calibration import joint
from dprelease.mechanisms.moments.sensitivity import association_bound
from dprelease.privacy.calibration import GRID_VARIANCE, UNBOUNDED
from dprelease.privacy.gaussian import mu_of
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


MU = mu_of(1.0, 1e-5)
ONE = Fraction(1)
positive = st.fractions(min_value=Fraction(1, 10**6), max_value=10**6)
large, small = positive.map(lambda value: value + 1), positive.map(lambda value: value / (value + 1))
shares = st.fractions(min_value=Fraction(1, 1000), max_value=1, max_denominator=1000)
bodies = st.sampled_from(["ball", "box"])


def root(value: Fraction) -> float:
    return math.sqrt(value)


def both(radius: float, outcome: float, first: float, second: float) -> float:
    """mu for |x| <= R, |y| <= S with noise s1 and s2."""
    r2, s2 = Fraction(radius) ** 2, Fraction(str(outcome)) ** 2
    return root(joint(covariance_ball(r2, 2) / Fraction(first) ** 2, association_bound(r2, s2) / Fraction(second) ** 2))


# Numbers of docs/guarantees.md, "Where the papers differ", worked out apart from the code or found by search.


def test_numbers_of_the_gram_matrix() -> None:
    assert root(covariance_ball(ONE, 2)) == pytest.approx(1.41421356, abs=1e-8)
    assert covariance_ball(ONE, 1) == 1
    for columns, expected in ((2, 2), (3, 2.8284271), (4, 4)):  # what a search finds; the bound is exact for even d
        bound = root(covariance_box((ONE,) * columns))
        assert bound >= expected - 1e-7
        assert expected == pytest.approx(largest_in_a_box(columns), abs=1e-7)
        assert columns == 3 or bound == expected


def test_numbers_of_the_noise_at_epsilon_1() -> None:
    gram = root(covariance_ball(ONE, 2)) / MU
    assert gram == pytest.approx(5.275909854, abs=1e-8)
    assert gram / math.sqrt(2) == pytest.approx(3.730631635, abs=1e-8)
    assert root(association_bound(ONE, ONE)) / MU == pytest.approx(7.46126327, abs=1e-7)
    assert both(1, 1, 1, 1) / MU == pytest.approx(7.913864781, abs=1e-8)
    assert root(covariance_ball(ONE, 2) + association_bound(ONE, ONE)) == pytest.approx(2.449490, abs=1e-6)


def test_one_calibration_takes_1_3_times_less_noise_than_halved_budgets() -> None:
    half = mu_of(0.5, 5e-6)
    halved = root(covariance_ball(ONE, 2)) / half, root(association_bound(ONE, ONE)) / half
    assert halved == pytest.approx((10.396, 14.702), abs=5e-4)
    assert min(halved) >= 1.3 * both(1, 1, 1, 1) / MU


def test_with_the_outcomes_own_square_the_row_is_one_vector() -> None:
    """Delta = sqrt 2 (R^2 + S^2), z = (x, y) in a ball of radius^2 R^2 + S^2."""
    assert covariance_ball(Fraction(4) + 9, 5) == 2 * 13**2


# Nobody finds more.


def largest_in_a_box(columns: int) -> float:
    """The largest move of the upper triangle over all pairs of vertices of {-1, 0, 1}^d."""
    upper = np.triu_indices(columns)
    points = np.array([np.outer(x, x)[upper] for x in itertools.product((-1.0, 0.0, 1.0), repeat=columns)])
    return float(np.linalg.norm(points[:, None] - points, axis=2).max())


def move(x: np.ndarray, y: np.ndarray, x2: np.ndarray, y2: np.ndarray, s1: float, s2: float, body: str) -> np.ndarray:
    """mu^2 between rows (x, y) and (x2, y2), batches of them, straight from the definition."""
    gram = x[:, :, None] * x[:, None, :] - x2[:, :, None] * x2[:, None, :]
    columns = x.shape[1]
    weight = np.triu(np.full((columns, columns), 2.0 if body == "ball" else 1.0), 1) + np.eye(columns)
    cross = x[:, :, None] * y[:, None, :] - x2[:, :, None] * y2[:, None, :]
    first = (gram**2 * weight).sum(axis=(1, 2)) / s1**2
    return first + (cross**2).sum(axis=(1, 2)) / s2**2


def climbed(columns: int, outcomes: int, s1: float, s2: float, body: str, public: str) -> float:
    """The largest mu^2 found from random and vertex pairs, each improved by steps that keep what is better."""
    generator = np.random.default_rng(columns * 10 + outcomes)
    count, sizes = 400, (columns, outcomes, columns, outcomes)
    pairs = [generator.normal(size=(count, size)) for size in sizes]
    vertices = (
        generator.choice([-1.0, 0.0, 1.0], size=(count // 2, columns)),
        generator.choice([-1.0, 1.0], (count // 2, columns)),
    )
    pairs[0][::2], pairs[2][::2] = vertices

    def inside(candidate: list[np.ndarray]) -> list[np.ndarray]:
        x, y, x2, y2 = candidate
        y2 = y if public == "outcomes" else y2
        x2 = x if public == "features" else x2
        x, x2 = (np.clip(z, -1, 1) if body == "box" else unit(z) for z in (x, x2))
        return [x, unit(y), x2, unit(y2)]

    pairs = inside(pairs)
    best = move(*pairs, s1, s2, body)
    for size in np.geomspace(1, 1e-4, 300):
        tried = inside([part + size * generator.normal(size=part.shape) for part in pairs])
        found = move(*tried, s1, s2, body)
        better = found > best
        for part, other in zip(pairs, tried, strict=True):
            part[better] = other[better]
        best = np.where(better, found, best)
    return float(best.max())


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)


@pytest.mark.parametrize("noise", [(1.0, 1.0), (1.0, 0.5), (1.0, 3.0)])
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (4, 1)])
@pytest.mark.parametrize("body", ["ball", "box"])
@pytest.mark.parametrize("public", ["nothing", "outcomes"])
def test_no_pair_of_rows_moves_both_further(
    noise: tuple[float, float], shape: tuple[int, int], body: str, public: str
) -> None:
    columns, outcomes = shape
    radius2 = Fraction(columns if body == "box" else 1)
    first = covariance_box((ONE,) * columns) if body == "box" else covariance_ball(radius2, columns)
    bound = float(joint(first / Fraction(noise[0]) ** 2, association_bound(radius2, ONE) / Fraction(noise[1]) ** 2))
    found = climbed(columns, outcomes, *noise, body, public)
    assert found <= bound * (1 + 1e-12)
    if columns > 1 and body == "ball":
        assert found > 0.97 * bound
    assert found > 0.6 * bound


# The scales.


@given(positive, positive, positive, shares, bodies)
def test_scales_give_mu_and_no_less(
    first: Fraction, second: Fraction, mu2: Fraction, share: Fraction, body: str
) -> None:
    found = scales(first, second, mu2, share, body)
    given_ = spent(found, first, second, body)
    assert given_ <= mu2
    # What rounding up of a double's square, of which the grid takes 4, may lose.
    least = min(Fraction(scale) ** 2 - GRID_VARIANCE for scale in vars(found).values())
    assert given_ >= mu2 * (1 - Fraction(64, 2**52) * (1 + GRID_VARIANCE / least))


@given(large, large, small, shares, bodies)
def test_less_noise_anywhere_gives_more_than_mu(
    first: Fraction, second: Fraction, mu2: Fraction, share: Fraction, body: str
) -> None:
    found = scales(first, second, mu2, share, body)
    for name, scale in vars(found).items():
        quieter = Scales(**{**vars(found), name: math.sqrt(max(scale**2 - 1e-3 * (scale**2 - GRID_VARIANCE), 4.0))})
        assert spent(quieter, first, second, body) > mu2


def test_scales_without_noise_beyond_the_grid_give_no_guarantee() -> None:
    for name in ("diagonal", "off_diagonal", "association"):
        declared = Scales(**{**dict.fromkeys(("diagonal", "off_diagonal", "association"), 100.0), name: 2.0})
        assert spent(declared, ONE, ONE, "ball") == UNBOUNDED


def test_bad_input_is_refused() -> None:
    zero = Fraction(0)
    for refused in (
        lambda: covariance_ball(zero, 2),
        lambda: covariance_ball(ONE, 0),
        lambda: covariance_box(()),
        lambda: covariance_box((ONE, zero)),
        lambda: scales(ONE, ONE, zero, ONE, "ball"),
        lambda: scales(zero, ONE, ONE, ONE, "ball"),
        lambda: scales(ONE, ONE, ONE, zero, "ball"),
        lambda: scales(ONE, ONE, ONE, Fraction(3, 2), "ball"),
    ):
        with pytest.raises(InvalidInput):
            refused()
