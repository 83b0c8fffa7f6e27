"""Pieces keep their order over processes, few are read ahead, and errors come through."""

from collections.abc import Iterator
from functools import partial

import pytest

from dprelease.errors import IntegrityError
from dprelease.intersection.curve import mapped, multiplied

POINT = (9).to_bytes(32, "little")


@pytest.mark.parametrize("workers", [1, 2])
def test_pieces_come_in_order_and_are_read_as_needed(workers: int) -> None:
    pieces = [*(POINT * (1 + place % 3) for place in range(12)), bytes(32)]
    read: list[int] = []

    def reading() -> Iterator[bytes]:
        for place, piece in enumerate(pieces):
            read.append(place)
            yield piece

    function = partial(multiplied, scalar=bytes(range(32)))
    mapping = mapped(function, reading(), len(pieces), workers)
    found = [next(mapping)]
    assert len(read) <= 2 * workers + 1
    with pytest.raises(IntegrityError, match="not a point"):
        found.extend(mapping)
    assert found == [function(piece) for piece in pieces[:-1]]
