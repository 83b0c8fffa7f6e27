"""Means of groups: with exact moments the tests of scipy and the tables of statsmodels.

Two-stage least squares and mediation: with exact moments those of statsmodels.

Logistic regression from moments: the discriminant to rounding, maximum likelihood within stated bounds.
"""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy.stats import f_oneway, ttest_ind
from statsmodels.sandbox.regression.gmm import IV2SLS
from statsmodels.stats.anova import anova_lm

from dprelease.analyses import compare_groups, logistic, mediation, two_stage_least_squares
from dprelease.errors import InvalidInput
from tests.dprelease.analyses.releases import category, number, released
from tests.dprelease.analyses.survey import anes, fair


def test_two_groups_are_the_pooled_t_test() -> None:
    table, release = anes()
    found = compare_groups(release, "income", ["young"])
    young, old = (table["income"][table["young"] == group] for group in ("yes", "no"))
    known = ttest_ind(young, old)
    difference = found.tables["differences of young to young=other"]
    assert difference.estimate[0] == pytest.approx(young.mean() - old.mean())
    assert difference.p_value[0] == pytest.approx(known.pvalue)
    assert np.ravel(difference.interval()) == pytest.approx(known.confidence_interval())
    assert found.tests["the means of all groups of young are equal"].statistic == pytest.approx(known.statistic**2)
    assert found.tables["means of young"].estimate == pytest.approx([old.mean(), young.mean()])


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


def test_a_single_group_is_refused() -> None:
    columns = (category("group", "a", "b"), number("y", [0, 1]))
    with pytest.raises(InvalidInput, match="fewer than two groups of group"):
        compare_groups(released(columns, {"group": ["a"] * 9, "y": np.arange(9) / 9}), "y", ["group"])


def simulated(n: int, strength: float = 0.5, seed: int = 0) -> dict[str, np.ndarray]:
    """x is endogenous by u; z1 and z2 act through it; w is exogenous; the effect of x is 1."""
    generator = np.random.default_rng(seed)
    z1, z2, w, u = generator.uniform(-1, 1, (4, n))
    x = strength * (z1 + z2) + 0.3 * w + u + generator.uniform(-1, 1, n)
    return {"y": x - 0.5 * w - u + generator.uniform(-1, 1, n), "x": x, "w": w, "z1": z1, "z2": z2}


def columns(cells: dict[str, np.ndarray]) -> tuple:
    return tuple(number(name, values) for name, values in cells.items())


@pytest.mark.parametrize("n", [60, 2000])
def test_it_is_that_of_statsmodels(n: int) -> None:
    cells = simulated(n)
    found = two_stage_least_squares(released(columns(cells), cells), "y", ["x"], ["z1", "z2"], ["w"])
    x, z = (
        sm.add_constant(np.column_stack([cells[name] for name in names])) for names in (("x", "w"), ("z1", "z2", "w"))
    )
    known = IV2SLS(cells["y"], x, z).fit()
    slopes = found.tables["coefficients"]
    assert slopes.estimate == pytest.approx(known.params[1:])
    assert slopes.standard_error == pytest.approx(known.bse[1:])
    first = sm.OLS(cells["x"], z).fit()
    f = first.f_test(np.eye(4)[1:3])
    assert found.tables["first stage"].estimate[0] == pytest.approx(float(f.fvalue))
    assert found.tests["the instruments have no part in x"].p_value == pytest.approx(float(f.pvalue), rel=1e-9, abs=0)
    wu = sm.OLS(cells["y"], np.column_stack([x, first.resid])).fit()
    assert found.tests["least squares would do"].p_value == pytest.approx(wu.pvalues[-1])


def test_weak_instruments_are_called_so() -> None:
    cells = simulated(400, strength=0.02)
    found = two_stage_least_squares(released(columns(cells), cells), "y", ["x"], ["z1", "z2"])
    assert "Instruments may be weak" in found.warnings[0]
    with pytest.raises(InvalidInput, match="as many instruments"):
        two_stage_least_squares(released(columns(cells), cells), "y", ["x", "w"], ["z1"])


def test_mediation_is_the_product_of_two_regressions() -> None:
    cells = simulated(500)
    found = mediation(released(columns(cells), cells), "y", "z1", "x", ["w"])
    first = sm.OLS(cells["x"], sm.add_constant(np.column_stack([cells["z1"], cells["w"]]))).fit()
    second = sm.OLS(cells["y"], sm.add_constant(np.column_stack([cells["x"], cells["z1"], cells["w"]]))).fit()
    total = sm.OLS(cells["y"], sm.add_constant(np.column_stack([cells["z1"], cells["w"]]))).fit()
    a, b = first.params[1], second.params[1]
    effects = found.tables["effects"]
    assert effects.estimate == pytest.approx([a * b, second.params[2], total.params[1]])
    assert effects.estimate[:2].sum() == pytest.approx(effects.estimate[2])
    sobel = np.hypot(a * second.bse[1], b * first.bse[1])
    assert effects.standard_error == pytest.approx([sobel, second.bse[2], total.bse[1]])


FEATURES = {"anes": ["age", "educ", "income", "TVnews"], "fair": ["rate_marriage", "age", "yrs_married", "religious"]}
SURVEYS = {"anes": (anes, "vote", "dole"), "fair": (fair, "any", "yes")}


@pytest.mark.parametrize("survey", SURVEYS)
def test_it_is_the_linear_discriminant(survey: str) -> None:
    load, name, level = SURVEYS[survey]
    table, release = load()
    x, y = table[FEATURES[survey]].to_numpy(float), (table[name] == level).to_numpy()
    found = logistic(release, name, FEATURES[survey])
    one, other = x[y].mean(axis=0), x[~y].mean(axis=0)
    within = (y.mean() * np.cov(x[y].T, bias=True)) + (1 - y.mean()) * np.cov(x[~y].T, bias=True)
    beta = np.linalg.solve(within, one - other)
    start = np.log(y.mean() / (1 - y.mean())) - beta @ (one + other) / 2
    assert found.tables["coefficients"].estimate == pytest.approx(beta)
    assert found.tables["intercept"].estimate[0] == pytest.approx(start)
    assert found.tables["odds ratios"].estimate == pytest.approx(np.exp(beta))


@pytest.mark.parametrize("survey", SURVEYS)
def test_real_surveys_are_near_maximum_likelihood(survey: str) -> None:
    """By the features' standard deviations coefficients agree within .1, errors within a fifth, mean predictions within .02."""
    load, name, level = SURVEYS[survey]
    table, release = load()
    x, y = table[FEATURES[survey]].to_numpy(float), (table[name] == level).to_numpy()
    known = sm.Logit(y.astype(float), sm.add_constant(x)).fit(disp=0)
    found = logistic(release, name, FEATURES[survey])
    slopes, spread = found.tables["coefficients"], x.std(axis=0)
    assert np.abs((slopes.estimate - known.params[1:]) * spread).max() < 0.1
    assert slopes.standard_error / known.bse[1:] == pytest.approx(np.ones(x.shape[1]), abs=0.2)
    score = found.tables["intercept"].estimate[0] + x @ slopes.estimate
    assert (1 / (1 + np.exp(-score))).mean() == pytest.approx(y.mean(), abs=0.02)
    assert np.isnan(slopes.p_value).all()


@pytest.mark.parametrize(
    ("share", "strength", "told"), [(0.5, 0.4, ""), (0.02, 0.4, "near 0 or 1"), (0.5, 1.2, "the variance, more")]
)
def test_normal_features_give_the_logistic_coefficients(share: float, strength: float, told: str) -> None:
    """Classes are normal with one covariance, so the discriminant is right; 5 standard errors of it at n = 40,000 are allowed."""
    generator = np.random.default_rng(3)
    y = generator.uniform(size=40_000) < share
    beta = np.array([strength, -strength, 0.0, 2 * strength])
    x = generator.normal(size=(len(y), 4)) + np.outer(y, beta)
    names = tuple(f"x{place}" for place in range(4))
    columns = (category("y", "yes"), *(number(name, x[:, place]) for place, name in enumerate(names)))
    cells = {"y": np.where(y, "yes", "no"), **{name: x[:, place] for place, name in enumerate(names)}}
    found = logistic(released(columns, cells), "y", names)
    slopes = found.tables["coefficients"]
    assert (np.abs(slopes.estimate - beta) < 5 * slopes.standard_error * (1 + strength**2)).all()
    start = np.log(share / (1 - share)) - beta @ beta / 2
    allowed = 0.1 * (1 + strength**2) / np.sqrt(share / 0.5)
    assert found.tables["intercept"].estimate[0] == pytest.approx(start, abs=allowed)
    assert [told in warning for warning in found.caveats[2:]] == ([True] if told else [])


def test_what_cannot_be_an_outcome_is_refused() -> None:
    release = anes()[1]
    with pytest.raises(InvalidInput, match="income is a number"):
        logistic(release, "income", ["age"])
    with pytest.raises(InvalidInput, match="the same column"):
        logistic(release, "vote", ["vote", "age"])


@pytest.mark.parametrize("sd", [0.0, 0.01])
def test_no_odds_ratio_is_told_of_a_feature_that_decides_the_outcome(sd: float) -> None:
    ill = np.where(np.random.default_rng(6).random(500) < 0.4, "yes", "no")
    release = released((category("ill", "yes"), category("same", "yes")), {"ill": ill, "same": ill}, sd, 7)
    with pytest.raises(InvalidInput, match="a feature decides the outcome, and no odds ratio is finite"):
        logistic(release, "ill", ["same"], "moments")
