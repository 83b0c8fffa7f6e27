"""k and rho depend on public numbers only, by the published rules."""

from __future__ import annotations

import math

import pytest

from dprelease.data.columns import Column
from dprelease.errors import InvalidInput
from dprelease.mechanisms.noisy_rows.calibration import mixing_of, plan_mixing
from dprelease.mechanisms.noisy_rows.terms import MixingKind
from dprelease.privacy.gaussian import mu_of
from dprelease.spec_base import Target
from tests.support.specs import categorical, numeric

PARTIES: dict[str, tuple[Column, ...]] = {
    "a": tuple(numeric(f"x{i}") for i in range(3)),
    "b": (numeric("y"), categorical("sex", "f", "m")),
}
P = 7  # three numbers; one number and three levels


def target(scope: str = "joint", epsilon: float = 1.0) -> Target:
    return Target.model_validate({"scope": scope, "epsilon": epsilon, "delta": 1e-5})


@pytest.mark.parametrize("subject_rows", [1, 2])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("rows", [50, 1000, 30_000])
def test_rules_written_out(rows: int, epsilon: float, subject_rows: int) -> None:
    plan = plan_mixing(rows, PARTIES, target(epsilon=epsilon), subject_rows)
    s2 = (4 * 3 + 4 + 2) * subject_rows**2 / mu_of(epsilon, 1e-5) ** 2
    nu = rows / s2
    wanted = math.ceil(math.sqrt((0.1 * nu) ** 2 + P * nu))
    assert plan.noise_variance == pytest.approx(s2, rel=1e-12)
    assert plan.outputs == min(rows, max(3 * P, wanted))
    assert float(plan.anchor_weight) == pytest.approx(min(0.3, max(0.02, 1500 * s2 / rows**2)), abs=5e-4)
    assert (plan.rows, plan.columns) == (rows, P)


def test_a_per_party_target_averages_the_parties_own_noise_over_columns() -> None:
    plan = plan_mixing(1000, PARTIES, target("per-party"))
    assert plan.noise_variance == pytest.approx((3 * 12 + 4 * 6) / P / mu_of(1.0, 1e-5) ** 2, rel=1e-12)


@pytest.mark.parametrize("scope", ["joint", "per-party"])
def test_weights_count_squared_in_what_a_party_needs_and_divide_the_columns_noise(scope: str) -> None:
    plan = plan_mixing(1000, PARTIES, target(scope), weights={"y": 3, "sex": 2})
    a, b = 12, 9 * 4 + 4 * 2
    first, second = (a + b, a + b) if scope == "joint" else (a, b)
    mean = (3 * first + second * (1 / 9 + 3 / 4)) / P / mu_of(1.0, 1e-5) ** 2
    assert plan.noise_variance == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize("scope", ["joint", "per-party"])
def test_noise_is_averaged_over_private_columns_only(scope: str) -> None:
    shown = numeric("seen").model_copy(update={"public": True})
    beside = plan_mixing(1000, {"a": PARTIES["a"], "c": (shown,)}, target(scope))
    assert beside.noise_variance == plan_mixing(1000, {"a": PARTIES["a"]}, target(scope)).noise_variance
    assert beside.columns == 4


def test_there_is_nothing_to_plan_where_every_column_is_public() -> None:
    with pytest.raises(InvalidInput, match="nothing to protect"):
        plan_mixing(1000, {"c": (numeric("seen").model_copy(update={"public": True}),)}, target())


SEED = "00" * 32


@pytest.mark.parametrize(
    ("asked", "outputs", "rows", "kind"),
    [
        (None, 99_999, 100_000, "bernoulli"),  # too few patients for a bucket
        (None, 999, 10**7, "bernoulli"),
        (None, 1000, 10**7, "buckets"),
        ("bernoulli", 1000, 10**7, "bernoulli"),
        ("buckets", 3, 60, "buckets"),
    ],
)
def test_patients_enter_buckets_where_that_saves_much_work_or_is_asked_for(
    asked: MixingKind | None, outputs: int, rows: int, kind: str
) -> None:
    mixing, reason = mixing_of(asked, outputs, rows, SEED)
    assert (mixing.kind, mixing.outputs, mixing.seed) == (kind, outputs, SEED)
    assert bool(reason) == (kind == "buckets")


def test_buckets_of_too_few_are_refused() -> None:
    for rows_per_subject, least in ((1, 60), (5, 300)):
        words = f"3 buckets of 20 patients need {least} rows, and there are {least - 1}: lower k, or leave out mixing"
        with pytest.raises(InvalidInput, match=words):
            mixing_of("buckets", 3, least - 1, SEED, rows_per_subject)
        assert mixing_of("buckets", 3, least, SEED, rows_per_subject)[0].kind == "buckets"
