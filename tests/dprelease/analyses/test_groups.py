"""Means of groups: with exact moments the tests of scipy and the tables of statsmodels."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy.stats import f_oneway, ttest_ind
from statsmodels.stats.anova import anova_lm

from dprelease.analyses import compare_groups
from dprelease.errors import InvalidInput
from tests.dprelease.analyses.releases import category, number, released
from tests.dprelease.analyses.survey import anes


def test_two_groups_are_the_pooled_t_test() -> None:
    table, release = anes()
    found = compare_groups(release, "income", ["young"])
    young, old = (table["income"][table["young"] == group] for group in ("yes", "no"))
    known = ttest_ind(old, young)
    difference = found.tables["differences of young to young=yes"]
    assert difference.estimate[0] == pytest.approx(old.mean() - young.mean())
    assert difference.p_value[0] == pytest.approx(known.pvalue)
    assert np.ravel(difference.interval()) == pytest.approx(known.confidence_interval())
    assert found.tests["the means of all groups of young are equal"].statistic == pytest.approx(known.statistic**2)
    assert found.tables["means of young"].estimate == pytest.approx([young.mean(), old.mean()])


def test_one_way_analysis_of_variance_and_the_empty_level() -> None:
    table, release = anes()
    found = compare_groups(release, "age", ["party"])
    groups = [table["age"][table["party"] == group] for group in ("left", "middle", "right")]
    known, test = f_oneway(*groups), found.tests["the means of all groups of party are equal"]
    assert (test.statistic, test.p_value) == (pytest.approx(known.statistic), pytest.approx(known.pvalue))
    assert (test.restrictions, test.degrees) == (2, len(table) - 3)
    means = found.tables["means of party"]
    assert means.names == ("party=left", "party=middle", "party=right")
    assert means.estimate == pytest.approx([group.mean() for group in groups])
    pooled = np.sqrt(sum(((group - group.mean()) ** 2).sum() for group in groups) / test.degrees)
    assert means.standard_error == pytest.approx([pooled / np.sqrt(len(group)) for group in groups])
    assert "Counted with the reference level" in found.warnings[0]
    assert "party=other" in found.warnings[0]


def test_main_effects_and_covariates_are_those_of_type_ii() -> None:
    table, release = anes()
    found = compare_groups(release, "income", ["party", "vote"], ["age", "educ"])
    model = smf.ols("income ~ C(party) + C(vote) + age + educ", table).fit()
    known = anova_lm(model, typ=2)
    for factor in ("party", "vote"):
        test = found.tests[f"the means of all groups of {factor} are equal"]
        assert test.statistic == pytest.approx(known.loc[f"C({factor})", "F"])
        assert test.p_value == pytest.approx(known.loc[f"C({factor})", "PR(>F)"])
    share = (table["vote"] == "dole").mean()
    at = {"age": table["age"].mean(), "educ": table["educ"].mean()}
    for place, party in enumerate(("left", "middle", "right")):
        adjusted = sum(
            part * model.predict(pd.DataFrame({**at, "party": [party], "vote": [vote]})).iloc[0]
            for vote, part in (("dole", share), ("clinton", 1 - share))
        )
        assert found.tables["means of party"].estimate[place] == pytest.approx(adjusted)


@pytest.mark.usefixtures("short_chains")
def test_noise_widens_intervals_and_hides_small_groups() -> None:
    generator = np.random.default_rng(5)
    group = generator.choice(["a", "b", "rare"], 3000, p=[0.6, 0.395, 0.005])
    y = generator.normal(size=3000) + (group == "b")
    columns = (category("group", "a", "b", "rare"), number("y", y))
    exact, noisy = (
        compare_groups(released(columns, {"group": group, "y": y}, sd, 1), "y", ["group"]) for sd in (0, 0.02)
    )
    assert "group=rare" in exact.tables["means of group"].names
    assert "group=rare" not in noisy.tables["means of group"].names
    assert "group=rare, group=other" in noisy.warnings[0]
    one, other = (found.tables["differences of group to group=a"]["group=b"] for found in (exact, noisy))
    assert other.standard_error[0] > 1.5 * one.standard_error[0]
    assert other.interval()[0][0] < 1 < other.interval()[1][0]


@pytest.mark.parametrize(
    ("outcome", "by", "told"),
    [
        ("income", [], "at least one category"),
        ("income", ["age"], "age is a number"),
        ("income", ["nothing"], "not in this release: nothing; it has"),
        ("vote", ["vote"], "name each once"),
        ("party", ["vote"], "party has 4 levels; name one of them"),
    ],
)
def test_bad_names_are_refused(outcome: str, by: list[str], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        compare_groups(anes()[1], outcome, by)


def test_the_reference_is_the_first_level_that_has_patients() -> None:
    generator = np.random.default_rng(5)
    group = generator.choice(["b", "c"], 300)
    y = generator.normal(size=300) + (group == "c")
    columns = (category("group", "a", "b", "c"), number("y", y))
    found = compare_groups(released(columns, {"group": group, "y": y}), "y", ["group"])
    assert found.tables["means of group"].names == ("group=b", "group=c")
    difference = found.tables["differences of group to group=b"]
    assert difference.p_value[0] == pytest.approx(ttest_ind(y[group == "c"], y[group == "b"]).pvalue)


def test_a_single_group_is_refused() -> None:
    columns = (category("group", "a", "b"), number("y", [0, 1]))
    with pytest.raises(InvalidInput, match="fewer than two groups of group"):
        compare_groups(released(columns, {"group": ["a"] * 9, "y": np.arange(9) / 9}), "y", ["group"])
