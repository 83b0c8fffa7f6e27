"""A session on the hospital's own disk, so that a restart goes on where it stood.

    joint/RELEASE/session.json   round, session key, and what belongs to the session of the files beside it
    joint/RELEASE/out/NAME       messages of ours, frozen together before one is sent: signed headers with short bodies (.frozen)
                                 and each long body, sealed (.body)
    joint/RELEASE/in/NAME        what was dealt to us, as it came, sealed to the session key
    joint/RELEASE/own/NAME       what only we may know

Seeds that we deal are never here, not even sealed to ourselves. Everything is removed when the release is over. The session of an
alignment run is kept in the same way under aligning/RUN, and the pseudonyms of our patients beside it.
"""

from __future__ import annotations

import secrets
from base64 import b64decode, b64encode
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from dprelease.arrays import Codes, mapped
from dprelease.canonical import Value
from dprelease.errors import IntegrityError
from dprelease.files.durable import disk_takes, make_folder, remove_folder, sync_folder, write_secret
from dprelease.files.unnamed import UnnamedArray
from dprelease.mpc.encryption import Draw, new_session_key, private_bytes
from dprelease.mpc.messages import Message, name_of
from dprelease.mpc.storage import SessionState
from party_node.state.transactions import prepare, transaction

SHORT_BODY = 32 << 10
"""Most bytes of a body that is kept, and travels, with its header: such a message is no longer than one without."""


@dataclass(frozen=True)
class Outgoing:
    """A frozen message of ours, with its body or the file of it; None without one."""

    message: Message
    body: Path | bytes | None

    def read(self) -> bytes:
        """All of the body."""
        return self.body.read_bytes() if isinstance(self.body, Path) else self.body or b""


class FrozenMessages(Value):
    """Messages that are frozen together: one file, and so one wait for the disk.

    Attributes:
        messages: in their order.
        bodies: each body as Base64; empty for one that has none, or a file of its own.
    """

    most_bytes: ClassVar[None] = None

    messages: tuple[Message, ...]
    bodies: tuple[str, ...]


class SessionFolder:
    """One release's session.

    Raises:
        PeerUnavailable: from every method that writes: the disk is full.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._state: SessionState | None = None
        self._frozen: dict[str, tuple[Outgoing, ...]] = {}  # by name of their file; they never change within a round
        self._bodies: dict[str, bytes] = {}  # short ones of messages that are not frozen yet

    def state(self) -> SessionState | None:
        """Our position; None before the first session."""
        path = self._folder / "session.json"
        if self._state is None and path.exists():
            self._state = SessionState.from_bytes(path.read_bytes())
        return self._state

    def begin(self, number: int, draw: Draw = secrets.token_bytes, refused: int = 0) -> SessionState:
        """Start a round with a fresh key and nothing else; whatever belonged to an earlier round is removed.

        A power cut leaves the earlier round or the new one, never neither: who has lost all state of a session that is far
        on may not go on with it.
        """
        self._make()
        self._forget()
        remove_folder(self._folder / "own")
        remove_folder(self._folder / "in")  # the earlier round can still fetch it again; the new one must not find it
        key = private_bytes(new_session_key(draw)).hex()
        state = self._save(SessionState(round=number, key=key, refused=refused))
        remove_folder(self._folder / "out")
        return state

    def outgoing(self) -> tuple[Outgoing, ...]:
        """Our messages, in the order in which they were frozen."""
        state = self.state()
        return tuple(each for name in (state.messages if state else ()) for each in self._outgoing(name))

    def messages(self) -> tuple[Message, ...]:
        """The same without their bodies."""
        return tuple(each.message for each in self.outgoing())

    def freeze(self, messages: Iterable[Message]) -> None:
        """Make messages count, all together, once their bodies are on disk."""
        state, together = self.state(), tuple(messages)
        assert state is not None  # noqa: S101 - a session begins before anything is frozen in it
        names = [name_of(message.header) for message in together]
        bodies = tuple(b64encode(self._bodies.get(name, b"")).decode() for name in names)
        frozen = FrozenMessages(messages=together, bodies=bodies)
        write_secret(self._folder / "out" / f"{names[0]}.frozen", [frozen.to_bytes()])
        self._save(state.model_copy(update={"messages": (*state.messages, names[0])}))
        self._bodies.clear()

    def keep_body(self, name: str, data: bytes) -> None:
        """Keep the body of a message of ours: a short one until it is frozen, a long one in a file."""
        if len(data) <= SHORT_BODY:
            self._bodies[name] = data
        else:
            write_secret(self._file(name), [data])

    def write_body(self, name: str, pieces: Iterable[bytes]) -> None:
        """Write the body of a message of ours piece by piece; one that was cut short is written anew."""
        write_secret(self._file(name), pieces)

    def read_body(self, message: Message) -> bytes:
        """The body of a message of ours that is frozen; empty without one."""
        return next(each.read() for each in self.outgoing() if each.message == message)

    def write_private(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Write a file that never leaves, whole or not at all; on disk when this returns."""
        write_secret(self._folder / "own" / name, pieces)

    def read_private(self, name: str) -> memoryview | None:
        """A file that never leaves, mapped; None where it was never completed."""
        path = self._folder / "own" / name
        return mapped(path) if path.exists() else None

    def map_rows(self, pieces: Iterable[Codes], width: int) -> Codes:
        """(n, width) rows that come in pieces, mapped from a file without a name."""
        self._make()
        with closing(UnnamedArray(self._folder, np.int32)) as rows:
            for piece in pieces:
                rows.write(piece)
            return rows.mapped().reshape(-1, width)

    def keep_patients(self, pseudonyms: Iterable[memoryview]) -> None:
        """Keep the patients that an alignment run is about here, for all rounds of its session."""
        self._make()
        write_secret(self._folder / "patients", pseudonyms)

    def patients(self) -> memoryview | None:
        """The patients that `keep_patients` kept, mapped; None before."""
        path = self._folder / "patients"
        return mapped(path) if path.exists() else None

    def dealt(self, dealer: str) -> bytes | None:
        """Randomness that a dealer dealt to us, as it came; None before it has."""
        path = self._dealt(dealer)
        return path.read_bytes() if path.exists() else None

    def keep_dealt(self, dealer: str, sealed: bytes) -> None:
        """Keep what a dealer dealt to us."""
        write_secret(self._dealt(dealer), [sealed])

    def erase(self) -> None:
        """Forget the session; again changes nothing."""
        self._forget()
        remove_folder(self._folder)

    def _forget(self) -> None:
        self._state = None
        self._frozen.clear()
        self._bodies.clear()

    def _make(self) -> None:
        with disk_takes(f"the folder {self._folder} takes no more"):
            make_folder(self._folder, 0o700)
            sync_folder(self._folder.parent)  # a kill may have come before it was

    def _dealt(self, dealer: str) -> Path:
        return self._folder / "in" / f"deal+{dealer}"

    def _outgoing(self, name: str) -> tuple[Outgoing, ...]:
        if name not in self._frozen:
            path = self._folder / "out" / f"{name}.frozen"
            if path.exists():
                found = FrozenMessages.from_bytes(path.read_bytes())
                pairs = zip(found.messages, map(b64decode, found.bodies), strict=True)
            else:  # of the version before, in which each message has a file of its own
                pairs = zip([Message.from_bytes(path.with_suffix(".json").read_bytes())], [b""], strict=True)
            self._frozen[name] = tuple(
                Outgoing(each, body or (self._file(name_of(each.header)) if each.header.size else None))
                for each, body in pairs
            )
        return self._frozen[name]

    def _file(self, name: str) -> Path:
        return self._folder / "out" / f"{name}.body"

    def _save(self, state: SessionState) -> SessionState:
        self._state = None  # read again if this is cut short
        write_secret(self._folder / "session.json", [state.to_bytes()])
        self._state = state
        return state


_SCHEMA = "CREATE TABLE IF NOT EXISTS seeds (digest TEXT PRIMARY KEY, session TEXT NOT NULL, dealer TEXT NOT NULL)"


class UsedSeeds:
    """A set of digests on disk: every seed that was ever dealt to us, since dealt randomness serves once.

    A mask used twice would show the difference of two masked columns, which is the difference of the columns.
    Source: docs/protocol.md, step 3.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        prepare(path, _SCHEMA)

    def use(self, digests: Iterable[str], session: str, dealer: str) -> None:
        """Note that the seeds of a deal serve in a session; noting the same again changes nothing.

        Raises:
            IntegrityError: the dealer dealt a seed that served before, or twice in this deal, or dealt twice in this
                session; nothing is noted.
        """
        named = list(digests)
        who = dealer or "the coordinator"
        if len(set(named)) != len(named):
            raise IntegrityError(f"{who} dealt one seed twice; nothing is masked with it")
        with transaction(self._path) as db:
            noted = db.execute(
                "SELECT digest FROM seeds WHERE session = ? AND dealer = ?", (session, dealer)
            ).fetchall()
            if noted and {digest for (digest,) in noted} != set(named):
                raise IntegrityError(f"{who} dealt twice in one session; nothing is masked with the second deal")
            for digest in named:
                row = db.execute("SELECT session, dealer FROM seeds WHERE digest = ?", (digest,)).fetchone()
                if row is not None and tuple(row) != (session, dealer):
                    raise IntegrityError(f"{who} dealt a seed that was used before; nothing is masked with it")
                db.execute("INSERT OR IGNORE INTO seeds VALUES (?, ?, ?)", (digest, session, dealer))
