"""Files that are either whole or absent, also after a power cut."""

from __future__ import annotations

import os
from pathlib import Path

TEMPORARY = ".tmp"
"""Ending of a file that is being written; its name starts with a dot, as no party's does."""


def write_durably(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write under a temporary name, sync, rename, sync the folder. Replaces what was there.

    Args:
        path: where the file will stand.
        data: all of it.
        mode: permissions, less the process's umask.
    """
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
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
    sync_folder(target.parent)
    sync_folder(source.parent)


def make_folder(path: Path) -> None:
    """Make a folder and those it stands in, durably."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and removals in a folder durable, where the system lets a folder be synced."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
