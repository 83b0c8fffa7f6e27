"""Logistic regression on combinations is that of statsmodels on the rows behind them."""

import numpy as np
import pytest
import statsmodels.api as sm

from dprelease.analyses.weighted_logit import Cloglog, Logit, Poisson
from dprelease.errors import InvalidInput
from tests.dprelease.analyses.survey import anes


@pytest.mark.parametrize(
    ("model", "link"),
    [(Logit, sm.families.links.Logit()), (Cloglog, sm.families.links.CLogLog())],
    ids=["logit", "complementary log-log"],
)
def test_combinations_give_what_rows_give(model: type[Logit], link: sm.families.links.Link) -> None:
    table, _ = anes()
    x = np.column_stack(
        [np.ones(len(table)), table["party"] == "left", table["party"] == "middle", table["young"] == "yes"]
    ).astype(float)
    y = (table["vote"] == "dole").to_numpy()
    rows, at = np.unique(x, axis=0, return_inverse=True)
    share, yes = (np.bincount(at, each, len(rows)) / len(y) for each in (np.ones(len(y)), y))
    found, wanted = model.of(rows, share, yes), sm.GLM(y.astype(float), x, sm.families.Binomial(link)).fit(tol=1e-12)
    np.testing.assert_allclose(found.coef, wanted.params, rtol=1e-6)
    np.testing.assert_allclose(np.sqrt(np.diag(found.inverse) / len(y)), wanted.bse, rtol=1e-6)


@pytest.mark.parametrize(
    ("model", "yes", "told"),
    [(Logit, 0.5, "no odds ratio is"), (Cloglog, 0.0, "no hazard ratio is"), (Poisson, 0.0, "no rate ratio is")],
)
def test_what_decides_the_outcome_is_refused(model: type[Logit], yes: float, told: str) -> None:
    rows = np.array([[1.0, 0.0], [1.0, 1.0]])
    with pytest.raises(InvalidInput, match=f"decides the outcome, and {told} finite"):
        model.of(rows, np.array([0.5, 0.5]), np.array([0.2, yes]))


def test_a_feature_that_follows_from_others_is_refused() -> None:
    """Singular to rounding only, which no solver of equations notices."""
    random = np.random.default_rng(1)
    rows = np.column_stack([np.ones(50), random.random((50, 2))])
    rows = np.column_stack([rows, rows @ np.array([0.1, 0.7, 1 / 3]) + 1e-9 * random.random(50)])
    with pytest.raises(InvalidInput, match="follows from the others"):
        Logit.of(rows, np.full(50, 0.02), np.full(50, 0.008) * random.random(50))


def test_counts_are_regressed_as_by_a_generalised_linear_model() -> None:
    random = np.random.default_rng(1)
    rows = np.column_stack([np.ones(4), [0, 1, 0, 1], [0, 0, 1, 1]]).astype(float)
    at = random.integers(4, size=500)
    y = random.poisson(np.exp(rows[at] @ [2.0, 0.5, -0.3]))
    share, mean = (np.bincount(at, each, 4) / len(y) for each in (np.ones(len(y)), y))
    found, wanted = Poisson.of(rows, share, mean), sm.GLM(y, rows[at], sm.families.Poisson()).fit()
    np.testing.assert_allclose(found.coef, wanted.params, rtol=1e-6)
    np.testing.assert_allclose(np.sqrt(np.diag(found.inverse) / len(y)), wanted.bse, rtol=1e-6)
