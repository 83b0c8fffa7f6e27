"""The ring of an alignment run, from its public parameters alone: who sends which signed message to whom, and of which size.

Every party's elements go once around the ring, from itself over the next party to the one before it, and back to itself.

    hello        the sender's session key for one round; no body
    points       somebody's elements under the secrets that they have passed so far, to the next party of the ring
    table        the sender's masked table, encrypted under a content key that nobody else has yet
    transcript   what the sender has seen of points and tables; no body
    key          that content key, sealed to one receiver
    result       keyed digest of the common patients that the sender found; no body

Source: docs/protocol.md, "Aligning"; bytes and sizes in docs/format.md 20.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dprelease.canonical import canonical_bytes, sha256
from dprelease.errors import InvalidInput, Irreparable
from dprelease.identity.signing import PublicKey
from dprelease.intersection.task import FEWEST_PARTIES, MOST_PARTIES, Task
from dprelease.mpc.messages import NOTHING, Message, MessageHeader, check_signature
from dprelease.mpc.schedule import SEAL_BYTES, SEED_BYTES, TAG_BYTES, WORD_BYTES

POINT_BYTES = 32
CHUNK_POINTS = 1 << 13
"""Points of every chunk but the last: 256 KiB, half a second of multiplications."""
CHUNK_WORDS = 1 << 17
"""Cells of every chunk of a table but the last: 1 MiB."""
KEY_BYTES = SEED_BYTES + SEAL_BYTES
"""A content key, sealed."""

SEGMENTS = 3
DENSE_CELLS = 128


@dataclass(frozen=True)
class Ring:
    """Parties, neighbours and sizes of one run.

    Attributes:
        task: digest of the task.
        sizes: party to the number of its elements, in the ring's order.

    Raises:
        InvalidInput: there are too few parties, or too many.
    """

    task: str
    sizes: Mapping[str, int]

    def __post_init__(self) -> None:
        if not FEWEST_PARTIES <= len(self.sizes) <= MOST_PARTIES:
            raise InvalidInput(f"a run has {FEWEST_PARTIES} to {MOST_PARTIES} parties, not {len(self.sizes)}")

    @classmethod
    def of(cls, task: Task) -> Ring:
        """The ring of a task."""
        return cls(task.digest(), {member.party: member.patients for member in task.members})

    @property
    def parties(self) -> tuple[str, ...]:
        """Names, in the ring's order."""
        return tuple(self.sizes)

    def after(self, party: str) -> str:
        """The party that a party sends elements to."""
        return self.parties[(self.parties.index(party) + 1) % len(self.parties)]

    def before(self, party: str) -> str:
        """The party that a party gets elements from."""
        return self.parties[self.parties.index(party) - 1]

    def others(self, party: str) -> tuple[str, ...]:
        """All but a party, in the ring's order."""
        return tuple(name for name in self.parties if name != party)

    @property
    def segment(self) -> int:
        """Cells of each of the three sparse segments of a table: 1.3 for each element of the largest party, all together."""
        return -(-13 * max(self.sizes.values()) // (10 * SEGMENTS))

    @property
    def cells(self) -> int:
        """Cells of everybody's table, the dense ones last."""
        return SEGMENTS * self.segment + DENSE_CELLS

    def points_size(self, origin: str) -> int:
        """Bytes of a party's elements as they travel: a sealed content key, 32 bytes a point, a tag for each chunk."""
        count = self.sizes[origin]
        return KEY_BYTES + POINT_BYTES * count + TAG_BYTES * -(-count // CHUNK_POINTS)

    @property
    def table_size(self) -> int:
        """Bytes of a table as it travels: 8 a cell and a tag for each chunk."""
        return WORD_BYTES * self.cells + TAG_BYTES * -(-self.cells // CHUNK_WORDS)

    def most_bytes(self, party: str) -> int:
        """Bytes of all bodies of a party's messages in one round."""
        keys = KEY_BYTES * (len(self.parties) - 1)
        return sum(self.points_size(origin) for origin in self.parties) + self.table_size + keys

    def fits(self, header: MessageHeader) -> bool:
        """Tells whether a message is one of this run: its kind, sender, receivers, size and payload."""
        if header.task != self.task or header.sender not in self.parties:
            return False
        if (header.kind == "hello") == bool(header.session):
            return False
        return any(
            (header.receivers, header.dealer, bool(header.payload)) == place
            and header.size == size
            and (size > 0 or header.sha256 == NOTHING)
            for place, size in self._places(header)
        )

    def awaiting(self, header: MessageHeader) -> tuple[str, ...]:
        """Parties that may go on with a message, in the ring's order."""
        return header.receivers or self.others(header.sender)

    def _places(self, header: MessageHeader) -> Iterator[tuple[tuple[tuple[str, ...], str, bool], int]]:
        """(receivers, origin, whether there is a payload) and size of every message of this kind and sender."""
        sender, others = header.sender, self.others(header.sender)
        if header.kind in ("hello", "transcript", "result"):
            yield ((), "", True), 0
        elif header.kind == "points":
            yield from ((((self.after(sender),), origin, False), self.points_size(origin)) for origin in self.parties)
        elif header.kind == "table":
            yield (others, "", True), self.table_size
        elif header.kind == "key":
            yield from ((((other,), "", False), KEY_BYTES) for other in others)


def check_message(message: Message, ring: Ring, keys: Mapping[str, PublicKey] | None = None) -> None:
    """Check that a message is one that this run calls for; without keys only its shape, as the relay does.

    Raises:
        IntegrityError: it is not, or was not signed by its sender.
    """
    if keys is not None:
        check_signature(message, keys)
    header = message.header
    if not ring.fits(header):
        words = f"{header.sender} sent a {header.kind} that this alignment run does not have"
        raise Irreparable(words, signer=header.sender)


def transcript_digest(ring: Ring, session: str, seen: Iterable[MessageHeader]) -> str:
    """Statement that every party signs before any table can be opened: all points and tables of the session, in any order."""
    digests = sorted(header.digest() for header in seen)
    said = {"task": ring.task, "session": session, "seen": digests}
    return sha256(b"dprelease/intersection/transcript/v1" + canonical_bytes(said))
