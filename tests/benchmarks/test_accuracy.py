"""The baselines of benchmark `accuracy` keep the privacy they are compared at, and all methods see the same table.

What benchmarks without public bounds are made of: bounds from decades, the rivals' sensitivities, ranges before moments.
"""

import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.accuracy import __main__ as accuracy
from benchmarks.accuracy import adassp, descent, tables
from benchmarks.accuracy.ours import by_blocks
from benchmarks.accuracy.problem import Problem
from benchmarks.accuracy.ranges import bounded_rows, by_ranges, in_ranges
from benchmarks.accuracy.reaches import MOMENTS, RANGES, Turn, decided, turns
from benchmarks.accuracy.tables import TABLES, Table
from benchmarks.common import files
from benchmarks.common.moment_releases import noisy_moments, published_ranges
from benchmarks.plug_and_play import ours as plug_ours
from benchmarks.plug_and_play import rivals as plug_rivals
from benchmarks.plug_and_play.tables import Schema
from dprelease.arrays import Floats
from dprelease.data.columns import CategoricalColumn, NumericColumn
from dprelease.privacy.gaussian import mu_of

NO_NOISE = 1e9
CSV = """age,sex,region,cost
20,male,north,10
70,female,south,
45,male,west,90
30,female,north,130
55,female,elsewhere,60
61,male,south,75
"""


@pytest.fixture
def problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Problem:
    (tmp_path / "bills.csv").write_text(CSV)
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    registry = (
        NumericColumn(name="age", lower=20, upper=60, fill=40),
        CategoricalColumn(name="sex", levels=("male",)),
        CategoricalColumn(name="region", levels=("north", "south", "west")),
    )
    insurer = (NumericColumn(name="cost", lower=0, upper=100, fill=50),)
    return Problem.of(Table("bills", "bills.csv", {"registry": registry, "insurer": insurer}, ("cost",)))


@pytest.fixture(scope="module")
def redbook() -> Problem:
    (table,) = (table for table in TABLES if table.name == "redbook")
    return Problem.of(table)


def test_cells_are_bounded_and_categories_coded_in_both_ways(problem: Problem) -> None:
    assert problem.variables.names == (
        "age",
        "sex=male",
        "region=north",
        "region=south",
        "region=west",
        "region=other",
        "cost",
    )
    assert problem.variables.rows[0].tolist() == [-1, 1, 1, 0, 0, 0, -0.8]
    assert problem.variables.rows[1].tolist() == [1, -1, 0, 1, 0, 0, 0]
    assert problem.released.rows[4].tolist() == [0.75, 0, 1, 0, 0, 0, 1, pytest.approx(0.2)]
    assert problem.variables.redundant == {"region=north"}
    assert problem.released.redundant == {"sex=male", "region=north"}
    assert problem.outcomes["cost"].max() == pytest.approx(1.6)
    assert problem.clipped == 3 / 12


def test_r_squared_is_counted_on_outcomes_that_are_not_clipped(problem: Problem) -> None:
    regression = problem.regression("age", problem.variables)
    model = np.arange(1.0, 7.0) / 10
    x = np.column_stack([np.ones(6), problem.variables.rows[:, [index - 1 for index in regression.features]]])
    y = problem.outcomes["age"]
    expected = 1 - ((y - x @ model) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    assert regression.score(model[None])[0] == pytest.approx(expected)


def test_both_codings_explain_the_same(problem: Problem) -> None:
    fits = [problem.regression("age", coding).best() for coding in (problem.variables, problem.released)]
    assert fits[0] == pytest.approx(fits[1])


def test_the_mu_of_adassp_as_published_is_what_replaced_rows_reach() -> None:
    rows = np.array([(1.0, *signs) for signs in itertools.product((-1.0, 1.0), repeat=4)])
    norm2 = 4
    moved = [_published_distance2(a, b, norm2) for a, b in itertools.product(rows, rows)]
    unit = math.sqrt(math.log(6 / 1e-6)) * 3
    assert adassp.published_mu(1, 1e-6) ** 2 == pytest.approx((max(moved) + 1) / unit**2)


def _published_distance2(a: Floats, b: Floats, norm2: int) -> float:
    """Of X^T X (upper triangle) and X^T y, in units of their noises; the last entry is the outcome."""
    change = np.outer(a, a) - np.outer(b, b)
    gram, cross = np.triu(change[:-1, :-1]), change[:-1, -1]
    return float((gram**2).sum() / norm2**2 + (cross**2).sum() / norm2)


def test_adassp_as_published_keeps_less_than_it_is_asked_for() -> None:
    for budget in accuracy.BUDGETS:
        assert 0.5 * budget.epsilon < adassp.published_epsilon(budget.epsilon, budget.delta) < budget.epsilon


def test_what_recalibrated_adassp_releases_moves_no_further_than_its_noise_allows_for(redbook: Problem) -> None:
    """Rows of four signs reach all three bounds, and rows within the box do not pass them."""
    signs = np.array([(1.0, *signs) for signs in itertools.product((-1.0, 1.0), repeat=3)])
    inner = np.column_stack([np.ones(40), np.random.default_rng(9).uniform(-1, 1, (40, 3))])
    squares, products, curves = [], [], []
    for a, b in itertools.product([*signs, *inner], repeat=2):
        change = np.outer(a, a) - np.outer(b, b)
        squares.append((np.triu(change) ** 2).sum())
        products.append(np.linalg.norm(a + b))  # outcomes 1 and -1
        curves.append(np.abs(np.linalg.eigvalsh(change)).max())
    assert max(squares) == pytest.approx(4**2)
    assert max(products) == pytest.approx(2 * math.sqrt(4))
    assert max(curves) == pytest.approx(4)
    assert adassp.squared_norm(redbook.layout, "children") == 9


def test_recalibrated_adassp_gives_each_release_a_third_of_its_budget(redbook: Problem) -> None:
    """Of little noise: variances of the models follow from the scales 9 of X^T X and 6 of X^T y, times sqrt(3) / mu."""
    mu = 1e6
    models = adassp.adassp(redbook, "age", mu, 1e-6, 4000, np.random.default_rng(1))
    inverse = np.linalg.inv(redbook.regression("age", redbook.variables).gram * redbook.rows)
    noise = _covariance(models.mean(axis=0), 1.0, cross=6 / 9, square=1.0) * 81 * 3 / mu**2
    expected = np.diag(inverse @ noise @ inverse)
    assert np.var(models, axis=0) == pytest.approx(expected, rel=5 * math.sqrt(2 / 4000), abs=0)


def test_joint_adassp_spends_its_budget_on_the_noise_of_the_gram_matrix_and_the_eigenvalue(redbook: Problem) -> None:
    """Differences of models are linear in small noise: their variances follow from its scale."""
    mu, ridge = 1e6, adassp.Ridge(0.36, intercept=True)
    models = adassp.joint_adassp(redbook, "age", mu, 1e-6, ridge, 4000, np.random.default_rng(1))
    regression = redbook.regression("age", redbook.variables)
    gram = regression.gram * redbook.rows
    sd = 10 / (mu * 0.8)  # nine unit boxes and the constant; a part of 0.36 of mu^2 is the eigenvalue's
    model = models.mean(axis=0)
    expected = _covariance(model, sd)
    inverse = np.linalg.inv(gram)
    found = np.var(models, axis=0)
    assert found == pytest.approx(np.diag(inverse @ expected @ inverse), rel=5 * math.sqrt(2 / 4000), abs=0)


def _covariance(model: Floats, sd: float, cross: float = 1.0, square: float = 1 / math.sqrt(6)) -> Floats:
    """Of N_xy - N_xx w for nine columns, eight of them features beside the constant.

    Scales are `sd` of products of features, and relative to that `cross` of X^T y and `square` of squares.
    """
    size = len(model)
    total = np.eye(size) * cross**2
    for i, j in itertools.combinations_with_replacement(range(size), 2):
        if i == j == 0:
            continue
        effect = np.zeros(size)
        effect[i] += model[j]
        if i != j:
            effect[j] += model[i]
        total += np.outer(effect, effect) * (square**2 if i == j else 1.0)
    return total * sd**2


@pytest.mark.parametrize("ridge", [None, *adassp.RIDGES])
def test_adassp_without_noise_is_least_squares(redbook: Problem, ridge: adassp.Ridge | None) -> None:
    random = np.random.default_rng(1)
    if ridge is None:
        models = adassp.adassp(redbook, "children", NO_NOISE, 1e-6, 2, random)
    else:
        models = adassp.joint_adassp(redbook, "children", NO_NOISE, 1e-6, ridge, 2, random)
    regression = redbook.regression("children", redbook.variables)
    assert regression.score(models) == pytest.approx(regression.best(), abs=1e-6)


def test_gradients_are_clipped_row_by_row() -> None:
    random = np.random.default_rng(2)
    x, y = random.normal(size=(5, 3)).astype(np.float32), random.normal(size=5).astype(np.float32)
    models, clips = random.normal(size=(2, 3)), np.array([0.2, 100.0])
    expected = np.zeros((2, 3))
    for place, (model, clip) in enumerate(zip(models, clips, strict=True)):
        for row, outcome in zip(x, y, strict=True):
            gradient = (outcome - row @ model) * row
            expected[place] += gradient * min(1, clip / np.linalg.norm(gradient))
    found = descent._clipped_gradient(x, y, np.linalg.norm(x, axis=1), models, clips)
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("steps", [2, 4])
def test_descent_adds_noise_for_all_its_steps(redbook: Problem, steps: int) -> None:
    """Each of T steps moves by rate / (lambda_max n) times a gradient that hardly changes and noise of 2 c sqrt(T) / mu."""
    draws, clip, mu = 400, 0.001, 50.0
    regression = redbook.regression("age", redbook.variables)
    unit = 2 * clip / mu / np.linalg.eigvalsh(regression.gram)[-1] / redbook.rows
    ones = np.ones(draws)
    last, _ = descent.descend(redbook, "age", mu, steps, clip * ones, ones, np.random.default_rng(3))
    error = 5 / math.sqrt(2 * draws * last.shape[1])
    assert (last - last.mean(axis=0)).std() == pytest.approx(steps * unit, rel=error, abs=0)


def test_descent_without_noise_reaches_least_squares(redbook: Problem) -> None:
    last, average = descent.descend(
        redbook, "yrs_married", NO_NOISE, 300, np.array([9.0]), np.array([1.9]), np.random.default_rng(4)
    )
    regression = redbook.regression("yrs_married", redbook.variables)
    assert regression.score(last)[0] == pytest.approx(regression.best(), abs=0.01)
    assert regression.score(average)[0] == pytest.approx(regression.best(), abs=0.02)


def test_joint_moments_have_the_noise_of_three_institutions(redbook: Problem) -> None:
    mu = mu_of(1, 1e-6)
    moments = noisy_moments(
        redbook.variables.gram, redbook.rows, mu, 3, np.random.default_rng(5), redbook.layout.columns
    )
    assert moments.noise_sd[0, 1] == pytest.approx(10 / mu * math.sqrt(3 / 2), rel=1e-6)
    assert moments.noise_sd[1, 1] == pytest.approx(10 / mu * math.sqrt(3 / 2) / math.sqrt(6), rel=1e-6)


def test_blocks_of_a_generous_budget_find_the_relation(redbook: Problem) -> None:
    scores = by_blocks(redbook, "yrs_married", 1e4, 1e-6, 3, np.random.default_rng(6))
    assert scores.min() > 0.8


def test_a_summary_has_the_median_and_its_standard_error() -> None:
    found = accuracy.summary(np.random.default_rng(7).normal(2, 1, 20_000))
    assert found["median"] == pytest.approx(2, abs=0.05)
    assert found["q05"] == pytest.approx(2 - 1.645, abs=0.1)
    assert found["se"] == pytest.approx(math.sqrt(math.pi / 2 / 20_000), rel=0.2)


def test_a_quantile_is_decided_three_standard_errors_from_its_level() -> None:
    """Of 400 evenly spread values the median has a standard error of .025, and the 5 % quantile one of .011."""
    scores = np.linspace(0, 1, 400)
    for part, error in ((0.5, 0.025), (0.05, 0.0109)):
        assert decided(scores, [Turn(part, part - 3.1 * error)])
        assert not decided(scores, [Turn(part, part - 2.9 * error)])
    assert not decided(scores, [Turn(0.5, 9.0), Turn(0.05, 0.05)])


def test_releases_are_drawn_until_they_decide() -> None:
    effort = accuracy.Effort(8, 20, 0, 0, 0, (), 0)
    asked = []

    def draw(draws: int) -> dict[str, Floats]:
        asked.append(draws)
        return {"easy": np.linspace(0.4, 0.6, draws), "hard": np.linspace(-1, 1, draws)}

    clear = {"easy": [Turn(0.5, 0.0)], "hard": []}
    assert len(accuracy.until_decided(draw, clear, effort)["hard"]) == 8
    found = accuracy.until_decided(draw, clear | {"hard": [Turn(0.5, 0.0)]}, effort)
    assert [len(values) for values in found.values()] == [20, 20]
    assert asked == [8, 8, 8, 4]


def test_what_a_figure_turns_on_is_its_reach_and_what_it_is_compared_with() -> None:
    methods = {"adassp": {"median": 0.1}, MOMENTS: {"median": 0.3}}
    cell = {"declared": True, "target": "children", "budget": "(1, 1e-6)", "n": 6366, "methods": methods}
    assert turns(cell, RANGES) == [Turn(0.5, 0.1), Turn(0.05, -0.02), Turn(0.5, 0.3 - 0.01)]
    assert turns(cell | {"methods": {"adassp": {"median": 0.1}}}, MOMENTS) == [Turn(0.5, 0.1)]
    assert turns(cell | {"budget": "another"}, RANGES) == [Turn(0.5, 0.1)]
    assert turns(cell | {"declared": False}, RANGES) == []


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
    rows, mu, runs = 200, 40.0, 100
    x, y = np.ones((rows, 1)), np.zeros(rows)
    models = [plug_rivals.boosted_adassp(x, y, mu, np.random.default_rng(seed))[0] for seed in range(runs)]
    expected = math.sqrt(3 * plug_rivals.ROUNDS) / mu / rows
    assert np.std(models) == pytest.approx(expected, rel=5 / math.sqrt(2 * runs))


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


def test_without_any_table_nothing_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FOLDER", tmp_path)
    assert list(accuracy.everything(accuracy.QUICK)) == []
