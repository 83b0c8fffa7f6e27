"""Which layout a database has, and the way from an older one to that of this software (alembic, `coordinator.store.migrations`)."""

from __future__ import annotations

from contextlib import closing

from sqlalchemy import Connection, inspect, select

from coordinator.store.database import Database
from coordinator.store.tables import REVISION, meta, version
from dprelease.errors import InvalidInput
from dprelease.files.extras import missing

_UNNUMBERED = {"3": "0001"}
"""`meta` of databases from before there were revisions, and the revision that they have."""


def revision(connection: Connection) -> str:
    """The revision of a database's layout, as four digits; empty where nobody here knows it."""
    if inspect(connection).has_table(version.name):
        return connection.execute(select(version.c.version_num)).scalar_one_or_none() or ""
    schema = connection.execute(select(meta.c.value).where(meta.c.key == "schema")).scalar_one_or_none()
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
