"""Alignment runs and where they stand. Works inside a transaction of the store; changes go through `runs.advance`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, or_, select, true

from coordinator.lifecycle.runs import OPEN_RUNS, Event, RunRecord, RunState, advance, words
from coordinator.store.database import digest_prefix
from coordinator.store.history import History
from coordinator.store.tables import alignment_parties, alignments
from dprelease.errors import Conflict, InvalidInput, NotFound
from dprelease.intersection.task import Task


@dataclass(frozen=True)
class Run:
    """A run as the coordinator keeps it.

    Attributes:
        digest: SHA-256 of the task; the run's identity.
        data: canonical bytes of the task.
        record: where it stands.
        acceptances: canonical bytes of the signed acceptances so far, in the task's order.
    """

    digest: str
    data: bytes
    record: RunRecord
    acceptances: tuple[bytes, ...]

    def read_task(self) -> Task:
        """The task as a value."""
        return Task.from_bytes(self.data)


class Alignments:
    """Alignment runs, in one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._history = History(connection)

    def add(self, task: Task, record: RunRecord, now: datetime) -> Run:
        """Keep a fresh run."""
        digest = task.digest()
        identity = {"run": digest, "task": task.to_bytes(), "created": now}
        self._connection.execute(alignments.insert().values({**identity, **_columns(record)}))
        self._connection.execute(
            alignment_parties.insert(),
            [{"run": digest, "party": party, "position": place} for place, party in enumerate(record.parties)],
        )
        self._history.note("proposed", now, run=digest)
        return self.get(digest)

    def get(self, digest: str) -> Run:
        """The run of this digest; raises `NotFound` if there is none."""
        found = self._load(alignments.c.run == digest)
        if not found:
            raise NotFound(f"no alignment run {digest[:12]} is known here")
        return found[0]

    def find(self, prefix: str) -> Run:
        """The one run whose digest begins so.

        Raises:
            InvalidInput: not hexadecimal, too short, or several runs begin so.
            NotFound: none does.
        """
        start = digest_prefix(prefix, "a run")
        found = self._load(alignments.c.run.startswith(start, autoescape=True))
        if not found:
            raise NotFound(f"no alignment run begins with {start}; see: coordinator align list")
        if len(found) > 1:
            raise InvalidInput(f"{len(found)} alignment runs begin with {start}; give more digits")
        return found[0]

    def all(self) -> tuple[Run, ...]:
        """Every run, oldest first."""
        return self._load(true())

    def open(self) -> tuple[Run, ...]:
        """Runs that are not over, oldest first."""
        return self._load(alignments.c.state.in_(OPEN_RUNS))

    def of_party(self, party: str, ended_after: datetime) -> tuple[Run, ...]:
        """Runs in which a party takes part that are open or ended after a time, oldest first."""
        mine = select(alignment_parties.c.run).where(alignment_parties.c.party == party)
        lately = or_(alignments.c.state.in_(OPEN_RUNS), alignments.c.since > ended_after)
        return self._load(lately & alignments.c.run.in_(mine))

    def parties(self, digest: str) -> tuple[str, ...]:
        """Parties of a run, in the task's order; none if there is no such run."""
        chosen = select(alignment_parties.c.party).where(alignment_parties.c.run == digest)
        return tuple(self._connection.execute(chosen.order_by(alignment_parties.c.position)).scalars())

    def advance(self, digest: str, event: Event, now: datetime, acceptance: bytes | None = None) -> Run:
        """Let an event happen to a run, with the signed acceptance that it brings. A final state is final in the database itself.

        Args:
            digest: which run.
            event: what happened.
            now: when.
            acceptance: canonical bytes of the signed acceptance, with `Accepted`.

        Raises:
            NotFound: there is no such run.
            Conflict: the event does not fit its state; nothing changes.
        """
        old = self.get(digest).record
        new = advance(old, event, now)
        if new == old:
            return self.get(digest)
        unchanged = (alignments.c.run == digest, alignments.c.state == old.state, alignments.c.state.in_(OPEN_RUNS))
        if self._connection.execute(alignments.update().where(*unchanged).values(_columns(new))).rowcount != 1:
            raise Conflict(f"alignment run {digest[:12]} changed in the meantime")
        self._mark(digest, new.accepted - old.accepted, {"accepted": now, "acceptance": acceptance})
        self._mark(digest, new.declined - old.declined, {"declined": now})
        self._mark(digest, new.finished - old.finished, {"finished": now})
        self._history.note(words(event), now, run=digest)
        return self.get(digest)

    def _mark(self, digest: str, names: frozenset[str], values: dict[str, Any]) -> None:
        if names:
            chosen = (alignment_parties.c.run == digest, alignment_parties.c.party.in_(names))
            self._connection.execute(alignment_parties.update().where(*chosen).values(values))

    def _load(self, condition: ColumnElement[bool]) -> tuple[Run, ...]:
        order = (alignments.c.created, alignments.c.run)
        found = self._connection.execute(select(alignments).where(condition).order_by(*order)).all()
        chosen = select(alignment_parties).where(alignment_parties.c.run.in_([row.run for row in found]))
        rows = self._connection.execute(chosen.order_by(alignment_parties.c.position)).all()
        return tuple(_run(row, [each for each in rows if each.run == row.run]) for row in found)


def _columns(record: RunRecord) -> dict[str, Any]:
    return {
        "state": record.state.value,
        "since": record.since,
        "deadline": record.deadline,
        "run_seconds": int(record.run_time.total_seconds()),
        "carried": record.carried,
        "reason": record.reason,
    }


def _run(row: Row[Any], members: list[Row[Any]]) -> Run:
    record = RunRecord(
        parties=tuple(member.party for member in members),
        state=RunState(row.state),
        since=row.since,
        deadline=row.deadline,
        run_time=timedelta(seconds=row.run_seconds),
        accepted=frozenset(member.party for member in members if member.accepted),
        declined=frozenset(member.party for member in members if member.declined),
        finished=frozenset(member.party for member in members if member.finished),
        carried=row.carried,
        reason=row.reason,
    )
    return Run(row.run, row.task, record, tuple(each.acceptance for each in members if each.acceptance is not None))
