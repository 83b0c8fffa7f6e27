"""The fit of a simulation: what it explains of the made-up rows, beside least squares on them and the planner."""

from pathlib import Path

import numpy as np
import pytest

from coordinator.dry_run.dry_run import explained, trial
from dprelease.errors import InvalidInput
from tests.support.noise import SeededNoise, ZeroNoise
from tests.support.simulations import simulated
from tests.support.specs import build_spec, categorical, numeric

pytestmark = pytest.mark.usefixtures("short_chains")

THREE = {
    "a": (numeric("x", 10.0, 20.0), categorical("colour", "red", "green")),
    "b": (numeric("z"), categorical("smokes", "yes")),
    "c": (numeric("y", -5.0, 0.0),),
}


def test_the_share_explained() -> None:
    y = np.array([1.0, 2.0, 3.0])
    assert explained(y, y) == 1
    assert explained(y, np.full(3, 2.0)) == 0
    assert explained(y, 4 - y) == -3


@pytest.mark.parametrize("outcome_only", [False, True])
@pytest.mark.parametrize("outcome", ["y", "smokes", "colour"])
def test_with_little_noise_the_fit_is_that_of_least_squares(outcome: str, outcome_only: bool, tmp_path: Path) -> None:
    outcomes = (outcome,) if outcome_only else ()
    spec = build_spec(THREE, mechanism="moments", rows=2000, epsilon=200.0, outcomes=outcomes)
    found = trial(simulated(spec, outcome, tmp_path, ZeroNoise()), outcome)
    assert found.signal > 0.15
    assert found.r2 == pytest.approx(found.signal, abs=1e-3)
    assert found.expected.r2 == pytest.approx(found.signal, abs=2e-2)
    assert found.constant_r2 == pytest.approx(0, abs=1e-3)


def test_the_planner_is_asked_about_this_very_release(tmp_path: Path) -> None:
    spec = build_spec(THREE, rows=2000, outputs=400, epsilon=20.0, anchor_weight="1/7")
    found = trial(simulated(spec, "y", tmp_path, SeededNoise(11)), "y")
    assert found.expected.signal == found.signal
    assert found.result.method == "calibrated"
    other = trial(
        simulated(build_spec(THREE, rows=2000, outputs=50, epsilon=20.0), "y", tmp_path, SeededNoise(11)), "y"
    )
    assert other.expected.error_ratio > found.expected.error_ratio
    # Made-up rows differ from run to run with the throw-away keys; one draw of 400 mixing rows has a standard error of 0.04.
    assert found.r2 == pytest.approx(found.expected.r2, abs=0.3)
    assert found.r2 < found.signal


def test_a_fit_needs_another_column(tmp_path: Path) -> None:
    spec = build_spec({"solo": (numeric("x"),)}, mechanism="moments", rows=50)
    with pytest.raises(InvalidInput):
        trial(simulated(spec, "x", tmp_path, ZeroNoise()), "x")
