"""One daemon for one state folder."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dprelease.errors import Conflict


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold a lock file of the state folder for as long as the context lasts.

    Raises:
        Conflict: another daemon holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Conflict(f"another party-node runs on {path.parent}; stop it first") from error
        yield
