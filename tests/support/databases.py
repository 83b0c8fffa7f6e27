"""Tables in real databases, made with other clients than the one that reads them where there is one."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

Rows = Sequence[Sequence[object]]


def told(url: str, *statements: str) -> None:
    """Have PostgreSQL do statements, and keep what they did."""
    from adbc_driver_postgresql.dbapi import connect

    with connect(f"{url}&client_encoding=UTF8", autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def postgres_table(url: str, name: str, columns: str, rows: Rows) -> None:
    """A table of PostgreSQL.

    Args:
        url: of the database.
        name: of the table.
        columns: names and types, as in CREATE TABLE.
        rows: cells; None is NULL.
    """
    values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
    filled = [f"INSERT INTO {name} VALUES {values}"] if rows else []  # noqa: S608
    told(url, f"CREATE TABLE {name} ({columns})", *filled)


def sqlite_table(path: Path, name: str, columns: str, rows: Rows) -> str:
    """A table of a SQLite file; the file's URL."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE {name} ({columns})")
        holes = ", ".join("?" for _ in columns.split(","))
        connection.executemany(f"INSERT INTO {name} VALUES ({holes})", rows)  # noqa: S608
    return f"sqlite:///{path}"


def _literal(cell: object) -> str:
    if cell is None:
        return "NULL"
    return repr(cell) if isinstance(cell, int | float) else "'" + str(cell).replace("'", "''") + "'"
