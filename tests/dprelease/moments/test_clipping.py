"""Clipped rows in exact integers."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from dprelease.data.ranges import STEPS, Range
from dprelease.mechanisms.moments.clipping import Clipping, Norm, clip_rows
from tests.support.specs import categorical, numeric

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
