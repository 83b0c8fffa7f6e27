"""Differences between PostgreSQL and SQLite: connections, and columns as cells are read."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import pyarrow as pa

from dprelease.errors import DataRefused
from party_node.settings import SourceSettings
from party_node.source.limits import LONGEST_CELL, opened


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
