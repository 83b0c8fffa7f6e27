"""Databases that cannot be used: one sentence, and never a cell or a password in it; nothing is ever written."""

import logging
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from pydantic import ValidationError

from dprelease.errors import DataRefused, DpReleaseError, InvalidInput, PeerUnavailable
from dprelease.files.settings import read_settings
from party_node.settings import PartySettings
from party_node.source.databases import PostgreSql
from tests.party_node.tables import COLUMNS
from tests.party_node.test_source_refused import MARK
from tests.party_node.test_source_sql import read, settings
from tests.support.databases import Rows, postgres_table, sqlite_table, told
from tests.support.postgres import PASSWORD, Cluster

ROWS: Rows = [(MARK, "0.5", "u"), ("2", "0", "v")]


@pytest.fixture(scope="module")
def url(postgres: Cluster) -> str:
    url = postgres.database()
    postgres_table(url, "patients", "id text, x text, c text", ROWS)
    told(url, "CREATE FUNCTION emptied() RETURNS text LANGUAGE plpgsql AS 'BEGIN DELETE FROM patients; RETURN 1; END'")
    return url


@pytest.fixture(params=["postgresql", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Where a table with two rows is."""
    if request.param == "sqlite":
        return {"url": sqlite_table(tmp_path / "rows.sqlite", "patients", "id, x, c", ROWS)}
    postgres: Cluster = request.getfixturevalue("postgres")
    return postgres.source(request.getfixturevalue("url"))


def refused(folder: Path, caplog: pytest.LogCaptureFixture, **source: Any) -> DpReleaseError:
    """What reading it is refused with; neither that nor the log quotes a cell or the password."""
    caplog.set_level(logging.DEBUG)
    with pytest.raises(DpReleaseError) as caught:
        read(settings(folder, COLUMNS, **source))
    for secret in (MARK, PASSWORD):
        assert secret not in caught.value.message + caplog.text
    return caught.value


FAULTS = {
    "no such table": ({"table": "pacients"}, "pacients"),
    "no such column": ({"query": "SELECT id, x, d FROM patients"}, "d"),
    "a column missing": ({"query": "SELECT id, x FROM patients"}, "the query in * has no column c"),
    "a column twice": ({"query": "SELECT *, 1 AS x FROM patients"}, "the query in * has more than one column x"),
    "no rows": ({"query": "SELECT * FROM patients WHERE x = '7'"}, "the query in * has no rows"),
    "no SQL": ({"query": "all patients"}, "syntax error"),
    "writing": ({"query": "DELETE FROM patients"}, "syntax error"),
    "an identifier twice": ({"query": "SELECT * FROM patients UNION ALL SELECT * FROM patients"}, "2 rows repeat"),
}


def test_what_no_table_can_be_made_of(tmp_path: Path, place: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    for source, words in FAULTS.values():
        error = refused(tmp_path, caplog, **place, **source)
        assert isinstance(error, DataRefused)
        before, _, after = words.partition("*")
        assert before in error.message
        assert after in error.message
    assert read(settings(tmp_path, COLUMNS, **place, table="patients")).alignment.rows == len(ROWS)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM patients; DELETE FROM patients",
        "SELECT * FROM patients) AS source; DELETE FROM patients; --",
        "SELECT * FROM patients) AS source; SELECT * FROM (SELECT * FROM patients",
        "SELECT * FROM patients WHERE c <> ';' /* ; */; SELECT 1",
    ],
)
def test_a_second_statement_is_refused(tmp_path: Path, place: dict[str, str], query: str) -> None:
    with pytest.raises((ValidationError, DataRefused), match=r"one SELECT statement|multiple commands|syntax error"):
        read(settings(tmp_path, COLUMNS, **place, query=query))
    one = "SELECT * FROM patients WHERE c <> ';' /* ; */ -- ;\n;"
    assert read(settings(tmp_path, COLUMNS, **place, query=one)).alignment.rows == len(ROWS)


STOPPED = {
    "a cell that is no number": "SELECT id, x::int AS x, id::int::text AS c FROM patients",
    "a function that writes": "SELECT id, x, emptied() AS c FROM patients",
    "a connection that is cut": """SELECT CASE WHEN i = 200000 THEN pg_terminate_backend(pg_backend_pid())::text
        ELSE i::text END AS id, 0.5 AS x, 'u' AS c FROM generate_series(1, 400000) AS i""",
}


@pytest.mark.parametrize("query", STOPPED.values(), ids=STOPPED)
def test_a_database_that_stops_in_the_middle_is_asked_again(
    tmp_path: Path, postgres: Cluster, url: str, query: str, caplog: pytest.LogCaptureFixture
) -> None:
    error = refused(tmp_path, caplog, **postgres.source(url), query=query)
    assert isinstance(error, PeerUnavailable)
    assert "the database stopped before the last row" in error.message
    assert read(settings(tmp_path, COLUMNS, **postgres.source(url), table="patients")).alignment.rows == len(ROWS)


def test_a_function_that_fails_before_the_first_row_quotes_no_cell(
    tmp_path: Path, postgres: Cluster, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    told(
        url,
        "CREATE FUNCTION wrong() RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT max(id)::int FROM patients WHERE x > $$$$'",
    )
    error = refused(tmp_path, caplog, **postgres.source(url), query="SELECT id, wrong() AS x, c FROM patients")
    assert isinstance(error, DataRefused)
    assert "the database's own log says why" in error.message


@pytest.mark.parametrize("error", ["json_extract('{}', (SELECT id FROM patients))", "json_extract('{}', id)"])
def test_an_error_of_sqlite_quotes_no_cell(tmp_path: Path, error: str, caplog: pytest.LogCaptureFixture) -> None:
    url = sqlite_table(tmp_path / "rows.sqlite", "patients", "id, x, c", ROWS)
    refusal = refused(tmp_path, caplog, url=url, query=f"SELECT id, {error} AS x, c FROM patients")  # noqa: S608
    assert isinstance(refusal, DataRefused)
    assert "run it in the shell of SQLite" in refusal.message


@pytest.mark.parametrize(
    "data", [f"{PASSWORD}\n".encode("utf-16-le"), f"{PASSWORD}\n".encode("utf-16"), b"\xff" + PASSWORD.encode()]
)
def test_a_password_that_is_no_plain_text_is_not_quoted(
    tmp_path: Path, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "password").write_bytes(data)
    (tmp_path / "password").chmod(0o600)
    place = {"url": "postgresql://node@127.0.0.1:1/clinic", "password_file": str(tmp_path / "password")}
    error = refused(tmp_path, caplog, **place, table="patients")
    assert isinstance(error, DataRefused)
    assert "write the password alone into it" in error.message


def test_a_password_may_begin_with_a_mark_of_the_byte_order(tmp_path: Path, postgres: Cluster, url: str) -> None:
    kept = tmp_path / "kept"
    kept.write_text(PASSWORD, encoding="utf-8-sig")
    kept.chmod(0o600)
    place = {**postgres.source(url), "password_file": str(kept)}
    assert read(settings(tmp_path, COLUMNS, **place, table="patients")).alignment.rows == len(ROWS)


def test_a_database_that_does_not_answer(tmp_path: Path, postgres: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text(f"{PASSWORD}!\n")
    wrong.chmod(0o600)
    for source, words in (
        ({"url": "postgresql://node@127.0.0.1:1/clinic"}, "127.0.0.1"),
        (postgres.source(postgres.url("absent")), '"absent" does not exist'),
        ({**postgres.source(postgres.url("postgres")), "password_file": str(wrong)}, "password authentication failed"),
    ):
        error = refused(tmp_path, caplog, **source, table="patients")
        assert isinstance(error, PeerUnavailable)
        assert error.message.startswith("cannot reach patients in postgresql://")
        assert words in error.message


@pytest.mark.parametrize(
    ("url", "mode"),
    [
        ("postgresql://node@db.example.org/clinic", "verify-full"),
        ("postgresql://node@127.0.0.1:5432,db.example.org/clinic", "verify-full"),
        ("postgresql:///clinic?host=db", "verify-full"),
        ("postgresql://node@db.example.org/clinic?sslmode=require", "require"),
        ("postgresql://node@127.0.0.1:5432/clinic", None),
        ("postgresql://localhost/clinic", None),
        ("postgresql:///clinic?host=%2Frun%2Fpostgresql", None),
        ("postgresql:///clinic", None),
    ],
)
def test_over_a_network_a_certificate_is_checked(
    tmp_path: Path, url: str, mode: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGSSLMODE", raising=False)
    database = PostgreSql(settings(tmp_path, COLUMNS, url=url, table="t").source)
    assert dict(parse_qsl(urlsplit(database.uri()).query)).get("sslmode") == mode
    monkeypatch.setenv("PGSSLMODE", "disable")
    assert ("sslmode" in database.uri()) == ("sslmode" in url)


def test_the_password_comes_from_where_others_cannot_read(
    tmp_path: Path, postgres: Cluster, url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = postgres.source(url)["url"]

    def rows(**more: str) -> int:
        return read(settings(tmp_path, COLUMNS, url=bare, table="patients", **more)).alignment.rows

    with monkeypatch.context() as patch:
        patch.setenv("PGPASSWORD", PASSWORD)
        assert rows() == len(ROWS)
    passes = tmp_path / "pgpass"
    passes.write_text(f"*:*:*:*:{PASSWORD}\n")
    passes.chmod(0o600)
    with monkeypatch.context() as patch:
        patch.setenv("PGPASSFILE", str(passes))
        assert rows() == len(ROWS)
    passes.chmod(0o640)
    error = refused(tmp_path, caplog, url=bare, table="patients", password_file=str(passes))
    assert f"chmod 600 {passes}" in error.message
    assert "No such file" in refused(tmp_path, caplog, url=bare, table="patients", password_file="/absent").message


def test_files_that_are_no_database(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    url = f"sqlite:///{tmp_path / 'rows.sqlite'}"
    assert "No such file" in refused(tmp_path, caplog, url=url, table="patients").message
    assert not (tmp_path / "rows.sqlite").exists()
    (tmp_path / "rows.sqlite").write_text(f"id,x,c\n{MARK},0,u\n" * 99)
    assert "not a database" in refused(tmp_path, caplog, url=url, table="patients").message


def test_a_file_that_is_locked_is_asked_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    url = sqlite_table(tmp_path / "rows.sqlite", "patients", "id, x, c", ROWS)
    lock = "import sqlite3, sys; sqlite3.connect('rows.sqlite').execute('BEGIN EXCLUSIVE'); print(flush=True); sys.stdin.read()"
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", lock], cwd=tmp_path, stdin=pipe, stdout=pipe
    ) as other:  # locks are a process's
        assert other.stdout is not None
        other.stdout.readline()
        assert isinstance(refused(tmp_path, caplog, url=url, table="patients"), PeerUnavailable)
    assert read(settings(tmp_path, COLUMNS, url=url, table="patients")).alignment.rows == len(ROWS)


def test_a_file_that_somebody_writes_to_is_read_as_it_was(tmp_path: Path) -> None:
    url = sqlite_table(tmp_path / "rows.sqlite", "patients", "id, x, c", ROWS)
    with closing(sqlite3.connect(tmp_path / "rows.sqlite")) as writer:
        writer.execute("PRAGMA journal_mode = wal")
        writer.execute("INSERT INTO patients VALUES ('3', 0, 'u')")
        assert read(settings(tmp_path, COLUMNS, url=url, table="patients")).alignment.rows == len(ROWS)
        writer.commit()
        assert read(settings(tmp_path, COLUMNS, url=url, table="patients")).alignment.rows == len(ROWS) + 1


POSTGRES = {"url": "postgresql://node@db/clinic"}
SETTINGS = {
    "nowhere": ({}, "name either path, a file, or url, a database"),
    "in two places": ({"path": "rows.csv", **POSTGRES, "table": "t"}, "name either path"),
    "no table": (POSTGRES, "either table = "),
    "a table and a query": ({**POSTGRES, "table": "t", "query": "SELECT 1"}, "either table = "),
    "a table of a file": ({"path": "rows.csv", "table": "t"}, "belong to a database"),
    "an order": ({**POSTGRES, "table": "t", "batch_rows": 9}, "have no order; name a column, batch"),
    "a format": ({**POSTGRES, "table": "t", "format": "csv"}, "format and batch_rows belong to files"),
    "a password": ({"url": f"postgresql://node:{MARK}@db/clinic", "table": "t"}, "take the password out"),
    "a password behind": ({"url": f"postgresql://db/clinic?password={MARK}", "table": "t"}, "take the password out"),
    "a password of a file": ({"url": "sqlite:///rows.sqlite", "table": "t", "password_file": "p"}, "has no password"),
    "another database": ({"url": "mysql://db/clinic", "table": "t"}, "a database is postgresql://"),
    "a file without a name": ({"url": "sqlite:///", "table": "t"}, "a database is postgresql://"),
    "more than a name": ({**POSTGRES, "table": "t; DROP TABLE t"}, "pattern"),
}


@pytest.mark.parametrize(("source", "words"), SETTINGS.values(), ids=SETTINGS)
def test_settings_that_name_no_place(tmp_path: Path, source: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        settings(tmp_path, COLUMNS, **source)


def test_settings_are_told_without_the_password_and_from_their_folder(tmp_path: Path) -> None:
    head = 'name = "north"\nroster = "cohort"\n[columns.x]\nkind = "numeric"\nlower = 0\nupper = 1\n[source]\nsubject = "id"\n'

    def told(lines: str) -> PartySettings:
        (tmp_path / "party.toml").write_text(head + lines)
        return read_settings(tmp_path / "party.toml", PartySettings)

    with pytest.raises(DpReleaseError) as caught:
        told(f'url = "postgresql://node:{MARK}@db/clinic"\ntable = "t"\n')
    assert MARK not in caught.value.message
    source = told('url = "sqlite:///rows.sqlite"\ntable = "main.t"\n').source
    assert source.database_file == tmp_path / "rows.sqlite"
    source = told(
        'url = "postgresql://node@db:5433/clinic?sslmode=require"\nquery = "SELECT 1"\npassword_file = "p"\n'
    ).source
    assert (source.place, source.password_file) == ("the query in postgresql://db:5433/clinic", tmp_path / "p")


def test_a_driver_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", None)
    described = settings(tmp_path, COLUMNS, url="postgresql:///clinic", table="t")
    with pytest.raises(InvalidInput, match=r"comes with the extra sql: pip install 'dprelease\[sql\]'"):
        read(described)
