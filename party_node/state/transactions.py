"""SQLite files of the party, its owner's alone, that survive a power cut: one writer at a time, every commit on disk."""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from dprelease.errors import Conflict, InvalidInput
from dprelease.files.durable import disk_takes, keep_private


@contextmanager
def transaction(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection within one transaction: committed at the end, rolled back by any error.

    synchronous=EXTRA is FULL and a sync of the folder as well; without that, a power cut could bring the rollback journal
    back and undo a commit, such as a charge after bytes have left.

    Raises:
        InvalidInput: others may read the file, and it is not ours to change.
        PeerUnavailable: it cannot be written now, e.g. as the disk is full.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
    keep_private(path)
    with (
        disk_takes(f"{path} cannot be written now"),
        closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as db,
    ):
        db.execute("PRAGMA synchronous=EXTRA")
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")


def prepare(
    path: Path, schema: str, layout: int = 1, take_over: Callable[[sqlite3.Connection], None] = lambda db: None
) -> None:
    """Make the tables of a file that has none, and note the number of their layout as SQLite's `user_version`.

    A power cut leaves the layout before, or this one whole.

    Args:
        path: SQLite file; made if absent.
        schema: statements that do no harm where the tables exist.
        layout: number of this layout. Files from before it was noted have 0 and layout 1.
        take_over: brings what an earlier layout has, if anything, into the new tables.

    Raises:
        InvalidInput: a later version of this software wrote the file; it is left as it is.
    """
    with transaction(path) as db:
        (found,) = db.execute("PRAGMA user_version").fetchone()
        if found > layout:
            raise InvalidInput(
                f"{path} has layout {found}, which is newer than layout {layout} of this software; update party-node, for an "
                "older copy of the file does not know what was charged since"
            )
        if found < layout:
            for statement in _statements(schema):
                db.execute(statement)
            take_over(db)
            db.execute(f"PRAGMA user_version = {layout}")


def _statements(script: str) -> Iterator[str]:
    """The statements of a script, one by one: all at once would commit before them. A trigger has semicolons of its own."""
    statement = ""
    for line in f"{script};".splitlines():
        statement += f"{line}\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


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
