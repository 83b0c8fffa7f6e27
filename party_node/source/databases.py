"""Tables and queries of PostgreSQL and SQLite, in one transaction that only reads.

Nothing of a row stands in an error: what a database says is told only as long as it has not read any.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import pyarrow as pa

from dprelease.errors import DataRefused, DpReleaseError, PeerUnavailable
from dprelease.files.extras import require
from party_node.settings import SourceSettings
from party_node.source.limits import LONGEST_CELL, bounded, opened


class Database(Protocol):
    """One kind of database.

    Attributes:
        beginning: statements at the beginning of a transaction.
        options: of the statement that selects rows.
        rows_before: how many rows stand before those that were selected.
    """

    beginning: tuple[str, ...]
    options: Mapping[str, str]
    rows_before: int

    def connect(self) -> Any:
        """A connection, with a transaction that nobody commits."""
        ...

    def names(self, schema: pa.Schema) -> list[str]:
        """Names of columns as the query has them."""
        ...

    def select(self, fields: Sequence[pa.Field], statement: str) -> str:
        """The statement that selects some columns, of types that `cells` reads."""
        ...


class PostgreSql:
    """PostgreSQL. A type without a plain one in Arrow, such as numeric, uuid and json, is read as text.

    Args:
        source: names the database.
    """

    beginning: tuple[str, ...] = (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
        "SET LOCAL lock_timeout = '5s'",
    )
    options: Mapping[str, str] = {}
    rows_before = 0

    def __init__(self, source: SourceSettings) -> None:
        self._source = source

    def connect(self) -> Any:
        """A connection; raises `DataRefused` where others may read the password."""
        from adbc_driver_postgresql.dbapi import connect

        return connect(self.uri())

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

    def names(self, schema: pa.Schema) -> list[str]:
        """Names of columns as the query has them."""
        return list(schema.names)

    def select(self, fields: Sequence[pa.Field], statement: str) -> str:
        """The statement that selects some columns."""
        return f"SELECT {', '.join(map(_as_text_or_plain, fields))} FROM {statement}"  # noqa: S608 - party.toml's own


def _as_text_or_plain(field: pa.Field) -> str:
    """A column as it is, of texts no more than what says that they are too long."""
    name = _quoted(field.name)
    text = pa.types.is_string(field.type) or isinstance(field.type, pa.BaseExtensionType)
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


class Sqlite:
    """SQLite. A column may hold anything there: all cells are read as text, numbers to the last bit.

    Args:
        file: the database.
    """

    beginning: tuple[str, ...] = (
        "PRAGMA query_only = on",
        "PRAGMA busy_timeout = 1000",
        f"PRAGMA hard_heap_limit = {1 << 28}",  # of bytes; a sort that needs more goes to a file
    )
    options: Mapping[str, str] = {"adbc.sqlite.query.batch_rows": "4096"}
    rows_before = 1
    """The driver takes a column's type from the first rows: one of texts stands before them."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def connect(self) -> Any:
        """A connection that cannot write.

        Raises:
            DataRefused: there is no such file.
        """
        from adbc_driver_sqlite.dbapi import connect

        try:
            opened(self._file).close()
        except OSError as error:
            raise DataRefused(f"cannot read {self._file}: {error.strerror}") from None
        return connect(f"file:{quote(str(self._file))}?mode=ro")

    def names(self, schema: pa.Schema) -> list[str]:
        """Names of columns as the query has them: SQLite calls the second ``id`` of a query ``id:1``."""
        return [base if (base := re.sub(r":\d+$", "", name)) in schema.names else name for name in schema.names]

    def select(self, fields: Sequence[pa.Field], statement: str) -> str:
        """The statement that selects some columns."""
        names = [_quoted(each.name) for each in fields]
        text = "CASE WHEN length(CAST({0} AS BLOB)) > {1} THEN substr({0}, 1, {1} + 1) ELSE CAST({0} AS TEXT) END"
        exact = [
            f"CASE typeof({n}) WHEN 'real' THEN printf('%!.17g', {n}) ELSE {text.format(n, LONGEST_CELL)} END"
            for n in names
        ]
        first = ", ".join(f"'' AS {name}" for name in names)
        return f"SELECT {first} UNION ALL SELECT {', '.join(exact)} FROM {statement}"  # noqa: S608 - party.toml's own


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


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


_PASSING = frozenset({"08", "40", "53", "55", "57", "58"})
"""Classes of SQLSTATE: connections, rollbacks, resources, locks, operators, the system."""

_OF_CELLS = frozenset({"22", "23", "38", "39", "P0"})
"""Classes of errors of data, constraints and functions: their words may quote a cell, also before the first row is sent."""

_TOO_LARGE = ("out of memory", "string or blob too big")
"""Words of SQLite at its limits."""

_LOCKED = "is locked"
"""Words of SQLite about a file that somebody else writes to."""


class SqlReader:
    """Reads a table, or what a query gives.

    Args:
        source: names it.
    """

    def __init__(self, source: SourceSettings) -> None:
        require("adbc_driver_sqlite" if source.database_file else "adbc_driver_postgresql")
        self._source = source
        self._database: Database = PostgreSql(source) if source.database_file is None else Sqlite(source.database_file)

    def header(self) -> list[str]:
        """Names of all columns."""
        return self._database.names(self._schema)

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Rows of some columns."""
        fields = [self._schema.field(name) for name in columns]
        file = self._source.database_file
        yield from bounded(self._selected(fields), self._source.place, None if file is None else file.stat().st_size)

    def _selected(self, fields: list[pa.Field]) -> Iterator[pa.RecordBatch]:
        with self._rows(self._database.select(fields, self._source.statement)) as rows:
            before = self._database.rows_before
            while (batch := self._next(rows)) is not None:
                if batch.num_rows > before:
                    yield batch.slice(before)
                before = 0

    @cached_property
    def _schema(self) -> pa.Schema:
        with self._rows(f"SELECT * FROM {self._source.statement} LIMIT 0") as rows:  # noqa: S608 - party.toml's own
            return rows.schema

    @contextmanager
    def _rows(self, statement: str) -> Iterator[pa.RecordBatchReader]:
        from adbc_driver_manager import Error

        place = self._source.place
        try:
            connection = self._database.connect()
        except Error as error:
            raise PeerUnavailable(f"cannot reach {place}: {_said(error)}") from None
        with connection, connection.cursor() as cursor:
            try:
                for each in self._database.beginning:
                    cursor.execute(each)
                cursor.adbc_statement.set_options(**self._database.options)
                cursor.execute(statement)
                rows = cursor.fetch_record_batch()
            except Error as error:
                raise self._refusal(error) from None
            with rows:
                yield rows

    def _next(self, rows: pa.RecordBatchReader) -> pa.RecordBatch | None:
        try:
            return rows.read_next_batch()
        except StopIteration:
            return None
        except (OSError, pa.ArrowException) as error:
            raise self._too_large(error) or self._stopped() from None

    def _refusal(self, error: Exception) -> DpReleaseError:
        """The error before the first row: a statement that is wrong stays so, a database that is busy or ends does not."""
        from adbc_driver_manager import OperationalError

        state = (getattr(error, "sqlstate", None) or "")[:2]
        passing = isinstance(error, OperationalError) or state in _PASSING or _said(error).endswith(_LOCKED)
        words = (
            "the query fails on what it reads; the database's own log says why" if state in _OF_CELLS else _said(error)
        )
        stopped = self._stopped() if passing else DataRefused(f"{self._source.place}: {words}")
        return self._too_large(error) or stopped

    def _too_large(self, error: Exception) -> DataRefused | None:
        """The refusal of a query that SQLite has no memory for; a database that serves others may have some again later."""
        if self._source.database_file is None or not _said(error).endswith(_TOO_LARGE):
            return None
        return DataRefused(
            f"{self._source.place}: a cell or a step of the query is larger than a table of patients needs"
        )

    def _stopped(self) -> PeerUnavailable:
        return PeerUnavailable(f"{self._source.place}: the database stopped before the last row; its own log says why")


def _said(error: Exception) -> str:
    """The first line of what a database says."""
    line = str(error).partition("\n")[0]
    return re.sub(r"^[A-Z_]+: (\[\w+\] )?", "", " ".join(line.split()))
