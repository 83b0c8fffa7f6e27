"""`[source]` of party.toml where rows are in a database."""

from __future__ import annotations

from pathlib import Path
from sqlite3 import complete_statement
from typing import Annotated
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, Field, ValidationInfo

from dprelease.files.settings import LocalPath, Settings

_FILE = "sqlite:///"


def _url(url: str, info: ValidationInfo) -> str:
    """A URL that says where, and not with which password; a relative file starts at the folder of the settings file."""
    if url.startswith(_FILE) and url != _FILE:
        base: Path | None = (info.context or {}).get("base")
        file = Path(url.removeprefix(_FILE)).expanduser()
        return f"{_FILE}{file if base is None else base / file}"
    if not url.startswith(("postgresql://", "postgres://")):
        raise ValueError("a database is postgresql://user@host/name or sqlite:////folder/file.sqlite")
    parts = urlsplit(url)
    if parts.password is not None or "password" in dict(parse_qsl(parts.query)):
        raise ValueError(
            "take the password out: name a file with password_file, which its owner alone may read, or use PGPASSWORD or ~/.pgpass"
        )
    return url


class DatabaseSettings(Settings):
    """Rows that a database has.

    Attributes:
        url: ``postgresql://user@host/name`` or ``sqlite:////folder/file.sqlite``, without a password.
        table: a table or view of it, with its schema where it needs one.
        query: instead of it, one SELECT statement.
        password_file: file that has the password alone; its owner alone may read it.
        refresh_seconds: how often a daemon looks whether rows in PostgreSQL changed.
    """

    url: Annotated[str, AfterValidator(_url)] | None = None
    table: Annotated[str, Field(pattern=r"^[^\W\d]\w*(\.[^\W\d]\w*){0,2}$")] | None = None
    query: Annotated[str, Field(pattern=r"\S")] | None = None
    password_file: LocalPath | None = None
    refresh_seconds: Annotated[float, Field(gt=0)] = 3600.0

    @property
    def statement(self) -> str:
        """The text that rows are selected from, as it stands behind FROM."""
        if self.table is not None:
            return self.table
        query = _bare(self.query or "")
        return f"({query}\n) AS source"  # a comment may end the query

    @property
    def database_file(self) -> Path | None:
        """The file that is the database."""
        return Path(self.url.removeprefix(_FILE)) if self.url is not None and self.url.startswith(_FILE) else None

    @property
    def refreshed(self) -> bool:
        """Tells whether only reading the rows tells that they changed."""
        return self.url is not None and self.database_file is None

    def check_place(self, path: Path | None) -> None:
        """Refuse rows that are in two places, or in none; raises `ValueError`."""
        if (path is None) == (self.url is None):
            raise ValueError("name either path, a file, or url, a database")
        if self.url is not None and (self.table is None) == (self.query is None):
            raise ValueError('with url name either table = "schema.name" or query = "SELECT ..."')
        if self.url is None and (self.table, self.query, self.password_file) != (None, None, None):
            raise ValueError("table, query and password_file belong to a database: name it with url")
        if self.database_file is not None and _ends_within(self.query or ""):
            raise ValueError("query is one SELECT statement; take out what stands behind its semicolon")
        if self.password_file is not None and self.database_file is not None:
            raise ValueError("a file of SQLite has no password: leave out password_file")

    def words(self) -> str:
        """The place in the database, without user and options."""
        whole = urlsplit(self.url or "")
        host = whole.netloc.rpartition("@")[2]
        return f"{self.table or 'the query'} in {whole.scheme}://{host}{whole.path}"


def _bare(query: str) -> str:
    return query.strip().rstrip(";")


def _ends_within(query: str) -> bool:
    """Tells whether a statement ends before the query does: SQLite would do that one, and leave the rest out without a word."""
    bare = _bare(query)
    return any(letter == ";" and complete_statement(bare[: place + 1]) for place, letter in enumerate(bare))
