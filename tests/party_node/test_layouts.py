"""A hospital's SQLite files as an older and a newer version of the software left them."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.canonical import read_data
from dprelease.errors import IntegrityError, InvalidInput
from dprelease.intersection.task import Task
from party_node.state import journal as journal_module
from party_node.state.journal import Journal, Record, Status
from party_node.state.ledger import Ledger
from party_node.state.session import UsedSeeds
from tests.party_node.world import PowerCut
from tests.support.specs import build_spec

RELEASES = """
CREATE TABLE releases (
    release TEXT PRIMARY KEY, spec BLOB NOT NULL, status TEXT NOT NULL, note TEXT NOT NULL, seen TEXT NOT NULL,
    changed TEXT NOT NULL, codes TEXT, salt BLOB, approval BLOB
);
CREATE INDEX releases_by_status ON releases (status);
CREATE TABLE review_calls (release TEXT PRIMARY KEY);
"""
RUNS = """
CREATE TABLE runs (
    run TEXT PRIMARY KEY, task BLOB NOT NULL, status TEXT NOT NULL, note TEXT NOT NULL, seen TEXT NOT NULL,
    changed TEXT NOT NULL, acceptance BLOB, common INTEGER, roster TEXT, version INTEGER UNIQUE, secret BLOB
);
CREATE INDEX runs_by_status ON runs (status);
"""
"""Tables of layout 1, as they were written: releases and alignment runs had a file each."""

SPECS = [build_spec(title=title) for title in ("one", "two")]
TASKS = [
    read_data(
        Task,
        {
            "consortium": "trial",
            "roster": "cohort",
            "members": [{"party": name, "key": digit * 64, "patients": 40} for name, digit in (("a", "1"), ("b", "2"))],
            "nonce": nonce * 64,
            "created": "2026-01-01T00:00:00Z",
            "expires": "2026-01-02T00:00:00Z",
        },
        "the task",
    )
    for nonce in "34"
]
FIRST, LAST = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
KEPT = [
    Record(SPECS[0].digest(), SPECS[0], Status.WAITING, "pin a key", FIRST, LAST),
    Record(SPECS[1].digest(), SPECS[1], Status.APPROVED, "", FIRST, LAST, b"approval", "cd" * 32, b"salt"),
    Record(TASKS[0].digest(), TASKS[0], Status.IN_FORCE, "", FIRST, LAST, b"yes", None, None, 3, "ef" * 32, 1, b"key"),
    Record(TASKS[1].digest(), TASKS[1], Status.APPROVED, "waits for the others", FIRST, LAST, b"acceptance"),
]
"""What these files held, as it is read now."""

take_over = journal_module._take_over


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """What a node kept before its files had numbers of layouts."""
    Ledger(tmp_path / "ledger.sqlite").open("cohort", Fraction(1, 3))
    UsedSeeds(tmp_path / "seeds.sqlite").use(["ab" * 32], "session", "")
    number(tmp_path, 0)
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as db, db:
        db.executescript(RELEASES)
        for kept in KEPT[:2]:
            row = (kept.digest, kept.spec.to_bytes(), kept.status.value, kept.note, FIRST, LAST)
            db.execute(
                "INSERT INTO releases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, kept.codes, kept.salt, kept.consent)
            )
        db.execute("INSERT INTO review_calls VALUES (?)", (KEPT[0].digest,))
    with closing(sqlite3.connect(tmp_path / "alignments.sqlite")) as db, db:
        db.executescript(f"{RUNS}; PRAGMA user_version = 1")
        for kept, status in zip(KEPT[2:], ("in force", "signed"), strict=True):
            more = (kept.consent, kept.common, kept.roster, kept.version, kept.secret)
            row = (kept.digest, kept.task.to_bytes(), status, kept.note, FIRST, LAST)
            db.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, *more))
    return tmp_path


def number(state: Path, layout: int) -> None:
    for path in state.glob("*.sqlite"):
        with closing(sqlite3.connect(path)) as db:
            db.execute(f"PRAGMA user_version = {layout}")


def test_what_an_older_node_kept_counts(state: Path) -> None:
    ledger = Ledger(state / "ledger.sqlite")
    assert ledger.balance("cohort").cap == Fraction(1, 3)
    ledger.verify()
    with pytest.raises(IntegrityError, match="used before"):
        UsedSeeds(state / "seeds.sqlite").use(["ab" * 32], "another session", "")
    for _ in range(2):
        check_journal(state)
    for name, layout in (("ledger", 1), ("seeds", 1), ("journal", 2)):
        with closing(sqlite3.connect(state / f"{name}.sqlite")) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (layout,)


def check_journal(state: Path) -> None:
    journal = Journal(state / "journal.sqlite")
    assert [*journal.releases(), *journal.runs()] == KEPT
    assert not journal.first_call(KEPT[0].digest)
    assert journal.in_force("cohort") == KEPT[2]
    assert not (state / "alignments.sqlite").exists()


@pytest.mark.parametrize("step", ["transaction", "sync_folder"])
def test_a_journal_that_was_being_taken_over_is_taken_over_once(
    state: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends in the middle of the transaction, or between it and the removal of the older file."""

    def ends(*_: object, **__: object) -> None:
        raise PowerCut

    with monkeypatch.context() as patch:
        if step == "transaction":
            patch.setattr(journal_module, "_take_over", lambda db, older: (take_over(db, older), ends()))
        else:
            patch.setattr(Path, "unlink", ends)
        with pytest.raises(PowerCut):
            Journal(state / "journal.sqlite")
    assert (state / "alignments.sqlite").exists()
    check_journal(state)


def test_another_process_may_remove_the_older_file_first(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unlink = Path.unlink
    monkeypatch.setattr(Path, "unlink", lambda path, **given: (unlink(path), unlink(path, **given)))
    check_journal(state)


def test_a_node_that_never_aligned_has_no_older_file(state: Path) -> None:
    (state / "alignments.sqlite").unlink()
    assert [*Journal(state / "journal.sqlite").releases()] == KEPT[:2]
    assert Journal(state / "journal.sqlite").runs() == []


@pytest.mark.parametrize(
    ("name", "open_it"), [("ledger.sqlite", Ledger), ("journal.sqlite", Journal), ("seeds.sqlite", UsedSeeds)]
)
def test_what_a_newer_node_kept_is_refused_and_left_alone(
    state: Path, name: str, open_it: Callable[[Path], object]
) -> None:
    number(state, 3)
    before = (state / name).read_bytes()
    with pytest.raises(InvalidInput, match=rf"{name} has layout 3, .* update party-node"):
        open_it(state / name)
    assert (state / name).read_bytes() == before
