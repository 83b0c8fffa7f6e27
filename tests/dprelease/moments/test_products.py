"""The protocol's arithmetic: with the noise off, the blocks add up to the integer Gram matrix, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import Column, released_names
from dprelease.errors import DataRefused, IntegrityError, InvalidInput
from dprelease.mechanisms.moments.entries import code
from dprelease.mechanisms.moments.own_products import OwnMoments, schedule_of
from dprelease.mechanisms.moments.released import add_up, limits
from dprelease.mechanisms.moments.terms import layout_of
from dprelease.mpc import ring
from dprelease.release.spec import ReleaseSpec
from tests.support.joint import compute, entries, exact_gram, privatize_moments
from tests.support.noise import RecordingNoise, ZeroNoise
from tests.support.specs import build_spec, categorical, numeric, random_rows

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
    return [int(value) for value in add_up([block.values for block in blocks.values()], most)]


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
    most = [1 << 62] * layout_of(spec).entries
    summed = add_up([block.values for block in blocks.values()], most)
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
        add_up([blocks["a"].values], most)


def test_rows_of_another_table_are_refused() -> None:
    spec, other = joint_spec(["n"], 20), joint_spec(["n"], 21)
    with pytest.raises(DataRefused, match="20 rows where the spec says 21"):
        privatize_moments(random_rows(spec, "a"), other, "a", {}, {}, ZeroNoise())


def test_a_block_without_all_its_masks_is_never_made() -> None:
    spec = joint_spec(["n", "n", "n"], 20)
    rows, pairs = random_rows(spec, "a"), schedule_of(spec).pairs
    shares = {pair: np.zeros((1, 1), np.uint64) for pair in pairs if pair.has("a")}
    masks = {"b": bytes(32), "c": bytes(32)}
    assert privatize_moments(rows, spec, "a", shares, masks, ZeroNoise()).values.shape == (1, 9)
    for fewer_shares, fewer_masks in ((shares, {"b": bytes(32)}), ({}, masks), (shares, {**masks, "d": bytes(32)})):
        with pytest.raises(InvalidInput, match="a half of every pair and a mask with every peer"):
            privatize_moments(rows, spec, "a", fewer_shares, fewer_masks, ZeroNoise())
