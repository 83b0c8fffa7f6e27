"""Logistic regression from moments: the discriminant to rounding, maximum likelihood within stated bounds."""

import numpy as np
import pytest
import statsmodels.api as sm

from dprelease.analyses import logistic
from dprelease.errors import InvalidInput
from tests.dprelease.analyses.releases import category, number, released
from tests.dprelease.analyses.survey import anes, fair
from tests.support.specs import categorical

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


def test_of_no_and_yes_it_models_yes_unless_told_otherwise() -> None:
    x = np.random.default_rng(6).normal(size=500)
    columns = (categorical("ill", "no", "yes", exhaustive=True, fill="no"), number("x", x))
    release = released(columns, {"ill": np.where(x > 0, "yes", "no"), "x": x})
    for outcome, level, sign in (("ill", "yes", 1), ("ill=no", "no", -1)):
        found = logistic(release, outcome, ["x"])
        assert f"Logistic regression of ill={level}," in found.summary()
        assert np.sign(found.tables["coefficients"].estimate) == sign


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
    assert found.tables["intercept"].estimate[0] == pytest.approx(
        start, abs=0.1 * (1 + strength**2) / np.sqrt(share / 0.5)
    )
    assert [told in warning for warning in found.caveats[2:]] == ([True] if told else [])


def test_what_cannot_be_an_outcome_is_refused() -> None:
    release = anes()[1]
    with pytest.raises(InvalidInput, match="income is a number"):
        logistic(release, "income", ["age"])
    with pytest.raises(InvalidInput, match="the same column"):
        logistic(release, "vote", ["vote", "age"])
