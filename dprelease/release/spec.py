"""The release spec: everything that the parties agree on, fixed before anything data-dependent is computed.

A spec is immutable. Its SHA-256 over canonical bytes is the release's identity; every approval, block and manifest is
bound to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import Annotated, ClassVar, NamedTuple, Self

from pydantic import BeforeValidator, Field, SerializeAsAny

from dprelease.data.columns import released_names
from dprelease.errors import InvalidInput
from dprelease.mechanisms.registry import mechanism_of, read_terms
from dprelease.mpc.schedule import Schedule
from dprelease.spec_base import SpecBase, Terms

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


class ReleaseSpec(SpecBase):
    """A release spec whose terms are those of a registered mechanism. Field by field in docs/format.md."""

    noun: ClassVar[str] = "release"

    terms: Annotated[SerializeAsAny[Terms], BeforeValidator(read_terms)]

    @classmethod
    @lru_cache(maxsize=256)
    def from_bytes(cls, data: bytes) -> Self:
        """Read a spec from its canonical bytes, as any value; those that were read lately are remembered.

        Raises:
            InvalidInput: as `Value.from_bytes`.
        """
        return super().from_bytes(data)

    @property
    def party_keys(self) -> dict[str, str]:
        """Party to the fingerprint of its key, in order."""
        return {part.party: part.key for part in self.parties}

    @property
    def joint(self) -> bool:
        """Says whether hospitals make blocks of the last round together, in a session."""
        return mechanism_of(self).schedule(self) is not None

    def schedule(self) -> Schedule:
        """Schedule of the session in which hospitals make blocks of the last round together.

        Raises:
            InvalidInput: there is none.
        """
        schedule = mechanism_of(self).schedule(self)
        if schedule is None:
            raise InvalidInput(f"release {self.digest()[:12]} is of mechanism {self.mechanism!r}: it has no session")
        return schedule

    def blocks(self, party: str) -> tuple[BlockShape, ...]:
        """The shapes of all blocks that the party sends, by sequence number; public columns go with the first."""
        if party not in self._blocks:
            shapes, public = mechanism_of(self).shapes(self, party), len(released_names(self.part(party).public))
            self._blocks[party] = tuple(BlockShape(*shape, 0 if at else public) for at, shape in enumerate(shapes))
        return self._blocks[party]

    @cached_property
    def _blocks(self) -> dict[str, tuple[BlockShape, ...]]:
        """Party to the blocks that were asked for."""
        return {}

    def rounds(self) -> tuple[range, ...]:
        """Sequence numbers of the blocks that every party sends in each round; almost all releases have one."""
        starts = tuple(accumulate(mechanism_of(self).rounds(self)[:-1], initial=0))
        whole = len(self.blocks(self.parties[0].party))
        return tuple(range(first, end) for first, end in pairwise((*starts, whole)))
