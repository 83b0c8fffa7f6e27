"""The sensitivity of clipped rows: searched for adversarially over shapes, weights and norms, never above the value used."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.data.columns import Column
from dprelease.data.ranges import Range
from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.clipped_sensitivity import Rows, clipped_sensitivity
from dprelease.mechanisms.moments.clipping import Clipping, Norm, clip_rows
from dprelease.mechanisms.moments.entries import Layout, code
from dprelease.mechanisms.moments.sensitivity import sensitivity
from tests.support.specs import categorical, numeric

BITS = 8
UNIT = 1 << BITS
Codes = npt.NDArray[np.int64]


def shape(random: np.random.Generator) -> tuple[list[tuple[Column, ...]], Clipping]:
    """Parties' columns and a clipping of them, of any kind."""
    parties, name = [], iter(range(100))
    for _ in range(int(random.integers(1, 4))):
        own: list[Column] = [numeric(f"x{next(name)}") for _ in range(int(random.integers(0, 5)))]
        own += [categorical(f"b{next(name)}", "yes") for _ in range(int(random.integers(0, 3)))]
        levels, whole = [(("a", "b"), {}), (("a", "b", "c"), {"exhaustive": True, "fill": "a"})][len(parties) % 2]
        own += [categorical(f"g{next(name)}", *levels, **whole) for _ in range(int(random.integers(0, 2)))]
        own += [
            numeric(f"p{next(name)}").model_copy(update={"public": True}) for _ in range(int(random.integers(0, 2)))
        ]
        parties.append(tuple(own) or (numeric(f"x{next(name)}"),))
    if not any(not column.public for own in parties for column in own):
        parties[0] = (*parties[0], numeric(f"x{next(name)}"))
    columns = [column for own in parties for column in own]
    weights = [int(random.integers(1, UNIT + 1)) for _ in columns]
    weights[int(random.integers(len(weights)))] = UNIT
    weight = {column.name: each for column, each in zip(columns, weights, strict=True)}
    norms, ranges = [], []
    for own in parties:
        names = tuple(column.name for column in own if column.kind == "numeric" and not column.public)
        most = sum(weight[each] ** 2 for each in names)
        ranges += [Range.whole(each) for each in names]
        if names and most > 2 and random.random() < 0.6:
            norms.append(Norm(columns=names, squared=int(random.integers(1, most))))
    found = Clipping(
        constant=int(random.integers(1, UNIT + 1)),
        weights=tuple(weights),
        ranges=tuple(ranges),
        norms=tuple(norms),
        square_weight="1/2",
    )
    found.check(tuple(parties), BITS)
    rows = Rows.of(Layout(tuple(columns)), found)
    limit = rows.largest_weight
    wanted = [rows.best_weight(), Fraction(1, 2), Fraction(1, 2) + Fraction(int(random.integers(0, 40)), 16)]
    chosen = wanted[int(random.integers(3))]
    return parties, found.model_copy(update={"square_weight": str(chosen if limit is None else min(chosen, limit))})


def drawn(random: np.random.Generator, parties: list[tuple[Column, ...]], clipping: Clipping, count: int) -> Codes:
    """(count, p+1) coded rows as the product makes them, of cells at their ends and in between; public cells are the same."""
    weight = dict(zip((each.name for own in parties for each in own), clipping.weights, strict=True))
    blocks = [np.full((count, 1), clipping.constant, np.int64)]
    for own in parties:
        cells = []
        for column in own:
            if column.kind == "numeric":
                ends = random.choice([-1.0, 1.0], count) * random.choice([0.0, 0.25, 1.0, 1.0, 1.0], count)
                values = np.where(random.random(count) < 0.2, random.uniform(-1, 1, count), ends)
                values = np.full(count, values[0]) if column.public else values
                cells.append(np.rint(values * UNIT)[:, None])
            else:
                levels = len(column.released)
                cells.append(np.eye(levels)[random.integers(0, levels, count)] * UNIT)
        codes = code(np.hstack(cells).astype(np.int32), own)
        blocks.append(clip_rows(codes, own, tuple(weight[each.name] for each in own), clipping, BITS).astype(np.int64))
    return np.hstack(blocks)


def squared_distances(layout: Layout, square_weight: Fraction, before: Codes, after: Codes) -> list[Fraction]:
    """Of the released entries of pairs of rows, exactly."""
    moved = before[:, layout.rows] * before[:, layout.cols] - after[:, layout.rows] * after[:, layout.cols]
    squares = moved.astype(object) ** 2
    return [square_weight * sum(row[layout.diagonal]) + sum(row[~layout.diagonal]) for row in squares]


@pytest.mark.parametrize("seed", range(60))
def test_no_pair_of_rows_is_further_apart(seed: int) -> None:
    random = np.random.default_rng(seed)
    parties, clipping = shape(random)
    layout = Layout(tuple(column for own in parties for column in own))
    weight = Fraction(clipping.square_weight)
    most = Rows.of(layout, clipping).squared_sensitivity(weight)
    rows = drawn(random, parties, clipping, 400)
    found = max(squared_distances(layout, weight, rows, random.permutation(rows)))
    assert found <= most


def test_the_search_comes_close() -> None:
    """Otherwise it would find nothing wrong with a value that is too small."""
    ratios = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        parties, clipping = shape(random)
        layout = Layout(tuple(column for own in parties for column in own))
        weight = Fraction(clipping.square_weight)
        rows = drawn(random, parties, clipping, 400)
        found = max(squared_distances(layout, weight, rows, random.permutation(rows)))
        ratios.append(float(found / Rows.of(layout, clipping).squared_sensitivity(weight)))
    assert np.mean(np.array(ratios) > 0.8) > 0.3
    assert max(ratios) > 0.97


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
    rows = drawn(np.random.default_rng(1), [columns], broken, 400)
    most = Rows.of(Layout(columns), honest).squared_sensitivity(Fraction(1, 2))
    assert max(squared_distances(Layout(columns), Fraction(1, 2), rows, rows[::-1])) > most
