"""Clipped rows in exact integers.

What rows are clipped to.

The public rule of clipping: what constant and binaries weigh, and which parties clip.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from dprelease.data.columns import Column
from dprelease.data.ranges import REACH, STEPS, Range
from dprelease.mechanisms.moments.clipping import Ball, Clipping, Norm, balls, clip_rows, numbers_of
from dprelease.mechanisms.moments.clipping_rule import ClippingInputs, choose_clipping, deviation, guess_of
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.sensitivity import RowBounds
from tests.support.rounds import ranges_first
from tests.support.specs import build_spec, categorical, numeric

NUMBERS = tuple(numeric(f"x{i}") for i in range(5))
NAMES = tuple(each.name for each in NUMBERS)


def clipping(bits: int, squared: int, names: tuple[str, ...] = NAMES) -> Clipping:
    unit = 1 << bits
    return Clipping(
        constant=unit,
        weights=(unit,) * len(names),
        ranges=tuple(map(Range.whole, names)),
        norms=(Norm(columns=names, squared=squared),),
        square_weight="1/2",
    )


@pytest.mark.parametrize("bits", [1, 4, 8, 16, 24])
def test_no_row_is_longer_and_short_rows_are_as_they_were(bits: int) -> None:
    random, unit = np.random.default_rng(bits), 1 << bits
    cells = np.clip(np.rint(random.standard_cauchy((2000, 5)) * unit / 3), -unit, unit).astype(np.int32)
    for squared in (1, 2, unit**2, 3 * unit**2):
        found = clip_rows(cells, NUMBERS, (unit,) * 5, clipping(bits, squared), bits).astype(np.int64)
        before, after = ((rows.astype(np.int64) ** 2).sum(axis=1) for rows in (cells, found))
        assert after.max() <= squared
        assert np.array_equal(found[before <= squared], cells[before <= squared])
        # Rounding towards 0 loses less than a step a cell.
        assert np.all(np.sqrt(after[before > squared]) > np.sqrt(squared) - np.sqrt(5) - 1e-6)
        assert np.all(found * cells >= 0)


def test_binaries_groups_and_public_columns_take_no_part() -> None:
    columns = (
        numeric("x"),
        categorical("b", "yes"),
        categorical("g", "a", "b"),
        numeric("p").model_copy(update={"public": True}),
    )
    found = Clipping(
        constant=16,
        weights=(64, 8, 4, 32),
        ranges=(Range.whole("x"),),
        norms=(Norm(columns=("x",), squared=100),),
        square_weight="1/2",
    )
    found.check((columns,), 6)
    rows = np.array([[64, 64, 64, 0, 0, -64], [-3, -64, 0, 64, 0, 64]], np.int32)
    assert clip_rows(rows, columns, (64, 8, 4, 32), found, 6).tolist() == [[10, 8, 4, 0, 0, -32], [-3, -8, 0, 4, 0, 32]]


def test_a_column_is_clipped_before_its_row() -> None:
    """One wild cell does not empty the row of the others."""
    near = Range(name="x0", centre=0, half_width=STEPS // 64)
    found = clipping(8, 2 * 256**2).model_copy(update={"ranges": (near, *map(Range.whole, NAMES[1:]))})
    row = clip_rows(np.array([[256, 128, 0, 0, 0]], np.int32), NUMBERS, (256,) * 5, found, 8)
    assert row.tolist() == [[256, 128, 0, 0, 0]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"weights": (16, 16)}, "a weight for each column"),
        ({"weights": (8,) * 5, "constant": 8}, "the largest is the grid's unit"),
        ({"ranges": tuple(map(Range.whole, NAMES[::-1]))}, "a range for each private number"),
        ({"norms": (Norm(columns=NAMES[:2], squared=9),)}, "over all private numbers of one party"),
        ({"norms": (Norm(columns=NAMES, squared=5 * 16**2),)}, "that no row can exceed"),
    ],
)
def test_what_does_not_fit_the_columns_is_refused(change: dict[str, object], words: str) -> None:
    good = clipping(4, 2 * 16**2)
    good.check((NUMBERS,), 4)
    with pytest.raises(ValueError, match=words):
        good.model_copy(update=change).check((NUMBERS,), 4)


def test_a_column_counts_in_one_norm_only() -> None:
    norm = Norm(columns=NAMES, squared=9)
    with pytest.raises(ValidationError, match="in one norm only"):
        Clipping(constant=16, weights=(16,) * 5, ranges=(), norms=(norm, norm), square_weight="1/2")


def test_balls() -> None:
    columns = (numeric("x"), numeric("y"), categorical("b", "yes"), numeric("z"))
    clipping = Clipping(
        constant=100,
        weights=(300, 300, 100, 300),
        ranges=tuple(map(Range.whole, "xyz")),
        norms=(Norm(columns=("x", "y"), squared=2 * 100**2),),
        square_weight="1/2",
    )
    reach = 2**0.5 * 100 / 300
    together, alone = balls(clipping, Layout(columns))
    assert (together.places, alone) == ((1, 2), Ball((4,), (1.0,)))
    np.testing.assert_allclose(together.radii, reach)


PARTIES: dict[str, tuple[Column, ...]] = {
    "a": (numeric("x"), numeric("y"), categorical("b", "yes")),
    "b": (numeric("z"), categorical("g", "u", "v")),
    "c": (categorical("h", "yes"),),
}
COLUMNS = tuple(column for own in PARTIES.values() for column in own)
RANGES = [Range.whole(name) for own in PARTIES.values() for name in numbers_of(own)]
SITUATION = ClippingInputs(mu=0.2, rows=2000, parties=3, collusion_threshold=1, grid_bits=16)


@pytest.mark.parametrize("weights", [{}, {"z": 1.7}])
@pytest.mark.parametrize("k", [0.0, 1.0, 4.0, math.inf])
def test_columns_without_tails_weigh_what_makes_the_noise_of_all_products_least(
    k: float, weights: dict[str, float]
) -> None:
    clipping = choose_clipping(PARTIES, RANGES, SITUATION, weights, k)
    clipping.check(tuple(PARTIES.values()), SITUATION.grid_bits)
    one, fixed = deviation(clipping, COLUMNS), 1 + 3  # the constant, two binaries and a group
    found = clipping.constant / one
    squares = RowBounds.of(Layout(COLUMNS), clipping).numbers / one**2
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
    situations = [ClippingInputs(0.2, rows, 3, 1, 16) for rows in (500, 5000, 20_000)]
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
    same = guess_of(PARTIES, ClippingInputs(mu, 4000, 3, 1, 16))
    assert found.reach == same.reach > 1
    assert found.noise == pytest.approx(same.noise)
