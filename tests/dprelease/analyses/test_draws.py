"""Draws in original units, and what is said of every analysis."""

import numpy as np
import pytest

from dprelease.analyses import contingency_table, correlations, cronbach_alpha, logistic, nested, rates, survival
from dprelease.data.columns import OrderedColumn
from dprelease.errors import InvalidInput
from dprelease.estimators.evidence.evidence import WIDEST
from dprelease.release.release import Release
from tests.dprelease.analyses.releases import category, released
from tests.dprelease.analyses.survey import anes
from tests.support.specs import numeric


def wide(count: int) -> Release:
    generator = np.random.default_rng(3)
    rows = np.clip(generator.normal(0, 0.4, (500, count)) + generator.normal(0, 0.2, (500, 1)), -1, 1)
    names = [f"x{place}" for place in range(count)]
    columns = (category("arm", "a", "b"), *(numeric(name) for name in names))
    cells = {"arm": generator.choice(["a", "b"], 500)} | dict(zip(names, rows.T, strict=True))
    return released(columns, cells, 0.002, 1)


@pytest.mark.usefixtures("short_chains")
def test_of_a_wide_release_the_named_columns_are_drawn() -> None:
    release = wide(WIDEST + 10)
    table = correlations(release, ["x0", f"x{WIDEST + 9}"], ["arm"]).tables["correlations"]
    moments = release.moments()
    at = [moments.lookup(name)[0] for name in ("x0", f"x{WIDEST + 9}")]
    s = moments.gram / moments.rows
    seen = (s[at[0], at[1]] - s[0, at[0]] * s[0, at[1]]) / np.sqrt(np.prod([s[i, i] - s[0, i] ** 2 for i in at]))
    assert table.estimate[0] == pytest.approx(seen, abs=0.03)
    with pytest.raises(InvalidInput, match=f"up to {WIDEST} variables"):
        cronbach_alpha(release, [f"x{place}" for place in range(WIDEST + 1)])


def test_several_rows_of_a_patient_are_said() -> None:
    release = anes()[1]
    repeated = Release(release.spec.model_copy(update={"rows_per_subject": 3}), {}, release.guarantee)
    repeated.__dict__["view"] = release.view
    told = "a patient may have several"
    assert told in correlations(repeated, ["age", "income"]).summary()
    assert told not in correlations(release, ["age", "income"]).summary()


def test_features_of_nobody_are_refused() -> None:
    with pytest.raises(InvalidInput, match="does not tell the patients of party=other from none"):
        nested(anes()[1], "income", ["party=other"])


def test_an_outcomes_own_column_explains_nothing() -> None:
    with pytest.raises(InvalidInput, match="its own column; leave out party=middle"):
        nested(anes()[1], "party=left", ["party=middle", "age"])


def test_units_of_others_are_only_text() -> None:
    columns = (category("arm", "a"), numeric("years", 0, 5, unit="\x1b[31m\nyears"), numeric("falls", 0, 5))
    generator = np.random.default_rng(1)
    cells = {"arm": generator.choice(["a", "b"], 90), "years": generator.uniform(1, 5, 90), "falls": np.ones(90)}
    release = released(columns, cells)
    with pytest.raises(InvalidInput, match=r"^years: these are not the levels of a column of exits; declare one"):
        survival(release, "years", "arm")
    shown = rates(release, "falls", "years", "arm").summary()
    assert "\x1b" not in shown
    assert r"events per \x1b[31m\nyears" in shown


def test_scores_stand_above_what_they_are_in_and_a_level_that_all_have_is_to_be_left_out() -> None:
    stage = OrderedColumn(name="stage", levels=("I", "II", "III"), fill="I")
    columns = (category("arm", "a"), category("ill", "yes"), category("house", "main"), stage, numeric("age", 0, 1))
    place = np.arange(3_000)
    cells = {
        "arm": np.where(place % 2, "a", "b"),
        "ill": np.where(place % 3, "yes", "no"),
        "house": np.full(3_000, "main"),
    }
    cells |= {"stage": np.array(["I", "II", "III"])[place // 7 % 3], "age": place / 3_000}
    release = released(columns, cells, 0.002, 3)
    assert "scores" not in contingency_table(release, "arm", "ill").summary()
    assert "0 = I, 1 = II, 2 = III" in correlations(release, ["stage", "age"]).summary()
    with pytest.raises(InvalidInput, match=r"without house=main from none, and these are the reference; leave it out$"):
        logistic(release, "ill", ["arm", "house"])
