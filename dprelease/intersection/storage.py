"""Things that a party must keep of a run so that a restart goes on where it stood."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from dprelease.mpc import storage
from dprelease.mpc.encryption import Draw
from dprelease.mpc.storage import RoundStorage, SessionState


class RunStorage(RoundStorage, Protocol):
    """Frozen messages, and secret files beside them that are never sent."""

    def write_private(self, name: str, pieces: Iterable[bytes]) -> None:
        """Keep a secret of this round; one that was cut short was never there."""

    def read_private(self, name: str) -> bytes | None:
        """A secret of this round; None before it is complete."""


class MemoryRunStorage(storage.MemorySessionStorage):
    """A run that is gone with its process."""

    def __init__(self) -> None:
        super().__init__()
        self._private: dict[str, bytes] = {}

    def begin(self, number: int, draw: Draw) -> SessionState:
        """As `RunStorage`."""
        self._private.clear()
        return super().begin(number, draw)

    def write_private(self, name: str, pieces: Iterable[bytes]) -> None:
        """As `RunStorage`."""
        self._private[name] = b"".join(pieces)

    def read_private(self, name: str) -> bytes | None:
        """As `RunStorage`."""
        return self._private.get(name)
