"""Upkeep of the database: copies of it, and the way from an older layout to that of this software (`migrations`).

SQLite keeps what was committed last beside the file (``-wal``), so that a copied file alone may be old or torn. Copies are made by
SQLite's online backup, which sees one state while others write. Each copy knows that it is one, and a restored one knows since when
it remembers nothing.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, func, inspect, select

from coordinator.store.database import Database, Part
from coordinator.store.tables import REVISION, history, meta, version
from dprelease.errors import InvalidInput
from dprelease.files.durable import TEMPORARY, keep_private, rename_durably
from dprelease.files.extras import missing
from dprelease.spec_base import instant, moment

COPIED = "copied"
"""Key of `meta` that marks a copy, with the time of its making."""

_SINCE, _UNTIL = "forgotten since", "forgotten until"


def back_up(url: str, target: Path, now: datetime) -> None:
    """Copy an SQLite database into one file, durably, while it is in use. The copy is marked and is not served as it is.

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


class Copies(Part):
    """Tells whether this database is a copy, or was one, in one transaction."""

    def made(self) -> str | None:
        """When this copy was made; None for a database that is in use."""
        return self._setting(COPIED)

    def restore(self, now: datetime) -> datetime:
        """Take this database into use again.

        Returns:
            Since when nothing is known: the time of the history's last line, or of the copy without one.
        """
        last = self._connection.scalar(select(func.max(history.c.at)))
        copied = self.made()
        since = last or (moment(copied) if copied else now)
        self._set(_SINCE, min(instant(since), self._setting(_SINCE) or instant(since)))
        self._set(_UNTIL, instant(now))
        self.clear()
        return since

    def clear(self) -> None:
        """Take away the mark of a copy."""
        self._connection.execute(meta.delete().where(meta.c.key == COPIED))

    def forgot(self, at: datetime) -> bool:
        """Tells whether what happened then may have been forgotten in a restore."""
        since, until = self._setting(_SINCE), self._setting(_UNTIL)
        return since is not None and until is not None and since <= instant(at) <= until


_UNNUMBERED = {"3": "0001"}
"""`meta` of databases from before there were revisions, and the revision that they have."""


def revision(connection: Connection) -> str:
    """The revision of a database's layout, as four digits; empty where nobody here knows it."""
    if inspect(connection).has_table(version.name):
        return connection.scalar(select(version.c.version_num)) or ""
    schema = connection.scalar(select(meta.c.value).where(meta.c.key == "schema"))
    return _UNNUMBERED.get(schema or "", "")


def check_revision(connection: Connection) -> None:
    """Refuse a layout that is not the one of this software.

    Raises:
        InvalidInput: it is older, newer or unknown; what to do about it.
    """
    found, place = revision(connection), connection.engine.url
    if _behind(found, str(place)):
        raise InvalidInput(
            f"{place} has layout {found} and this software layout {REVISION}: stop `coordinator serve`, then run: "
            "coordinator migrate"
        )


def pending(url: str) -> str | None:
    """The revision of a database that has to be migrated; None where it has the latest.

    Raises:
        InvalidInput: there is none, or its layout is newer or unknown.
        PeerUnavailable: the database does not answer.
    """
    with closing(Database(url)) as database:
        if not database.has_tables():
            raise InvalidInput(f"there is no consortium in {database.url}; run: coordinator init")
        with database.reading() as connection:
            found = revision(connection)
        return found if _behind(found, str(database.url)) else None


def migrate(url: str, target: str = "head") -> None:
    """Bring a database to a later revision: all the way or not at all. Nobody else may have it open.

    Args:
        url: of the database; a copy too, which stays marked as one.
        target: the latest revision if not said otherwise.

    Raises:
        InvalidInput: somebody has it open; or alembic is not installed.
        PeerUnavailable: the database does not answer.
    """
    try:
        from alembic import command  # a quarter of a second that only this command needs
        from alembic.config import Config
    except ModuleNotFoundError as error:
        raise missing(error) or error from error
    config = Config()
    config.set_main_option("script_location", "coordinator.store:migrations")
    with closing(Database(url)) as database, database.altering() as connection:
        config.attributes["connection"] = connection
        tables = inspect(connection)
        if tables.has_table(meta.name) and not tables.has_table(version.name):
            command.stamp(config, revision(connection))
        command.upgrade(config, target)


def _behind(found: str, place: str) -> bool:
    if not found.isdecimal():
        raise InvalidInput(f"{place} was not made by this software, or by a version that is too old to go on from")
    if found > REVISION:
        raise InvalidInput(
            f"{place} has layout {found}, which is newer than layout {REVISION} of this software; update the coordinator"
        )
    return found < REVISION
