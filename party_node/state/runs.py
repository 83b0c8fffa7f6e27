"""Knowledge of the hospital about every alignment run that it was offered: its own record, which no coordinator can change.

SQLite beside the ledger, as the journal of releases. The patients that a run found to be common to all its hospitals are a file
of pseudonyms under `rosters/`, in rising order; the record has its SHA-256. Runs that all hospitals finished are versions 1, 2, 3,
... of the table's patients; the highest one is in force.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from dprelease.canonical import sha256
from dprelease.errors import IntegrityError, NotFound
from dprelease.files.durable import write_durably
from dprelease.intersection.task import Task
from party_node.state.offers import Offers
from party_node.state.session import SessionFolder


class RunStatus(StrEnum):
    """State of a run here."""

    WAITING = "waiting"  # for a person
    ACCEPTED = "accepted"  # decided; the acceptance is not signed yet
    SIGNED = "signed"  # waits for the others, or is being computed
    FINISHED = "finished"  # the common patients are on disk; waits for the others
    IN_FORCE = "in force"  # all hospitals have them: a version
    DECLINED = "declined"
    ENDED = "ended"  # over without a result


OVER = frozenset({RunStatus.IN_FORCE, RunStatus.DECLINED, RunStatus.ENDED})

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    run TEXT PRIMARY KEY, task BLOB NOT NULL, status TEXT NOT NULL, note TEXT NOT NULL, seen TEXT NOT NULL,
    changed TEXT NOT NULL, acceptance BLOB, common INTEGER, roster TEXT, version INTEGER UNIQUE, secret BLOB
)
"""


@dataclass(frozen=True)
class RunEntry:
    """One run.

    Attributes:
        run: digest of the task.
        task: what is computed.
        status: where it stands here.
        note: why, in words; local.
        seen: first offered at.
        changed: last change at.
        acceptance: canonical bytes of our signed acceptance.
        common: how many of our patients all hospitals have; None before that is known.
        roster: SHA-256 of the file of their pseudonyms.
        version: 1, 2, 3, ...; None unless all hospitals finished it.
        secret: 32 bytes that the hospitals of the run know and nobody else; None before it is finished.
    """

    run: str
    task: Task
    status: RunStatus
    note: str
    seen: str
    changed: str
    acceptance: bytes | None
    common: int | None
    roster: str | None
    version: int | None
    secret: bytes | None

    @property
    def digest(self) -> str:
        """Its identity."""
        return self.run

    @property
    def name(self) -> str:
        """Its name, for people."""
        return f"alignment run {self.run[:12]}"


class Runs(Offers[RunEntry]):
    """The party's own record of alignment runs.

    Args:
        state: the party's state folder; `alignments.sqlite`, `rosters/` and `aligning/` are made when they are needed.
    """

    table, key, content = "runs", "run", "task"
    noun, command = "alignment run", "review list"
    statuses, final = RunStatus, OVER

    def __init__(self, state: Path) -> None:
        super().__init__(state / "alignments.sqlite", _SCHEMA)
        self._folder, self._sessions = state / "rosters", state / "aligning"

    def entries(self) -> list[RunEntry]:
        """All runs, oldest first."""
        return self._select("TRUE")

    def in_force(self, roster: str) -> RunEntry | None:
        """The version that the table of a roster is read by; None where its hospitals never aligned."""
        versions = [(each.version, each) for each in self._select("version IS NOT NULL") if each.task.roster == roster]
        return max(versions, key=lambda pair: pair[0] or 0)[1] if versions else None

    def offer(self, task: Task) -> RunEntry:
        """Note a run that was offered for the first time; offering it again changes nothing."""
        return self._add(task.digest(), task.to_bytes(), RunStatus.WAITING, "new")

    def sign(self, run: str, acceptance: bytes) -> None:
        """Keep our signed acceptance; raises `Conflict` if the run is no longer accepted here, and it must not be sent."""
        values = (acceptance, RunStatus.SIGNED, "waits for the others")
        self._update(run, {RunStatus.ACCEPTED}, "acceptance = ?, status = ?, note = ?", *values)

    def finish(self, run: str, pseudonyms: bytes, secret: bytes) -> None:
        """Keep the patients that all hospitals have, 32 bytes each, rising, and the run's secret. On disk when this returns."""
        write_durably(self._folder / run, pseudonyms, mode=0o600)
        values = (len(pseudonyms) // 32, sha256(pseudonyms), secret, RunStatus.FINISHED, "waits for the others")
        self._update(run, {RunStatus.SIGNED}, "common = ?, roster = ?, secret = ?, status = ?, note = ?", *values)

    def enforce(self, run: str) -> None:
        """Make a finished run the version that the table is read by."""
        version = "version = (SELECT COALESCE(MAX(version), 0) + 1 FROM runs)"
        self._update(run, {RunStatus.FINISHED}, f"{version}, status = ?, note = ''", RunStatus.IN_FORCE)

    def session(self, run: str) -> SessionFolder:
        """Folder of the session of a run."""
        return SessionFolder(self._sessions / run)

    def sessions(self) -> list[str]:
        """Runs of which a session is kept."""
        return sorted(path.name for path in self._sessions.glob("*"))

    def roster(self, run: str) -> bytes:
        """Pseudonyms of the patients of a finished run, 32 bytes each, rising.

        Raises:
            NotFound: it was never finished here.
            IntegrityError: the file is gone or was altered.
        """
        entry = self.get(run)
        if entry is None or entry.roster is None:
            raise NotFound(
                f"there are no patients of alignment run {run[:12]} here; it was not finished at this hospital"
            )
        path = self._folder / run
        data = path.read_bytes() if path.exists() else b""
        if sha256(data) != entry.roster:
            raise IntegrityError(
                f"{path} is gone or was altered; restore it from a backup, or ask the office to align anew"
            )
        return data

    def tidy(self, run: str) -> None:
        """Erase the session of a run, and its patients' file unless it is, or was, in force; again changes nothing."""
        entry = self.get(run)
        if entry is None or entry.version is None:
            (self._folder / run).unlink(missing_ok=True)
        self.session(run).erase()

    def _read(self, row: tuple[Any, ...]) -> RunEntry:
        run, task, status, *rest = row
        return RunEntry(run, Task.from_bytes(task), RunStatus(status), *rest)
