"""Connections and transactions: SQLite by default, PostgreSQL by URL, one writer at a time on either."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event, inspect, make_url, select
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, OperationalError

from coordinator.store.tables import meta
from dprelease.errors import IntegrityError, InvalidInput, PeerUnavailable
from dprelease.files.durable import keep_private
from dprelease.files.extras import missing

BUSY_SECONDS = 15
"""How long a transaction waits for another one before it gives up."""

MOST_CALLS = 40
"""More connections than both listeners have threads, so that no call waits for one."""

SHORTEST_PREFIX = 4
"""Digits of a digest that a person has to give at least."""

_WRITER_LOCK = 7441
_AFTERWARDS = "afterwards"

_OTHERS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
    "AND backend_type = 'client backend'"
)
_IN_USE = "somebody has the database open; stop `coordinator serve`, and whatever else uses it, first"


class Database:
    """An engine and its two kinds of transaction.

    Writers exclude one another (SQLite: BEGIN IMMEDIATE; PostgreSQL: an advisory lock), so that what a transaction reads
    is still so when it writes. Commits are on disk when they return.

    Args:
        url: e.g. ``sqlite:////srv/office/coordinator.sqlite`` or ``postgresql://user@host/consortium``.

    Raises:
        InvalidInput: the URL names no database that can be used here.
    """

    def __init__(self, url: str) -> None:
        self.url = _parse(url)
        self.sqlite = self.url.get_backend_name() == "sqlite"
        try:
            self._engine = create_engine(self.url, pool_pre_ping=not self.sqlite, max_overflow=MOST_CALLS)
        except ModuleNotFoundError as error:
            other = f"this database needs the Python package {error.name}; install it with pip"
            raise missing(error) or InvalidInput(other) from error
        if self.sqlite:
            _prepare_sqlite(self._engine)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one state of the database.

        Raises:
            PeerUnavailable: the database does not answer.
        """
        options = {} if self.sqlite else {"isolation_level": "REPEATABLE READ"}
        with _translated(), self._engine.connect().execution_options(**options) as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is alone in writing; committed at the end, undone by any error.

        Raises:
            PeerUnavailable: the database does not answer, or another writer kept it too long.
        """
        with _translated(), self._connect_to_write() as connection:
            waiting = connection.info[_AFTERWARDS] = []  # a pooled connection brings those of one that was undone
            with connection.begin():
                self._wait_for_writers(connection)
                yield connection
        for act in waiting:
            act()

    @contextmanager
    def altering(self) -> Iterator[Connection]:
        """A transaction that is alone with the database and may rebuild tables; references are checked at its end.

        Raises:
            InvalidInput: somebody else has the database open.
            IntegrityError: a row refers to one that is not there; everything is undone.
            PeerUnavailable: the database does not answer.
        """
        with _translated(), self._connect_to_write() as connection:
            connection.detach()  # what is set for this connection ends with it
            if self.sqlite:
                _be_alone(connection)
            with connection.begin():
                self._wait_for_writers(connection)
                if not self.sqlite:
                    _check_alone(connection)
                yield connection
                if self.sqlite and connection.exec_driver_sql("PRAGMA foreign_key_check").first():
                    raise IntegrityError(f"rows of {self.url} would refer to rows that are not there; it is as it was")

    def _connect_to_write(self) -> Connection:
        return self._engine.connect().execution_options(immediate=True)

    def _wait_for_writers(self, connection: Connection) -> None:
        if not self.sqlite:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITER_LOCK})")

    def has_tables(self) -> bool:
        """Tells whether the tables exist. Creates nothing, not even an SQLite file.

        Raises:
            InvalidInput: what is there is no database.
            PeerUnavailable: the database does not answer.
        """
        if self.sqlite and not Path(self.url.database or "").exists():
            return False
        try:
            with _translated():
                return bool(inspect(self._engine).has_table(meta.name))
        except DatabaseError as error:
            raise InvalidInput(f"{self.url} cannot be read: {_first_line(error)}") from error

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()


class Part:
    """Some of the tables, in one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def _setting(self, key: str) -> str | None:
        """A value of `meta`; None where there is none."""
        return self._connection.scalar(select(meta.c.value).where(meta.c.key == key))

    def _set(self, key: str, value: str) -> None:
        put(self._connection, meta, {"key": key}, {"value": value})


def afterwards(connection: Connection, act: Callable[[], None]) -> None:
    """Do something once the writing transaction is on disk, and not at all if it is undone."""
    connection.info[_AFTERWARDS].append(act)


def put(connection: Connection, table: Table, key: dict[str, Any], values: dict[str, Any]) -> None:
    """Update the row with this key, or insert it. Within a writing transaction only."""
    matches = [table.c[name] == value for name, value in key.items()]
    if connection.execute(table.update().where(*matches).values(values)).rowcount == 0:
        connection.execute(table.insert().values({**key, **values}))


def digest_prefix(text: str) -> str:
    """The beginning of a digest as a person typed it, in lower case.

    Raises:
        InvalidInput: it is not hexadecimal, or too short.
    """
    start = text.strip().lower()
    if len(start) < SHORTEST_PREFIX or not set(start) <= set("0123456789abcdef"):
        raise InvalidInput(f"{text!r} names nothing: give at least {SHORTEST_PREFIX} digits of a digest")
    return start


def _parse(text: str) -> URL:
    try:
        url = make_url(text)
        backend = url.get_backend_name()
    except ArgumentError as error:
        raise InvalidInput(
            f"{text!r} is not a database URL such as sqlite:////srv/office/coordinator.sqlite"
        ) from error
    if backend not in ("sqlite", "postgresql"):
        raise InvalidInput(f"the coordinator keeps its state in SQLite or PostgreSQL, not in {backend}")
    return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url


def _prepare_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "do_connect")
    def private(_dialect: Any, _record: Any, arguments: list[Any], _options: Any) -> None:
        try:
            if not arguments[0].startswith((":", "file:")):
                keep_private(Path(arguments[0]))
        except OSError as error:
            raise PeerUnavailable(f"the database cannot be used now: {error.strerror}") from error

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # BEGIN is ours, below; the driver would put it off until the first write
        for pragma in (
            f"busy_timeout = {BUSY_SECONDS * 1000}",
            "journal_mode = WAL",
            "synchronous = FULL",
            "foreign_keys = ON",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        immediate = connection.get_execution_options().get("immediate", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _check_alone(connection: Connection) -> None:
    """Refuse a PostgreSQL database in which others have a session; those that are about to end get two seconds."""
    for _ in range(20):
        if connection.exec_driver_sql(_OTHERS).scalar_one() == 0:
            return
        connection.exec_driver_sql("SELECT pg_sleep(0.1), pg_stat_clear_snapshot()")
    raise InvalidInput(_IN_USE)


def _be_alone(connection: Connection) -> None:
    """Refuse an SQLite file that another connection has open: it cannot leave write-ahead logging then."""
    driver: sqlite3.Connection = connection.connection.dbapi_connection  # type: ignore[assignment] # before any BEGIN
    try:
        driver.executescript("PRAGMA busy_timeout = 0; PRAGMA foreign_keys = OFF; PRAGMA journal_mode = DELETE")
    except sqlite3.OperationalError as error:
        raise InvalidInput(_IN_USE) from error


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except OperationalError as error:
        raise PeerUnavailable(f"the database cannot be used now: {_first_line(error)}") from error


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).strip().partition("\n")[0]
