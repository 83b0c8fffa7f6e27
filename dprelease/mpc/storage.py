"""Things that a party must keep of a session so that a restart goes on where it stood."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar, Protocol

from pydantic import Field

from dprelease.canonical import Digest, HashedPieces, Value
from dprelease.mpc.encryption import Draw, new_session_key, private_bytes
from dprelease.mpc.messages import Message, name_of


class SessionState(Value):
    """Position of a party in a session.

    Attributes:
        round: which attempt.
        key: secret bytes of its session key, hexadecimal.
        messages: names of its messages that count: complete, frozen, to be sent.
        refused: rounds that ended because a proof failed here; left out of canonical bytes where there are none.
    """

    most_bytes: ClassVar[None] = None

    round: Annotated[int, Field(ge=1)]
    key: Digest
    messages: tuple[str, ...] = ()
    refused: Annotated[int, Field(ge=0, exclude_if=lambda refused: not refused)] = 0


class SessionStorage(Protocol):
    """State of one session of any kind that survives a restart, at one party; on a disk, or in memory if nothing need survive."""

    def state(self) -> SessionState | None:
        """Our position; None before the first round."""

    def begin(self, number: int, draw: Draw, refused: int = 0) -> SessionState:
        """Start a round with a fresh key and nothing else; whatever belonged to an earlier round is removed."""

    def messages(self) -> tuple[Message, ...]:
        """Our messages that count, in the order in which they were frozen."""

    def keep_body(self, name: str, data: bytes) -> None:
        """Keep the body of a message of ours, by `messages.name_of`, before it counts."""

    def write_body(self, name: str, pieces: Iterable[bytes]) -> None:
        """Keep a body that need not fit into memory; one that was cut short is written anew."""

    def read_body(self, message: Message) -> bytes:
        """The body of a message of ours that is frozen; empty without one."""

    def freeze(self, messages: Iterable[Message]) -> None:
        """Make messages count, all together, once their bodies are there."""

    def write_private(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Keep a secret of this round, never sent; one that was cut short was never there."""

    def read_private(self, name: str) -> bytes | memoryview | None:
        """A secret of this round, which may be mapped from a file; None before it is complete."""

    def dealt(self, dealer: str) -> bytes | None:
        """Randomness that a dealer dealt to us, as it came; None before it has."""

    def keep_dealt(self, dealer: str, sealed: bytes) -> None:
        """Keep what a dealer dealt to us."""


def write_hashed(storage: SessionStorage, name: str, pieces: Iterable[bytes]) -> tuple[int, str]:
    """Keep a body of ours, piece by piece; its size and SHA-256."""
    hashed = HashedPieces(pieces)
    storage.write_body(name, hashed)
    return hashed.size, hashed.sha256


class MemorySessionStorage:
    """A session that is gone with its process."""

    def __init__(self) -> None:
        self._state: SessionState | None = None
        self._messages: list[Message] = []
        self._dealt: dict[str, bytes] = {}
        self._bodies: dict[str, bytes] = {}
        self._private: dict[str, bytes] = {}

    def state(self) -> SessionState | None:
        return self._state

    def begin(self, number: int, draw: Draw, refused: int = 0) -> SessionState:
        for kept in (self._messages, self._dealt, self._bodies, self._private):
            kept.clear()
        self._state = SessionState(round=number, key=private_bytes(new_session_key(draw)).hex(), refused=refused)
        return self._state

    def messages(self) -> tuple[Message, ...]:
        return tuple(self._messages)

    def read_body(self, message: Message) -> bytes:
        return self._bodies.get(name_of(message.header), b"")

    def keep_body(self, name: str, data: bytes) -> None:
        self._bodies[name] = data

    def write_body(self, name: str, pieces: Iterable[bytes]) -> None:
        self._bodies[name] = b"".join(pieces)

    def freeze(self, messages: Iterable[Message]) -> None:
        self._messages += messages

    def dealt(self, dealer: str) -> bytes | None:
        return self._dealt.get(dealer)

    def keep_dealt(self, dealer: str, sealed: bytes) -> None:
        self._dealt[dealer] = sealed

    def write_private(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        self._private[name] = b"".join(pieces)

    def read_private(self, name: str) -> bytes | None:
        return self._private.get(name)
