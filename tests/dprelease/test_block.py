"""A block's bytes: written out once, read only where they fit the spec."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.errors import IntegrityError, InvalidInput
from dprelease.release.block import MAGIC, Block, BlockHeader, block_size, expected_header, read_block, view_block
from tests.support.specs import build_spec

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
