"""Uploads of one thing, by a party that may begin again at any time: the newest upload writes, all older ones are refused."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Protocol

from dprelease.errors import Conflict
from dprelease.wire.chunks import check_chunk
from dprelease.wire.v1 import release_pb2


class Target(Protocol):
    """Where the bytes of an upload go."""

    @property
    def size(self) -> int:
        """How many there are in all."""

    def held(self) -> int:
        """How many are here."""

    def put(self, offset: int, data: bytes) -> None:
        """Write bytes at an offset up to which they are held."""

    def finish(self) -> None:
        """Verify the whole; called once all chunks came, as often as they come."""


class Turn:
    """Whose turn it is to write: the newest upload's. A stalled connection cannot keep its successor out.

    Attributes:
        lock: held for one chunk at a time, and by whoever wants to look in between.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._newest = 0

    def receive(self, chunks: Iterable[release_pb2.Chunk], target: Target) -> None:
        """Take in chunks, from any offset up to which the target is held, to its end.

        Args:
            chunks: in order; the first says where it starts.
            target: where they go.

        Raises:
            Conflict: a newer upload has taken over.
            IntegrityError: a chunk is wrong, or the target says that the whole is.
        """
        with self.lock:
            self._newest += 1
            mine = self._newest
        position: int | None = None
        for chunk in chunks:
            with self.lock:
                self._check(mine)
                if position is None:
                    position = min(chunk.offset, target.held())
                data = check_chunk(chunk, position, target.size)
                target.put(position, data)
                position += len(data)
        with self.lock:
            self._check(mine)
            target.finish()

    def _check(self, mine: int) -> None:
        if self._newest != mine:
            raise Conflict("a newer upload of the same bytes has taken over")
