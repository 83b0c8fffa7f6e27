"""Uploads to the hub's disk, of one thing each: the newest upload writes, all older ones are refused, and one hub has the disk.

Each chunk is hashed and on its way to the disk as it comes, so that little is left to do when the last one is here.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

from dprelease.errors import IntegrityError, InvalidInput, OutOfTurn
from dprelease.files.durable import disk_takes
from dprelease.wire.chunks import check_chunk
from dprelease.wire.limits import SHORT_BYTES
from dprelease.wire.v1 import release_pb2

_HASHING = ThreadPoolExecutor(os.cpu_count(), "hash")
"""Hashes chunks while they are written, which takes as long."""


def on_disk() -> AbstractContextManager[None]:
    """See `disk_takes`; the caller should try again later."""
    return disk_takes("the storage does not take what is written")


def put_at(whole: Path, part: Path, offset: int, data: bytes) -> None:
    """Write bytes at an offset up to which a part is held; bytes beyond it are given up.

    Raises:
        IntegrityError: the whole is here, and has other bytes there.
    """
    if whole.exists():
        with whole.open("rb") as file:
            file.seek(offset)
            if file.read(len(data)) != data:
                raise IntegrityError("other bytes came than those that were announced and are here")
        return
    with part.open("r+b" if part.exists() else "xb") as file:
        file.truncate(offset)
        file.seek(offset)
        file.write(data)
        if len(data) > SHORT_BYTES and hasattr(os, "posix_fadvise"):
            file.flush()
            # Linux begins to write to the disk at once, so that the sync of the whole has little to wait for. Fewer bytes are
            # a short parcel, or the last of a long one, and the sync follows at once.
            os.posix_fadvise(file.fileno(), offset, len(data), os.POSIX_FADV_DONTNEED)


def held_at(whole: Path, part: Path) -> int:
    """How many bytes are here, of the whole or of a part."""
    for path in (whole, part):
        with suppress(FileNotFoundError):
            return path.stat().st_size
    return 0


def lock(path: Path) -> int:
    """Hold a file for this process alone, as long as the returned handle is open.

    Raises:
        InvalidInput: another hub holds it.
    """
    import fcntl  # the hub runs where there is flock; a learner's machine may not have it

    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise InvalidInput(f"another hub uses {path.parent}; stop it first") from error
    return handle


@dataclass(frozen=True)
class Sink:
    """Destination of the bytes of an upload.

    Attributes:
        size: how many there are in all.
        held: tells how many are here.
        put: writes bytes at an offset up to which they are held.
        finish: verifies the whole and gives its digest; called once all chunks came, as often as they come, with the digest of
            the bytes as they came, or None where they have to be read.
    """

    size: int
    held: Callable[[], int]
    put: Callable[[int, bytes], None]
    finish: Callable[[str | None], str]


class Turn:
    """Turn to write: the newest upload's. A stalled connection cannot keep its successor out.

    Attributes:
        lock: held for one chunk at a time, and by whoever wants to look in between.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._newest = 0

    def begin(self, sink: Sink) -> Upload:
        """An upload that takes over from all before it."""
        with self.lock:
            self._newest += 1
            return Upload(self, self._newest, sink)

    def check(self, number: int) -> None:
        """Refuse an upload that is not the newest.

        Raises:
            OutOfTurn: it is not.
        """
        if self._newest != number:
            raise OutOfTurn("a newer upload of the same bytes has taken over")


class Upload:
    """An upload that is under way, from any offset up to which its sink is held, to the sink's end."""

    def __init__(self, turn: Turn, number: int, sink: Sink) -> None:
        self._turn, self._number, self._sink = turn, number, sink
        self._position: int | None = None
        self._hash: hashlib._Hash | None = None

    def take(self, chunk: release_pb2.Chunk) -> None:
        """Check and write the next chunk; the first says where the upload starts.

        Raises:
            OutOfTurn: a newer upload has taken over.
            IntegrityError: the chunk is not the next one, or is damaged.
        """
        with self._turn.lock:
            self._turn.check(self._number)
            if self._position is None:
                self._position = min(chunk.offset, self._sink.held())
                self._hash = None if self._position else hashlib.sha256()
            data = check_chunk(chunk, self._position, self._sink.size)
            hashed = _HASHING.submit(self._hash.update, data) if self._hash is not None else None
            self._sink.put(self._position, data)
            if hashed is not None:
                hashed.result()
            self._position += len(data)

    def finish(self) -> str:
        """Verify the whole, after its last chunk; its SHA-256.

        Raises:
            OutOfTurn: a newer upload has taken over.
            IntegrityError: bytes are missing, or the whole is not what was announced.
        """
        with self._turn.lock:
            self._turn.check(self._number)
            whole = self._hash is not None and self._position == self._sink.size
            return self._sink.finish(self._hash.hexdigest() if self._hash is not None and whole else None)
