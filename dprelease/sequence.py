"""A party's blocks of a release, numbered 0, 1, 2, ...: what each is called and how large it is, before any of them exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from pydantic import Field

Sequence = Annotated[int, Field(ge=0, le=(1 << 32) - 1)]
"""Which of a party's blocks of a release: 0, 1, 2, ..."""


class BlockKey(NamedTuple):
    """The name of a block.

    Attributes:
        release: spec digest.
        party: who sends it.
        sequence: which of its blocks.
    """

    release: str
    party: str
    sequence: int = 0

    @property
    def words(self) -> str:
        """The block's name in a sentence."""
        return f"block {self.sequence} of {self.party}"


@dataclass(frozen=True)
class BlockShape:
    """The shape of a block.

    Attributes:
        rows: noisy rows.
        columns: noisy columns.
        public: released columns of the party's public ones, n rows each; all of them in one of its blocks.
    """

    rows: int
    columns: int
    public: int = 0
