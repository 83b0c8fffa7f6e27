"""Contingency tables: with exact moments those of scipy and statsmodels; with noise, what it hides is not interpreted."""

import numpy as np
import pytest
from scipy.stats import chi2_contingency
from scipy.stats.contingency import association
from statsmodels.stats.contingency_tables import Table2x2
from statsmodels.stats.proportion import confint_proportions_2indep

from dprelease.analyses import contingency_table
from dprelease.errors import InvalidInput
from tests.dprelease.analyses.releases import category, number, released
from tests.support.specs import categorical

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


def test_an_empty_cell_counts_as_half_a_patient() -> None:
    table = people(200)
    table["ill"] = np.where(table["smoker"] == "yes", "yes", table["ill"])
    found = contingency_table(released(COLUMNS, table), "smoker", "ill")
    (a, b), (c, d) = (
        [max(float(np.sum((table["smoker"] == x) & (table["ill"] == y))), 0.5) for y in ("yes", "no")]
        for x in ("yes", "no")
    )
    assert found.tables["ratios"].estimate[0] == pytest.approx(a * d / (b * c))


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


@pytest.mark.usefixtures("short_chains")
def test_no_count_is_below_none() -> None:
    table = people(4000)
    table["ill"] = np.where(table["smoker"] == "yes", "no", table["ill"])  # nobody is both
    found = contingency_table(released(COLUMNS, table, 0.02, 1), "smoker", "ill")
    counts = found.tables["counts"]
    assert counts.location.min() == 0
    assert counts.interval()[0][0] == 0
    assert "a cell below 0 counts as 0" in found.summary()


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


def test_a_category_of_one_level_that_noise_tells_is_refused() -> None:
    table = people(300) | {"smoker": np.full(300, "no")}
    with pytest.raises(InvalidInput, match="fewer than two levels of smoker are told from none"):
        contingency_table(released(COLUMNS, table, 0.05, 1), "smoker", "ill")
