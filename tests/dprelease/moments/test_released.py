"""From the parties' blocks to moments: masks cancel, garbage is refused, every entry and its noise has its place."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.arrays import Integers
from dprelease.data.bounding import RawColumn, bound
from dprelease.errors import IntegrityError, InvalidInput
from dprelease.mechanisms.moments.entries import Layout, by_kind, code
from dprelease.mechanisms.moments.released import NoisyMoments, add_up, limits
from tests.support.specs import categorical, numeric, random_raw

COLUMNS = (
    categorical("stage", "I", "II"),
    numeric("age", 20.0, 100.0),
    categorical("smoker", "yes"),
    numeric("weight", -3.0, -1.0),
)
LAYOUT = Layout(COLUMNS)
STAGE, AGE, SMOKER, WEIGHT = 1, 4, 5, 6
"""Index of the first variable of each column."""

ANY = st.integers(-(2**63), 2**63 - 1)


def masked(values: list[int], parties: int, seed: int) -> list[Integers]:
    """Blocks that add up to `values`: shares of every entry, and a pad between every two parties."""
    generator = np.random.default_rng(seed)
    words = [generator.integers(0, 2**64, len(values), np.uint64) for _ in range(parties - 1)]
    words.append(np.array(values, np.int64).view(np.uint64) - sum(words, np.zeros(len(values), np.uint64)))
    for first in range(parties):
        for second in range(first + 1, parties):
            pad = generator.integers(0, 2**64, len(values), np.uint64)
            words[first], words[second] = words[first] + pad, words[second] - pad
    return [word.view(np.int64).reshape(1, -1) for word in words]


# Adding up.


@given(st.lists(ANY, min_size=1, max_size=30), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_masks_cancel_and_the_sum_is_signed(values: list[int], parties: int, seed: int) -> None:
    total = add_up(masked(values, parties, seed), [2**63] * len(values))
    assert total.dtype == np.int64
    assert total.tolist() == values


def test_blocks_are_left_as_they_were_and_any_order_of_parties_will_do() -> None:
    blocks = masked([5, -7, 2**62], 3, 1)
    before = [block.copy() for block in blocks]
    assert add_up(blocks, [2**63] * 3).tolist() == add_up(blocks[::-1], [2**63] * 3).tolist() == [5, -7, 2**62]
    assert all(np.array_equal(*pair) for pair in zip(blocks, before, strict=True))


@pytest.mark.parametrize("limit", [0, 1, 12345, 2**62, 2**63 - 2])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_limit_itself_passes_and_one_more_does_not(limit: int, sign: int) -> None:
    largest = [2**63 - 1, limit, 2**63 - 1]
    assert add_up(masked([0, sign * limit, 9], 3, 2), largest).tolist() == [0, sign * limit, 9]
    with pytest.raises(IntegrityError, match="do not add up"):
        add_up(masked([0, sign * (limit + 1), 9], 3, 2), largest)


def test_the_smallest_integer_is_beyond_every_limit() -> None:
    """Its absolute value does not fit into 64 bits: numpy's own abs would call it negative, and small."""
    for limit in (0, 1000, 2**63 - 1):
        with pytest.raises(IntegrityError):
            add_up(masked([-(2**63)], 2, 3), [limit])


def test_a_missing_repeated_or_foreign_block_is_garbage() -> None:
    generator = np.random.default_rng(4)
    values = generator.integers(-(10**6), 10**6, 20).tolist()
    blocks, others, largest = masked(values, 3, 5), masked(values, 3, 6), [2**40] * 20
    assert add_up(blocks, largest).tolist() == values
    for wrong in (blocks[:2], [*blocks[:2], blocks[0]], [*blocks[:2], others[2]], [*blocks, others[0]]):
        with pytest.raises(IntegrityError, match="do not belong"):
            add_up(wrong, largest)  # 20 random words within 2^40 of zero: a chance of 2^-460


# Limits.


def test_limits_are_the_range_of_the_data_and_twenty_standard_deviations() -> None:
    largest = limits(LAYOUT, 1000, 10, by_kind(3000.0, 100.0), 4)
    whole = 1000 * 2**20
    assert len(largest) == LAYOUT.entries
    assert largest == [whole + 20 * 2 * (100 if square else 3000) + 1 for square in LAYOUT.diagonal]


def test_limits_are_exact_where_doubles_are_not() -> None:
    assert limits(LAYOUT, 2**14 + 1, 24, by_kind(0.001, 0.001), 1)[0] == (2**14 + 1) * 2**48 + 1
    largest = limits(LAYOUT, 1, 24, by_kind(2.0**56, 2.0**55), 4)
    assert max(largest) == 2**48 + 40 * 2**56 + 1
    assert min(largest) == 2**48 + 20 * 2**56 + 1


def test_data_at_the_bounds_are_within_the_limits() -> None:
    rows, bits = 50, 8
    raw = {"stage": ["I"] * rows, "age": np.full(rows, 100.0), "smoker": [None] * rows, "weight": np.full(rows, -3.0)}
    exact = entries(raw, rows, bits)
    assert np.abs(exact).max() == rows << (2 * bits)
    largest = limits(LAYOUT, rows, bits, by_kind(1.0, 1.0), 1)
    assert add_up([exact.reshape(1, -1)], largest).tolist() == exact.tolist()


# Moments.


def entries(raw: Mapping[str, RawColumn], rows: int, grid_bits: int) -> Integers:
    coded = code(bound(raw, COLUMNS, grid_bits), COLUMNS).astype(np.int64)
    x = np.column_stack([np.full(rows, 1 << grid_bits), coded])
    return np.asarray((x.T @ x)[LAYOUT.rows, LAYOUT.cols])


def read(values: Integers, rows: int = 40, grid_bits: int = 10) -> NoisyMoments:
    return NoisyMoments.read(LAYOUT, values, rows, grid_bits, by_kind(5000.0, 700.0), 3)


def test_released_integers_become_sums_in_scaled_units() -> None:
    rows, generator = 40, np.random.default_rng(8)
    raw = random_raw(COLUMNS, rows, generator)
    moments = read(entries(raw, rows, 10), rows)
    coded = code(bound(raw, COLUMNS, 10), COLUMNS) / 1024
    x = np.column_stack([np.ones(rows), coded])
    assert np.array_equal(moments.gram, x.T @ x)  # multiples of 2^-20 below 2^6: exact in doubles
    assert moments.rows == rows
    assert moments.gram[0, 0] == moments.gram[SMOKER, SMOKER] == rows
    assert moments.gram[0, STAGE] == raw["stage"].count("I")


def test_every_entry_has_its_own_noise() -> None:
    sd = read(np.arange(LAYOUT.entries)).noise_sd
    off, square = 5000 * math.sqrt(3) / 2**20, 700 * math.sqrt(3) / 2**20
    expected = np.full((7, 7), off)
    levels = slice(STAGE, STAGE + 3)
    expected[levels, levels] = np.diag([off] * 3)  # a level's own entry is its entry with the constant
    expected[0, 0] = expected[SMOKER, SMOKER] = 0.0
    expected[AGE, AGE] = expected[WEIGHT, WEIGHT] = square
    assert np.allclose(sd, expected, rtol=1e-14, atol=0)


def test_noise_on_a_level_is_repeated_in_its_own_entry() -> None:
    values = np.random.default_rng(9).integers(-(2**20), 2**20, LAYOUT.entries)
    moments = read(values)
    for level in range(STAGE, STAGE + 3):
        assert moments.gram[level, level] == moments.gram[0, level] != 0
    assert np.array_equal(moments.gram[LAYOUT.rows, LAYOUT.cols], values / 2**20)
    assert np.array_equal(moments.gram, moments.gram.T)


def test_names_are_those_of_the_variables() -> None:
    names = read(np.arange(LAYOUT.entries)).names
    assert names == ("stage=I", "stage=II", "stage=other", "age", "smoker=yes", "weight")


@pytest.mark.parametrize(
    ("released", "place", "midpoint", "half_width"),
    [
        ("stage=I", STAGE, 0.0, 1.0),
        ("stage=II", STAGE + 1, 0.0, 1.0),
        ("stage=other", STAGE + 2, 0.0, 1.0),
        ("age", AGE, 60.0, 40.0),
        ("smoker=yes", SMOKER, 0.5, 0.5),
        ("smoker=other", SMOKER, 0.5, -0.5),
        ("weight", WEIGHT, -2.0, 1.0),
    ],
)
def test_every_released_name_is_found(released: str, place: int, midpoint: float, half_width: float) -> None:
    assert read(np.arange(LAYOUT.entries)).lookup(released) == (place, midpoint, half_width)


def test_looked_up_units_give_the_means_of_the_released_columns() -> None:
    rows, bits = 64, 6
    raw = random_raw(COLUMNS, rows, np.random.default_rng(10))
    raw["age"] = 60 + 40 * np.random.default_rng(11).integers(-64, 65, rows) / 64
    moments = read(entries(raw, rows, bits), rows, bits)

    def mean(released: str) -> float:
        place, midpoint, half_width = moments.lookup(released)
        return midpoint + half_width * float(moments.gram[0, place]) / rows

    assert mean("age") == pytest.approx(np.mean(raw["age"]), rel=1e-14)
    assert mean("smoker=yes") == np.mean([cell == "yes" for cell in raw["smoker"]])
    assert mean("smoker=other") == 1 - mean("smoker=yes")
    assert mean("stage=II") == np.mean([cell == "II" for cell in raw["stage"]])


@pytest.mark.parametrize("released", ["stage", "smoker", "smoker=no", "height", ""])
def test_an_unknown_name_is_refused(released: str) -> None:
    with pytest.raises(InvalidInput, match="not in this release"):
        read(np.arange(LAYOUT.entries)).lookup(released)
