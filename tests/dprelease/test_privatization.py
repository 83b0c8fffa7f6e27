"""From bounded rows to a block: exactly the integer query plus exactly the noise that was drawn."""

from __future__ import annotations

import numpy as np
import pytest

from dprelease.data.bounding import BoundedRows
from dprelease.errors import DataRefused
from dprelease.mechanisms.noisy_rows.mixing import BernoulliMixing
from dprelease.mechanisms.noisy_rows.privatize import integer_query, weighted
from dprelease.privacy.noise import SecureNoise
from dprelease.privacy.public_stream import PublicStream
from dprelease.release.block import expected_header
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
    assert np.array_equal(integer_query(codes, ANCHORED, ANCHORED.terms), expected)


@PARTIES
def test_query_without_an_anchor_and_of_rows(party: str) -> None:
    codes = random_rows(PLAIN, party).codes
    assert np.array_equal(integer_query(codes, PLAIN, PLAIN.terms), signs(PLAIN) @ codes.astype(np.int64))
    assert np.array_equal(integer_query(codes, ROWS, ROWS.terms), codes)
    assert integer_query(codes, ROWS, ROWS.terms).dtype == np.int64


@SPECS
def test_query_is_linear(spec: ReleaseSpec) -> None:
    one, two = (random_rows(spec, "north", seed).codes for seed in (1, 2))
    together = integer_query(one + two, spec, spec.terms)
    assert np.array_equal(together, integer_query(one, spec, spec.terms) + integer_query(two, spec, spec.terms))


def test_sums_do_not_overflow_32_bits() -> None:
    spec = build_spec(rows=1000, grid_bits=24)
    codes = np.full((1000, 1), 1 << 24, np.int32)
    assert integer_query(codes, spec, spec.terms)[0, 0] == 1000 << 24


@SPECS
@PARTIES
def test_without_noise_the_block_is_the_query(spec: ReleaseSpec, party: str) -> None:
    bounded = random_rows(spec, party)
    block = privatize(bounded, spec, party, ZeroNoise())
    assert block.header == expected_header(spec, party)
    assert block.values.shape == (block.header.rows, block.header.columns)
    assert np.array_equal(block.values, integer_query(bounded.codes, spec, spec.terms))


@SPECS
@PARTIES
def test_noise_is_added_once_to_every_entry_at_its_declared_scale(spec: ReleaseSpec, party: str) -> None:
    bounded, noise = random_rows(spec, party), RecordingNoise()
    block = privatize(bounded, spec, party, noise)
    declared = spec.terms.noise_of(party)
    added = block.values - integer_query(bounded.codes, spec, spec.terms)
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
    exact = integer_query(bounded.codes, spec, spec.terms) * [1, 16, 16, 16]
    assert np.array_equal(block.values - exact, np.vstack([draw.values for draw in reversed(noise.draws)]))


def test_public_columns_are_not_weighed() -> None:
    parties = {"north": (numeric("age", public=True), numeric("bmi")), "south": (numeric("glucose"),)}
    spec = build_spec(parties, weights={"bmi": 2})
    bounded = random_rows(spec, "north")
    block = privatize(bounded, spec, "north", ZeroNoise())
    assert np.array_equal(block.public, bounded.public)
    assert np.array_equal(block.values, 2 * integer_query(bounded.private, spec, spec.terms))


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
