"""Copies of the database: each knows that it is one, and a restored one knows since when it remembers nothing.

SQLite keeps what was committed last beside the file (``-wal``), so that a copied file alone may be old or torn. Copies are made by
SQLite's online backup, which sees one state while others write.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, func, select

from coordinator.store.database import Database, put
from coordinator.store.tables import history, meta
from dprelease.errors import InvalidInput
from dprelease.files.durable import TEMPORARY, keep_private, rename_durably
from dprelease.spec_base import instant, moment

COPIED = "copied"
"""Key of `meta` that marks a copy, with the time of its making."""

_SINCE, _UNTIL = "forgotten since", "forgotten until"


def back_up(url: str, target: Path, now: datetime) -> None:
    """Copy an SQLite database into one file, durably, while it is in use. The copy is marked and is not served as it is.

    Args:
        url: of the database.
        target: the copy; must not exist.
        now: the present.

    Raises:
        InvalidInput: the database is not SQLite, there is a file already, or it cannot be written.
    """
    if not url.startswith("sqlite"):
        raise InvalidInput("only SQLite is copied here; for PostgreSQL use pg_dump, see docs/coordinator.md")
    with closing(Database(url)) as database:
        if not database.has_tables():
            raise InvalidInput(f"there is no consortium in {database.url}; nothing is copied")
    if target.exists():
        raise InvalidInput(f"{target} exists and is left as it is; name a new file")
    temporary = target.with_name(f".{target.name}.{os.getpid()}{TEMPORARY}")
    try:
        keep_private(temporary)
        with (
            closing(sqlite3.connect(database.url.database or "")) as source,
            closing(sqlite3.connect(temporary)) as copy,
        ):
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # all of it in one file
            with copy:
                copy.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (COPIED, instant(now)))
        rename_durably(temporary, target)
    except (OSError, sqlite3.Error) as error:
        temporary.unlink(missing_ok=True)
        raise InvalidInput(f"{target} cannot be written: {error}") from error


class Copies:
    """Tells whether this database is a copy, or was one, in one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def made(self) -> str | None:
        """When this copy was made; None for a database that is in use."""
        return self._get(COPIED)

    def restore(self, now: datetime) -> datetime:
        """Take this database into use again.

        Args:
            now: the present.

        Returns:
            Since when nothing is known: the time of the history's last line, or of the copy without one.
        """
        last = self._connection.execute(select(func.max(history.c.at))).scalar_one_or_none()
        copied = self.made()
        since = last or (moment(copied) if copied else now)
        earlier = self._get(_SINCE)
        put(self._connection, meta, {"key": _SINCE}, {"value": min(instant(since), earlier or instant(since))})
        put(self._connection, meta, {"key": _UNTIL}, {"value": instant(now)})
        self.clear()
        return since

    def clear(self) -> None:
        """Take away the mark of a copy."""
        self._connection.execute(meta.delete().where(meta.c.key == COPIED))

    def forgot(self, at: datetime) -> bool:
        """Tells whether what happened then may have been forgotten in a restore."""
        since, until = self._get(_SINCE), self._get(_UNTIL)
        return since is not None and until is not None and since <= instant(at) <= until

    def _get(self, key: str) -> str | None:
        return self._connection.execute(select(meta.c.value).where(meta.c.key == key)).scalar_one_or_none()
