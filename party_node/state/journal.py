"""Knowledge of the hospital about all that it was offered: its own record, which no coordinator can change.

SQLite beside the ledger, with a row for each release and each alignment run. The daemon and the `review` command meet here: a
person's decision is a status that the daemon acts on. The patients that a run found to be common to all its hospitals are a file
of pseudonyms under `rosters/`, in rising order; the record has its SHA-256. Runs that all hospitals finished are versions 1, 2,
3, ... of the table's patients; the highest one is in force.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Set
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from dprelease.arrays import mapped, sha256_by_piece
from dprelease.canonical import HashedPieces
from dprelease.errors import Conflict, IntegrityError, InvalidInput, NotFound, PeerUnavailable
from dprelease.files.durable import sync_folder, write_secret
from dprelease.intersection.task import Task
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import instant
from party_node.state.transactions import prepare, transaction

PUBLISHED = "published"
"""The journal's note on a release that the coordinator reported as published."""

MOST_UNDECIDED = 50
"""Proposals of one kind that wait here for a person: more than one decides on in a day. Further ones wait at the office."""

Proposed = ReleaseSpec | Task


class Status(StrEnum):
    """State of a release or an alignment run here."""

    WAITING = "waiting"  # for a person
    ACCEPTED = "accepted"  # decided; the consent is not signed yet
    APPROVED = "approved"  # signed; waits for the others, or is being computed
    DECLINED = "declined"
    SEALED = "sealed"  # the block is frozen on disk
    DELIVERED = "delivered"  # the hub holds it
    FINISHED = "finished"  # the common patients are on disk; waits for the others
    IN_FORCE = "in force"  # all hospitals have them: a version
    ENDED = "ended"  # over, published or not


FINAL = frozenset({Status.IN_FORCE, Status.DECLINED, Status.ENDED})
UNDER_WAY = frozenset({Status.ACCEPTED, Status.APPROVED, Status.SEALED, Status.DELIVERED, Status.FINISHED})

LAYOUT = 2
_COLUMNS = "digest, kind, proposal, status, note, seen, changed, consent, codes, salt, common, roster, version, secret"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS offers (
    digest TEXT PRIMARY KEY, kind TEXT NOT NULL, proposal BLOB NOT NULL, status TEXT NOT NULL, note TEXT NOT NULL,
    seen TEXT NOT NULL, changed TEXT NOT NULL, consent BLOB, codes TEXT, salt BLOB,
    common INTEGER, roster TEXT, version INTEGER UNIQUE, secret BLOB
);
CREATE INDEX IF NOT EXISTS offers_by_status ON offers (kind, status);
CREATE TABLE IF NOT EXISTS review_calls (release TEXT PRIMARY KEY)
"""


@dataclass(frozen=True)
class Record:
    """One release or alignment run.

    Attributes:
        digest: of the proposal: its identity.
        proposal: the spec or the task itself.
        status: where it stands here.
        note: why, in words; local.
        seen: first offered at.
        changed: last change at.
        consent: canonical bytes of our signed approval or acceptance.
        codes: of a release, digest of the quantised, ordered columns, recorded at approval.
        salt: of the commitment to it; secret.
        common: of a run, how many of our patients all hospitals have; None before that is known.
        roster: SHA-256 of the file of their pseudonyms.
        version: 1, 2, 3, ...; None unless all hospitals finished the run.
        secret: 32 bytes that the hospitals of the run know and nobody else; None before it is finished.
    """

    digest: str
    proposal: Proposed
    status: Status
    note: str
    seen: str
    changed: str
    consent: bytes | None = None
    codes: str | None = None
    salt: bytes | None = None
    common: int | None = None
    roster: str | None = None
    version: int | None = None
    secret: bytes | None = None

    @property
    def spec(self) -> ReleaseSpec:
        """The spec of a release."""
        assert isinstance(self.proposal, ReleaseSpec), self.name  # noqa: S101 - callers know the kind
        return self.proposal

    @property
    def task(self) -> Task:
        """The task of an alignment run."""
        assert isinstance(self.proposal, Task), self.name  # noqa: S101 - callers know the kind
        return self.proposal

    @property
    def name(self) -> str:
        """Its name, for people."""
        return f"{self.proposal.noun} {self.digest[:12]}"


class Journal:
    """The party's own record of releases and alignment runs.

    Args:
        path: SQLite file; made if absent. `rosters/` is made beside it when it is needed.
    """

    def __init__(self, path: Path) -> None:
        self._transaction = partial(transaction, path)
        self._rosters = path.with_name("rosters")
        self._taken: dict[str, ReleaseSpec] = {}
        older = path.with_name("alignments.sqlite")
        prepare(path, _SCHEMA, LAYOUT, partial(_take_over, older=older))
        if older.exists():
            older.unlink(missing_ok=True)  # all of it is in the journal since the layout has its number
            sync_folder(older.parent)

    def releases(self) -> list[Record]:
        """All releases, oldest first."""
        return self._select("kind = ?", ReleaseSpec.noun)

    def runs(self) -> list[Record]:
        """All alignment runs, oldest first."""
        return self._select("kind = ?", Task.noun)

    def find(self, prefix: str) -> Record:
        """The one whose digest begins so.

        Raises:
            NotFound: there is none.
            InvalidInput: there are several.
        """
        start = prefix.lower()
        found = self._select("digest >= ? AND digest < ?", start, f"{start}g")  # by the index: g follows all digits
        if not found:
            raise NotFound(f"no release and no alignment run {prefix} was offered here; see: party-node review list")
        if len(found) > 1:
            raise InvalidInput(f"{prefix} fits {len(found)} of those that were offered here; give more digits")
        return found[0]

    def get(self, digest: str) -> Record | None:
        """The one of this whole digest, or None."""
        return next(iter(self._select("digest = ?", digest)), None)

    def standing(self, *kinds: type[Proposed]) -> dict[str, str]:
        """Status of every one of some kinds, or of all, that is not over, by its digest; no proposal is read."""
        nouns = ", ".join(f"'{kind.noun}'" for kind in kinds or (ReleaseSpec, Task))
        query = f"SELECT digest, status FROM offers WHERE kind IN ({nouns}) AND {_one_of(set(Status) - FINAL)}"  # noqa: S608
        with self._transaction() as db:
            return dict(db.execute(query))

    def taken(self, known: Iterable[str]) -> list[Record]:
        """Releases that are under way here, and some others, oldest first. Nothing is read of what else was offered.

        Args:
            known: digests of the others: those that the ledger knows, or that something is kept of.
        """
        others = "digest IN (SELECT value FROM json_each(?))"  # each side of OR has an index of its own
        found = self._select(f"kind = ? AND {_one_of(UNDER_WAY)} OR {others}", ReleaseSpec.noun, json.dumps([*known]))
        self._taken = {record.digest: record.spec for record in found}  # to read a spec takes longer than all else
        return found

    def page(self, number: int) -> tuple[list[Record], int]:
        """A page of all, oldest first, and how many there are. Page 1 has those that wait, the runs, and the newest."""
        size = MOST_UNDECIDED
        first = f"status = '{Status.WAITING}' DESC, kind = '{Task.noun}' DESC, seen DESC, rowid DESC"
        query = f"SELECT {_COLUMNS} FROM offers ORDER BY {first} LIMIT ? OFFSET ?"  # noqa: S608 - the text is ours
        with self._transaction() as db:
            rows = db.execute(query, (size, size * (number - 1))).fetchall()
            (count,) = db.execute("SELECT COUNT(*) FROM offers").fetchone()
        return [self._read(row) for row in reversed(rows)], count

    def offer(self, proposal: Proposed, status: Status = Status.WAITING, note: str = "new") -> Record:
        """Note what was offered for the first time; offering it again changes nothing."""
        digest, now = proposal.digest(), instant(datetime.now(UTC))
        values = (digest, proposal.noun, proposal.to_bytes(), status, note, now, now)
        columns = "digest, kind, proposal, status, note, seen, changed"
        with self._transaction() as db:
            db.execute(f"INSERT OR IGNORE INTO offers ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", values)  # noqa: S608
        return self.find(digest)

    def forget(self, digest: str) -> None:
        """Remove one on which nothing was decided; of any other nothing is removed."""
        with self._transaction() as db:
            db.execute("DELETE FROM offers WHERE digest = ? AND status = ?", (digest, Status.WAITING))

    def move(self, digest: str, before: Set[Status], status: Status, note: str = "") -> None:
        """Move one on; raises `Conflict` if it does not stand where the caller believes."""
        self._update(digest, before, "status = ?, note = ?", status, note)

    def annotate(self, digest: str, note: str) -> None:
        """Say in words why one is not moving; what is over keeps its last words, and a full disk takes none."""
        change = f"UPDATE offers SET note = ? WHERE digest = ? AND NOT {_one_of(FINAL)}"  # noqa: S608 - the text is ours
        with suppress(PeerUnavailable), self._transaction() as db:
            db.execute(change, (note, digest))

    def first_call(self, digest: str) -> bool:
        """Note that somebody is told of a review; False if that was noted before."""
        with self._transaction() as db:
            return db.execute("INSERT OR IGNORE INTO review_calls VALUES (?)", (digest,)).rowcount == 1

    def commit(self, release: str, codes: str, salt: bytes) -> None:
        """Record the digest of the columns that an approval covers, once.

        Raises:
            Conflict: another digest was recorded before.
        """
        with self._transaction() as db:
            row = db.execute("SELECT codes FROM offers WHERE digest = ?", (release,)).fetchone()
            if row is None or row[0] not in (None, codes):
                raise Conflict(f"release {release[:12]} was approved over other data")
            if row[0] is None:
                db.execute("UPDATE offers SET codes = ?, salt = ? WHERE digest = ?", (codes, salt, release))

    def sign(self, digest: str, consent: bytes) -> None:
        """Keep our signed consent; raises `Conflict` if it is no longer accepted here, and the consent must not be sent."""
        change = "consent = ?, status = ?, note = ?"
        self._update(digest, {Status.ACCEPTED}, change, consent, Status.APPROVED, "waits for the others")

    def finish(self, run: str, pseudonyms: Iterable[bytes], secret: bytes) -> None:
        """Keep the patients that all hospitals have, 32 bytes each, rising, and the run's secret. On disk when this returns."""
        hashed = HashedPieces(pseudonyms)
        write_secret(self._rosters / run, hashed)
        values = (hashed.size // 32, hashed.sha256, secret, Status.FINISHED, "waits for the others")
        self._update(run, {Status.APPROVED}, "common = ?, roster = ?, secret = ?, status = ?, note = ?", *values)

    def enforce(self, run: str) -> None:
        """Make a finished run the version that the table is read by."""
        version = "version = (SELECT COALESCE(MAX(version), 0) + 1 FROM offers)"
        self._update(run, {Status.FINISHED}, f"{version}, status = ?, note = ''", Status.IN_FORCE)

    def in_force(self, roster: str) -> Record | None:
        """The version that the table of a roster is read by; None where its hospitals never aligned."""
        versions = self._select("version > 0", order="version DESC")
        return next((each for each in versions if each.task.roster == roster), None)

    def roster(self, run: str) -> memoryview:
        """Pseudonyms of the patients of a finished run, 32 bytes each, rising; mapped.

        Raises:
            NotFound: it was never finished here.
            IntegrityError: the file is gone or was altered.
        """
        record = self.get(run)
        if record is None or record.roster is None:
            raise NotFound(
                f"there are no patients of alignment run {run[:12]} here; it was not finished at this hospital"
            )
        path = self._rosters / run
        data = mapped(path)
        if sha256_by_piece(data) != record.roster:
            raise IntegrityError(
                f"{path} is gone or was altered; restore it from a backup, or ask the office to align anew"
            )
        return data

    def drop_roster(self, run: str) -> None:
        """Remove the file of a run's patients unless it is, or was, in force; again changes nothing."""
        record = self.get(run)
        if record is None or record.version is None:
            (self._rosters / run).unlink(missing_ok=True)

    def _update(self, digest: str, before: Set[Status], change: str, *values: object) -> None:
        with self._transaction() as db:
            row = db.execute("SELECT kind, status FROM offers WHERE digest = ?", (digest,)).fetchone()
            if row is None or row[1] not in before:
                kind, status = row or (ReleaseSpec.noun, "unknown")
                raise Conflict(f"{kind} {digest[:12]} is {status} here; nothing was changed")
            update = f"UPDATE offers SET changed = ?, {change} WHERE digest = ?"  # noqa: S608 - the text is ours
            db.execute(update, (instant(datetime.now(UTC)), *values, digest))

    def _select(self, condition: str, *values: str, order: str = "seen, rowid") -> list[Record]:
        # Only what is asked for is read: the daemon looks up every open offer at every poll, and a record holds a spec.
        query = f"SELECT {_COLUMNS} FROM offers WHERE {condition} ORDER BY {order}"  # noqa: S608 - the text is ours
        with self._transaction() as db:
            return [self._read(row) for row in db.execute(query, values)]

    def _read(self, row: tuple[Any, ...]) -> Record:
        digest, kind, proposal, status, *rest = row
        read = Task if kind == Task.noun else ReleaseSpec
        return Record(digest, self._taken.get(digest) or read.from_bytes(proposal), Status(status), *rest)


def _one_of(statuses: Set[Status]) -> str:
    """The condition that one has one of some statuses; an index answers it, however many others there are."""
    return "status IN ({})".format(", ".join(f"'{status}'" for status in sorted(statuses)))


def _take_over(db: sqlite3.Connection, older: Path) -> None:
    """Take over the tables of layout 1: releases in this file, and alignment runs in a file of their own, if there was one.

    The status of a run that was signed had another name than that of a release.
    """
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "releases" in tables:
        own = "release, ?, spec, status, note, seen, changed, approval, codes, salt, NULL, NULL, NULL, NULL"
        db.execute(f"INSERT INTO offers ({_COLUMNS}) SELECT {own} FROM releases ORDER BY rowid", (ReleaseSpec.noun,))  # noqa: S608
        db.execute("DROP TABLE releases")
    if older.exists():
        status = f"CASE status WHEN 'signed' THEN '{Status.APPROVED}' ELSE status END"
        columns = f"run, task, {status}, note, seen, changed, acceptance, common, roster, version, secret"
        with transaction(older) as runs:
            rows = runs.execute(f"SELECT {columns} FROM runs ORDER BY rowid").fetchall()  # noqa: S608 - the text is ours
        places = "?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, ?, ?, ?, ?"
        db.executemany(
            f"INSERT INTO offers ({_COLUMNS}) VALUES ({places})",  # noqa: S608 - the text is ours
            [(run, Task.noun, *rest) for run, *rest in rows],
        )
