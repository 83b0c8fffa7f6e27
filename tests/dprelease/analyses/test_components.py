"""Principal components, Cronbach's alpha and rates: with exact moments those of numpy and statsmodels."""

import numpy as np
import pytest
from scipy.stats import chi2
from statsmodels.multivariate.pca import PCA
from statsmodels.stats.rates import confint_poisson_2indep
from statsmodels.stats.rates import test_poisson_2indep as poisson_test

from dprelease.analyses import cronbach_alpha, principal_components, rates
from dprelease.errors import InvalidInput
from tests.dprelease.analyses.releases import category, number, released
from tests.dprelease.analyses.survey import fair

ITEMS = ["age", "yrs_married", "children", "educ", "occupation"]


def test_components_are_those_of_statsmodels() -> None:
    table, release = fair()
    found, known = principal_components(release, ITEMS, 3), PCA(table[ITEMS], standardize=True)
    share = known.eigenvals / known.eigenvals.sum()
    assert found.tables["share of variance"].estimate == pytest.approx(share)
    for place in range(3):
        loadings = found.tables[f"loadings of component {place + 1}"].estimate
        assert np.abs(loadings) == pytest.approx(np.abs(known.eigenvecs.iloc[:, place]))
        assert loadings[np.abs(loadings).argmax()] > 0


@pytest.mark.usefixtures("short_chains")
def test_components_that_noise_does_not_tell_apart_are_named() -> None:
    x = np.random.default_rng(1).normal(size=(2000, 4))
    cells = {f"x{place}": x[:, place] for place in range(4)}
    release = released(tuple(number(name, values) for name, values in cells.items()), cells, 0.01, 2)
    assert "The sizes of components 1 and 2" in principal_components(release, list(cells)).warnings[0]


def test_alpha() -> None:
    table, release = fair()
    items = table[ITEMS[:3]].to_numpy()
    known = 1.5 * (1 - items.var(axis=0).sum() / items.sum(axis=1).var())
    assert cronbach_alpha(release, ITEMS[:3]).tables["reliability"].estimate[0] == pytest.approx(known)


def test_counts_of_components_and_columns_are_checked() -> None:
    release = fair()[1]
    with pytest.raises(InvalidInput, match="1 to 5 components, not 6"):
        principal_components(release, ITEMS, 6)
    with pytest.raises(InvalidInput, match="at least two columns"):
        cronbach_alpha(release, ["age"])


def followed(n: int, seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    arm, years = generator.choice(["drug", "placebo", "none"], n), generator.uniform(0.5, 5, n)
    rate = np.select([arm == "drug", arm == "placebo"], [0.1, 0.2], 0.25)
    return {"arm": arm, "years": years, "falls": generator.poisson(rate * years)}


def test_rates_are_those_of_statsmodels() -> None:
    cells = followed(500)
    columns = (
        category("arm", "drug", "placebo", "none"),
        number("years", cells["years"], "years"),
        number("falls", [0, 12]),
    )
    found = rates(released(columns, cells), "falls", "years", "arm")
    sums = {
        arm: (cells["falls"][cells["arm"] == arm].sum(), cells["years"][cells["arm"] == arm].sum())
        for arm in columns[0].levels
    }
    assert found.tables["rates"].estimate == pytest.approx([count / time for count, time in sums.values()])
    assert found.tables["rates"].units == ("events per year",) * 3
    ratios = found.tables["rate ratios"]
    for place, arm in enumerate(("placebo", "none")):
        pair = (*sums[arm], *sums["drug"])
        assert ratios.p_value[place] == pytest.approx(poisson_test(*pair, method="wald-log").pvalue)
        ends = confint_poisson_2indep(*pair, method="wald-log", compare="ratio")
        assert [end[place] for end in ratios.interval()] == pytest.approx(ends, rel=1e-6)
    count, time = (np.array(part, float) for part in zip(*sums.values(), strict=True))
    log = np.log(count / time)
    wald = (count * (log - np.average(log, weights=count)) ** 2).sum()
    test = found.tests["the rates are equal"]
    assert (test.statistic, test.p_value) == (pytest.approx(wald), pytest.approx(chi2.sf(wald, 2)))


def test_groups_without_events_are_left_out_and_one_group_is_refused() -> None:
    cells = followed(800)
    cells["falls"] = np.where(cells["arm"] == "none", 0, cells["falls"])
    columns = (category("arm", "drug", "placebo", "none"), number("years", cells["years"]), number("falls", [0, 12]))
    assert "arm=none" in rates(released(columns, cells), "falls", "years", "arm").warnings[0]
    cells["falls"] = np.where(cells["arm"] == "drug", 0, cells["falls"])
    with pytest.raises(InvalidInput, match="fewer than two groups of arm"):
        rates(released(columns, cells), "falls", "years", "arm")
