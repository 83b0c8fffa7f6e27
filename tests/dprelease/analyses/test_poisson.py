"""Poisson regression: near statsmodels' on the rows without noise; with it intervals hold the truth and nothing is invented."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.stats import binom

from dprelease.analyses import poisson
from dprelease.errors import InvalidInput
from tests.dprelease.analyses.releases import category, released
from tests.support.specs import categorical

FALLS, AGES = ("0", "1", "2", "3", "4", ">= 5"), ("young", "middle", "old")
COLUMNS = (
    categorical("falls", *FALLS, exhaustive=True, fill="0"),
    category("frail", "yes"),
    categorical("age", *AGES, exhaustive=True, fill="old"),
)
EFFECTS = np.array([0.6, 0.3, 0.5])
NOISE = 40.0
"""Patients: of a release of some six columns at epsilon = 1, delta = 1e-5."""


def patients(n: int, effects: np.ndarray, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """A table; the features behind it, and the counts."""
    random = np.random.default_rng(seed)
    age = random.integers(3, size=n)
    frail = random.random(n) < 0.2 + 0.2 * age
    x = np.column_stack([frail, age == 1, age == 2]).astype(float)
    count = np.minimum(random.poisson(0.5 * np.exp(x @ effects)), 5)
    table = {"falls": np.array(FALLS)[count], "frail": np.where(frail, "yes", "no"), "age": np.array(AGES)[age]}
    return table, x, count


def test_without_noise_it_is_nearly_the_regression_on_the_rows() -> None:
    n = 50_000
    table, x, count = patients(n, EFFECTS, 1)
    wanted = sm.GLM(count, sm.add_constant(x), sm.families.Poisson()).fit(cov_type="HC0")
    found = poisson(released(COLUMNS, table), "falls", ["frail", "age"])
    slopes = found.tables["coefficients"]
    assert slopes.names == ("frail=yes", "age=middle", "age=old")
    np.testing.assert_allclose(slopes.estimate, wanted.params[1:], atol=0.05)
    assert (slopes.standard_error > 0.95 * wanted.bse[1:]).all()
    np.testing.assert_allclose(np.log(found.tables["rate ratios"].estimate), slopes.estimate)
    assert found.facts["mean"] == f"{count.mean():.4g} of falls"
    assert found.caveats[-1].startswith("Patients of >= 5 count as that number")


@pytest.mark.parametrize("effects", [EFFECTS, 0 * EFFECTS], ids=["effects", "none"])
def test_intervals_hold_the_truth(effects: np.ndarray) -> None:
    """Coverage is .92 at least, but for chance of 1 in 10,000; the coefficients of a release count as two independent ones."""
    n, releases, held = 5000, 15, []
    for seed in range(releases):
        table, _, _ = patients(n, effects, 10 + seed)
        slopes = poisson(released(COLUMNS, table, NOISE / n, seed), "falls", ["frail", "age"]).tables["coefficients"]
        lower, upper = slopes.interval()
        held.append(((lower <= effects) & (effects <= upper)).mean())
    assert np.mean(held) * 2 * releases >= binom.ppf(1e-4, 2 * releases, 0.92)


def test_levels_that_are_no_counts_are_refused() -> None:
    table, _, _ = patients(2000, EFFECTS, 1)
    with pytest.raises(InvalidInput, match="age has levels that are no counts, young"):
        poisson(released(COLUMNS, table), "age", ["frail"])
