"""Runs in memory, where every step is a fresh session over the same storage, and where one party may cheat or die."""

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import numpy as np

from dprelease.canonical import sha256
from dprelease.identity.signing import PrivateKey, new_private_key
from dprelease.intersection.key_value_store import Bytes
from dprelease.intersection.ring import Ring
from dprelease.intersection.session import AlignmentExchange, AlignmentSession, Common, RunEnvironment
from dprelease.mpc.encryption import Draw
from dprelease.mpc.messages import Message, MessageHeader
from dprelease.mpc.round import Round, session_key
from dprelease.mpc.storage import MemorySessionStorage

NAMES = tuple("abcdefghij")
KEYS = {name: new_private_key() for name in NAMES}
RUN = sha256(b"a run")


def element(name: object) -> bytes:
    """The keyed identifier of a made-up patient."""
    return bytes.fromhex(sha256(repr(name).encode()))


def array(elements: Iterable[bytes]) -> Bytes:
    return np.frombuffer(b"".join(elements), np.uint8).reshape(-1, 32)


def ring_of(*sizes: int) -> Ring:
    return Ring(RUN, dict(zip(NAMES, sizes, strict=False)))


class Died(Exception):
    """A process that ended just there."""


class MortalStorage(MemorySessionStorage):
    """Dies once, just after a write of a given number, which is just before whatever comes next."""

    def __init__(self, dies_at: int = -1) -> None:
        super().__init__()
        self.left = dies_at

    def _write(self, write: Callable[[], None]) -> None:
        self.left -= 1
        write()
        if self.left == -1:
            raise Died

    def keep_body(self, name: str, data: bytes) -> None:
        self._write(lambda: MemorySessionStorage.keep_body(self, name, data))

    def write_body(self, name: str, pieces: Iterable[bytes]) -> None:
        whole = b"".join(pieces)  # a body that was cut short is not there
        self._write(lambda: MemorySessionStorage.write_body(self, name, [whole]))

    def freeze(self, messages: Iterable[Message]) -> None:
        self._write(lambda: MemorySessionStorage.freeze(self, messages))

    def write_private(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        self._write(lambda: MemorySessionStorage.write_private(self, name, pieces))


@dataclass
class Driver:
    """Lists and bodies in memory.

    Attributes:
        sets: party to the names of its patients.
        cheat: party to what its steps are done within.
    """

    sets: dict[str, Sequence[object]]
    storages: dict[str, MemorySessionStorage] = field(default_factory=dict)
    cheat: dict[str, Callable[[], AbstractContextManager[object]]] = field(default_factory=dict)
    listed: dict[MessageHeader, tuple[Message, bytes]] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    identities: dict[str, PrivateKey] = field(default_factory=lambda: dict(KEYS))
    draw: Draw = secrets.token_bytes

    def __post_init__(self) -> None:
        self.elements = {party: array(map(element, names)) for party, names in self.sets.items()}
        self.ring = Ring(RUN, {party: len(names) for party, names in self.sets.items()})
        self.storages = {party: self.storages.get(party) or MemorySessionStorage() for party in self.sets}

    def session(self, party: str) -> AlignmentSession:
        outside = RunEnvironment(self.fetch, lambda: self.told.append(f"{party} begins"), lambda: self.elements[party])
        keys = {name: KEYS[name].public_key() for name in self.sets}
        return AlignmentSession(
            self.ring, party, self.identities[party], keys, self.storages[party], outside, self.draw, workers=1
        )

    def fetch(self, header: MessageHeader) -> Iterator[bytes]:
        body = self.listed[header][1]
        yield from (body[:100], body[100:])

    def messages(self) -> tuple[Message, ...]:
        return tuple(message for message, _ in self.listed.values())

    def look(self, party: str) -> str | Common:
        """As far as it goes, by a fresh session for every step."""
        while True:
            with self.cheat.get(party, nullcontext)():
                for message in self.session(party).receive(self.messages()):
                    if message.header not in self.listed:
                        self.told.append(f"{party} sends {message.header.kind}")
                        self.listed[message.header] = message, self.storages[party].read_body(message)
                session = self.session(party)
                session.receive(self.messages())
                said = session.advance()
            if said is not None:
                return said

    def run(self, order: str = "") -> dict[str, set[object]]:
        """Every party's common patients."""
        found: dict[str, set[object]] = {}
        for _ in range(4 * len(self.sets)):
            for party in order or self.ring.parties:
                if party not in found:
                    try:
                        said = self.look(party)
                    except Died:
                        self.told.append(f"{party} dies")
                        continue
                    if isinstance(said, Common):
                        assert sorted(said.positions) == list(said.positions)
                        found[party] = {self.sets[party][place] for place in said.positions}
            if len(found) == len(self.sets):
                return found
        raise AssertionError(f"no end: {self.told}")


def side_of(driver: Driver, party: str) -> AlignmentExchange:
    """A party's side of the session, with all its secrets."""
    state = driver.storages[party].state()
    assert state is not None
    at = Round.of(driver.ring, state.round, driver.messages())
    return AlignmentExchange(
        at, party, KEYS[party], session_key(state), driver.storages[party], driver.fetch, driver.draw, 1
    )
