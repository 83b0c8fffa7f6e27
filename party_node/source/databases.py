"""Tables and queries of PostgreSQL and SQLite, in one transaction that only reads.

Nothing of a row stands in an error: what a database says is told only as long as it has not read any.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import pyarrow as pa

from dprelease.errors import DataRefused, DpReleaseError, PeerUnavailable
from dprelease.files.extras import require
from party_node.settings import SourceSettings
from party_node.source.limits import LONGEST_CELL, bounded, is_text, opened

_OWN_LOG = "the query fails on what it reads; the database's own log says why"

_PASSING = frozenset({"08", "40", "53", "55", "57", "58"})
"""Classes of SQLSTATE: connections, rollbacks, resources, locks, operators, the system."""

_OF_CELLS = frozenset({"22", "23", "38", "39", "P0"})
"""Classes of errors of data, constraints and functions: their words may quote a cell, also before the first row is sent."""


class PostgreSql:
    """Reads a table of PostgreSQL, or what a query gives.

    A type without a plain one in Arrow, such as numeric, uuid and json, is read as text.
    """

    def __init__(self, source: SourceSettings) -> None:
        require("adbc_driver_postgresql")
        self._source = source

    def header(self) -> list[str]:
        """Names of all columns."""
        return list(self._schema.names)

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Rows of some columns."""
        yield from bounded(self._selected(columns), self._source.place, None)

    def uri(self) -> str:
        """The URL with the password and our manners: over a network a certificate is checked, unless somebody says otherwise."""
        parts = urlsplit(self._source.url or "")
        asked = dict(parse_qsl(parts.query))
        hosts = (asked.get("host") or parts.netloc.rpartition("@")[2]).split(",")
        if not all(_LOCAL.match(host) for host in hosts) and "PGSSLMODE" not in os.environ:
            asked = {"sslmode": "verify-full"} | asked
        if self._source.password_file is not None:
            asked["password"] = _password(self._source.password_file)
        return parts._replace(query=urlencode(_MANNERS | asked, quote_via=quote)).geturl()

    def _selected(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        cells = ", ".join(_as_text_or_plain(self._schema.field(name)) for name in columns)
        with self._rows(f"SELECT {cells} FROM {self._source.statement}") as rows:  # noqa: S608 - party.toml's own
            try:
                yield from rows
            except (OSError, pa.ArrowException):
                raise _stopped(self._source) from None

    @cached_property
    def _schema(self) -> pa.Schema:
        with self._rows(f"SELECT * FROM {self._source.statement} LIMIT 0") as rows:  # noqa: S608 - party.toml's own
            return rows.schema

    @contextmanager
    def _rows(self, statement: str) -> Iterator[pa.RecordBatchReader]:
        from adbc_driver_manager import Error
        from adbc_driver_postgresql.dbapi import connect

        try:
            connection = connect(self.uri())
        except Error as error:
            raise PeerUnavailable(f"cannot reach {self._source.place}: {_said(error)}") from None
        with connection, connection.cursor() as cursor:
            try:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                cursor.execute("SET LOCAL lock_timeout = '5s'")
                cursor.execute(statement)
                rows = cursor.fetch_record_batch()
            except Error as error:
                raise self._refusal(error) from None
            with rows:
                yield rows

    def _refusal(self, error: Any) -> DpReleaseError:
        """The error before the first row: a statement that is wrong stays so, a database that is busy or ends does not."""
        from adbc_driver_manager import OperationalError

        state = (error.sqlstate or "")[:2]
        if isinstance(error, OperationalError) or state in _PASSING:
            return _stopped(self._source)
        return DataRefused(f"{self._source.place}: {_OWN_LOG if state in _OF_CELLS else _said(error)}")


def _as_text_or_plain(field: pa.Field) -> str:
    """A column as it is, of texts no more than what says that they are too long."""
    name = _quoted(field.name)
    text = is_text(field.type) or isinstance(field.type, pa.BaseExtensionType)
    return f"left({name}::text, {LONGEST_CELL + 1}) AS {name}" if text else name


_LOCAL = re.compile(r"$|/|localhost(:\d+)?$|127\.|\[::1\]")
_NOT_PLAIN = "{} is not one line of UTF-8 text; write the password alone into it, as plain text"
_MANNERS = {
    "application_name": "dprelease",
    "client_encoding": "UTF8",
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}


def _said(error: Exception) -> str:
    """The first line of what a database says."""
    line = str(error).partition("\n")[0]
    return re.sub(r"^[A-Z_]+: (\[\w+\] )?", "", " ".join(line.split()))


def _stopped(source: SourceSettings) -> PeerUnavailable:
    return PeerUnavailable(f"{source.place}: the database stopped before the last row; its own log says why")


def _password(file: Path) -> str:
    try:
        if stat.S_IMODE(file.stat().st_mode) & 0o077:
            raise DataRefused(f"others than its owner may use {file}, which has a password: chmod 600 {file}")
        password = file.read_text(encoding="utf-8-sig").rstrip("\r\n")
    except OSError as error:
        raise DataRefused(f"cannot read the password in {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataRefused(_NOT_PLAIN.format(file)) from None
    if not password.isprintable():  # a library that is given NUL quotes the whole password
        raise DataRefused(_NOT_PLAIN.format(file))
    return password


_ROWS_AT_A_TIME = 4096

_LONGEST_VALUE = 1 << 26
"""Bytes of a value that SQLite makes anywhere in a query."""

_MOST_MEMORY = 1 << 28
"""Bytes that SQLite holds in this process; other databases of the node need few of them."""

_IN_A_SHELL = "the query fails on what it reads; run it in the shell of SQLite, which says why"

_STEPS_AT_A_TIME = 1_000_000
_STEPS_OF_ANY_FILE = 20_000_000_000
"""Steps of SQLite's machine that a query of the smallest file may take: some minutes."""

_STEPS_A_BYTE = 1000
"""Steps that a query of a larger file may take for each of its bytes."""

_PASSING_IN_SQLITE = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PROTOCOL}
)
_TOO_LARGE = frozenset({sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_TOOBIG})


class Sqlite:
    """Reads a table of a SQLite file, or what a query gives.

    A column may hold anything there: all cells are read as text, numbers to the last bit.
    """

    def __init__(self, source: SourceSettings) -> None:
        assert source.database_file is not None  # noqa: S101 - it is a file's
        self._source = source
        self._file: Path = source.database_file

    def header(self) -> list[str]:
        """Names of all columns as the query has them: SQLite calls the second ``id`` of a query ``id:1``."""
        with self._answer(f"SELECT * FROM {self._source.statement} LIMIT 0") as cursor:  # noqa: S608 - party.toml's own
            names = [name for name, *_ in cursor.description]
        return [base if (base := re.sub(r":\d+$", "", name)) in names else name for name in names]

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Rows of some columns."""
        yield from bounded(self._selected(columns), self._source.place, self._file.stat().st_size)

    def _selected(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        cells = ", ".join(map(_as_text, columns))
        statement = f"SELECT {cells} FROM {self._source.statement}"  # noqa: S608 - party.toml's own
        with self._answer(statement) as cursor:
            while rows := cursor.fetchmany(_ROWS_AT_A_TIME):
                texts = [pa.array(each, pa.binary()).cast(pa.string()) for each in zip(*rows, strict=True)]
                yield pa.record_batch(texts, names=columns)

    @contextmanager
    def _answer(self, statement: str) -> Iterator[sqlite3.Cursor]:
        try:
            opened(self._file).close()
        except OSError as error:
            raise DataRefused(f"cannot read {self._file}: {error.strerror}") from None
        compiled = False
        try:
            with closing(sqlite3.connect(f"file:{quote(str(self._file))}?mode=ro", timeout=1, uri=True)) as connection:
                connection.text_factory = bytes
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
                connection.set_progress_handler(self._steps(), _STEPS_AT_A_TIME)
                connection.execute("PRAGMA query_only = on")
                connection.execute(f"PRAGMA hard_heap_limit = {_MOST_MEMORY}")
                connection.execute(f"EXPLAIN {statement}").close()  # reads no row
                compiled = True
                yield connection.execute(statement)
        except (sqlite3.Error, sqlite3.Warning, MemoryError) as error:
            raise self._refusal(error, compiled=compiled) from None

    def _steps(self) -> Callable[[], bool]:
        """A function that SQLite calls now and then, and that ends the query once it has taken too many steps."""
        left = max(_STEPS_OF_ANY_FILE, _STEPS_A_BYTE * self._file.stat().st_size)

        def ends() -> bool:
            nonlocal left
            left -= _STEPS_AT_A_TIME
            return left < 0

        return ends

    def _refusal(self, error: Exception, *, compiled: bool) -> DpReleaseError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _PASSING_IN_SQLITE:
            return _stopped(self._source)
        if isinstance(error, MemoryError) or code in _TOO_LARGE:
            words = "a cell or a step of the query is larger than a table of patients needs"
        elif code == sqlite3.SQLITE_INTERRUPT:
            words = "the query computes longer than a table of patients needs; look at the view, or export the rows to a table"
        else:
            words = _IN_A_SHELL if compiled else str(error)
        return DataRefused(f"{self._source.place}: {words}")


def _as_text(name: str) -> str:
    """A column as text, of one that is too long no more than what says so."""
    text = "CASE WHEN length(CAST({0} AS BLOB)) > {1} THEN substr({0}, 1, {1} + 1) ELSE CAST({0} AS TEXT) END"
    n = _quoted(name)
    return f"CASE typeof({n}) WHEN 'real' THEN printf('%!.17g', {n}) ELSE {text.format(n, LONGEST_CELL)} END"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
