"""From bounded rows to a block: exactly the integer query plus exactly the noise that was drawn.

A block's bytes: written out once, read only where they fit the spec.

From raw cells to codes: within the bounds whatever the cell, each cell by itself.
"""

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.data.bounding import BoundedRows, RawColumn, bound
from dprelease.data.columns import Column, NumericColumn
from dprelease.errors import DataRefused, IntegrityError, InvalidInput
from dprelease.mechanisms.noisy_rows.mixing import BernoulliMixing
from dprelease.mechanisms.noisy_rows.privatize import integer_query, weighted
from dprelease.privacy.noise import SecureNoise
from dprelease.privacy.public_stream import PublicStream
from dprelease.release.block import MAGIC, Block, BlockHeader, block_size, expected_header, read_block, view_block
from dprelease.release.spec import ReleaseSpec
from tests.support.blocks import privatize
from tests.support.noise import RecordingNoise, ZeroNoise
from tests.support.specs import SEED, build_spec, categorical, numeric, random_rows

ANCHORED = build_spec()
PLAIN = build_spec(anchor_weight="0")
ROWS = build_spec(mechanism="rows")
SPECS = pytest.mark.parametrize("spec", [ANCHORED, PLAIN, ROWS], ids=["anchored", "plain", "rows"])
PARTIES = pytest.mark.parametrize("party", ["north", "south"])


def signs(spec: ReleaseSpec) -> np.ndarray:
    return BernoulliMixing(PublicStream(SEED), 8, spec.rows).signs(0, spec.rows).astype(np.int64)


@PARTIES
def test_query_of_an_anchored_mix(party: str) -> None:
    codes = random_rows(ANCHORED, party).codes
    wide = codes.astype(np.int64)
    expected = np.vstack([wide.sum(axis=0), signs(ANCHORED) @ wide])
    assert np.array_equal(integer_query([codes], ANCHORED, ANCHORED.terms), expected)


@PARTIES
def test_query_without_an_anchor_and_of_rows(party: str) -> None:
    codes = random_rows(PLAIN, party).codes
    assert np.array_equal(integer_query([codes], PLAIN, PLAIN.terms), signs(PLAIN) @ codes.astype(np.int64))
    assert np.array_equal(integer_query([codes], ROWS, ROWS.terms), codes)
    assert integer_query([codes], ROWS, ROWS.terms).dtype == np.int64


@SPECS
def test_query_is_linear(spec: ReleaseSpec) -> None:
    one, two = (random_rows(spec, "north", seed).codes for seed in (1, 2))
    together = integer_query([one + two], spec, spec.terms)
    assert np.array_equal(together, integer_query([one], spec, spec.terms) + integer_query([two], spec, spec.terms))


def test_sums_do_not_overflow_32_bits() -> None:
    spec = build_spec(rows=1000, grid_bits=24)
    codes = np.full((1000, 1), 1 << 24, np.int32)
    assert integer_query([codes], spec, spec.terms)[0, 0] == 1000 << 24


@SPECS
@PARTIES
def test_without_noise_the_block_is_the_query(spec: ReleaseSpec, party: str) -> None:
    bounded = random_rows(spec, party)
    block = privatize(bounded, spec, party, ZeroNoise())
    assert block.header == expected_header(spec, party)
    assert block.values.shape == (block.header.rows, block.header.columns)
    assert np.array_equal(block.values, integer_query([bounded.codes], spec, spec.terms))


@SPECS
@PARTIES
def test_noise_is_added_once_to_every_entry_at_its_declared_scale(spec: ReleaseSpec, party: str) -> None:
    bounded, noise = random_rows(spec, party), RecordingNoise()
    block = privatize(bounded, spec, party, noise)
    declared = spec.terms.noise_of(party)
    added = block.values - integer_query([bounded.codes], spec, spec.terms)
    drawn = {draw.scale: draw.values for draw in noise.draws}
    assert len(drawn) == len(noise.draws)
    if declared.anchor_scale is None:
        assert set(drawn) == {declared.scale}
        assert np.array_equal(added, drawn[declared.scale])
    else:
        assert set(drawn) == {declared.scale, declared.anchor_scale}
        assert np.array_equal(added[:1], drawn[declared.anchor_scale])
        assert np.array_equal(added[1:], drawn[declared.scale])


@SPECS
def test_two_releases_of_the_same_rows_share_no_noise(spec: ReleaseSpec) -> None:
    bounded = random_rows(spec, "north")
    one, two = (privatize(bounded, spec, "north", SecureNoise()).values for _ in range(2))
    # Two draws of scale sigma > 1e4 coincide with probability 1/(2 sqrt(pi) sigma) < 3e-5: in 160 entries the number of
    # coincidences is Poisson with mean below 0.005, and five of them have a probability below 1e-13.
    assert np.sum(one == two) < 5


def test_released_numbers_are_whole_grid_steps() -> None:
    block = privatize(random_rows(ANCHORED, "north"), ANCHORED, "north", SecureNoise())
    assert block.values.dtype == np.int64


def test_the_rows_themselves_are_left_alone() -> None:
    bounded = random_rows(ANCHORED, "north")
    before = bounded.digest()
    privatize(bounded, ANCHORED, "north", RecordingNoise())
    assert bounded.digest() == before


@pytest.mark.parametrize("mechanism", ["mixed", "rows"])
def test_codes_are_weighed_before_the_query_and_noise_is_the_same_for_all(mechanism: str) -> None:
    spec = build_spec(mechanism=mechanism, weights={"sex": 16, "glucose": 3}, grid_bits=24)
    bounded, noise = random_rows(spec, "north"), RecordingNoise()
    block = privatize(bounded, spec, "north", noise)
    assert np.array_equal(weighted(bounded, spec, "north"), bounded.codes.astype(np.int64) * [1, 16, 16, 16])
    declared = spec.terms.noise_of("north")
    scales = [declared.scale] if declared.anchor_scale is None else [declared.scale, declared.anchor_scale]
    assert [draw.scale for draw in noise.draws] == scales
    exact = integer_query([bounded.codes], spec, spec.terms) * [1, 16, 16, 16]
    assert np.array_equal(block.values - exact, np.vstack([draw.values for draw in reversed(noise.draws)]))


def test_public_columns_are_not_weighed() -> None:
    parties = {"north": (numeric("age", public=True), numeric("bmi")), "south": (numeric("glucose"),)}
    spec = build_spec(parties, weights={"bmi": 2})
    bounded = random_rows(spec, "north")
    block = privatize(bounded, spec, "north", ZeroNoise())
    assert np.array_equal(block.public, bounded.public)
    assert np.array_equal(block.values, 2 * integer_query([bounded.private], spec, spec.terms))


def refused_without_noise(bounded: BoundedRows, spec: ReleaseSpec, party: str, sentence: str) -> None:
    noise = RecordingNoise()
    with pytest.raises(DataRefused, match=sentence):
        privatize(bounded, spec, party, noise)
    assert noise.draws == []


def test_rows_of_another_declaration_are_refused() -> None:
    south = random_rows(ANCHORED, "south")
    wider = build_spec({"north": (numeric("age", 0.0, 130.0, unit="years"), categorical("sex", "female", "male"))})
    refused_without_noise(random_rows(wider, "north"), ANCHORED, "north", "other declarations")
    refused_without_noise(random_rows(build_spec(grid_bits=11), "south"), ANCHORED, "south", "other declarations")
    refused_without_noise(south, ANCHORED, "north", "other declarations")
    refused_without_noise(south, ANCHORED, "west", "other declarations")


@pytest.mark.parametrize("rows", [39, 41])
@SPECS
def test_another_number_of_rows_is_refused(spec: ReleaseSpec, rows: int) -> None:
    other = random_rows(build_spec(rows=rows), "north")
    refused_without_noise(other, spec, "north", f"{rows} rows where the spec says 40")


def moved(spec: ReleaseSpec, party: str, before: BoundedRows, after: BoundedRows) -> int:
    """Squared distance of two releases without noise: what the noise has to hide."""
    blocks = (privatize(rows, spec, party, ZeroNoise()).values for rows in (before, after))
    return int(np.square(np.subtract(*blocks).astype(object)).sum())


@pytest.mark.parametrize("mechanism", ["rows", "mixed"])
@pytest.mark.parametrize("q", [1, 2, 5])
def test_no_patient_of_several_rows_moves_a_block_by_more_than_its_noise_is_for(mechanism: str, q: int) -> None:
    spec = build_spec(mechanism=mechanism, rows_per_subject=q, anchor_weight="0", weights={"age": 2})
    bound, unit = spec.terms.squared_sensitivity(spec, "north") * spec.terms.squared_norm, 1 << spec.grid_bits
    generator, before, part = np.random.default_rng(q), random_rows(spec, "north", q), spec.party("north")
    assert part is not None
    largest = 0

    def replaced(codes: np.ndarray, rows: np.ndarray, age: np.ndarray, level: np.ndarray) -> BoundedRows:
        changed = codes.copy()
        changed[rows, 0] = age
        changed[rows, 1:] = unit * np.eye(codes.shape[1] - 1, dtype=int)[level]
        return BoundedRows(changed, part.columns, spec.grid_bits)

    levels = before.codes.shape[1] - 1
    for _ in range(200):
        rows = generator.choice(spec.rows, q, replace=False)
        one, other = generator.integers(-unit, unit + 1, (2, q))
        level = generator.integers(levels, size=q)
        if generator.random() < 0.5:
            one, other = np.full(q, unit), np.full(q, -unit)
        step = generator.integers(levels, size=q) if generator.random() < 0.5 else 1
        pair = replaced(before.codes, rows, one, level), replaced(before.codes, rows, other, (level + step) % levels)
        largest = max(largest, moved(spec, "north", *pair))
    assert largest <= bound
    if mechanism == "rows" or q == 1:
        assert largest == bound  # attained: no smaller noise would do
    else:
        assert largest > bound / q**2


SPEC = build_spec(outputs=2, rows=6)


def make_block(values: list[int] | None = None) -> Block:
    flat = values or list(range(-4, 8))
    return Block(expected_header(SPEC, "north"), np.array(flat, np.int64).reshape(3, 4))


def test_bytes_written_out() -> None:
    data = make_block().to_bytes()
    facts = '"columns":4,"format":1,"party":"north","public":0,"rows":3,"sequence":0'  # canonical JSON
    header = f'{{{facts},"spec":"{SPEC.digest()}"}}'.encode()
    numbers = b"".join(value.to_bytes(8, "little", signed=True) for value in range(-4, 8))
    assert data == MAGIC + len(header).to_bytes(4, "little") + header + numbers
    assert len(data) == block_size(SPEC, "north")


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=12, max_size=12))
def test_reading_gives_back_every_integer(values: list[int]) -> None:
    block = make_block(values)
    again = read_block(block.to_bytes(), SPEC, "north")
    assert again.header == block.header
    assert again.values.dtype == np.int64
    assert np.array_equal(again.values, block.values)
    again.values[0, 0] = 0  # a reader may work in place
    view = view_block(memoryview(block.to_bytes()), SPEC, "north")
    assert np.array_equal(view.values, block.values)
    with pytest.raises(ValueError, match="read-only"):
        view.values[0, 0] = 0


def test_values_in_another_memory_order_have_the_same_bytes() -> None:
    block = make_block()
    assert Block(block.header, np.asfortranarray(block.values)).to_bytes() == block.to_bytes()


@pytest.mark.parametrize("size", [0, 1, 8, 12, 100, -1])
def test_truncated_blocks_are_refused(size: int) -> None:
    with pytest.raises(IntegrityError, match="block 0 of north does not have the shape"):
        read_block(make_block().to_bytes()[:size], SPEC, "north")


def test_a_block_with_more_bytes_is_refused() -> None:
    with pytest.raises(IntegrityError):
        read_block(make_block().to_bytes() + b"\0", SPEC, "north")


@given(st.integers(0, 8 * (block_size(SPEC, "north") - 12 * 8) - 1))
def test_any_bit_before_the_values_matters(bit: int) -> None:
    data = bytearray(make_block().to_bytes())
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(IntegrityError):
        read_block(bytes(data), SPEC, "north")


def test_blocks_of_another_party_or_release_are_refused() -> None:
    data = make_block().to_bytes()
    with pytest.raises(IntegrityError, match="block 0 of south"):
        read_block(data, SPEC, "south")
    with pytest.raises(IntegrityError):
        read_block(data, build_spec(outputs=2, rows=6, title="another"), "north")
    with pytest.raises(InvalidInput, match="'west' is not a party"):
        read_block(data, SPEC, "west")


@pytest.mark.parametrize(("mechanism", "rows"), [("mixed", 3), ("rows", 6)])
def test_shape_follows_from_the_spec(mechanism: str, rows: int) -> None:
    spec = build_spec(mechanism=mechanism, outputs=2, rows=6)
    assert expected_header(spec, "south") == BlockHeader(spec=spec.digest(), party="south", rows=rows, columns=1)


AGE = numeric("age", 20.0, 100.0)
SEX = categorical("sex", "female", "male", fill="male")
BITS = 10
GRID = 1 << BITS

anything = st.floats(allow_nan=True, allow_infinity=True)


def codes_of(cells: list[float], column: NumericColumn = AGE, bits: int = BITS) -> list[int]:
    return [int(code) for code in bound({column.name: np.array(cells)}, (column,), bits)[:, 0]]


def test_bounds_midpoint_and_quarter_have_their_codes() -> None:
    assert codes_of([20.0, 40.0, 60.0, 80.0, 100.0]) == [-GRID, -GRID // 2, 0, GRID // 2, GRID]


def test_numbers_are_rounded_to_the_nearest_code() -> None:
    step = AGE.half_width / GRID
    assert codes_of([60 + 0.4 * step, 60 + 0.6 * step, 60 - 0.6 * step]) == [0, 1, -1]


def test_outside_values_become_the_nearest_bound() -> None:
    assert codes_of([-1e300, 19.9, 100.1, 1e300]) == [-GRID, -GRID, GRID, GRID]


def test_unreadable_values_become_the_fill() -> None:
    filled = numeric("age", 20.0, 100.0, fill=80.0)
    assert codes_of([math.nan, math.inf, -math.inf], filled) == [GRID // 2] * 3


def test_levels_fill_and_other() -> None:
    codes = bound({"sex": ["male", "female", None, "unknown", ""]}, (SEX,), BITS)
    assert (codes / GRID).tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]]


@given(
    st.floats(-1e308, 1e308), st.floats(-1e308, 1e308), st.lists(anything, min_size=1, max_size=8), st.integers(1, 24)
)
def test_codes_never_leave_the_grid(one: float, two: float, cells: list[float], bits: int) -> None:
    lower, upper = sorted((one, two))
    if not (0 < (upper - lower) / 2 < math.inf):
        return
    column = numeric("x", lower, upper, fill=lower)
    for code in codes_of([*cells, lower, upper, math.nextafter(upper, math.inf)], column, bits):
        assert -(1 << bits) <= code <= 1 << bits


@given(st.lists(anything, min_size=2, max_size=20), st.data())
def test_a_cell_changes_no_other_cell(cells: list[float], data: st.DataObject) -> None:
    where = data.draw(st.integers(0, len(cells) - 1))
    changed = list(cells)
    changed[where] = data.draw(anything)
    before, after = codes_of(cells), codes_of(changed)
    assert before[:where] + before[where + 1 :] == after[:where] + after[where + 1 :]


@pytest.mark.parametrize("level", ["male", "martian", None, "", "female "])
def test_a_category_changes_no_other_cell(level: str | None) -> None:
    columns: tuple[Column, ...] = (AGE, SEX)
    ages = np.array([30.0, math.nan, 90.0])
    tables: list[dict[str, RawColumn]] = [
        {"age": ages, "sex": ["female", cell, "female"]} for cell in ("female", level)
    ]
    before, after = (bound(table, columns, BITS) for table in tables)
    changed = before != after
    assert not changed[[0, 2]].any()
    assert not changed[:, 0].any()


@given(st.lists(anything, min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(cells: list[float], random: object) -> None:
    order = list(range(len(cells)))
    random.shuffle(order)  # type: ignore[attr-defined]
    assert codes_of([cells[i] for i in order]) == [codes_of(cells)[i] for i in order]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_clipping_twice_is_clipping_once(cells: list[float]) -> None:
    once = np.clip(cells, AGE.lower, AGE.upper)
    assert codes_of(list(once)) == codes_of(cells)
    back = AGE.midpoint + AGE.half_width * np.array(codes_of(cells)) / GRID
    assert codes_of(list(back)) == codes_of(cells)


def test_unknown_cells_of_exhaustive_levels_become_the_fill() -> None:
    column = categorical("sex", "female", "male", "diverse", exhaustive=True, fill="male")
    codes = bound({"sex": ["female", "martian", None, "other", "diverse"]}, (column,), BITS)
    assert (codes / GRID).tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]]


def test_columns_keep_their_declared_order() -> None:
    raw = {"age": np.array([60.0]), "sex": ["female"]}
    assert bound(raw, (SEX, AGE), BITS).tolist() == [[GRID, 0, 0, 0]]
    assert bound(raw, (AGE, SEX), BITS).tolist() == [[0, GRID, 0, 0]]


def test_missing_column_and_ragged_batch_are_refused() -> None:
    with pytest.raises(DataRefused, match="no column 'sex'"):
        bound({"age": np.array([1.0])}, (AGE, SEX), BITS)
    with pytest.raises(DataRefused, match="different lengths"):
        bound({"age": np.array([1.0]), "sex": ["male", "male"]}, (AGE, SEX), BITS)


@pytest.mark.parametrize("bits", [0, -1, 25])
def test_grid_bits_out_of_range_are_refused(bits: int) -> None:
    with pytest.raises(InvalidInput, match="between 1 and 24"):
        bound({"age": np.array([1.0])}, (AGE,), bits)


def rows(codes: npt.NDArray[np.generic], columns: tuple[Column, ...] = (AGE,), bits: int = BITS) -> BoundedRows:
    return BoundedRows(codes, columns, bits)  # type: ignore[arg-type]


@pytest.mark.parametrize("codes", [np.zeros((3, 2), np.int32), np.zeros((3, 1), np.int64), np.zeros(3, np.int32)])
def test_rows_of_another_shape_or_type_are_refused(codes: npt.NDArray[np.generic]) -> None:
    with pytest.raises(InvalidInput, match="int32 array of 1 columns"):
        rows(codes)


@pytest.mark.parametrize("code", [GRID + 1, -GRID - 1, -(2**31)])
def test_rows_beyond_the_grid_cannot_be_made(code: int) -> None:
    with pytest.raises(InvalidInput):
        rows(np.array([[0], [code]], np.int32))


@pytest.mark.parametrize("row", [[0, 0, 0], [GRID, GRID, 0], [GRID, 0, 1], [-GRID, 0, 0], [2 * GRID, 0, 0]])
def test_rows_that_are_not_one_hot_cannot_be_made(row: list[int]) -> None:
    rows(np.array([[0, GRID, 0]], np.int32), (SEX,))
    with pytest.raises(InvalidInput):
        rows(np.array([[0, GRID, 0], row], np.int32), (SEX,))


def test_digest_knows_every_code_their_order_and_the_grid() -> None:
    base = np.array([[1], [2]], np.int32)
    digests = {
        rows(base).digest(),
        rows(base[::-1]).digest(),
        rows(np.array([[1], [3]], np.int32)).digest(),
        rows(base, bits=BITS + 1).digest(),
        rows(np.array([[1, 0], [2, 0]], np.int32), (AGE, numeric("bmi"))).digest(),
    }
    assert len(digests) == 5
    assert rows(base).digest() == rows(np.asfortranarray(base)).digest()
