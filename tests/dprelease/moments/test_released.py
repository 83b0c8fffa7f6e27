"""From the parties' blocks to moments: masks cancel, garbage is refused, every entry and its noise has its place.

The protocol's arithmetic: with the noise off, the blocks add up to the integer Gram matrix, bit for bit.

The noise that is told of the number of patients of a level is that of the entry that counts them.
"""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.arrays import Integers
from dprelease.data.bounding import BoundedRows, bound
from dprelease.data.columns import Column, released_names
from dprelease.data.ranges import Range
from dprelease.errors import IntegrityError, InvalidInput
from dprelease.mechanisms.moments.clipping_rule import ClippingInputs, choose_clipping
from dprelease.mechanisms.moments.entries import Layout, by_kind, code
from dprelease.mechanisms.moments.privatize import OwnMoments, coded, exact_share, schedule_of
from dprelease.mechanisms.moments.released import NoisyMoments, add_up, limits
from dprelease.mechanisms.moments.terms import joint_moments, layout_of
from dprelease.mechanisms.registry import mechanism_of
from dprelease.mpc import ring
from dprelease.mpc.modulus import FIELD, MODULI, RING, Modulus, P
from dprelease.mpc.session import Products
from dprelease.release.spec import ReleaseSpec
from tests.support.joint import compute, entries, exact_gram, privatize_moments
from tests.support.noise import RecordingNoise, ZeroNoise
from tests.support.specs import build_spec, categorical, numeric, random_rows, with_terms

COLUMNS = (
    categorical("stage", "I", "II"),
    numeric("age", 20.0, 100.0),
    categorical("smoker", "yes"),
    numeric("weight", -3.0, -1.0),
)
LAYOUT = Layout(COLUMNS)
STAGE, AGE, SMOKER, WEIGHT = 1, 4, 5, 6
"""Index of the first variable of each column."""

BOTH = pytest.mark.parametrize("modulus", [RING, FIELD], ids=["ring", "field"])


def masked(values: list[int], parties: int, seed: int, modulus: Modulus) -> list[Integers]:
    """Blocks that add up to `values`: shares of every entry, and a pad between every two parties."""
    generator, most = np.random.default_rng(seed), 2**64 if modulus is RING else P
    words = [generator.integers(0, most, len(values), np.uint64) for _ in range(parties - 1)]
    last = modulus.elements(np.array(values, np.int64))
    for word in words:
        last = modulus.subtract(last, word)
    words.append(last)
    for first in range(parties):
        for second in range(first + 1, parties):
            pad = generator.integers(0, most, len(values), np.uint64)
            words[first], words[second] = modulus.add(words[first], pad), modulus.subtract(words[second], pad)
    return [word.view(np.int64).reshape(1, -1) for word in words]


# Adding up.


@BOTH
@given(st.data(), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_masks_cancel_and_the_sum_is_signed(modulus: Modulus, data: st.DataObject, parties: int, seed: int) -> None:
    each = st.integers(1 - modulus.reach, modulus.reach - 1)
    values = data.draw(st.lists(each, min_size=1, max_size=30))
    total = add_up(masked(values, parties, seed, modulus), [2**63] * len(values), modulus)
    assert total.dtype == np.int64
    assert total.tolist() == values


@BOTH
@pytest.mark.parametrize("below", [None, 0, 1, 12345, 2**59])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_limit_itself_passes_and_one_more_does_not(modulus: Modulus, below: int | None, sign: int) -> None:
    limit = modulus.reach - 2 if below is None else below
    largest = [2**63 - 1, limit, 2**63 - 1]
    assert add_up(masked([0, sign * limit, 9], 3, 2, modulus), largest, modulus).tolist() == [0, sign * limit, 9]
    with pytest.raises(IntegrityError, match="do not add up"):
        add_up(masked([0, sign * (limit + 1), 9], 3, 2, modulus), largest, modulus)


def test_the_smallest_integer_is_beyond_every_limit() -> None:
    """Its absolute value does not fit into 64 bits: numpy's own abs would call it negative, and small."""
    for limit in (0, 1000, 2**63 - 1):
        with pytest.raises(IntegrityError):
            add_up(masked([-(2**63)], 2, 3, RING), [limit], RING)


@BOTH
def test_a_missing_repeated_or_foreign_block_is_garbage(modulus: Modulus) -> None:
    generator = np.random.default_rng(4)
    values = generator.integers(-(10**6), 10**6, 20).tolist()
    blocks, others, largest = masked(values, 3, 5, modulus), masked(values, 3, 6, modulus), [2**40] * 20
    assert add_up(blocks, largest, modulus).tolist() == values
    for wrong in (blocks[:2], [*blocks[:2], blocks[0]], [*blocks[:2], others[2]], [*blocks, others[0]]):
        with pytest.raises(IntegrityError, match="do not belong"):
            add_up(wrong, largest, modulus)  # 20 random words within 2^40 of zero: a chance below 2^-400


# Limits.


def test_limits_are_the_range_of_the_data_and_twenty_standard_deviations() -> None:
    largest = limits(LAYOUT, 1000, 10, by_kind(3000.0, 100.0), 4)
    whole = 1000 * 2**20
    assert len(largest) == LAYOUT.entries
    assert largest == [whole + 20 * 2 * (100 if square else 3000) + 1 for square in LAYOUT.diagonal]


# Moments.


def read(values: Integers, rows: int = 40, grid_bits: int = 10) -> NoisyMoments:
    return NoisyMoments.read(LAYOUT, values, rows, grid_bits, by_kind(5000.0, 700.0), 3)


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


@pytest.mark.parametrize("released", ["stage", "smoker", "smoker=no", "height", ""])
def test_an_unknown_name_is_refused(released: str) -> None:
    with pytest.raises(InvalidInput, match="not in this release"):
        read(np.arange(LAYOUT.entries)).lookup(released)


NAMES = ("a", "b", "c", "d", "e", "f")


def columns(kinds: str, prefix: str) -> tuple[Column, ...]:
    """Columns by letters: n numeric, b binary, l three levels."""
    make = {
        "n": lambda name: numeric(name),
        "b": lambda name: categorical(name, "yes"),
        "l": lambda name: categorical(name, "one", "two"),
    }
    return tuple(make[kind](f"{prefix}{place}") for place, kind in enumerate(kinds))


def joint_spec(kinds: list[str], rows: int, grid_bits: int = 16, dealer: str | None = None) -> ReleaseSpec:
    parties = {NAMES[place]: columns(each, NAMES[place]) for place, each in enumerate(kinds)}
    return build_spec(parties, mechanism="moments", rows=rows, grid_bits=grid_bits, dealer=dealer)


def extreme(spec: ReleaseSpec, party: str, sign: int) -> BoundedRows:
    """Every number at a bound, every category at its first or last level."""
    part = spec.party(party)
    assert part is not None
    codes = np.zeros((spec.rows, len(released_names(part.columns))), np.int32)
    position = 0
    for column in part.columns:
        width = len(column.released)
        chosen = position if width == 1 or sign > 0 else position + width - 1
        codes[:, chosen] = (
            (sign if width == 1 else 1) << spec.grid_bits if sign > 0 or width > 1 else -(1 << spec.grid_bits)
        )
        position += width
    return BoundedRows(codes, part.columns, spec.grid_bits)


def released(spec: ReleaseSpec, tables: dict[str, BoundedRows]) -> list[int]:
    silence = {part.party: ZeroNoise() for part in spec.parties}
    blocks = compute(spec, tables, silence).blocks
    moments = spec.terms
    most = limits(layout_of(spec), spec.rows, spec.grid_bits, moments.scales, len(spec.parties))
    return [
        int(value) for value in add_up([block.values for block in blocks.values()], most, MODULI[spec.terms.modulo])
    ]


@pytest.mark.parametrize("parties", [1, 2, 3, 4, *(pytest.param(more, marks=pytest.mark.slow) for more in (5, 6))])
@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_without_noise_the_sum_is_the_gram_matrix(parties: int, data: st.DataObject) -> None:
    """Of four hospitals two may deal for a pair; more bring more of the same."""
    kinds = data.draw(st.lists(st.text("nbl", min_size=1, max_size=3), min_size=parties, max_size=parties))
    rows = data.draw(st.integers(1, 70))
    bits = data.draw(st.sampled_from([12, 16, 24]))
    dealer = data.draw(st.sampled_from([None, "coordinator"])) if parties > 1 else None
    spec = joint_spec(kinds, rows, bits, dealer)
    tables = {part.party: random_rows(spec, part.party, place) for place, part in enumerate(spec.parties)}
    # Chunks of two rows up to all of them at once.
    width = max(schedule_of(spec).widths.values())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ring, "CHUNK_BYTES", 8 * width * data.draw(st.integers(2, 80)))
        assert schedule_of(spec).chunk_rows <= 80
        assert released(spec, tables) == entries(spec, exact_gram(spec, tables))


@pytest.mark.parametrize("parties", [1, 2, 3, *(pytest.param(more, marks=pytest.mark.slow) for more in (4, 5)), 6])
@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, -1)])
def test_the_bounds_themselves_are_exact(parties: int, signs: tuple[int, int]) -> None:
    spec = joint_spec(["nbl", "n", "bn", "l", "nn", "b"][:parties], 301, 24)
    tables = {part.party: extreme(spec, part.party, signs[place % 2]) for place, part in enumerate(spec.parties)}
    found = released(spec, tables)
    assert found == entries(spec, exact_gram(spec, tables))
    assert max(map(abs, found)) == 301 << 48


def test_the_default_chunk_is_crossed() -> None:
    spec = joint_spec(["nn", "n", "n"], 140_001)
    assert schedule_of(spec).chunks == 3
    tables = {part.party: random_rows(spec, part.party, place) for place, part in enumerate(spec.parties)}
    coded = [code(tables[part.party].codes, part.columns).astype(np.int64) for part in spec.parties]
    whole = np.hstack([np.full((spec.rows, 1), 1 << 16, np.int64), *coded])
    assert released(spec, tables) == entries(spec, (whole.T @ whole).astype(object))  # fits int64: n 2^32 < 2^63


def test_own_moments_are_exact_at_the_bounds() -> None:
    spec = joint_spec(["nb"], 5000, 24)
    codes = np.full((5000, 2), -(1 << 24), np.int32)
    own = OwnMoments.of(codes, np.zeros(2, bool), schedule_of(spec))
    assert own.sums.view(np.int64).tolist() == [-5000 << 48] * 2
    assert own.across.view(np.int64).tolist() == [[5000 << 48] * 2] * 2
    assert own.squares.view(np.int64).tolist() == [5000 << 48] * 2


def test_every_party_draws_the_declared_noise_for_every_entry() -> None:
    spec = joint_spec(["nn", "bl", "n"], 40)
    tables = {part.party: random_rows(spec, part.party, place) for place, part in enumerate(spec.parties)}
    noise = {part.party: RecordingNoise() for part in spec.parties}
    blocks = compute(spec, tables, noise).blocks
    moments, diagonal = spec.terms, layout_of(spec).diagonal
    total = np.zeros(layout_of(spec).entries, np.int64)
    for source in noise.values():
        assert [(draw.scale, draw.values.size) for draw in source.draws] == [
            (moments.scale, int((~diagonal).sum())),
            (moments.diagonal_scale, int(diagonal.sum())),
        ]
        total[~diagonal] += source.draws[0].values[0]
        total[diagonal] += source.draws[1].values[0]
    most = [1 << 59] * layout_of(spec).entries
    summed = add_up([block.values for block in blocks.values()], most, FIELD)
    assert (summed - total).tolist() == entries(spec, exact_gram(spec, tables))


def test_a_block_is_hidden_by_its_masks() -> None:
    """With other seeds the same share is another block; without one of the blocks the sum is garbage."""
    spec = joint_spec(["n", "n"], 20)
    tables = {name: random_rows(spec, name, 1) for name in "ab"}
    noise = {name: ZeroNoise() for name in "ab"}
    pair = frozenset("ab")
    blocks = compute(spec, tables, noise, {pair: bytes(32)}).blocks
    moments = spec.terms
    most = limits(layout_of(spec), spec.rows, spec.grid_bits, moments.scales, 2)
    with pytest.raises(IntegrityError, match="do not add up"):
        add_up([blocks["a"].values], most, FIELD)


def test_a_block_without_all_its_masks_is_never_made() -> None:
    spec = joint_spec(["n", "n", "n"], 20)
    rows, pairs = random_rows(spec, "a"), schedule_of(spec).pairs
    shares = {pair: np.zeros((1, 1), np.uint64) for pair in pairs if pair.has("a")}
    masks = {"b": bytes(32), "c": bytes(32)}
    assert privatize_moments(rows, spec, "a", shares, masks, ZeroNoise()).values.shape == (1, 9)
    for fewer_shares, fewer_masks in ((shares, {"b": bytes(32)}), ({}, masks), (shares, {**masks, "d": bytes(32)})):
        with pytest.raises(InvalidInput, match="a half of every pair and a mask with every peer"):
            privatize_moments(rows, spec, "a", fewer_shares, fewer_masks, ZeroNoise())


AGED, SEX, STAGED = numeric("age"), categorical("sex", "female"), categorical("stage", "i", "ii")


def release(*columns: Column, outcomes: tuple[str, ...] = (), clipped: bool = False) -> ReleaseSpec:
    spec = build_spec({"north": columns}, mechanism="moments", outcomes=outcomes)
    if not clipped:
        return spec
    chosen = choose_clipping(
        {"north": columns}, [Range.whole("age")], ClippingInputs(1.0, spec.rows, 1, 0, spec.grid_bits), {}
    )
    return with_terms(spec, clipping=chosen, scale=3e7, diagonal_scale=2e7)


def told(spec: ReleaseSpec, name: str, level: str, other: str) -> float:
    """The noise of the entry of a level and the constant, in the patients by whom one more of the level moves it."""
    cells: dict[str, Any] = {"age": [0.0] * spec.rows, "sex": ["female"] * spec.rows, "stage": ["i"] * spec.rows}
    entries = []
    for value in (level, other):
        cells[name][0] = value
        own = {each.name: cells[each.name] for each in spec.columns}
        rows = BoundedRows(bound(own, spec.columns, spec.grid_bits), spec.columns, spec.grid_bits)
        entries.append(exact_share(Products(coded(rows, spec), {}, {}), spec, "north")[0])
    layout = layout_of(spec)
    place = next(i for i, each in enumerate(layout.variables, 1) if each.name == f"{name}={level}")
    (entry,) = np.flatnonzero((layout.rows == 0) & (layout.cols == place))
    moved = abs(int(entries[0][entry] - entries[1][entry]))
    return joint_moments(spec).scales[layout.kinds[entry]] / moved


@pytest.mark.parametrize("clipped", [False, True])
def test_it_is_that_of_the_entry(clipped: bool) -> None:
    spec = release(AGED, SEX, STAGED, clipped=clipped)
    sds = told(spec, "sex", "female", "other"), told(spec, "stage", "ii", "i")
    assert math.isclose(sds[1], 2 * sds[0])
    shown = [f"{float(f'{sd:.2g}'):,g}" for sd in sds]
    (said,) = (
        line for line in mechanism_of(spec).statements(spec).details if line.startswith("the number of patients")
    )
    assert said.endswith(f"of a level is published with a standard deviation of about {shown[0]} to {shown[1]}")


def test_a_category_that_is_an_outcome_has_the_noise_of_the_association() -> None:
    spec = release(AGED, STAGED, outcomes=("stage",))
    sd = told(spec, "stage", "ii", "i")
    assert mechanism_of(spec).statements(spec).details[-1].endswith(f"deviation of about {float(f'{sd:.2g}'):,g}")
