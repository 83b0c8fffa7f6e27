"""The sensitivity of clipped rows: searched for by coordinate ascent over shapes, weights and norms, never above the value used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from dprelease.data.ranges import REACHES, STEPS, Range
from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.clipped_sensitivity import Rows, clipped_sensitivity
from dprelease.mechanisms.moments.clipping import Clipping, Norm
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.sensitivity import sensitivity
from dprelease.mechanisms.ranges.released import later_range
from tests.dprelease.moments.clipped_shapes import (
    BITS,
    UNIT,
    climbed,
    drawn,
    multiplied,
    shape,
    squared_distances,
)
from tests.support.specs import categorical, numeric


@dataclass(frozen=True)
class Search:
    """How far apart the search brought two rows of a shape.

    Attributes:
        rows: what rows of the shape can be.
        weight: v.
        found: the largest squared distance.
    """

    rows: Rows
    weight: Fraction
    found: Fraction

    @property
    def claimed(self) -> Fraction:
        """The squared sensitivity in use."""
        return self.rows.squared_sensitivity(self.weight)


def search(seed: int) -> Search:
    """The best of 400 random pairs of a random shape, and from there coordinate ascent."""
    random = np.random.default_rng(seed)
    parties, clipping = shape(random)
    layout = Layout(tuple(column for own in parties for column in own))
    weight = Fraction(clipping.square_weight)
    cells = drawn(random, parties, 400)
    partners = random.permutation(cells)
    rows, others = (multiplied(each, parties, clipping) for each in (cells, partners))
    distances = squared_distances(layout, weight, rows, others)
    best = max(range(len(distances)), key=distances.__getitem__)
    found, pair = climbed(parties, clipping, np.array([cells[best], partners[best]]))
    assert found >= distances[best]
    for norm in clipping.norms:
        inner = [index for index, each in enumerate(layout.variables, 1) if each.name in norm.columns]
        assert (multiplied(pair, parties, clipping)[:, inner] ** 2).sum(axis=1).max() <= norm.squared
    return Search(Rows.of(layout, clipping), weight, found)


@pytest.fixture(scope="module")
def searches() -> list[Search]:
    return [search(seed) for seed in range(60)]


def test_no_pair_of_rows_is_further_apart(searches: list[Search]) -> None:
    assert [seed for seed, each in enumerate(searches) if each.found > each.claimed] == []


@pytest.mark.parametrize("seed", range(12))
def test_however_far_columns_reach_rows_are_no_further_apart(seed: int) -> None:
    """Ranges of any centre and width, as reaches make them, are in no sensitivity, and no pair of rows exceeds it."""
    random = np.random.default_rng(100 + seed)
    parties, clipping = shape(random)
    layout, weight = Layout(tuple(column for own in parties for column in own)), Fraction(clipping.square_weight)
    claimed = clipped_sensitivity(layout, clipping, BITS)
    for _ in range(4):
        reached = clipping.model_copy(
            update={
                "ranges": tuple(
                    later_range(
                        each.name,
                        int(random.integers(-STEPS, STEPS + 1)),
                        int(random.integers(1, STEPS // 2)),
                        int(random.integers(REACHES)),
                    )
                    for each in clipping.ranges
                )
            }
        )
        assert clipped_sensitivity(layout, reached, BITS) == claimed
        cells = drawn(random, parties, 200)
        rows, others = (multiplied(each, parties, reached) for each in (cells, random.permutation(cells)))
        assert max(squared_distances(layout, weight, rows, others)) <= Rows.of(layout, clipping).squared_sensitivity(
            weight
        )


def test_the_search_comes_close(searches: list[Search]) -> None:
    """Otherwise it would find nothing wrong with a value that is too small."""
    ratios = np.array([float(each.found / each.claimed) for each in searches])
    clipped = np.array([bool(each.rows.clipped) for each in searches])
    assert np.mean(ratios > 0.95) > 0.5
    assert np.sum(ratios[clipped] > 0.99) > 5


@pytest.mark.parametrize(
    "claim",
    [
        lambda each: each.claimed * Fraction(99, 100),
        lambda each: each.rows.squared_sensitivity(Fraction(1, 2)),
        lambda each: each.claimed - (each.rows.excess**2 if each.rows.excess <= 0 else 0),
    ],
    ids=["one percent too small", "squares as if v were 1/2", "an excess of public columns that is none"],
)
def test_a_claim_that_is_too_small_is_caught(searches: list[Search], claim: Callable[[Search], Fraction]) -> None:
    assert sum(each.found > claim(each) for each in searches if each.rows.clipped) > 3


def test_two_orthogonal_rows_at_their_norms_attain_it() -> None:
    columns = (numeric("x"), numeric("y"), numeric("z"))
    clipping = Clipping(
        constant=UNIT,
        weights=(UNIT,) * 3,
        ranges=tuple(Range.whole(each.name) for each in columns),
        norms=(Norm(columns=("x", "y", "z"), squared=2 * UNIT**2),),
        square_weight="1/2",
    )
    layout = Layout(columns)
    before, after = (np.array([[UNIT, *(sign * UNIT for sign in signs)]]) for signs in ((1, 1, 0), (-1, 0, 1)))
    assert before[0] @ after[0] == 0
    exact = Rows.of(layout, clipping).squared_sensitivity(Fraction(1, 2))
    assert squared_distances(layout, Fraction(1, 2), before, after) == [exact] == [9 * UNIT**4]


def test_whole_boxes_of_equal_weight_cost_what_boxes_cost() -> None:
    columns = (numeric("x"), numeric("y"), categorical("b", "yes"), categorical("g", "a", "b"))
    layout = Layout(columns)
    clipping = Clipping(
        constant=UNIT, weights=(UNIT,) * 4, ranges=(Range.whole("x"), Range.whole("y")), square_weight="1/2"
    )
    weight = Rows.of(layout, clipping).best_weight()
    clipping = clipping.model_copy(update={"square_weight": str(weight)})
    assert clipped_sensitivity(layout, clipping, BITS) == sensitivity(layout.variables)


def test_weights_of_squares_that_are_not_covered_are_refused() -> None:
    layout = Layout((numeric("x"), numeric("y")))
    clipping = Clipping(
        constant=UNIT, weights=(UNIT,) * 2, ranges=(Range.whole("x"), Range.whole("y")), square_weight="1/2"
    )
    rows = Rows.of(layout, clipping)
    assert rows.largest_weight is not None
    for weight in (Fraction(1, 4), rows.largest_weight + Fraction(1, 100)):
        with pytest.raises(InvalidInput, match="weight of at least 1/2"):
            rows.squared_sensitivity(weight)


def test_a_norm_too_small_for_the_noise_is_found_out() -> None:
    """Rows longer than the norm that the noise is for exceed its sensitivity: the search sees what it is to see."""
    columns = tuple(numeric(f"x{i}") for i in range(4))
    names = tuple(each.name for each in columns)
    honest = Clipping(
        constant=UNIT,
        weights=(UNIT,) * 4,
        ranges=tuple(map(Range.whole, names)),
        norms=(Norm(columns=names, squared=2 * UNIT**2),),
        square_weight="1/2",
    )
    broken = honest.model_copy(update={"norms": ()})
    rows = multiplied(drawn(np.random.default_rng(1), [columns], 400), [columns], broken)
    most = Rows.of(Layout(columns), honest).squared_sensitivity(Fraction(1, 2))
    assert max(squared_distances(Layout(columns), Fraction(1, 2), rows, rows[::-1])) > most
