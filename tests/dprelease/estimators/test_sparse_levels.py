"""Levels that hardly anybody has: they do not hide the coefficients of all other features."""

import json

import numpy as np
import pytest

from dprelease.estimators import fit
from dprelease.estimators.design import design
from dprelease.estimators.intervals.inference import Inference, infer
from dprelease.release.release import Release
from tests.dprelease.analyses.releases import category, number
from tests.dprelease.analyses.releases import released as moments_released
from tests.support.specs import categorical, numeric

ROWS, NOISE = 4000, 0.004  # a count's noise has a standard deviation of 16 patients
STAGES = ("none", "early", "late")


def stages(shares: tuple[float, ...], noise: float = NOISE, seed: int | None = 5) -> Release:
    """A severity that depends on age and stage, whose three levels are exhaustive."""
    random = np.random.default_rng(3)
    age, smokes = random.uniform(20, 80, ROWS), random.choice(["yes", "no"], ROWS)
    stage = np.repeat(STAGES, np.rint(ROWS * np.array(shares)).astype(int))
    severity = 0.2 * age + 3 * (stage == "late") - (smokes == "yes") + random.normal(0, 1, ROWS)
    columns = (
        number("severity", severity),
        number("age", age),
        categorical("stage", *STAGES, exhaustive=True, fill="none"),
        category("smokes", "yes"),
    )
    return moments_released(
        columns, {"severity": severity, "age": age, "stage": stage, "smokes": smokes}, noise, seed=seed
    )


def of_features(
    release: Release, features: tuple[str, ...], target: str = "severity", *, intercept: bool = True
) -> Inference:
    return infer(release, design(release, [target], features), intercept=intercept)


@pytest.mark.parametrize(
    ("shares", "merged"),
    [
        ((0.6, 0, 0.4), {"stage=early": ("stage=none",)}),
        ((0.598, 0.002, 0.4), {"stage=early": ("stage=none",)}),
        ((0, 0.6, 0.4), {"stage=early": ("stage=none",)}),  # the reference is empty, so the next level takes its place
        ((0.3, 0.3, 0.4), {}),
    ],
    ids=["nobody", "few", "empty reference", "all"],
)
def test_the_other_coefficients_are_those_of_a_fit_without_it(
    shares: tuple[float, ...], merged: dict[str, tuple[str, ...]]
) -> None:
    release = stages(shares)
    features = ("age", "stage=early", "stage=late", "smokes=yes")
    found = of_features(release, ("age", "stage", "smokes"))
    assert found.merged == merged
    assert found.identified.all()
    kept = [place for place, name in enumerate(features) if name not in merged]
    alone = of_features(release, tuple(features[place] for place in kept))
    for name in ("estimate", "standard_error", "z", "p_value"):
        np.testing.assert_array_equal(getattr(found, name)[:, kept], getattr(alone, name))
    np.testing.assert_array_equal(found.intercepts.estimate, alone.intercepts.estimate)
    assert np.isnan(found.estimate).sum() == len(merged)
    lower, upper = found.interval(1 - 1e-5)
    assert lower[0, 2] < 3 < upper[0, 2]


def test_the_commonest_level_takes_the_place_of_a_rare_reference() -> None:
    """Were it the next level, 6 % of the patients would be the reference, in which noise hides how the features vary."""
    release = stages((0.01, 0.05, 0.94), noise=0.012)
    found = of_features(release, ("age", "stage"))
    assert found.merged == {"stage=late": ("stage=none",)}
    np.testing.assert_array_equal(found.estimate[:, :2], of_features(release, ("age", "stage=early")).estimate)


def test_a_rare_level_is_counted_with_the_reference_where_it_hides_the_others_though_it_is_seen_itself() -> None:
    """Its share is four standard deviations of noise; beside ten more features noise hides how it varies."""
    random = np.random.default_rng(4)
    stage = np.repeat(STAGES, [2240, 160, 1600])
    numbers = {f"z{place}": random.uniform(-0.5, 0.5, ROWS) for place in range(11)}
    columns = (*map(numeric, numbers), categorical("stage", *STAGES, exhaustive=True, fill="none"))
    release = moments_released(columns, {**numbers, "stage": stage}, 0.01)
    found = of_features(release, (*list(numbers)[1:], "stage"), "z0")
    assert found.merged == {"stage=early": ("stage=none",)}
    assert found.identified.all()


@pytest.mark.usefixtures("short_chains")
def test_a_table_and_plain_data_name_what_is_counted_together() -> None:
    found = fit(stages((0.6, 0, 0.4)), ["severity"], ["age", "stage"])
    told = "Counted together, as one of the two has too few patients for the noise: stage=early with stage=none."
    assert told in found.document().notes
    assert found.inference.statement == ""
    saved = json.loads(json.dumps(found.document().to_json()))
    assert saved["counted_together"] == {"stage=early": ["stage=none"]}
    early = next(row for row in saved["coefficients"] if row["feature"] == found.features[1])
    assert early["coefficient"]["estimate"] is None
