"""Events, line by line: for the office, never for a party. Lines are only ever added."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, func, select

from coordinator.store.tables import history

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Happening:
    """One line of the history: when and what."""

    at: datetime
    what: str


class History:
    """The history, in one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def note(
        self, what: str, now: datetime, *, about: str = "", agreement: str | None = None, party: str | None = None
    ) -> None:
        """Add a line about an agreement, whose kind is told, or about a party's membership, here and in the log."""
        log.info("%s%s", f"{about} {agreement[:12]}: " if agreement else "", what)
        self._connection.execute(history.insert().values(at=now, release=agreement, party=party, what=what))

    def of_agreement(self, digest: str) -> tuple[Happening, ...]:
        """Events of a release or an alignment run, oldest first."""
        return self._lines(history.c.release == digest)

    def of_party(self, name: str) -> tuple[Happening, ...]:
        """A party's invites, enrolments and revocations, oldest first."""
        return self._lines(history.c.party == name)

    def latest(self) -> int:
        """Number of the latest line; 0 before the first."""
        return self._connection.execute(select(func.max(history.c.number))).scalar_one_or_none() or 0

    def concerned(self, after: int) -> set[tuple[str | None, str | None]]:
        """Release or run, and party, of every line after the one with this number."""
        chosen = select(history.c.release, history.c.party).where(history.c.number > after).distinct()
        return {(row.release, row.party) for row in self._connection.execute(chosen)}

    def _lines(self, condition: ColumnElement[bool]) -> tuple[Happening, ...]:
        chosen = select(history.c.at, history.c.what).where(condition).order_by(history.c.number)
        return tuple(Happening(row.at, row.what) for row in self._connection.execute(chosen))
