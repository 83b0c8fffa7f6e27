"""Tables and queries of a database, in one transaction that only reads.

Nothing of a row stands in an error: what a database says is told only as long as it has not read any.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

import pyarrow as pa

from dprelease.errors import DataRefused, DpReleaseError, PeerUnavailable
from dprelease.files.extras import require
from party_node.settings import SourceSettings
from party_node.source.databases import Database, PostgreSql, Sqlite
from party_node.source.limits import bounded

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
