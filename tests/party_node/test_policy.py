"""The hospital's own limits in numbers: each one kept, each one named when it is exceeded."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from dprelease.errors import BudgetExceeded, PolicyRefused, SpecRefused
from party_node.settings import Policy, PolicyLimits
from party_node.state.entries import Balance
from tests.party_node.known import KEYS, KNOWN, SPEC, Known
from tests.support.rounds import ranges_first
from tests.support.specs import TWO_PARTIES, build_spec, numeric, with_terms


def limited(**limits: Any) -> Known:
    return replace(KNOWN, policy=Policy(limits=PolicyLimits(**limits), auto_approve=PolicyLimits()))


LIMITS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"parties": ("east",)}, {"parties": ("south",)}, "parties south are not among those allowed"),
    ({"columns": ("age",)}, {"columns": ("age", "sex")}, "columns sex are not among those allowed"),
    ({"mechanisms": ("rows",)}, {"mechanisms": ("mixed",)}, "mechanism mixed is not among those allowed"),
    ({"guarantees": ("label-DP",)}, {"guarantees": ("DP",)}, "a guarantee of DP is not among those allowed"),
    ({"max_epsilon": 0.99}, {"max_epsilon": 1.0}, "joint epsilon = 1 exceeds 0.99"),
    ({"max_delta": 9e-6}, {"max_delta": 1e-5}, "delta = 1e-05 exceeds 9e-06"),
    ({"max_total_epsilon": 0.5}, {"max_total_epsilon": 1.0}, "would exceed 0.5"),
    ({"min_rows": 41}, {"min_rows": 40}, "40 patients are fewer than 41"),
]


@pytest.mark.parametrize(("outside", "inside", "words"), LIMITS, ids=[next(iter(limit[0])) for limit in LIMITS])
def test_each_limit_of_the_policy(outside: dict[str, Any], inside: dict[str, Any], words: str) -> None:
    with pytest.raises(PolicyRefused, match=words):
        limited(**outside).assess(SPEC)
    assert limited(**inside).assess(SPEC).automatic
    bounded = {"max_delta": 1e-5}
    person = replace(KNOWN, policy=Policy(auto_approve=PolicyLimits(**bounded | outside))).assess(SPEC)
    assert not person.automatic
    assert [words in reason for reason in person.review_reasons] == [True]
    assert replace(KNOWN, policy=Policy(auto_approve=PolicyLimits(**bounded | inside))).assess(SPEC).automatic


@pytest.mark.parametrize("limit", ["max_epsilon", "max_total_epsilon"])
def test_a_policy_that_limits_epsilon_at_any_delta_approves_nothing(limit: str) -> None:
    limits: dict[str, Any] = {limit: 2.0}
    (reason,) = replace(KNOWN, policy=Policy(auto_approve=PolicyLimits(**limits))).assess(SPEC).review_reasons
    assert "name max_delta in auto_approve" in reason
    for policy in (
        Policy(auto_approve=PolicyLimits(**limits, max_delta=1e-5)),
        Policy(auto_approve=PolicyLimits(**limits), limits=PolicyLimits(max_delta=1e-5)),
    ):
        assert replace(KNOWN, policy=policy).assess(SPEC).automatic


def test_every_limit_has_its_test() -> None:
    assert {name for outside, _, _ in LIMITS for name in outside} == set(PolicyLimits.model_fields)


def test_every_limit_that_is_exceeded_is_named() -> None:
    with pytest.raises(PolicyRefused, match=r"joint epsilon.*; .*patients"):
        limited(max_epsilon=0.5, min_rows=1000).assess(SPEC)


def test_what_was_spent_before_counts_in_the_total() -> None:
    spent = replace(
        KNOWN,
        balance=Balance(
            Fraction(1),
            charged=KNOWN.assess(SPEC).cost,
            reserved=KNOWN.assess(SPEC).cost,
            exposed=2 * KNOWN.assess(SPEC).cost,
        ),
        policy=Policy(limits=PolicyLimits(max_total_epsilon=1.0), auto_approve=PolicyLimits()),
    )
    with pytest.raises(PolicyRefused, match=r"total epsilon = 1\.\d+ would exceed 1"):
        spent.assess(SPEC)


def test_without_a_policy_a_person_approves() -> None:
    assessment = replace(KNOWN, policy=Policy()).assess(SPEC)
    assert not assessment.automatic
    assert assessment.blockers == ()
    assert "a person" in assessment.review_reasons[0]


@pytest.mark.parametrize(("delta", "allowed"), [(1 / 40, False), (0.5, False), (0.0249, True)])
def test_a_delta_that_permits_publishing_a_row_needs_an_explicit_policy(delta: float, allowed: bool) -> None:
    spec = build_spec(keys=KEYS, delta=delta, grid_bits=14)
    if allowed:
        assert KNOWN.assess(spec).automatic
    else:
        with pytest.raises(PolicyRefused, match="is not below 1/n"):
            KNOWN.assess(spec)
    willing = replace(KNOWN, policy=Policy(auto_approve=PolicyLimits(), allow_large_delta=True))
    assert willing.assess(spec).automatic


@pytest.mark.parametrize(
    ("pins", "words"),
    [
        ({}, "then: party-node peers pin south FINGERPRINT"),
        ({"east": KEYS["south"]}, "ask the IT department of south, by telephone"),
        ({"south": "dd" * 32}, "another key for south than the one pinned here; telephone them"),
    ],
)
def test_an_unpinned_or_differently_pinned_peer_needs_a_person_first(pins: dict[str, str], words: str) -> None:
    assessment = replace(KNOWN, pins=pins).assess(SPEC)
    assert not assessment.automatic
    assert words in assessment.blockers[0]
    assert KEYS["south"] not in assessment.blockers[0]  # the coordinator named it; it has to come from the south itself
    assert assessment.review_reasons == ()


def test_each_peer_is_looked_at() -> None:
    parties = {**TWO_PARTIES, "east": (numeric("weight", 0, 300),), "west": (numeric("height", 0, 300),)}
    spec = build_spec(parties, keys={**KEYS, "east": "ee" * 32, "west": "ff" * 32})
    blockers = KNOWN.assess(spec).blockers
    assert [name in blocker for name, blocker in zip(("east", "west"), blockers, strict=True)] == [True, True]


@pytest.mark.parametrize("short", [Fraction(1, 10**15), Fraction(1, 100)])
def test_more_than_is_left_is_refused(short: Fraction) -> None:
    cost = KNOWN.assess(SPEC).cost
    enough = Balance(cost * 3, cost, cost, cost * 2)
    assert replace(KNOWN, balance=enough).assess(SPEC).automatic
    with pytest.raises(BudgetExceeded) as caught:
        replace(KNOWN, balance=replace(enough, reserved=cost + short)).assess(SPEC)
    assert caught.value.needed == pytest.approx(float(cost))


def test_a_lie_weighs_more_than_a_limit_and_a_limit_more_than_the_budget() -> None:
    empty = replace(limited(max_epsilon=0.1), balance=Balance(Fraction(0), Fraction(0), Fraction(0), Fraction(0)))
    with pytest.raises(SpecRefused):
        empty.assess(SPEC.model_copy(update={"rows": 41}))
    with pytest.raises(PolicyRefused):
        empty.assess(SPEC)


def test_a_target_for_each_party_is_judged_by_what_all_blocks_reveal() -> None:
    spec = build_spec(keys=KEYS, scope="per-party")  # epsilon = 1 for each of two blocks
    with pytest.raises(PolicyRefused, match=r"joint epsilon = 1\.46\d+ exceeds 1"):
        limited(max_epsilon=1.0).assess(spec)
    assert limited(max_epsilon=1.5).assess(spec).automatic


def test_joint_moments_are_approved_by_a_policy_that_names_them_only() -> None:
    spec = with_terms(build_spec(TWO_PARTIES, mechanism="moments", keys=KEYS, epsilon=0.5), range_proofs=True)

    def reasons(**limits: Any) -> tuple[str, ...]:
        return replace(KNOWN, policy=Policy(auto_approve=PolicyLimits(**limits))).assess(spec).review_reasons

    assert ["name the mechanism in auto_approve" in reason for reason in reasons()] == [True]
    assert reasons(mechanisms=("moments",)) == ()
    spec = with_terms(spec, range_proofs=False)
    assert ["there are no range proofs" in reason for reason in reasons(mechanisms=("moments",))] == [True]


@pytest.mark.parametrize("mechanism", ["mixed", "rows", "moments"])
def test_a_policy_that_names_a_mechanism_allows_no_first_round_of_ranges_before_it(mechanism: str) -> None:
    plain = build_spec(TWO_PARTIES, mechanism=mechanism, keys=KEYS, epsilon=0.5)
    plain = with_terms(plain, range_proofs=True) if mechanism == "moments" else plain
    spec, words = ranges_first(plain), "mechanism ranges is not among those allowed"
    alone, both = PolicyLimits(mechanisms=(mechanism,)), PolicyLimits(mechanisms=("ranges", mechanism))
    assert replace(KNOWN, policy=Policy(auto_approve=alone)).assess(plain).automatic
    assert replace(KNOWN, policy=Policy(auto_approve=alone)).assess(spec).review_reasons == (words,)
    assert replace(KNOWN, policy=Policy(auto_approve=both)).assess(spec).automatic
    with pytest.raises(PolicyRefused, match=words):
        replace(KNOWN, policy=Policy(limits=alone)).assess(spec)


def test_a_person_looks_where_the_coordinator_would_deal_although_a_hospital_could() -> None:
    parties = {**TWO_PARTIES, "west": (numeric("weight"),)}
    keys = {**KEYS, "west": "c" * 64}

    def reasons(dealer: str) -> tuple[str, ...]:
        spec = with_terms(
            build_spec(parties, mechanism="moments", keys=keys, epsilon=0.5, dealer=dealer), range_proofs=True
        )
        known = replace(KNOWN, policy=Policy(auto_approve=PolicyLimits(mechanisms=("moments",))), pins=keys)
        return known.assess(spec).review_reasons

    assert reasons("rotating") == ()
    assert ["the coordinator would deal" in reason for reason in reasons("coordinator")] == [True]
