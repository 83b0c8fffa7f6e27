"""Who deals for whom and who sends what to whom: everything about a session that follows from the spec alone.

For every pair of hospitals somebody deals correlated randomness: with a rotating dealer the next hospital, in the spec's
cyclic order, that is not in the pair; else the coordinator, whose name here is `COORDINATOR`. A hospital masks its
columns anew for every dealer, and sends them to its partners in the pairs of that dealer, never to the dealer itself.

Source: joint_moments.md "Protocol", steps 3 and 4; second_reading.md 5, "Less trust in the dealer".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dprelease.errors import InvalidInput
from dprelease.moments.layout import Integers, variables
from dprelease.moments.ring import chunk_rows
from dprelease.spec import ReleaseSpec

COORDINATOR = ""
"""Stands for the coordinator as a dealer; no party can have this name."""

EVERYBODY = -1
"""Stands for the party that has the constant: each multiplies it with its own columns."""

WORD_BYTES = 8
SEED_BYTES = 32
SEAL_BYTES = 48
"""What sealing to one recipient adds: a public key and an authentication tag."""
TAG_BYTES = 16


@dataclass(frozen=True)
class Pair:
    """Two parties, the earlier in the spec's order first, and who deals their randomness."""

    first: str
    second: str
    dealer: str

    def has(self, party: str) -> bool:
        """Whether the party is one of the two."""
        return party in (self.first, self.second)

    def other(self, party: str) -> str:
        """The party that is not this one."""
        return self.second if party == self.first else self.first


@dataclass(frozen=True)
class Plan:
    """The plan of a spec.

    Args:
        spec: of mechanism ``moments``.

    Raises:
        InvalidInput: it is of another mechanism.
    """

    spec: ReleaseSpec

    def __post_init__(self) -> None:
        if self.spec.moments is None:
            raise InvalidInput("only a release of mechanism 'moments' is computed together")

    @property
    def parties(self) -> tuple[str, ...]:
        """Names, in the spec's order."""
        return tuple(part.party for part in self.spec.parties)

    @cached_property
    def release(self) -> str:
        """Digest of the spec."""
        return self.spec.digest()

    @cached_property
    def widths(self) -> dict[str, int]:
        """d_j: variables of each party."""
        return {part.party: len(variables(part.columns)) for part in self.spec.parties}

    @cached_property
    def places(self) -> tuple[Integers, Integers]:
        """For each entry of x = (1, z): the number of the party that has it, and its place among that party's variables."""
        owner, local = [EVERYBODY], [0]
        for number, width in enumerate(self.widths.values()):
            owner += [number] * width
            local += range(width)
        return np.array(owner), np.array(local)

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs, in the spec's order."""
        names = self.parties
        rotating = self.spec.moments is not None and self.spec.moments.dealer == "rotating"
        found = []
        for place, first in enumerate(names):
            for later, second in enumerate(names[place + 1 :], place + 1):
                turn = (names[(later + step) % len(names)] for step in range(1, len(names)))
                dealer = next(name for name in turn if name != first) if rotating else COORDINATOR
                found.append(Pair(first, second, dealer))
        return tuple(found)

    def dealt_by(self, dealer: str) -> tuple[Pair, ...]:
        """The pairs that a dealer deals for."""
        return tuple(pair for pair in self.pairs if pair.dealer == dealer)

    def receivers(self, dealer: str) -> tuple[str, ...]:
        """Whom a dealer deals to, in the spec's order."""
        pairs = self.dealt_by(dealer)
        return tuple(name for name in self.parties if any(pair.has(name) for pair in pairs))

    def dealers_of(self, party: str) -> tuple[str, ...]:
        """Who deals to a party, each once."""
        return tuple(dict.fromkeys(pair.dealer for pair in self.pairs if pair.has(party)))

    def partners(self, party: str, dealer: str) -> tuple[str, ...]:
        """Partners of a party in the pairs of a dealer, in the spec's order: who gets its columns under that mask."""
        partners = {pair.other(party) for pair in self.dealt_by(dealer) if pair.has(party)}
        return tuple(name for name in self.parties if name in partners)

    @property
    def chunk_rows(self) -> int:
        """Rows of every chunk but the last, the same for all parties: `ring.chunk_rows` of the widest."""
        return chunk_rows(max(self.widths.values()))

    @property
    def chunks(self) -> int:
        """Chunks of every party's columns."""
        return -(-self.spec.rows // self.chunk_rows)

    def columns_size(self, party: str) -> int:
        """Bytes of a party's masked columns as they travel: 8 n d_j and a tag for each chunk."""
        return WORD_BYTES * self.spec.rows * self.widths[party] + TAG_BYTES * self.chunks

    def deal_size(self, receiver: str, dealer: str) -> int:
        """Bytes of what a dealer deals to a party, before sealing: its mask's seed and its half of every pair."""
        size, widths = SEED_BYTES, self.widths
        for pair in self.dealt_by(dealer):
            if receiver == pair.first:
                size += SEED_BYTES
            elif receiver == pair.second:
                size += WORD_BYTES * widths[pair.first] * widths[pair.second]
        return size
