"""Releases of two blocks for each party, which no mechanism asks for."""

import numpy as np
import pytest

from dprelease.release.block import Block, expected_header
from dprelease.release.spec import BlockShape, ReleaseSpec


def ask_for_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on every spec asks each party for a second block, of 2 rows and 3 columns."""
    first = ReleaseSpec.blocks
    monkeypatch.setattr(ReleaseSpec, "blocks", lambda spec, party: (*first(spec, party), BlockShape(2, 3)))


def second_block(spec: ReleaseSpec, party: str, value: int = 7) -> Block:
    """A party's second block, full of one number."""
    return Block(expected_header(spec, party, 1), np.full((2, 3), value, np.int64))
