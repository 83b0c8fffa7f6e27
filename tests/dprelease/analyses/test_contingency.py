"""Contingency tables: with exact moments those of scipy and statsmodels; with noise, what it hides is not interpreted.

Tests of several coefficients on noisy moments: as often below a level as it says, and below it where there is an effect.

What second moments cannot give can be had from the columns that the refusal names: the advice is followed as it stands.

Laws over draws: mixtures of Student's, regions of several quantities, and their classical limits.
"""

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, chi2, chi2_contingency, multivariate_t, norm, t, ttest_ind
from scipy.stats.contingency import association
from statsmodels.stats.contingency_tables import Table2x2
from statsmodels.stats.proportion import confint_proportions_2indep

from dprelease.analyses import compare_groups, contingency_table, nested
from dprelease.analyses.beyond import BEYOND
from dprelease.analyses.estimates import Estimates
from dprelease.analyses.joint_test import JointTest, joint_test
from dprelease.errors import InvalidInput
from tests.dprelease.analyses.releases import category, number, released
from tests.party_node.tables import settings
from tests.support.specs import categorical, numeric

SMOKER, ILL = category("smoker", "yes"), category("ill", "yes")
WARD, STAGE = category("ward", "north", "south", "west"), category("stage", "I", "II")


def people(n: int, seed: int = 0, effect: float = 0.2) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    smokes = generator.uniform(size=n) < 0.3
    ill = generator.uniform(size=n) < 0.2 + effect * smokes
    ward = generator.choice(["north", "south", "west"], n, p=[0.5, 0.3, 0.2])
    stage = np.where(generator.uniform(size=n) < np.where(ward == "north", 0.3, 0.6), "I", "II")
    words = {"smoker": np.where(smokes, "yes", "no"), "ill": np.where(ill, "yes", "no")}
    return words | {"ward": ward, "stage": stage, "age": generator.uniform(20, 80, n)}


COLUMNS = (SMOKER, ILL, WARD, STAGE, number("age", [20, 80]))


@pytest.mark.parametrize("n", [40, 3000])
def test_two_by_two_is_that_of_statsmodels(n: int) -> None:
    table = people(n)
    counts = np.array(
        [[np.sum((table["smoker"] == a) & (table["ill"] == b)) for b in ("yes", "no")] for a in ("yes", "no")]
    )
    found, known = contingency_table(released(COLUMNS, table), "smoker", "ill"), Table2x2(counts)
    assert found.tables["counts"].estimate == pytest.approx(counts.ravel())
    ratios = found.tables["ratios"]
    assert ratios.estimate == pytest.approx([known.oddsratio, known.riskratio])
    assert ratios.standard_error == pytest.approx([known.log_oddsratio_se, known.log_riskratio_se])
    assert ratios.p_value == pytest.approx([known.oddsratio_pvalue(), known.riskratio_pvalue()])
    ends = np.array([known.oddsratio_confint(), known.riskratio_confint()])
    assert np.column_stack(ratios.interval()) == pytest.approx(ends)
    (a, b), (c, d) = counts
    difference = found.tables["difference"]
    assert difference.estimate[0] == pytest.approx(a / (a + b) - c / (c + d))
    wald = confint_proportions_2indep(a, a + b, c, c + d, method="wald", compare="diff", correction=False)
    assert np.ravel(difference.interval()) == pytest.approx(wald)
    square, p, *_ = chi2_contingency(counts, correction=False)
    assert found.tests["rows and columns are independent"].statistic == pytest.approx(square)
    assert found.tests["rows and columns are independent"].p_value == pytest.approx(p)


def test_exhaustive_levels_are_the_whole_table() -> None:
    table = people(500)
    ward = categorical("ward", "north", "south", "west", exhaustive=True, fill="north")
    ill = categorical("ill", "yes", "no", exhaustive=True, fill="no")
    found = contingency_table(released((ward, ill, number("age", [20, 80])), table), "ward", "ill").tables["counts"]
    assert found.names == tuple(f"ward={a}, ill={b}" for a in ward.levels for b in ill.levels)
    counts = [np.sum((table["ward"] == a) & (table["ill"] == b)) for a in ward.levels for b in ill.levels]
    assert found.estimate == pytest.approx(counts)


def test_more_levels_are_those_of_scipy_and_empty_ones_are_left_out() -> None:
    table = people(2000, 1)
    counts = np.array(
        [[np.sum((table["ward"] == a) & (table["stage"] == b)) for b in STAGE.levels] for a in WARD.levels]
    )
    found = contingency_table(released(COLUMNS, table), "ward", "stage")
    square, p, degrees, _ = chi2_contingency(counts, correction=False)
    test = found.tests["rows and columns are independent"]
    assert (test.statistic, test.restrictions, test.p_value) == (pytest.approx(square), degrees, pytest.approx(p))
    assert found.tables["association"].estimate[0] == pytest.approx(association(counts, "cramer", correction=False))
    assert "ward=other, stage=other" in found.warnings[0]
    assert found.tables["counts"].names[0] == "ward=north, stage=I"
    assert "ratios" not in found.tables


@pytest.mark.usefixtures("short_chains")
def test_noise_that_hides_counts_is_said_and_nothing_is_interpreted() -> None:
    table = people(4000)
    clear = contingency_table(released(COLUMNS, table, 0.01, 3), "smoker", "ill")
    assert clear.tests["rows and columns are independent"].p_value <= 0.05
    assert clear.tables["counts"].noise_sd == pytest.approx(np.full(4, 4000 * 0.01 * np.sqrt(3) / 4), rel=0.5)
    hidden = contingency_table(released(COLUMNS, table, 0.12, 3), "smoker", "ill")
    assert not hidden.tests
    assert list(hidden.tables) == ["counts"]
    assert "Noise hides the counts" in hidden.summary()


@pytest.mark.parametrize(
    ("rows", "columns", "told"),
    [
        ("smoker", "smoker", "two different columns"),
        ("age", "ill", "age is a number"),
        ("smoker", "ward=north", "name its column, ward"),
        ("smoker", "weight", "not in this release: weight; it has smoker=yes"),
    ],
)
def test_bad_names_are_refused(rows: str, columns: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        contingency_table(released(COLUMNS, people(50)), rows, columns)


@pytest.mark.usefixtures("short_chains")
def test_a_category_of_one_level_that_noise_tells_is_refused() -> None:
    table = people(300) | {"smoker": np.full(300, "no")}
    with pytest.raises(InvalidInput, match="fewer than two levels of smoker are told from none"):
        contingency_table(released(COLUMNS, table, 0.05, 1), "smoker", "ill")


CHANCE = 1e-4
"""Probability of a false alarm, of one number."""
GROUPS = "abcdef"
SCORED_COLUMNS = (category("group", *GROUPS), numeric("x", -4, 4), numeric("z", -4, 4), numeric("y", -5, 5))


def found_in(effect: float, seed: int, sd: float) -> dict[str, JointTest]:
    """Of 3,000 patients; x and z hang together, y on z and by `effect` on x and a group. Sampling's error is about .001."""
    random = np.random.default_rng(seed)
    group, z = random.choice(list(GROUPS), 3000, p=[0.3, 0.3, 0.2, 0.1, 0.07, 0.03]), random.normal(size=3000)
    x = 0.3 * z + 0.95 * random.normal(size=3000)
    y = 0.5 * z + effect * (x + (group == "b")) + random.normal(size=3000)
    release = released(SCORED_COLUMNS, {"group": group, "x": x, "z": z, "y": y}, sd, seed)
    found = nested(release, "y", ["x", "z"], ["x"]).tests
    return {
        "all": found["all coefficients are 0"],
        "one": found["the coefficients of x are 0"],
        "groups": compare_groups(release, "y", ["group"]).tests["the means of all groups of group are equal"],
    }


@pytest.mark.usefixtures("short_chains")
@pytest.mark.parametrize("count", [8, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])
def test_p_values_are_even_where_there_is_no_effect(count: int) -> None:
    """Their mean is 1/2 within 4 standard errors. A test that counts its prior as error has most of them near 1."""
    found = [found_in(0.0, seed, 0.008) for seed in range(count)]
    p = np.array([[each[name].p_value for name in ("one", "groups")] for each in found])
    assert np.abs(p.mean(axis=0) - 0.5).max() < 4 / np.sqrt(12 * count), p.mean(axis=0)
    assert (p < 0.05).sum(axis=0).max() <= binom.isf(CHANCE, count, 0.05)


@pytest.mark.usefixtures("short_chains")
def test_effects_are_found() -> None:
    """Slopes of .5 are told from none in every release, down to p-values that 600 draws could not tell."""
    for seed in range(2):
        found = found_in(0.5, seed, 0.001)
        assert max(each.p_value for each in found.values()) < 1e-3
        assert found["all"].p_value < 1e-6


@pytest.mark.usefixtures("short_chains")
def test_a_level_that_noise_alone_fills_is_no_group() -> None:
    """Nobody has another group. In 2 of 200 releases draws said that some do, and the released number could not tell."""
    for seed in (53, 55):
        assert found_in(0.0, seed, 0.008)["groups"].restrictions == len(GROUPS) - 1


def test_welchs_test_by_hand_is_that_of_scipy() -> None:
    generator = np.random.default_rng(7)
    group = generator.choice(["a", "b"], 800, p=[0.8, 0.2])
    y = np.clip(60 + generator.normal(size=800) * np.where(group == "a", 4, 12), 20, 120)
    (derived,) = re.findall(r"derived = \{.*?\}", BEYOND["welch"])
    declarations = {
        "y": {"kind": "numeric", "lower": 20, "upper": 120},
        "y_squared": tomllib.loads(derived.replace("-M", "-70")),
    }
    hospital = settings(Path("rows.csv"), declarations)
    square = hospital.declared["y_squared"].formula
    assert square is not None
    columns = (category("group", "a"), *hospital.declarations())
    release = released(columns, {"group": group, "y": y, "y_squared": square.values(y)})

    (mean, of_square) = (
        compare_groups(release, name, ["group"]).tables["means of group"].estimate for name in ("y", "y_squared")
    )
    size = np.array([(group == level).sum() for level in ("b", "a")])  # others come first
    variance = (of_square - (mean - 70) ** 2) * size / (size - 1)
    known = ttest_ind(y[group == "b"], y[group == "a"], equal_var=False)
    assert (mean[0] - mean[1]) / np.sqrt((variance / size).sum()) == pytest.approx(known.statistic)
    assert variance == pytest.approx([y[group == level].var(ddof=1) for level in ("b", "a")])


def test_one_draw_is_students_law() -> None:
    one = Estimates(("a",), np.array([[2.0]]), np.array([[0.7]]), 9, tested=True)
    assert np.ravel(one.interval(0.9)) == pytest.approx(t(9, 2, 0.7).interval(0.9))
    assert one.p_value[0] == pytest.approx(2 * t(9).sf(2 / 0.7))
    assert (one.noise_sd[0], one.standard_error[0], one.resolution) == (0, pytest.approx(0.7), 0)


def test_a_mixture_of_normal_draws_is_normal_with_both_variances() -> None:
    draws = norm(1, 0.3).ppf((np.arange(4000) + 0.5) / 4000)[:, None]
    both = Estimates(("a",), draws, np.full_like(draws, 0.4), tested=True)
    assert np.ravel(both.interval()) == pytest.approx(norm(1, 0.5).interval(0.95), abs=1e-3)
    assert both.p_value[0] == pytest.approx(2 * norm.sf(2), rel=1e-2)
    only = Estimates(("a",), draws)
    assert np.ravel(only.interval()) == pytest.approx(norm(1, 0.3).interval(0.95), abs=1e-2)
    assert np.isnan(only.p_value[0])


def test_draws_tell_no_p_value_below_their_number() -> None:
    sure = Estimates(("a",), np.full((50, 1), 9.0), np.ones((50, 1)), tested=True)
    assert sure.p_value[0] == sure.resolution == 1 / 50
    both = Estimates(("a", "b"), np.full((50, 2), 9.0))
    assert joint_test(both, np.tile(np.eye(2), (50, 1, 1))).p_value == 1 / 50


def test_of_one_quantity_a_joint_test_finds_what_its_interval_excludes() -> None:
    """Draws that lean to one side, what clipping may have taken, and a count that noise may hide."""
    leaning = -np.log(np.random.default_rng(1).gamma(3.0, size=400))[:, None]
    one = Estimates(("a",), leaning, np.full_like(leaning, 0.1), tested=True)
    hidden = Estimates(("a",), np.array([[0.0]]), np.array([[0.5]]), tested=True, counts=np.array([[[0.4]], [[0.0]]]))
    for each in (one, replace(one, taken=np.array([[0.3]])), replace(one, degrees=4.0), hidden):
        for moved in np.linspace(-2.5, 2.5, 41):
            shown = replace(each, location=each.location + moved)
            test, (lower, upper) = joint_test(shown, each.scale[:, :, None] ** 2), shown.interval()
            assert test.p_value == pytest.approx(shown.p_value[0])
            assert (test.p_value < 0.05) == (lower[0] > 0 or upper[0] < 0)


@pytest.mark.parametrize("level", [0.0, 1.0, 95])
def test_levels_are_checked(level: float) -> None:
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        Estimates(("a",), np.zeros((1, 1))).interval(level)


@pytest.mark.parametrize(("degrees", "centre"), [(np.inf, 0.8), (12.0, 0.8), (np.inf, 0.3)])
def test_noise_counts_as_error_in_a_joint_test(degrees: float, centre: float) -> None:
    """Of normal draws the law is normal again, to 4 standard errors of 1,000 draws; with Student's errors it is simulated."""
    generator = np.random.default_rng(1)
    noise, sampling = np.array([[0.09, 0.02], [0.02, 0.04]]), np.array([[0.02, 0.0], [0.0, 0.05]])
    draws = generator.multivariate_normal([centre, -centre / 2], noise, 1000)
    estimates = Estimates(("a", "b"), draws, degrees=degrees)
    found = joint_test(estimates, np.tile(sampling, (1000, 1, 1)))
    whole = np.cov(draws.T, bias=True) + sampling
    away = draws.mean(axis=0)
    square = away @ np.linalg.solve(whole, away)
    errors = multivariate_t(shape=sampling, df=degrees, seed=2).rvs(200_000) if np.isfinite(degrees) else None
    known = chi2(2).sf(square)
    if errors is not None:
        summed = errors + generator.multivariate_normal([0, 0], np.cov(draws.T, bias=True), 200_000)
        known = (np.einsum("si,ij,sj->s", summed, np.linalg.inv(whole), summed) >= square).mean()
    # Samples of one draw share it, so the draws' number decides.
    assert found.p_value == pytest.approx(known, abs=4 * np.sqrt(known / 1000))
    assert found.p_value == joint_test(estimates, np.tile(sampling, (1000, 1, 1))).p_value
