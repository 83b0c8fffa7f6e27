"""A daemon notices that rows changed: files say so, SQLite's too; rows in PostgreSQL are read again now and then."""

import errno
import json
import logging
import os
import sqlite3
import threading
import traceback
from contextlib import closing
from pathlib import Path

import pytest

from dprelease.errors import DataRefused, PeerUnavailable
from party_node.upkeep import TableReport
from tests.party_node.world import ROWS, Hospital, World, rows_of
from tests.support.databases import postgres_table, sqlite_table, told
from tests.support.postgres import Cluster

REFRESH = 600.0


class Reports:
    """The north's reports, by a clock that is set by hand."""

    def __init__(self, world: World) -> None:
        self.world, self.now = world, 0.0
        self.table = TableReport(world.north.hospital_state(), clock=lambda: self.now)

    def look(self, seconds: float) -> int:
        """Look once more after so many seconds; how many rows were reported last."""
        self.now += seconds
        with self.world.north.dialled() as coordinator:
            self.table.refresh(coordinator)
        return len(self.world.coordinator.heard("ReportCatalogue"))


def moved(hospital: Hospital, *lines: str) -> None:
    """Its rows are in a database from now on."""
    hospital.edit('^path = "rows.csv"$', "\n".join(lines))


def cells() -> list[list[str]]:
    return [line.split(",") for line in rows_of("north")[1:]]


@pytest.fixture
def url(world: World, postgres: Cluster) -> str:
    url = postgres.database()
    postgres_table(url, "patients", "patient text, age numeric, sex text", cells())
    place = postgres.source(url)
    lines = [f'{key} = "{text}"' for key, text in place.items()]
    moved(world.north, *lines, 'table = "patients"', f"refresh_seconds = {REFRESH}")
    return url


def test_rows_in_postgresql_are_read_again_now_and_then(world: World, url: str) -> None:
    reports = Reports(world)
    assert reports.look(0) == 1
    told(url, "DELETE FROM patients WHERE patient = 'subject-0000'")
    assert reports.look(REFRESH - 1) == 1
    assert reports.look(1) == 2
    assert reports.look(REFRESH - 1) == 2
    first, second = world.coordinator.heard("ReportCatalogue")
    assert (b'"rows":%d' % ROWS in first, b'"rows":%d' % (ROWS - 1) in second) == (True, True)


def test_a_database_that_is_away_is_asked_again_soon(world: World, url: str, caplog: pytest.LogCaptureFixture) -> None:
    told(url, "ALTER TABLE patients RENAME TO gone")
    reports = Reports(world)
    for seconds, tried in ((0, 1), (59, 1), (1, 2)):
        assert reports.look(seconds) == 0
        assert len([each for each in caplog.records if each.levelno == logging.ERROR]) == tried
    told(url, "ALTER TABLE gone RENAME TO patients")
    assert reports.look(60) == 1


def test_a_change_in_sqlite_is_seen_at_once(world: World) -> None:
    file: Path = world.north.folder / "rows.sqlite"
    sqlite_table(file, "patients", "patient, age, sex", cells())
    moved(world.north, 'url = "sqlite:///rows.sqlite"', 'table = "patients"')
    reports = Reports(world)
    assert (reports.look(0), reports.look(1e9)) == (1, 1)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("DELETE FROM patients WHERE patient = 'subject-0000'")
        connection.commit()
        assert reports.look(0) == 2
    assert b'"rows":%d' % (ROWS - 1) in world.coordinator.heard("ReportCatalogue")[-1]


def reported_without(reports: Reports, caplog: pytest.LogCaptureFixture, words: str) -> None:
    """A look that reports nothing, says why and goes on."""
    caplog.clear()
    before = len(reports.world.coordinator.heard("ReportCatalogue"))
    assert reports.look(1) == before
    (said,) = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert said.startswith("the table was not reported: ")
    assert words in said


def test_a_table_that_becomes_a_pipe_holds_up_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    reports, file = Reports(world), world.north.source
    assert reports.look(0) == 1
    rows = file.read_bytes()
    file.unlink()
    os.mkfifo(file)
    reported_without(reports, caplog, "it is a pipe, a device or a folder")
    file.unlink()
    file.write_bytes(rows)
    assert reports.look(1) == 2


def test_one_cell_beyond_all_floats_in_a_column_of_bands_is_unreadable_and_no_more(world: World) -> None:
    world.north.edit("^upper = 120", "upper = 120\nbands = true")
    reports, file = Reports(world), world.north.source
    assert reports.look(0) == 1
    first, second, *others = file.read_text().splitlines()
    patient, _, sex = second.split(",")
    file.write_text("\n".join([first, f"{patient},1e999,{sex}", *others]) + "\n")
    assert reports.look(1) == 2
    assert json.loads((world.north.folder / "state/findings.json").read_text())["age"]["unreadable"] == 1


def test_an_unforeseen_error_of_reading_is_told_by_class_and_place_and_ends_no_daemon(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise ValueError("Erika-Mustermann-4711")

    reports = Reports(world)
    monkeypatch.setattr("party_node.source.table.bound", failing)
    reported_without(reports, caplog, "the table cannot be read: unforeseen ValueError in failing; tell the makers")
    with pytest.raises(DataRefused, match="unforeseen ValueError in failing") as start:
        world.north.daemon().run(threading.Event())
    assert "Erika" not in caplog.text + "".join(traceback.format_exception(start.value))
    monkeypatch.undo()
    assert reports.look(1) == 0  # the file is as it was
    assert reports.look(60) == 1


def test_a_full_disk_is_told_and_the_table_is_read_again_later(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []

    def full(*_: object, **__: object) -> None:
        reads.append(1)
        raise OSError(errno.ENOSPC, "No space left on device")

    reports, state = Reports(world), world.north.folder / "state"
    monkeypatch.setattr("party_node.source.scan.read_rows", full)  # the source is no file of ours
    assert reports.look(0) == 0
    assert "no room" not in caplog.text
    monkeypatch.undo()
    reads.clear()
    reports = Reports(world)
    monkeypatch.setattr("dprelease.files.unnamed.TemporaryFile", full)
    reported_without(reports, caplog, f"the folder {state} has no room for the sorted rows: No space left on device")
    assert (reports.look(1), len(reads)) == (0, 1)
    with pytest.raises(PeerUnavailable, match="no room for the sorted rows"):
        world.north.daemon().run(threading.Event())
    monkeypatch.undo()
    assert reports.look(60) == 1
