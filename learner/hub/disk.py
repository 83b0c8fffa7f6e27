"""Uses of the hub's disk: errors that a caller understands, uploads that go on anywhere, one hub at a time."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dprelease.errors import IntegrityError, InvalidInput, PeerUnavailable


@contextmanager
def on_disk() -> Iterator[None]:
    """Turn what the file system refuses into `PeerUnavailable`: the caller should try again later."""
    try:
        yield
    except OSError as error:
        raise PeerUnavailable(f"the storage does not take what is written: {error.strerror}") from error


def mapped(path: Path) -> memoryview:
    """The bytes of a file, mapped and not read; none where there is no file."""
    if not path.exists() or not path.stat().st_size:
        return memoryview(b"")
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


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
