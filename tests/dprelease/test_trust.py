"""Who has to be trusted for what: the sentences fit the mechanism, its dealer and the number of curious hospitals."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dprelease.mechanisms.moments.words import ALONE, COMPUTED_TOGETHER, KEYS, RANGE_ATTACK, ROTATING, STATED_NORM
from dprelease.mechanisms.noisy_rows.mechanism import TRUST
from dprelease.release.accounting import PUBLIC, trust
from tests.support.specs import TWO_PARTIES, build_spec, numeric

THREE = {**TWO_PARTIES, "west": (numeric("weight"),)}
FOUR = {**THREE, "east": (numeric("height"),)}


@pytest.mark.parametrize("mechanism", ["mixed", "rows"])
def test_blocks_are_noised_inside_their_hospitals(mechanism: str) -> None:
    assert trust(build_spec(mechanism=mechanism)) == TRUST


def test_one_hospital_alone_needs_nobody() -> None:
    assert trust(build_spec({"a": (numeric("x"),)}, mechanism="moments")) == ALONE


def test_a_rotating_dealer_leaves_the_coordinator_out() -> None:
    said = trust(build_spec(THREE, mechanism="moments"))
    assert said == (COMPUTED_TOGETHER, ROTATING, KEYS, RANGE_ATTACK)
    assert "no two may pool their protocol messages" in said[1]
    assert "coordinator has no part" in said[1]


@pytest.mark.parametrize(
    ("parties", "curious", "who"),
    [
        (TWO_PARTIES, 1, "Up to one hospital may"),
        (THREE, 1, "Up to one hospital may"),
        (FOUR, 3, "Up to 3 hospitals may"),
    ],
)
def test_a_dealing_coordinator_must_not_collude(parties: dict, curious: int, who: str) -> None:  # type: ignore[type-arg]
    said = trust(build_spec(parties, mechanism="moments", curious=curious, dealer="coordinator"))
    assert (said[0], *said[2:]) == (COMPUTED_TOGETHER, KEYS, RANGE_ATTACK)
    assert "coordinator dealt the randomness: it must not collude with any hospital" in said[1]
    assert who in said[1]


def test_the_weakness_that_mixed_blocks_do_not_have_is_said_wherever_it_is_there() -> None:
    assert "undetected" in RANGE_ATTACK
    for spec in (build_spec(mechanism="moments"), build_spec(THREE, mechanism="moments")):
        assert RANGE_ATTACK in trust(spec)
    assert RANGE_ATTACK not in trust(build_spec())


def test_whoever_has_a_public_side_that_the_noise_counts_on_is_named() -> None:
    shown, hidden = numeric("p", public=True), numeric("z")
    spec = {"mechanism": "moments", "outcomes": ("p",), "guarantee": "feature-DP", "public_norm2": Fraction(1, 2)}
    stated = trust(build_spec({"a": (shown,), "b": (hidden,)}, **spec))  # type: ignore[arg-type]
    assert stated[-2:] == (STATED_NORM.format(owner="a"), PUBLIC)
    assert STATED_NORM.format(owner="a") not in trust(build_spec({"a": (shown, hidden)}, **spec))  # type: ignore[arg-type]
