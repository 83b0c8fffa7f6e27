"""Nested models, correlations and the lasso: with exact moments those of statsmodels and scipy."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.stats import pearsonr
from statsmodels.stats.outliers_influence import variance_inflation_factor

from dprelease.analyses import correlations, lasso, nested
from dprelease.analyses.lasso import lasso_path
from dprelease.errors import InvalidInput
from tests.dprelease.analyses.releases import number, released
from tests.dprelease.analyses.survey import fair

FEATURES = ["age", "yrs_married", "children", "religious", "educ"]


def test_inflation_and_nested_tests() -> None:
    table, release = fair()
    x = sm.add_constant(table[FEATURES])
    known = sm.OLS(table["rate_marriage"], x).fit()
    found = nested(release, "rate_marriage", FEATURES, ["age", "educ"])
    inflation = [variance_inflation_factor(x.to_numpy(), place) for place in range(1, 6)]
    assert found.tables["variance inflation"].estimate == pytest.approx(inflation)
    smaller = sm.OLS(table["rate_marriage"], x.drop(columns=["age", "educ"])).fit()
    assert found.tables["explained"].estimate == pytest.approx([known.rsquared - smaller.rsquared])
    f, p, _ = known.compare_f_test(smaller)
    test = found.tests["the coefficients of age, educ are 0"]
    assert (test.statistic, test.p_value) == (pytest.approx(f), pytest.approx(p))
    assert found.tests["all coefficients are 0"].statistic == pytest.approx(known.fvalue)


def test_correlations_are_those_of_scipy() -> None:
    table, release = fair()
    found = correlations(release, ["age", "educ", "affairs"]).tables["correlations"]
    assert found.names == ("age, educ", "age, affairs", "educ, affairs")
    for name in found.names:
        known, one = pearsonr(*(table[part] for part in name.split(", "))), found[name]
        assert one.estimate[0] == pytest.approx(known.statistic)
        assert one.p_value[0] == pytest.approx(known.pvalue)
        assert np.ravel(one.interval()) == pytest.approx(known.confidence_interval())


def test_partial_correlations_are_those_of_residuals() -> None:
    table, release = fair()
    given = sm.add_constant(table[["age", "yrs_married"]])
    one, other = (sm.OLS(table[name], given).fit().resid for name in ("educ", "affairs"))
    found = correlations(release, ["educ", "affairs"], ["age", "yrs_married"]).tables["correlations"]
    assert found.estimate[0] == pytest.approx(pearsonr(one, other).statistic)
    model = sm.OLS(table["affairs"], sm.add_constant(table[["educ", "age", "yrs_married"]])).fit()
    assert found.p_value[0] == pytest.approx(model.pvalues["educ"])


def test_the_lasso_path_is_that_of_statsmodels() -> None:
    table, _ = fair()
    rows = table[["affairs", *FEATURES]].to_numpy()
    z = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    penalties = [0.1, 0.03, 0.001]
    path = lasso_path(np.corrcoef(rows.T)[None], penalties)
    for penalty, coef in zip(penalties, path, strict=True):
        known = sm.OLS(z[:, 0], z[:, 1:]).fit_regularized(alpha=penalty, L1_wt=1.0, cnvrg_tol=1e-12, maxiter=1000)
        assert coef[0] == pytest.approx(known.params, abs=1e-6)


@pytest.mark.usefixtures("short_chains")
def test_the_lasso_leaves_out_what_explains_nothing() -> None:
    generator = np.random.default_rng(2)
    x = generator.normal(size=(2000, 5))
    y = x[:, 0] - 0.5 * x[:, 1] + generator.normal(size=2000)
    cells = {"y": y, **{f"x{place}": x[:, place] for place in range(5)}}
    columns = tuple(number(name, values) for name, values in cells.items())
    found = lasso(released(columns, cells, 0.003, 4), "y", [f"x{place}" for place in range(5)])
    assert list(found.tables["chosen, share of draws"].estimate[:2]) == [1.0, 1.0]
    assert found.tables["chosen, share of draws"].estimate[2:].max() < 0.5
    assert found.tables["coefficients"].estimate[:2] == pytest.approx([1, -0.5], abs=0.2)
    assert "BIC" in found.summary()


def test_bad_names_are_refused() -> None:
    release = fair()[1]
    for call, told in (
        (lambda: nested(release, "age", ["educ", "children"], ["religious"]), "some of the features"),
        (lambda: nested(release, "age", ["educ"], ["educ"]), "not all of them"),
        (lambda: nested(release, "age", ["age", "educ"]), "the same column"),
        (lambda: nested(release, "age", []), "at least one column"),
        (lambda: correlations(release, ["age"]), "at least two columns"),
        (lambda: correlations(release, ["age", "weight"]), "not in this release: weight"),
    ):
        with pytest.raises(InvalidInput, match=told):
            call()


def test_features_that_determine_one_another_are_refused() -> None:
    generator = np.random.default_rng(2)
    a, b = generator.normal(size=(2, 100))
    cells = {"a": a, "b": b, "sum": a + b, "y": generator.normal(size=100)}
    release = released(tuple(number(name, values) for name, values in cells.items()), cells)
    with pytest.raises(InvalidInput, match="leave it out"):
        nested(release, "y", ["a", "b", "sum"])


@pytest.mark.usefixtures("short_chains")
def test_features_that_noise_hides_are_refused() -> None:
    table, _ = fair()
    names = ("affairs", "age", "educ")
    release = released(
        tuple(number(name, table[name]) for name in names), {name: table[name] for name in names}, 0.05, 1
    )
    with pytest.raises(InvalidInput, match="nothing can be told with affairs"):
        nested(release, "age", ["affairs", "educ"])
