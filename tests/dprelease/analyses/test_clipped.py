"""Analyses of clipped rows are about all rows: how much wider their intervals are, for which tables, and in which words."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

import dprelease.analyses as analyses
from dprelease.analyses import Analysis, compare_groups, contingency_table, correlations, logistic, nested
from dprelease.analyses.estimates import Estimates
from dprelease.analyses.instruments import two_stage_least_squares
from dprelease.release.reaches import Reach
from dprelease.release.release import Release
from tests.dprelease.analyses.releases import category, released
from tests.support.specs import numeric

PATIENTS, MANY = 4000, 40_000
COLUMNS = (
    category("group", "a", "b"),
    category("ill", "yes"),
    *(numeric(name, -6, 6) for name in "xyz"),
    numeric("years", 0, 9),
    numeric("falls", 0, 9),
)
ASKED: Mapping[str, Callable[[Release], Analysis]] = {
    "compare_groups": lambda release: compare_groups(release, "y", ["group"], ["x"]),
    "correlations": lambda release: correlations(release, ["x", "y"], ["z"]),
    "cronbach_alpha": lambda release: analyses.cronbach_alpha(release, ["x", "y", "z"]),
    "lasso": lambda release: analyses.lasso(release, "y", ["x", "z"]),
    "logistic": lambda release: logistic(release, "ill", ["x", "z"]),
    "mediation": lambda release: analyses.mediation(release, "y", "x", "z"),
    "nested": lambda release: nested(release, "y", ["x", "z"], ["z"]),
    "principal_components": lambda release: analyses.principal_components(release, ["x", "y", "z"]),
    "rates": lambda release: analyses.rates(release, "falls", "years", "group"),
    "two_stage_least_squares": lambda release: two_stage_least_squares(release, "y", ["x"], ["z"]),
}


def patients() -> dict[str, np.ndarray]:
    random = np.random.default_rng(4)
    z = random.normal(size=PATIENTS)
    x = 0.6 * z + 0.8 * random.normal(size=PATIENTS)
    y = 0.5 * x + random.normal(size=PATIENTS)
    return {
        "group": random.choice(["a", "b"], PATIENTS),
        "ill": np.where(random.normal(size=PATIENTS) < 0.5 * x, "yes", "no"),
        "x": x,
        "y": y,
        "z": z,
        "years": random.uniform(1, 8, PATIENTS),
        "falls": random.poisson(0.7, PATIENTS).clip(0, 9),
    }


def clipped(kept: float, sd: float = 0.0, **changed: float) -> Release:
    """The patients, as if every number had lost so much; centres are their means but for those that are named."""
    cells = patients()
    release = released(COLUMNS, cells, sd)
    release.__dict__["reaches"] = tuple(
        Reach(name, "", -1.0, 1.0, kept, True, changed.get(name, float(cells[name].mean())), 0.0, 0.0, 2.0, True)
        for name in ("x", "y", "z", "years", "falls")
    )
    return release


def test_no_analysis_of_numbers_is_without_a_width() -> None:
    assert {
        *ASKED,
        "contingency_table",
        "effect",
        "hazards",
        "missing_cells",
        "poisson",
        "survival",
        "Analysis",
        "Survival",
    } == set(analyses.__all__)
    release = clipped(0.8)
    for name, ask in ASKED.items():
        for caption, table in ask(release).tables.items():
            if "share of draws" not in caption:  # no function of moments
                assert table.wider.max() > 0, (name, caption)
    counts = contingency_table(release, "group", "ill")
    assert all(table.taken is None for table in counts.tables.values())
    assert "all rows" not in counts.summary()


def test_a_correlation_is_wider_by_three_errors_and_a_difference_by_one() -> None:
    kept = 0.8
    release = clipped(kept)
    found = correlations(release, ["x", "y"]).tables["correlations"]
    r = found.estimate[0]
    lost, chance = r * (kept**-2 - 1), kept**-4 * (1 - kept**2) / PATIENTS
    together = lost - 2 * (kept**-2 - 1) * r / 2
    errors = lost**2 + chance, *(((kept**-2 - 1) ** 2 + chance) * (r / 2) ** 2,) * 2, together**2
    assert found.wider[0] * (1 - r**2) == pytest.approx(np.sqrt(sum(errors)), rel=1e-4)
    lower, upper = found.interval()
    inner = replace(found, taken=None).interval()
    assert np.arctanh(upper) - np.arctanh(inner[1]) == pytest.approx(found.wider)
    assert np.arctanh(inner[0]) - np.arctanh(lower) == pytest.approx(found.wider)
    differences = compare_groups(release, "x", ["ill"]).tables["differences of ill to ill=other"]
    cells = patients()
    ill = (cells["ill"] == "yes").var()
    chance = cells["x"].var() / kept**2 / ill * (1 - kept) / PATIENTS
    assert differences.wider**2 == pytest.approx(2 * (differences.estimate * (1 / kept - 1)) ** 2 + chance)


def test_a_mean_is_wider_by_what_both_rounds_disagree_by() -> None:
    means = compare_groups(clipped(1.0, y=0.7), "y", ["group"]).tables["means of group"]
    away = 0.7 - patients()["y"].mean()
    assert means.wider == pytest.approx(np.sqrt(2) * away)


def confounded() -> tuple[Release, Release, tuple[str, ...]]:
    """A slope of 0 beside many skewed numbers that are cut off at 2.5, and the same as they are."""
    random = np.random.default_rng(6)
    shared = random.exponential(size=MANY // 2)
    own = random.exponential(size=(50, MANY // 2))
    skewed = np.where(random.random(own.shape) < 0.5, shared, own)
    sum_of = skewed.sum(axis=0)
    standard = (sum_of - sum_of.mean()) / sum_of.std()
    x, y = 0.7 * standard + 0.7 * random.normal(size=(2, MANY // 2))
    names = tuple(f"z{place}" for place in range(len(skewed)))
    columns = (*(numeric(name, -20, 20) for name in "xy"), *(numeric(name, 0, 40) for name in names))
    cells, cut = dict(zip(names, skewed, strict=True)), np.minimum(skewed, 2.5)
    release = released(columns, {"x": x, "y": y, **dict(zip(names, cut, strict=True))})
    release.__dict__["reaches"] = tuple(
        Reach(
            name, "", 0.0, 2.5, np.cov(whole, part)[0, 1] / whole.var(), True, float(whole.mean()), 0.0, 0.0, 9.0, True
        )
        for (name, whole), part in zip(cells.items(), cut, strict=True)
    )
    return release, released(columns, {"x": x, "y": y} | cells), names


def test_clipping_of_many_confounders_alike_makes_no_finding() -> None:
    release, whole, given = confounded()
    found, truth = (correlations(of, ["x", "y"], given).tables["correlations"] for of in (release, whole))
    lower, upper = found.interval()
    assert lower[0] < truth.estimate[0] < upper[0]
    assert (np.arctanh(found.estimate) - np.arctanh(truth.estimate))[0] < found.wider[0]
    assert found.p_value[0] > 0.05
    assert nested(release, "y", ["x", *given], ["x"]).tests["the coefficients of x are 0"].p_value > 0.05


def test_a_tail_that_hides_leaves_what_spreads_allow() -> None:
    release = clipped(1.0)
    release.__dict__["reaches"] = tuple(
        replace(each, kept=0.0, spread=7.0) if each.name == "x" else each for each in release.reaches
    )
    found = correlations(release, ["x", "y"])
    lower, upper = found.tables["correlations"].interval()
    assert (lower[0], upper[0]) == pytest.approx((-1, 1), abs=0.01)
    assert "Noise hides the tail of x: counts and public bounds alone" in found.summary()
    assert "tail of x" not in correlations(release, ["z", "y"]).summary()


@pytest.mark.usefixtures("short_chains")
def test_tests_count_what_clipping_may_take_as_error() -> None:
    """What is clear without clipping is no finding where clipping may have made it."""

    def p_values(release: Release) -> list[float]:
        iv, of_slopes = ASKED["two_stage_least_squares"](release), nested(release, "y", ["x", "z"], ["z"])
        tests = [*iv.tests.values(), *of_slopes.tests.values()]
        return [*(each.p_value for each in tests), *correlations(release, ["x", "y"]).tables["correlations"].p_value]

    sure, doubtful, hidden = (p_values(clipped(kept, 1e-4)) for kept in (1.0, 0.9, 0.1))
    assert np.all(np.array(doubtful) >= np.array(sure) - 1e-12)
    assert max(sure[0], sure[2], sure[4]) < 0.01
    assert min(hidden) > 0.05


def test_estimates_within_the_width_are_no_finding() -> None:
    off = Estimates(("a",), np.array([[2.0]]), np.array([[0.5]]), tested=True, taken=np.array([[1.2], [1.6]]))
    assert off.wider == pytest.approx([2.0])
    assert off.p_value == pytest.approx([1.0])
    nearer = Estimates(("a",), np.array([[0.8]]), np.array([[0.5]]), tested=True)
    assert replace(off, taken=np.array([[1.2]])).p_value == pytest.approx(nearer.p_value)
    assert off["a"].taken == pytest.approx(off.taken)


def test_no_interval_leaves_what_a_quantity_can_be() -> None:
    release = clipped(0.65)
    for ask, caption, (least, most) in (
        ("cronbach_alpha", "reliability", (-np.inf, 1)),
        ("principal_components", "share of variance", (0, 1)),
        ("nested", "variance inflation", (1, np.inf)),
        ("nested", "explained", (0, 1)),
    ):
        found = ASKED[ask](release).tables[caption]
        lower, upper = found.interval()
        assert least <= lower.min()
        assert upper.max() <= most
        without = replace(found, limits=(-np.inf, np.inf)).interval()
        assert without[0].min() < least or without[1].max() > most


def test_a_table_says_that_its_intervals_hold_clipping_too() -> None:
    components = ASKED["principal_components"](clipped(0.8))
    said = components.summary()
    assert "Errors hold privacy noise only: they are about these patients. Intervals also hold what clipping" in said
    assert "by different shares" in said
    assert "count what clipping" not in said
    assert "not chosen gets no width" in ASKED["lasso"](clipped(0.8)).summary()


def long_tailed() -> tuple[Release, Release]:
    """Exact moments of a lognormal amount that is cut off at 3, and of the same as it is."""
    random = np.random.default_rng(5)
    z = random.normal(size=(2, MANY))
    amount = np.minimum(np.exp(0.9 * z[0]), 40)
    cells = {"ill": np.where(amount + 2 * z[1] > 2, "yes", "no"), "amount": amount, "age": z[1].clip(-5, 5)}
    columns = (category("ill", "yes"), numeric("amount", 0, 40), numeric("age", -5, 5))
    cut = np.minimum(amount, 3.0)
    release = released(columns, cells | {"amount": cut})
    kept = np.cov(amount, cut)[0, 1] / amount.var()
    release.__dict__["reaches"] = (
        Reach("amount", "", 0.0, 3.0, kept, True, float(amount.mean()), 0.0, 0.0, 9.0, True),
    )
    return release, released(columns, cells)


def test_intervals_hold_all_rows_where_those_of_clipped_rows_do_not() -> None:
    release, whole = long_tailed()
    questions: tuple[Callable[[Release], Estimates], ...] = (
        lambda of: logistic(of, "ill", ["amount"]).tables["coefficients"]["amount"],
        lambda of: compare_groups(of, "amount", ["ill"]).tables["differences of ill to ill=other"],
    )
    for ask in questions:
        found, truth = ask(release), ask(whole).estimate[0]
        (lower,), (upper,) = replace(found, taken=None).interval()
        assert not lower < truth < upper
        (lower,), (upper,) = found.interval()
        assert lower < truth < upper
