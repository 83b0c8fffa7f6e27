"""The sensitivity of joint moments: searched for adversarially, never above the value used and mostly equal to it.

Every number in the search has few binary digits, so the distances are exact in doubles and compared without a tolerance.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.data.bounding import BoundedRows, RawColumn, bound
from dprelease.data.columns import Column, NumericColumn
from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.entries import EntryKind, Layout, code
from dprelease.mechanisms.moments.sensitivity import sensitivity
from tests.support.kinds import is_binary
from tests.support.specs import categorical, numeric, random_raw

Rows = npt.NDArray[np.float64]
Shape = tuple[int, int, tuple[int, ...]]
"""Numbers of numeric and binary columns, and of levels of each group."""

PUBLIC = {
    Fraction(1): (),
    Fraction(3, 2): (0.5, 0.5),
    Fraction(5, 2): (1.0, 0.5, 0.5),
    Fraction(4): (1.0, 1.0, 1.0),
    Fraction(9): (2.0, 2.0),
}
"""Public entries of a row beside the constant 1, by their squared norm P2 with it."""

FEW_ROWS = 300
"""Tables of all vertices up to which every pair of rows is tried."""


@dataclass(frozen=True)
class Case:
    """How many columns of each kind there are, and P2."""

    numbers: int
    binaries: int
    groups: tuple[int, ...]
    public_norm2: Fraction = Fraction(1)

    @property
    def layout(self) -> Layout:
        return Layout(columns(self.numbers, self.binaries, self.groups))

    @property
    def gamma(self) -> int:
        return self.numbers + self.binaries

    @property
    def attained(self) -> bool:
        """Whether the theory has a pair of rows exactly that far apart.

        P2 > gamma: all numbers and binaries change sign and all groups change. Otherwise all groups agree and so many signs
        change that the two rows are orthogonal.
        """
        agreeing = self.public_norm2 + len(self.groups)
        return self.public_norm2 > self.gamma or (agreeing <= self.gamma and (agreeing + self.gamma) % 2 == 0)


def columns(numbers: int, binaries: int, groups: tuple[int, ...]) -> tuple[Column, ...]:
    """Groups of four and every second binary have exhaustive levels."""
    return (
        *(
            whole(f"g{i}", *"abcd") if levels == 4 else categorical(f"g{i}", *"abcdefgh"[: levels - 1])
            for i, levels in enumerate(groups)
        ),
        *(numeric(f"x{i}") for i in range(numbers)),
        *(whole(f"b{i}", "yes", "no") if i % 2 else categorical(f"b{i}", "yes") for i in range(binaries)),
    )


def whole(name: str, *levels: str) -> Column:
    return categorical(name, *levels, exhaustive=True, fill=levels[-1])


SHAPES = [
    (numbers, binaries, groups)
    for numbers in range(5)
    for binaries in range(3)
    for groups in ((), (3,), (4,), (3, 4))
    if numbers or binaries or groups
]
CASES = [Case(*shape, public_norm2) for shape in SHAPES for public_norm2 in PUBLIC]


def options(layout: Layout, numbers: tuple[float, ...]) -> list[Rows]:
    """For every declared column the (k, width) values that its variables may take together."""
    return [
        np.array([[value] for value in numbers])
        if isinstance(column, NumericColumn)
        else np.array([[1.0], [-1.0]])
        if is_binary(column)
        else np.eye(len(column.released))
        for column in layout.columns
    ]


def squared_distance(layout: Layout, weight: Fraction, public: tuple[float, ...], before: Rows, after: Rows) -> Rows:
    """Weighted squared distance of all that is released with noise of x x^T: the layout's entries, and w z^T."""
    entries = before[..., layout.rows] * before[..., layout.cols] - after[..., layout.rows] * after[..., layout.cols]
    moved = np.sum(np.where(layout.diagonal, float(weight), 1.0) * entries**2, axis=-1)
    cross = np.sum([value**2 for value in public]) * np.sum((before - after) ** 2, axis=-1)
    return np.asarray(moved + cross)


def all_pairs(layout: Layout, weight: Fraction, public: tuple[float, ...]) -> float:
    """The largest distance between rows of vertices and zeros; 0 if there are too many."""
    choices = options(layout, (-1.0, 0.0, 1.0))
    if np.prod([len(choice) for choice in choices]) > FEW_ROWS:
        return 0.0
    rows = np.array([np.concatenate([[1.0], *parts]) for parts in itertools.product(*choices)])
    return max(float(squared_distance(layout, weight, public, row, rows).max()) for row in rows)


def ascent(layout: Layout, weight: Fraction, public: tuple[float, ...], restarts: int, seed: int) -> float:
    """The largest distance that replacing one cell after the other in either row arrives at, from random rows."""
    generator = np.random.default_rng(seed)
    choices = options(layout, (-1.0, -0.5, 0.0, 0.5, 1.0))
    starts = np.cumsum([1, *(choice.shape[1] for choice in choices)])
    pair = np.ones((2, restarts, starts[-1]))
    for side, (start, choice) in itertools.product((0, 1), zip(starts, choices, strict=False)):
        pair[side, :, start : start + choice.shape[1]] = generator.choice(choice, restarts)
    best = squared_distance(layout, weight, public, pair[0], pair[1])
    while True:
        reached = best.sum()
        for side, place in itertools.product((0, 1), generator.permutation(len(choices))):
            for option in choices[place]:
                tried = pair.copy()
                tried[side, :, starts[place] : starts[place + 1]] = option
                distance = squared_distance(layout, weight, public, tried[0], tried[1])
                better = distance > best
                pair[:, better], best[better] = tried[:, better], distance[better]
        if best.sum() == reached:
            return float(best.max())


def search(case: Case, weight: Fraction, restarts: int = 16) -> Fraction:
    layout, public = case.layout, PUBLIC[case.public_norm2]
    seed = 1000 * case.numbers + 100 * case.binaries + 10 * len(case.groups)
    return Fraction(max(all_pairs(layout, weight, public), ascent(layout, weight, public, restarts, seed)))


@cache
def found(case: Case) -> Fraction:
    return search(case, sensitivity(case.layout.variables, case.public_norm2).diagonal_weight)


def used(case: Case) -> Fraction:
    return sensitivity(case.layout.variables, case.public_norm2).squared


def exact(change: Rows, layout: Layout, weight: Fraction) -> Fraction:
    """Weighted squared norm of a change of integer entries."""
    weights = (weight if square else Fraction(1) for square in layout.diagonal)
    return sum((each * int(moved) ** 2 for each, moved in zip(weights, change, strict=True)), Fraction(0))


# The search.


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_no_two_rows_are_further_apart_than_the_value_used(shape: Shape) -> None:
    for case in (Case(*shape, public_norm2) for public_norm2 in PUBLIC):
        assert found(case) <= used(case)
        if case.attained:
            assert found(case) == used(case)


def test_the_value_used_is_close_to_the_largest_distance_found() -> None:
    ratios = np.array([float(found(case) / used(case)) for case in CASES])
    assert ratios.min() >= 0.87
    assert np.mean(ratios >= 0.95) > 0.95
    assert np.mean(ratios == 1) > 0.55


@pytest.mark.parametrize(("numbers", "squared"), [(1, 4), (2, 8), (3, 16), (4, 24), (5, 36), (6, 48), (7, 64)])
def test_boxes_alone_have_the_published_largest_distance_when_all_noise_is_equal(numbers: int, squared: int) -> None:
    case = Case(numbers, 0, ())
    assert search(case, Fraction(1), restarts=64) == squared
    bound = sensitivity(case.layout.variables)
    assert (bound.squared, bound.diagonal_weight) == ((numbers + 1) ** 2, Fraction(numbers + 3, 2))


@pytest.mark.parametrize(
    ("case", "squared"),
    [
        (Case(0, 0, (3,)), Fraction(2)),
        (Case(0, 0, (3, 4)), Fraction(6)),
        (Case(0, 1, ()), Fraction(4)),
        (Case(2, 0, (3,)), Fraction(16)),  # a group of three levels coded +-1 each would cost 36
        (Case(3, 2, (3, 4)), Fraction(64)),
        (Case(1, 1, (), Fraction(4)), Fraction(32)),  # 2 P sqrt(beta)
        (Case(4, 0, (), Fraction(5, 2)), Fraction(169, 4)),
    ],
    ids=str,
)
def test_values_worked_out_by_hand(case: Case, squared: Fraction) -> None:
    assert used(case) == squared


@pytest.mark.parametrize("shape", [(4, 0, ()), (2, 2, ()), (4, 1, (3,)), (3, 2, (3, 4)), (1, 1, (4,))], ids=str)
def test_public_columns_may_stay_below_their_largest_norm(shape: Shape) -> None:
    longest = Case(*shape, Fraction(4))
    weight = sensitivity(longest.layout.variables, Fraction(4)).diagonal_weight
    for shorter in (Fraction(1), Fraction(5, 2)):
        assert search(Case(*shape, shorter), weight) <= used(longest)


@pytest.mark.parametrize(
    "shape", [(2, 0, ()), (1, 1, (3,)), (0, 2, ()), (3, 1, ()), (0, 0, (3, 4)), (2, 0, (4,))], ids=str
)
@pytest.mark.parametrize(
    "public",
    [
        (numeric("w", public=True),),
        (categorical("v", "yes", public=True),),
        (categorical("u", "a", "b", public=True), numeric("w", public=True)),
        (numeric("w", public=True), categorical("u", "a", "b", public=True), categorical("v", "yes", public=True)),
    ],
    ids=lambda columns: "+".join(column.name for column in columns),
)
def test_layouts_with_public_columns_are_those_of_their_norm(shape: Shape, public: tuple[Column, ...]) -> None:
    private = columns(*shape)
    for layout in (Layout((*public, *private)), Layout((*private[:1], *public, *private[1:]))):
        value, shown = sensitivity(layout.variables), layout.public[1:]
        assert value == sensitivity(Layout(private).variables, Fraction(1 + len(public)))
        hidden = np.array(
            [np.concatenate(parts) for parts in itertools.product(*options(Layout(private), (-1.0, 0.0, 1.0)))]
        )
        largest = 0.0
        for parts in itertools.product(*options(Layout(public), (-1.0, 0.0, 1.0))):
            rows = np.ones((len(hidden), len(layout.public)))
            rows[:, 1:][:, shown], rows[:, 1:][:, ~shown] = np.concatenate(parts), hidden
            moved = [squared_distance(layout, value.diagonal_weight, (), row, rows).max() for row in rows]
            largest = max(largest, *moved)
        assert Fraction(largest) == all_pairs(Layout(private), value.diagonal_weight, (1.0,) * len(public))
        assert Fraction(largest) <= value.squared


# What the search would notice.


@pytest.mark.parametrize(
    "case", [Case(1, 1, ()), Case(3, 1, ()), Case(4, 0, ()), Case(1, 2, (3,)), Case(2, 2, (), Fraction(3, 2))], ids=str
)
def test_a_tenth_less_noise_on_squares_would_be_too_little(case: Case) -> None:
    weight = sensitivity(case.layout.variables, case.public_norm2).diagonal_weight
    assert search(case, weight * Fraction(11, 10)) > used(case)


def test_a_forgotten_group_would_be_noticed() -> None:
    for case in CASES:
        fewer = Case(case.numbers, case.binaries, case.groups[1:], case.public_norm2)
        if case.groups and fewer.layout.variables:
            assert found(case) > used(fewer)


def test_forgotten_public_columns_would_be_noticed() -> None:
    for case in CASES:
        if case.public_norm2 > 1:
            assert found(case) > used(Case(case.numbers, case.binaries, case.groups))


# On the grid, from raw cells.


def entries(raw: Mapping[str, RawColumn], declared: tuple[Column, ...], grid_bits: int) -> npt.NDArray[np.int64]:
    rows = BoundedRows(bound(raw, declared, grid_bits), declared, grid_bits)
    coded = code(rows.codes, declared).astype(np.int64)
    x = np.column_stack([np.full(len(coded), 1 << grid_bits), coded])
    layout = Layout(declared)
    return np.asarray((x.T @ x)[layout.rows, layout.cols])


@pytest.mark.parametrize("grid_bits", [1, 4, 12])
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_patients_of_several_rows_attain_the_integer_bound(rows: int, grid_bits: int) -> None:
    declared = columns(1, 1, ())
    layout, value = Layout(declared), sensitivity(Layout(declared).variables)
    before = {"x0": np.ones(rows), "b0": ["yes"] * rows}
    after = {"x0": np.zeros(rows), "b0": [None] * rows}
    change = entries(before, declared, grid_bits) - entries(after, declared, grid_bits)
    assert exact(change, layout, value.diagonal_weight) == value.on_grid(grid_bits, rows)[EntryKind.PRODUCT]


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("shape", [(3, 0, ()), (2, 1, (3,)), (0, 2, (3, 4)), (4, 2, (4,)), (0, 0, (3,))], ids=str)
def test_no_patient_of_several_rows_moves_more_than_the_integer_bound(shape: Shape, rows: int) -> None:
    declared, generator = columns(*shape), np.random.default_rng(17)
    layout, value = Layout(declared), sensitivity(Layout(declared).variables)
    for _ in range(40):
        before, after = (random_raw(declared, rows, generator) for _ in range(2))
        for table in (before, after):
            for column in declared:
                if isinstance(column, NumericColumn) and generator.random() < 0.7:
                    table[column.name] = generator.choice([-9.0, np.nan, 9.0], rows)
        change = entries(before, declared, 6) - entries(after, declared, 6)
        assert exact(change, layout, value.diagonal_weight) <= value.on_grid(6, rows)[EntryKind.PRODUCT]


def test_the_kinds_of_columns_alone_decide_not_their_order_or_number_of_levels() -> None:
    declared = columns(2, 1, (3, 4))
    values = {sensitivity(Layout(order).variables) for order in itertools.permutations(declared)}
    assert len(values | {sensitivity(Layout(columns(2, 1, (5, 9))).variables)}) == 1


@pytest.mark.parametrize("public_norm2", [Fraction(0), Fraction(99, 100)])
def test_the_constant_counts_as_a_public_column(public_norm2: Fraction) -> None:
    with pytest.raises(InvalidInput, match="constant column"):
        sensitivity(Layout(columns(1, 0, ())).variables, public_norm2)


def test_nothing_to_release_is_refused() -> None:
    for declared in ((), tuple(column.model_copy(update={"public": True}) for column in columns(1, 1, (3,)))):
        with pytest.raises(InvalidInput, match="need a private column"):
            sensitivity(Layout(declared).variables)
