"""Missing cells: exact moments give counts and F tests of the rows; noisy ones find nothing in cells that are missing at random."""

from __future__ import annotations

import json

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.stats import binom

from dprelease.analyses import missing_cells
from dprelease.analyses.missing_cells import _caveats, made_of
from dprelease.data.columns import CategoricalColumn, Column, NumericColumn
from dprelease.errors import InvalidInput
from dprelease.release.release import Release
from tests.dprelease.analyses.releases import category, released

WARDS = tuple(f"w{place}" for place in range(20))
BANDS = ("low", "middle", "high", "missing")
COLUMNS: tuple[Column, ...] = (
    CategoricalColumn(name="crp_missing", levels=("yes",), fill="yes", derivation="crp is missing"),
    CategoricalColumn(name="bmi_missing", levels=("yes",), fill="yes", derivation="bmi is missing"),
    NumericColumn(name="bmi", lower=10, upper=60, fill=60),
    CategoricalColumn(name="band", levels=BANDS, exhaustive=True, fill="missing", derivation="bmi cut at 22, 27"),
    NumericColumn(name="cost", lower=0, upper=300, fill=0),
    CategoricalColumn(name="ward", levels=WARDS, exhaustive=True, fill="w0"),
)


def table(n: int, seed: int, share: float = 0.2, together: float = 0.7, of_cost: float = 0.0) -> dict[str, np.ndarray]:
    """Cells of crp and bmi are missing together, and those of bmi have its upper bound then; costs have a heavy tail."""
    random = np.random.default_rng([n, seed])
    cost = np.clip(random.gamma(0.2, 60, n), 0, 300)
    crp = random.random(n) < share + of_cost * (cost > 10)
    bmi = random.random(n) < np.where(crp, together, 0.1)
    value = np.clip(random.normal(26, 5, n), 10, 60)
    return {
        "crp_missing": np.where(crp, "yes", "other"),
        "bmi_missing": np.where(bmi, "yes", "other"),
        "bmi": np.where(bmi, 60.0, value),
        "band": np.array(BANDS)[np.where(bmi, 3, np.searchsorted((22, 27), value))],
        "cost": cost,
        "ward": np.array(WARDS)[random.choice(20, n, p=np.r_[0.4, np.full(9, 0.06), np.full(10, 0.006)])],
    }


def release_of(n: int, seed: int = 0, sd: float = 0.0, **shape: float) -> Release:
    """With noise of `sd` patients in a product of binaries."""
    return released(COLUMNS, table(n, seed, **shape), sd / n, seed if sd else None)


def test_exact_moments_give_counts_and_the_f_tests_of_rows() -> None:
    rows = table(3000, 1, of_cost=0.02)
    found = missing_cells(released(COLUMNS, rows))
    crp, bmi = (rows[name] == "yes" for name in ("crp_missing", "bmi_missing"))
    assert found.tables["missing"].estimate == pytest.approx([crp.mean(), bmi.mean()])
    counts = [(crp & bmi).sum(), (crp & ~bmi).sum(), (~crp & bmi).sum(), (~crp & ~bmi).sum()]
    assert found.tables["patterns"].estimate == pytest.approx(counts)
    wards = np.column_stack([rows["ward"] == name for name in WARDS[1:]]).astype(float)
    bands = np.column_stack([rows["band"] == name for name in BANDS[1:3]]).astype(float)
    known = {
        ("crp_missing=yes", "bmi"): (crp, bmi, rows["bmi"]),
        ("crp_missing=yes", "band"): (crp, bmi, bands),
        ("crp_missing=yes", "cost"): (crp, None, rows["cost"]),
        ("crp_missing=yes", "ward"): (crp, None, wards),
        ("bmi_missing=yes", "cost"): (bmi, None, rows["cost"]),
        ("bmi_missing=yes", "ward"): (bmi, None, wards),
    }
    assert set(found.tests) == {f"whether {name} does not depend on {column}" for name, column in known}
    for (name, column), (y, given, x) in known.items():
        fixed = np.ones((len(y), 1)) if given is None else sm.add_constant(given.astype(float))
        whole, part = (sm.OLS(y.astype(float), each).fit() for each in (np.column_stack([fixed, x]), fixed))
        test = found.tests[f"whether {name} does not depend on {column}"]
        assert test.p_value == pytest.approx(whole.compare_f_test(part)[1], rel=1e-3, abs=1e-9)
    json.dumps(found.document().to_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("n", "sd", "shape"),
    [
        (200, 0.0, {}),
        (3000, 30.0, {}),
        pytest.param(3000, 30.0, {"share": 0.005}, marks=pytest.mark.slow),
        pytest.param(3000, 2.0, {"together": 0.95}, marks=pytest.mark.slow),
    ],
)
def test_cells_that_are_missing_at_random_are_found_as_often_as_it_says(
    n: int, sd: float, shape: dict[str, float]
) -> None:
    """Six tests of each of 25 releases have sizes between .02 and .075 at .05, but for chance of 1 in 10,000.

    Bands and numbers of bmi hold its fill where crp is missing more often. Tests of one release hang together a little, and
    twice as many tests as there are would be independent; the bounds take half.
    """
    found = [missing_cells(release_of(n, seed, sd, **shape)) for seed in range(25)]
    p = [test.p_value for each in found for test in each.tests.values()]
    refused, half = int((np.array(p) < 0.05).sum()), len(p) // 2
    assert len(p) == 150
    assert binom.ppf(1e-4, half, 0.02) <= refused / 2 <= binom.isf(1e-4, half, 0.075)


def test_counts_have_the_noise_of_their_sums() -> None:
    """Of one sum halved, and of three in quarters; a standard deviation of 2,000 draws errs by 1.6 %."""
    found = missing_cells(release_of(3000, 1, 30.0)).tables
    assert found["missing"].noise_sd * 3000 == pytest.approx([15, 15], rel=0.1)
    assert sum("clipped" in told for clips in (False, True) for told in _caveats(1, clips=clips)) == 1
    assert found["patterns"].noise_sd == pytest.approx(np.full(4, np.sqrt(3) * 7.5), rel=0.1)


def test_a_column_is_made_of_those_that_its_formula_names() -> None:
    formula = 'exit by years from admitted to left and status = "cut at" or "x" at 1.5'
    made = made_of([category("exit", "a").model_copy(update={"derivation": formula})])
    assert made == {"exit": {"exit", "admitted", "left", "status"}}


def test_a_level_may_say_that_cells_are_missing() -> None:
    """A band's `missing` without an indicator, and a level that the question names; neither is tested against its own column."""
    rows = table(2000, 4)
    found = missing_cells(released(COLUMNS[3:], rows))
    assert any("`describe` takes all sums together" in each for each in found.caveats)
    assert set(found.tests) == {f"whether band=missing does not depend on {name}" for name in ("cost", "ward")}
    assert "patterns" not in found.tables
    named = missing_cells(released(COLUMNS[4:], rows), ["ward=w0"])
    assert set(named.tests) == {"whether ward=w0 does not depend on cost"}
    # A band of a number that is derived itself follows from what that is made of.
    of_height = COLUMNS[1].model_copy(update={"derivation": "height is missing"})
    bmi = COLUMNS[2].model_copy(update={"derivation": "weight * height"})
    nested = missing_cells(released((of_height, bmi, *COLUMNS[3:]), rows), ["bmi_missing=yes"])
    assert set(nested.tests) == {f"whether bmi_missing=yes does not depend on {name}" for name in ("cost", "ward")}
    chosen = missing_cells(released(COLUMNS, rows), on=["cost"])
    assert len(chosen.tests) == 2
    # A cell that is always missing with another one, and a column without any missing cell, give no number that is none.
    same = {**rows, "crp_missing": rows["bmi_missing"]}
    assert "whether crp_missing=yes does not depend on bmi" not in missing_cells(released(COLUMNS, same)).tests
    none = {**rows, "crp_missing": np.full(2000, "other")}
    json.dumps(missing_cells(released(COLUMNS, none)).document().to_json(), allow_nan=False)
    json.dumps(missing_cells(released(COLUMNS, none, 0.01, 1)).document().to_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("indicators", "told"),
    [([], "no column of this release says that cells are missing"), (["cost"], "cost is a number, and no indicator")],
)
def test_what_cannot_be_asked_is_said(indicators: list[str], told: str) -> None:
    columns = (COLUMNS[4], category("sex", "yes"))
    rows = {"cost": np.arange(100.0), "sex": np.array(["yes", "no"] * 50)}
    with pytest.raises(InvalidInput, match=told):
        missing_cells(released(columns, rows), indicators)
