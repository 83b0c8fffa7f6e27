"""The public rule of clipping: what constant and binaries weigh, and which parties clip."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.data.columns import Column
from dprelease.data.ranges import Range
from dprelease.mechanisms.moments.clipped_sensitivity import Rows
from dprelease.mechanisms.moments.clipping import numbers_of
from dprelease.mechanisms.moments.clipping_rule import (
    REACH,
    Situation,
    choose_clipping,
    deviation,
    guess_of,
)
from dprelease.mechanisms.moments.entries import Layout
from tests.support.rounds import ranges_first
from tests.support.specs import build_spec, categorical, numeric

PARTIES: dict[str, tuple[Column, ...]] = {
    "a": (numeric("x"), numeric("y"), categorical("b", "yes")),
    "b": (numeric("z"), categorical("g", "u", "v")),
    "c": (categorical("h", "yes"),),
}
COLUMNS = tuple(column for own in PARTIES.values() for column in own)
RANGES = [Range.whole(name) for own in PARTIES.values() for name in numbers_of(own)]
SITUATION = Situation(mu=0.2, rows=2000, parties=3, curious=1, grid_bits=16)


@pytest.mark.parametrize("weights", [{}, {"z": 1.7}])
@pytest.mark.parametrize("k", [0.0, 1.0, 4.0, math.inf])
def test_columns_without_tails_weigh_what_makes_the_noise_of_all_products_least(
    k: float, weights: dict[str, float]
) -> None:
    clipping = choose_clipping(PARTIES, RANGES, SITUATION, weights, k)
    clipping.check(tuple(PARTIES.values()), SITUATION.grid_bits)
    one, fixed = deviation(clipping, COLUMNS), 1 + 3  # the constant, two binaries and a group
    found = clipping.constant / one
    squares = Rows.of(Layout(COLUMNS), clipping).numbers / one**2
    names = {each.name for each in RANGES}
    own = [
        (weight / one / REACH) ** 2
        for column, weight in zip(COLUMNS, clipping.weights, strict=True)
        if column.name in names
    ]
    tried = np.linspace(0.3, 4, 3701)
    reach = guess_of(PARTIES, SITUATION).reach
    noise = (fixed * tried**2 + squares) * (fixed / tried**2 + reach**2 * sum(1 / each for each in own))
    assert found == pytest.approx(tried[np.argmin(noise)], abs=2e-3)
    assert {clipping.weights[2], clipping.weights[4], clipping.weights[5]} == {clipping.constant}


def test_a_party_with_one_number_keeps_two_standard_deviations() -> None:
    clipping = choose_clipping(PARTIES, RANGES, SITUATION, {}, 0.0)
    one = deviation(clipping, COLUMNS)
    assert [norm.squared / one**2 for norm in clipping.norms] == pytest.approx([2, 4], rel=1e-4)


def test_more_patients_are_clipped_less_by_reaching_further() -> None:
    situations = [Situation(0.2, rows, 3, 1, 16) for rows in (500, 5000, 20_000)]
    reaches = [guess_of(PARTIES, each).reach for each in situations]
    assert reaches == sorted({*reaches})
    others = [choose_clipping(PARTIES, RANGES, each, {}).constant for each in situations]
    assert others == sorted(others, reverse=True)  # columns without tails weigh less beside numbers that reach further
    norms = {choose_clipping(PARTIES, RANGES, each, {}).norms for each in situations}
    assert len(norms) == 1


def test_what_is_guessed_before_a_first_round_is_what_the_rule_of_clipping_guesses() -> None:
    spec: Any = ranges_first(build_spec(PARTIES, mechanism="moments", grid_bits=16, rows=4000))
    mu = math.sqrt(Fraction(spec.terms.mu2))
    found = spec.terms.first.guess(spec)
    same = guess_of(PARTIES, Situation(mu, 4000, 3, 1, 16))
    assert found.reach == same.reach > 1
    assert found.noise == pytest.approx(same.noise)
