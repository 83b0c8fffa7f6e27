"""Knowledge of the hospital about every release it was offered: its own record, which no coordinator can change.

SQLite beside the ledger. The daemon and the `review` command meet here: a person's decision is a row that the daemon
acts on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from dprelease.errors import Conflict
from dprelease.release.spec import ReleaseSpec
from party_node.state.offers import Offers

PUBLISHED = "published"
"""The journal's note on a release that the coordinator reported as published."""

MOST_UNDECIDED = 50
"""Proposals that wait here for a person: more than one decides on in a day. Further ones wait at the office."""


class Status(StrEnum):
    """State of a release here."""

    WAITING = "waiting"  # for a person
    ACCEPTED = "accepted"  # decided; the approval is not signed yet
    APPROVED = "approved"  # signed; waits for the others
    DECLINED = "declined"
    SEALED = "sealed"  # the block is frozen on disk
    DELIVERED = "delivered"  # the hub holds it
    ENDED = "ended"  # over, published or not


FINAL = frozenset({Status.DECLINED, Status.ENDED})
UNDER_WAY = frozenset({Status.ACCEPTED, Status.APPROVED, Status.SEALED, Status.DELIVERED})

_SCHEMA = """
CREATE TABLE IF NOT EXISTS releases (
    release TEXT PRIMARY KEY, spec BLOB NOT NULL, status TEXT NOT NULL, note TEXT NOT NULL, seen TEXT NOT NULL,
    changed TEXT NOT NULL, codes TEXT, salt BLOB, approval BLOB
)
"""
_CALLS = "CREATE TABLE IF NOT EXISTS review_calls (release TEXT PRIMARY KEY)"
"""Made when it is first needed: whoever knows nothing of it loses nothing by it, so the layout stays what it is."""


@dataclass(frozen=True)
class Record:
    """One release.

    Attributes:
        release: spec digest.
        spec: the spec itself.
        status: where it stands here.
        note: why, in words; local.
        seen: first offered at.
        changed: last change at.
        codes: digest of the quantised, ordered columns, recorded at approval.
        salt: of the commitment to it; secret.
        approval: canonical bytes of our signed approval.
    """

    release: str
    spec: ReleaseSpec
    status: Status
    note: str
    seen: str
    changed: str
    codes: str | None
    salt: bytes | None
    approval: bytes | None

    @property
    def digest(self) -> str:
        """Its identity."""
        return self.release

    @property
    def name(self) -> str:
        """Its name, for people."""
        return f"release {self.release[:12]}"


class Journal(Offers[Record]):
    """The party's own record of releases.

    Args:
        path: SQLite file; made if absent.
    """

    table, key, content = "releases", "release", "spec"
    noun, command = "release", "review list"
    statuses, final = Status, FINAL

    def __init__(self, path: Path) -> None:
        super().__init__(path, _SCHEMA)
        self._taken: dict[str, ReleaseSpec] = {}

    def records(self) -> list[Record]:
        """All releases, oldest first."""
        return self._select("TRUE")

    def taken(self, known: Iterable[str]) -> list[Record]:
        """Releases that are under way here, and some others, oldest first. Nothing is read of what else was offered.

        Args:
            known: digests of the others: those that the ledger knows, or that something is kept of.
        """
        others = "release IN (SELECT value FROM json_each(?))"
        found = self._select(f"{self._one_of(UNDER_WAY)} OR {others}", json.dumps([*known]))
        self._taken = {record.release: record.spec for record in found}  # to read a spec takes longer than all else
        return found

    def page(self, number: int) -> tuple[list[Record], int]:
        """A page of all releases, oldest first, and how many there are. Page 1 has those that wait, and the newest."""
        size = MOST_UNDECIDED
        newest = f"status = '{Status.WAITING}' DESC, seen DESC, rowid DESC LIMIT ? OFFSET ?"
        query = f"SELECT * FROM releases ORDER BY {newest}"  # noqa: S608 - the text is ours
        with self._transaction() as db:
            rows = db.execute(query, (size, size * (number - 1))).fetchall()
            (count,) = db.execute("SELECT COUNT(*) FROM releases").fetchone()
        return [self._read(row) for row in reversed(rows)], count

    def forget(self, release: str) -> None:
        """Remove a release on which nothing was decided; of any other nothing is removed."""
        with self._transaction() as db:
            db.execute("DELETE FROM releases WHERE release = ? AND status = ?", (release, Status.WAITING))

    def offer(self, spec: ReleaseSpec, status: Status, note: str) -> Record:
        """Note a release that was offered for the first time; offering it again changes nothing."""
        return self._add(spec.digest(), spec.to_bytes(), status, note)

    def first_call(self, release: str) -> bool:
        """Note that somebody is told of a release's review; False if that was noted before."""
        with self._transaction() as db:
            db.execute(_CALLS)
            return db.execute("INSERT OR IGNORE INTO review_calls VALUES (?)", (release,)).rowcount == 1

    def commit(self, release: str, codes: str, salt: bytes) -> None:
        """Record the digest of the columns that an approval covers, once.

        Raises:
            Conflict: another digest was recorded before.
        """
        with self._transaction() as db:
            row = db.execute("SELECT codes FROM releases WHERE release = ?", (release,)).fetchone()
            if row is None or row[0] not in (None, codes):
                raise Conflict(f"release {release[:12]} was approved over other data")
            if row[0] is None:
                db.execute("UPDATE releases SET codes = ?, salt = ? WHERE release = ?", (codes, salt, release))

    def sign(self, release: str, approval: bytes) -> None:
        """Keep our signed approval; raises `Conflict` if the release is no longer accepted here, and it must not be sent."""
        self._update(release, {Status.ACCEPTED}, "approval = ?, status = ?", approval, Status.APPROVED)

    def _read(self, row: tuple[Any, ...]) -> Record:
        release, spec, status, *rest = row
        return Record(release, self._taken.get(release) or ReleaseSpec.from_bytes(spec), Status(status), *rest)
