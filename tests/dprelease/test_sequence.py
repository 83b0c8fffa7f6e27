"""Names of blocks: release, party and sequence number."""

import pytest
from pydantic import TypeAdapter, ValidationError

from dprelease.sequence import BlockKey, BlockShape, Sequence


def test_one_block_is_the_special_case() -> None:
    assert BlockKey("ab" * 32, "north") == ("ab" * 32, "north", 0)
    assert BlockKey("ab" * 32, "north", 3).words == "block 3 of north"
    assert BlockShape(9, 4).public == 0


@pytest.mark.parametrize("number", [-1, 1 << 32, "0", 1.5])
def test_no_other_number_is_a_sequence_number(number: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Sequence).validate_python(number, strict=True)
