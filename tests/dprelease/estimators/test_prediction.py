"""Intervals of predictions: of the mean of patients with such features, and of one patient who was not in the release."""

from typing import get_args

import numpy as np
import pytest

from dprelease.errors import InvalidInput
from dprelease.estimators.design import design
from dprelease.estimators.fitting import fit
from dprelease.estimators.intervals.inference import Predicted, infer
from dprelease.estimators.regressors import LinearRegression
from dprelease.estimators.result import FAR
from dprelease.release.release import Release
from tests.support.r_folders import AGE, SMOKER, STAGE, SYSTOLIC, cells, made
from tests.support.specs import build_spec

FEATURES = ("age", "smoker=yes")
DRAWS, HELD = 10, 400


def release_of(mechanism: str, seed: int = 1, epsilon: float = 2.0, rows: int = 4000) -> Release:
    spec = build_spec({"north": (AGE, SMOKER, STAGE, SYSTOLIC)}, rows=rows, epsilon=epsilon, mechanism=mechanism)
    return Release(spec, made(spec, seed=seed), ())


@pytest.mark.parametrize(("mechanism", "epsilon"), [("moments", 2.0), ("rows", 60.0)])
def test_intervals_of_others_hold_as_often_as_they_say(mechanism: str, epsilon: float) -> None:
    """Patients' coverages spread by .016 over releases, and those of the mean, which are correlated, by .13."""
    held = []
    for seed in range(DRAWS):
        release, others = release_of(mechanism, seed, epsilon), cells((AGE, SMOKER, SYSTOLIC), HELD, 1000 + seed)
        points = np.column_stack([np.asarray(others["age"]), np.array(others["smoker"]) == "yes"])
        found = infer(release, design(release, ["systolic"], FEATURES), intercept=True, points=points)
        for interval, wanted in (("confidence", 95 + points @ [0.6, 6.0]), ("prediction", others["systolic"])):
            _, lower, upper = found.predicted(interval)  # type: ignore[arg-type]
            held.append(((lower[:, 0] <= np.asarray(wanted)) & (np.asarray(wanted) <= upper[:, 0])).mean())
    mean, patient = np.reshape(held, (DRAWS, 2)).mean(axis=0)
    assert abs(patient - 0.95) < 4 * 0.016 / DRAWS**0.5
    assert mean > 0.95 - 4 * 0.13 / DRAWS**0.5


@pytest.mark.usefixtures("short_chains")
def test_the_mean_at_the_origin_is_the_intercept_and_patients_spread_about_it() -> None:
    result = fit(release_of("moments"), ["systolic", "age"], ["smoker", "stage"])
    found, origin = result.inference, np.zeros((1, len(result.features)))
    value, lower, upper = result.predict_interval(origin)
    ends = found.intercepts.interval()
    reach = FAR * (result.upper - result.lower)
    least, most = result.lower - reach, result.upper + reach
    for ours, theirs in ((value, found.intercepts.estimate), (lower, ends[0]), (upper, ends[1])):
        np.testing.assert_allclose(ours[0], np.clip(theirs, least, most), rtol=1e-12)
    alone = result.predict_interval(origin, "prediction")
    assert (alone[1] < lower).all()
    assert (upper < alone[2]).all()
    narrow = result.predict_interval(origin, "prediction", level=0.5)
    assert ((alone[1] < narrow[1]) & (narrow[2] < alone[2])).all()
    assert ((least <= alone[1]) & (alone[2] <= most)).all()
    rows = np.random.default_rng(1).uniform(0, 1, (5, len(result.features)))
    np.testing.assert_allclose(
        result.predict_interval(rows)[0], rows @ np.nan_to_num(found.estimate.T) + found.intercepts.estimate, rtol=1e-12
    )


def test_the_classes_of_scikit_learn_s_kind_say_the_same_and_refuse_nonsense() -> None:
    model = LinearRegression().fit(release_of("moments"), "systolic", FEATURES)
    somebody = {"age": [40.0, 60.0], "smoker=yes": [0.0, 1.0]}
    for interval in get_args(Predicted):
        ours, theirs = (each.predict_interval(somebody, interval, 0.9) for each in (model, model.result_))
        for one, other in zip(ours, theirs, strict=True):
            assert one.shape == (2,)
            np.testing.assert_array_equal(one, other[:, 0])
    with pytest.raises(InvalidInput, match="interval is 'confidence' or 'prediction', not 'none'"):
        model.predict_interval(somebody, "none")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="lies between 0 and 1, and 2 does not"):
        model.predict_interval(somebody, level=2)
    with pytest.raises(InvalidInput, match="call fit first"):
        LinearRegression().predict_interval(somebody)


@pytest.mark.usefixtures("short_chains")
def test_nothing_is_predicted_where_nothing_was_learned() -> None:
    result = fit(release_of("moments", epsilon=0.01, rows=300), ["systolic"], FEATURES)
    assert all(np.isnan(each).all() for each in result.predict_interval(np.ones((3, 2)), "prediction"))
