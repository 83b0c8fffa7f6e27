"""Which weight to give an outcome: the least expected error, from public numbers alone, and what it is worth and costs."""

import math
from typing import Any

import pytest

from dprelease.data.columns import LARGEST_WEIGHT
from dprelease.errors import InvalidInput
from dprelease.mechanisms.assumptions import Scenario
from dprelease.planning.comparison import Weighing, outcome_weight
from dprelease.planning.forecast import forecast, proposed
from dprelease.spec_base import Target
from tests.support.plans import changed, planned


def setting(rows: int, widths: str, scope: str = "per-party", **others: Any) -> Scenario:
    target = Target.model_validate({"scope": scope, "epsilon": 1.0, "delta": 1e-5})
    return planned(rows, widths, target, others.pop("mechanism", "mixed"), **others)


@pytest.mark.parametrize("mechanism", ["mixed", "rows"])
@pytest.mark.parametrize("scope", ["joint", "per-party"])
def test_no_other_weight_is_expected_to_do_better(scope: str, mechanism: str) -> None:
    where = setting(200_000, "3,3,3,3,3", scope, mechanism=mechanism)
    found = outcome_weight(where, 0.3)
    errors = [
        forecast(changed(where, weights={"x15": weight}), 0.3).error_ratio for weight in range(1, LARGEST_WEIGHT + 1)
    ]
    assert min(errors) == errors[found.weight - 1] == pytest.approx(found.error * errors[0])
    assert found.weight > 1
    assert (found.outcome, found.joint) == ("x15", scope == "joint")


@pytest.mark.parametrize(("scope", "others"), [("joint", 14), ("per-party", 2)])
def test_what_it_costs_follows_from_the_sensitivities(scope: str, others: int) -> None:
    found = outcome_weight(setting(200_000, "3,3,3,3,3", scope))
    assert found.others == pytest.approx(math.sqrt((others + found.weight**2) / (others + 1)), rel=1e-6)


def test_where_noise_is_all_there_is_a_joint_outcome_gets_half_of_the_sensitivity() -> None:
    # Hardly anything is left to explain but noise, and rows without a mixing matrix have k = n: error ~ (D + w^2)^2 / w^2.
    where = setting(10**5, ",".join(["1"] * 26), "joint", mechanism="rows")
    assert outcome_weight(where, 1e-9).weight == 5


def test_an_outcome_that_shares_its_noise_with_one_column_needs_no_weight() -> None:
    assert outcome_weight(setting(10**6, "1,1", "joint")) == Weighing("x2", 1, 1.0, 1.0, True)
    assert "not expected to make this fit better" in outcome_weight(setting(10**6, "1,1", "joint")).explain()


def test_what_is_said() -> None:
    joint = Weighing("glucose", 3, 0.641, 1.27, joint=True).explain()
    assert joint == (
        "Blocks: with weights = { glucose = 3 } the error of this fit is expected to be 0.64 times that without; "
        "the noise of all other columns grows 1.27 times."
    )
    assert "the noise of its hospital's other columns grows" in Weighing("y", 2, 0.9, 1.4, joint=False).explain()


def test_a_weight_moves_noise_from_one_column_to_the_others() -> None:
    where = setting(200_000, "3,3", mechanism="rows")
    plain, weighed = proposed(where).noise, proposed(changed(where, weights={"x6": 2}))
    assert weighed.noise.variance["party1"] == plain.variance["party1"]
    assert weighed.noise.variance["party2"] == pytest.approx(2 * plain.variance["party2"], rel=1e-6)
    # party1 has 3 columns of variance v; party2 two of 2 v and one of 2 v / 4.
    mean = weighed.mean_variance()
    assert mean == pytest.approx((3 + 2 * 2 + 0.5) / 6 * plain.variance["party1"], rel=1e-6)
    first, second = (
        forecast(changed(where, outcome="x6", features=("x1",), weights=weights), 0.5).constant_r2
        for weights in ({}, {"x6": 2})
    )
    assert second == pytest.approx(first / 2, rel=1e-2)


@pytest.mark.parametrize("weights", [{"x7": 2}, {"x1": 0}, {"x1": 17}])
def test_settings_with_weights_that_no_release_has_are_refused(weights: dict[str, int]) -> None:
    with pytest.raises(InvalidInput):
        forecast(setting(1000, "3,3", weights=weights), 0.5)
