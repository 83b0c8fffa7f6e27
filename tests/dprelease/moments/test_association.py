"""Covariance and association together: what one patient moves, searched for adversarially, and what the noise gives for it."""

import itertools
import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.data.columns import Column
from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.calibration import LARGEST_SPLIT, best_split, share_scales, spent
from dprelease.mechanisms.moments.entries import EntryKind, Layout
from dprelease.mechanisms.moments.sensitivity import outcome_sensitivity
from dprelease.privacy.calibration import UNBOUNDED
from tests.support.kinds import kind_of
from tests.support.specs import categorical, numeric

Rows = npt.NDArray[np.float64]

X: tuple[Column, ...] = (numeric("x1"), numeric("x2"))
Y: tuple[Column, ...] = (numeric("y1"), numeric("y2"))
GROUP, BINARY = categorical("g", "a", "b"), categorical("s", "yes")
OPEN_X, OPEN_Y = numeric("p", public=True), numeric("q", public=True)

CASES: dict[str, tuple[tuple[Column, ...], tuple[Column, ...]]] = {
    "one of each": (X[:1], Y[:1]),
    "numbers": (X, Y),
    "outcomes of all kinds": (X[:1], (Y[0], BINARY, GROUP)),
    "features of all kinds": ((X[0], BINARY, GROUP), Y[:1]),
    "outcomes public": (X, (OPEN_Y,)),
    "outcomes half public": (X[:1], (Y[0], OPEN_Y)),
    "features public": ((OPEN_X,), Y),
    "features half public": ((X[0], OPEN_X), Y[:1]),
    "both half public": ((X[0], OPEN_X), (Y[0], OPEN_Y)),
}
SPLITS = [Fraction(1, 10), Fraction(2, 5), Fraction(9, 10)]


def layout_of(features: tuple[Column, ...], outcomes: tuple[Column, ...]) -> Layout:
    # Outcomes first, so that an entry's row may be either.
    return Layout((*outcomes, *features), tuple(column.name for column in outcomes))


LAYOUTS = {name: layout_of(*sides) for name, sides in CASES.items()}


def choices(layout: Layout) -> list[Rows]:
    """For every declared column the values that its variables may take together: bounds, zero and some between."""
    found = []
    for position, _ in enumerate(layout.columns):
        mine = [variable for variable in layout.variables if variable.column == position]
        if kind_of(mine[0]) == "numeric":
            found.append(np.array([[-1.0], [-0.5], [0.0], [0.25], [0.5], [1.0]]))
        else:
            found.append(np.array([[-1.0], [1.0]]) if kind_of(mine[0]) == "binary" else np.eye(len(mine)))
    return found


def rows_of(layout: Layout) -> Rows:
    return np.array([np.concatenate([[1.0], *parts]) for parts in itertools.product(*choices(layout))])


def moved(layout: Layout, room: dict[EntryKind, float], split: Fraction) -> float:
    """The largest mu^2 of any two rows with the same public part, at noise variances `room`."""
    assert split
    rows = rows_of(layout)
    products = (
        rows[:, layout.rows] * rows[:, layout.cols] / np.sqrt([room[kind] for kind in map(EntryKind, layout.kinds)])
    )
    open_part = rows[:, layout.public]
    largest = 0.0
    for row, shown in zip(products, open_part, strict=True):
        same = (open_part == shown).all(axis=1)
        largest = max(largest, float(((products[same] - row) ** 2).sum(axis=1).max()))
    return largest


def variances(layout: Layout, mu2: Fraction, split: Fraction, bits: int = 12) -> dict[EntryKind, float]:
    """What the declared scales leave beyond the grid's variance, in scaled units."""
    moves = outcome_sensitivity(layout)
    scales = share_scales(moves, mu2, 1, 0, bits, 1, split)
    return {kind: (scale**2 - 4) / 2.0 ** (4 * bits) for kind, scale in scales.items()}


def splits(layout: Layout) -> list[Fraction]:
    return SPLITS if outcome_sensitivity(layout).squared else [Fraction(1)]


@pytest.mark.parametrize("name", CASES)
def test_no_two_rows_are_further_apart_than_the_noise_is_for(name: str) -> None:
    layout = LAYOUTS[name]
    for split in splits(layout):
        assert moved(layout, variances(layout, Fraction(1, 16), split), split) <= 1 / 16 * (1 + 1e-9)


@pytest.mark.parametrize("name", CASES)
def test_the_noise_is_not_much_more_than_some_rows_need(name: str) -> None:
    layout = LAYOUTS[name]
    used = [moved(layout, variances(layout, Fraction(1, 16), split), split) * 16 for split in splits(layout)]
    assert max(used) > (0.4 if "half" in name else 0.6)


@pytest.mark.parametrize("name", ["numbers", "outcomes public", "features public"])
def test_the_forgotten_factor_of_the_paper_would_be_noticed(name: str) -> None:
    """Delta_2 = R S instead of 2 R S (docs/guarantees.md, "Where the papers differ")."""
    layout = LAYOUTS[name]
    split = splits(layout)[-1]
    room = variances(layout, Fraction(1, 16), split)
    room[EntryKind.ASSOCIATION] /= 4
    assert moved(layout, room, split) > 1 / 16


def test_the_moves_of_boxes_are_those_of_the_claims() -> None:
    moves = outcome_sensitivity(LAYOUTS["numbers"])
    assert moves.squared == 9  # (1 + 2)^2, docs/guarantees.md 11
    assert moves.association == 4 * 3 * 2  # (2 R S)^2
    assert moves.square_weight == 3
    assert moves.diagonal_weight == Fraction(5, 2)  # (p + 3)/2
    assert outcome_sensitivity(LAYOUTS["outcomes public"]).square_weight == 0
    label = outcome_sensitivity(LAYOUTS["features public"])
    assert (label.squared, label.association) == (0, 4 * 2 * 2)
    assert label.square_weight == Fraction(11, 2)


@pytest.mark.parametrize(("name", "least"), [("features public", 0.99), ("one of each", 0.9), ("numbers", 0.9)])
def test_squares_of_outcomes_cost_nothing_and_could_not_have_much_less_noise(name: str, least: float) -> None:
    """All of the budget is used by rows whose squares of outcomes are equal, and by others once squares have less noise."""
    layout = LAYOUTS[name]
    split = splits(layout)[0]
    room = variances(layout, Fraction(1, 16), split)
    without = moved(layout, room | {EntryKind.OUTCOME_SQUARE: math.inf}, split)
    assert moved(layout, room, split) == pytest.approx(without, rel=1e-12)
    assert without * 16 > least
    assert moved(layout, room | {EntryKind.OUTCOME_SQUARE: room[EntryKind.OUTCOME_SQUARE] / 2}, split) > without * 1.01


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("parties", "curious"), [(1, 0), (3, 1), (4, 3)])
def test_the_declared_scales_spend_the_budget_and_no_more(name: str, parties: int, curious: int) -> None:
    layout, mu2 = LAYOUTS[name], Fraction(7, 100)
    moves = outcome_sensitivity(layout)
    for split in splits(layout):
        shared = parties, curious, 16, 2
        found = spent(moves, share_scales(moves, mu2, *shared, split), *shared)
        assert mu2 * (1 - Fraction(1, 10**6)) < found <= mu2


def test_less_noise_on_any_part_costs_more() -> None:
    moves, mu2 = outcome_sensitivity(LAYOUTS["numbers"]), Fraction(7, 100)
    scales = share_scales(moves, mu2, 3, 1, 16, 1, Fraction(2, 5))
    for kind in EntryKind:
        fewer = {**scales, kind: 0.9 * scales[kind]}
        assert spent(moves, fewer, 3, 1, 16, 1) > mu2
        assert spent(moves, {**scales, kind: 1.0}, 3, 1, 16, 1) == UNBOUNDED


def test_beyond_the_coupled_case_the_sum_is_charged() -> None:
    """Q > 2A: formula (1) does not hold with weighted squares."""
    moves = outcome_sensitivity(LAYOUTS["numbers"])
    scales = share_scales(moves, Fraction(1, 16), 1, 0, 12, 1, Fraction(9, 10))
    scales[EntryKind.PRODUCT], scales[EntryKind.SQUARE] = 10 * scales[EntryKind.PRODUCT], 10 * scales[EntryKind.SQUARE]
    room = {kind: (scale**2 - 4) / 2.0**48 for kind, scale in scales.items()}
    assert moved(LAYOUTS["numbers"], room, Fraction(1)) <= float(spent(moves, scales, 1, 0, 12, 1))


def test_the_split_comes_from_public_numbers() -> None:
    assert best_split(LAYOUTS["features public"]) == 1
    few, many = (
        best_split(layout_of(X, tuple(numeric(f"y{place}") for place in range(outcomes)))) for outcomes in (1, 40)
    )
    assert 0 < few < many <= LARGEST_SPLIT


@pytest.mark.parametrize(
    ("name", "split"), [("numbers", Fraction(1)), ("numbers", Fraction(0)), ("features public", Fraction(1, 2))]
)
def test_a_split_that_does_not_fit_is_refused(name: str, split: Fraction) -> None:
    with pytest.raises(InvalidInput):
        share_scales(outcome_sensitivity(LAYOUTS[name]), Fraction(1, 16), 1, 0, 12, 1, split)


@pytest.mark.parametrize("sides", [((), Y), (X, ())])
def test_a_side_without_columns_is_refused(sides: tuple[tuple[Column, ...], tuple[Column, ...]]) -> None:
    with pytest.raises(InvalidInput, match="a feature and an outcome"):
        outcome_sensitivity(layout_of(*sides))
