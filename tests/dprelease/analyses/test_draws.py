"""Draws in original units, and what is said of every analysis."""

import numpy as np
import pytest

from dprelease.analyses import correlations, cronbach_alpha, nested, rates
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
    shown = rates(released(columns, cells), "falls", "years", "arm").summary()
    assert "\x1b" not in shown
    assert r"1/\x1b[31m\nyears" in shown
