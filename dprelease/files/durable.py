"""Files that are either whole or absent, also after a power cut; and databases that only their owner can read."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from dprelease.errors import InvalidInput, PeerUnavailable

TEMPORARY = ".tmp"
"""Ending of a file that is being written; its name starts with a dot, as no party's does."""

SECRET = 0o600
"""Permissions of a file that its owner alone may read."""

_BESIDE = ("-wal", "-shm", "-journal")


@contextmanager
def disk_takes(refused: str) -> Iterator[None]:
    """Turn what the file system refuses, a file or SQLite, into `PeerUnavailable`, in these words and its own."""
    try:
        yield
    except OSError as error:
        raise PeerUnavailable(f"{refused}: {error.strerror}") from error
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:  # a mistake in a statement
            raise
        raise PeerUnavailable(f"{refused}: {error}") from error


@contextmanager
def can(do: Literal["read", "write"], path: Path) -> Iterator[None]:
    """Turn what the file system refuses of a file that a person named into `InvalidInput`."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"cannot {do} {path}: {error.strerror}") from error


def write_durably(path: Path, *pieces: bytes | memoryview, mode: int = 0o644) -> None:
    """Write as `write_pieces_durably`.

    Args:
        path: where the file will stand.
        pieces: all of it, one after another.
        mode: permissions, less the process's umask.
    """
    write_pieces_durably(path, pieces, mode=mode)


def write_pieces_durably(path: Path, pieces: Iterable[bytes | memoryview], mode: int = 0o644) -> None:
    """Write under a temporary name of this thread's own, sync, rename, sync the folder. Replaces what was there.

    A failure leaves the disk as it was: where it was full, other files must still be written. Only a kill leaves something.

    Args:
        path: where the file will stand.
        pieces: all of it, one after another; each is made once the one before is written.
        mode: permissions, less the process's umask.
    """
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}{TEMPORARY}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_secret(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write as `write_pieces_durably` what its owner alone may read, in a folder that is private too unless it is there already.

    Raises:
        PeerUnavailable: the disk refuses it, as a full one does; try again later.
    """
    with disk_takes(f"the folder {path.parent} takes no more"):
        make_folder(path.parent, 0o700)
        write_pieces_durably(path, pieces, mode=SECRET)


def write_file(output: Path, text: str) -> None:
    """Write a file whole; raises `InvalidInput` where that cannot be."""
    with can("write", output):
        write_durably(output, text.encode())


def remove_leftovers(folder: Path) -> None:
    """Remove what a kill left of files that were being written in a folder and those in it; nobody may write there meanwhile."""
    with suppress(FileNotFoundError):  # a command of the same hospital erases the folder
        for leftover in folder.rglob(f".*{TEMPORARY}"):
            leftover.unlink(missing_ok=True)


def append_durably(path: Path, held: int, data: bytes) -> None:
    """Append to a file, which is made if there is none, and sync it.

    Args:
        path: of the file.
        held: its bytes so far; those beyond them, of an attempt that broke off, are given up.
        data: what follows.
    """
    new = not path.exists()
    with path.open("ab") as file:
        file.truncate(held)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if new:
        sync_folder(path.parent)


def rename_durably(source: Path, target: Path) -> None:
    """Sync a file or folder, rename it, and sync the folders it leaves and enters."""
    if source.is_dir():
        sync_folder(source)
    else:
        with source.open("r+b") as file:
            os.fsync(file.fileno())
    make_folder(target.parent)
    source.rename(target)
    sync_folder(target.parent)  # first: a file that both folders name is not lost
    if source.parent != target.parent:
        sync_folder(source.parent)


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Make a folder, with permissions less the process's umask, and those it stands in, durably."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(mode, exist_ok=True)
        sync_folder(path.parent)


def remove_folder(path: Path) -> None:
    """Remove a folder with all that is in it, durably; again changes nothing."""
    while path.exists():
        with suppress(FileNotFoundError):  # another process removes it as well
            shutil.rmtree(path)
            sync_folder(path.parent)


def keep_private(database: Path) -> None:
    """Make the file of an SQLite database, empty, if there is none, and leave it and those beside it to their owner alone.

    SQLite gives the files that it makes beside it (``-wal``, ``-shm``, ``-journal``) the permissions of the first one. The
    file is made elsewhere and linked here, so that nobody can open it before it is private and none of this process's
    locks is lost by closing it.

    Raises:
        InvalidInput: others may read a file that is not ours to change.
    """
    if not database.exists():
        handle, temporary = tempfile.mkstemp(dir=database.parent, prefix=".", suffix=TEMPORARY)  # 0600
        os.close(handle)
        with suppress(FileExistsError):
            os.link(temporary, database)
        Path(temporary).unlink()
    for path in (f"{database}{ending}" for ending in ("", *_BESIDE)):  # a Path takes as long as a transaction
        try:
            mode = os.stat(path).st_mode  # noqa: PTH116
            if stat.S_ISREG(mode) and mode & 0o077:
                Path(path).chmod(0o600)
        except FileNotFoundError:
            pass
        except PermissionError as error:
            raise InvalidInput(f"{path} can be read by others; its owner must run: chmod 600 {path}") from error


def sync_folder(folder: Path) -> None:
    """Make renames and removals in a folder durable, where the system lets a folder be synced."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
