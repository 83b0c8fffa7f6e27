"""SQLite files of the party, its owner's alone, that survive a power cut: one writer at a time, every commit on disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from dprelease.files.durable import keep_private


@contextmanager
def transaction(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection within one transaction: committed at the end, rolled back by any error.

    synchronous=EXTRA is FULL and a sync of the folder as well; without that, a power cut could bring the rollback journal
    back and undo a commit, such as a charge after bytes have left.

    Args:
        path: SQLite file; its folder is made if absent.

    Raises:
        InvalidInput: others may read the file, and it is not ours to change.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    keep_private(path)
    with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous=EXTRA")
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        if db.in_transaction:  # a script commits by itself
            db.execute("COMMIT")
