"""The hospital's own record of what it was offered, which no coordinator can change: a row for each, in SQLite beside the ledger.

The daemon and commands meet here: a person's decision is a status that the daemon acts on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Set
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from dprelease.errors import Conflict, InvalidInput, NotFound
from dprelease.spec_base import instant
from party_node.state.transactions import prepare, transaction

Offer = TypeVar("Offer")


class Offers(ABC, Generic[Offer]):
    """Offers of one kind, by their digests.

    Attributes:
        table: name of the table. Its columns are the digest, what was offered, `status`, `note`, `seen`, `changed`, and others.
        key: the column of digests.
        content: the column of what was offered.
        noun: what one of them is called.
        command: that lists them.
        statuses: all of them.
        final: those of what is over.
    """

    table: ClassVar[str]
    key: ClassVar[str]
    content: ClassVar[str]
    noun: ClassVar[str]
    command: ClassVar[str]
    statuses: ClassVar[type[StrEnum]]
    final: ClassVar[Set[StrEnum]]

    def __init__(self, path: Path, schema: str) -> None:
        self._transaction = partial(transaction, path)
        self._open = frozenset(self.statuses) - self.final
        prepare(path, f"{schema}; CREATE INDEX IF NOT EXISTS {self.table}_by_status ON {self.table} (status)")

    @abstractmethod
    def _read(self, row: tuple[Any, ...]) -> Offer:
        """An offer from its row."""

    def find(self, prefix: str) -> Offer:
        """The one whose digest begins so.

        Raises:
            NotFound: there is none.
            InvalidInput: there are several.
        """
        start = prefix.lower()
        found = self._select(
            f"{self.key} >= ? AND {self.key} < ?", start, f"{start}g"
        )  # by the index: g follows all digits
        if not found:
            raise NotFound(f"no {self.noun} {prefix} was offered here; see: party-node {self.command}")
        if len(found) > 1:
            raise InvalidInput(f"{prefix} fits {len(found)} {self.noun}s; give more digits")
        return found[0]

    def get(self, digest: str) -> Offer | None:
        """The one of this whole digest, or None."""
        return next(iter(self._select(f"{self.key} = ?", digest)), None)

    def standing(self) -> dict[str, str]:
        """Status of every one that is not over, by its digest; nothing that was offered is read."""
        query = f"SELECT {self.key}, status FROM {self.table} WHERE {self._one_of(self._open)}"  # noqa: S608 - names are ours
        with self._transaction() as db:
            return dict(db.execute(query))

    def move(self, digest: str, before: Set[StrEnum], status: StrEnum, note: str = "") -> None:
        """Move one on; raises `Conflict` if it does not stand where the caller believes."""
        self._update(digest, before, "status = ?, note = ?", status, note)

    def annotate(self, digest: str, note: str) -> None:
        """Say in words why one is not moving; what is over keeps its last words."""
        change = f"UPDATE {self.table} SET note = ? WHERE {self.key} = ? AND {self._one_of(self._open)}"  # noqa: S608
        with self._transaction() as db:
            db.execute(change, (note, digest))

    def _add(self, digest: str, data: bytes, status: StrEnum, note: str) -> Offer:
        now, columns = instant(datetime.now(UTC)), f"{self.key}, {self.content}, status, note, seen, changed"
        insert = f"INSERT OR IGNORE INTO {self.table} ({columns}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608
        with self._transaction() as db:
            db.execute(insert, (digest, data, status, note, now, now))
        return self.find(digest)

    def _update(self, digest: str, before: Set[StrEnum], change: str, *values: object) -> None:
        with self._transaction() as db:
            query = f"SELECT status FROM {self.table} WHERE {self.key} = ?"  # noqa: S608
            row = db.execute(query, (digest,)).fetchone()
            if row is None or row[0] not in before:
                raise Conflict(f"{self.noun} {digest[:12]} is {row[0] if row else 'unknown'} here; nothing was changed")
            update = f"UPDATE {self.table} SET changed = ?, {change} WHERE {self.key} = ?"  # noqa: S608
            db.execute(update, (instant(datetime.now(UTC)), *values, digest))

    @staticmethod
    def _one_of(statuses: Set[StrEnum]) -> str:
        """The condition that one has one of some statuses; an index answers it, however many others there are."""
        return "status IN ({})".format(", ".join(f"'{status}'" for status in sorted(statuses)))

    def _select(self, condition: str, *values: str | int) -> list[Offer]:
        # Only what is asked for is read: the daemon looks up every open release at every poll, and a record holds a spec.
        query = f"SELECT * FROM {self.table} WHERE {condition} ORDER BY seen, rowid"  # noqa: S608
        with self._transaction() as db:
            return [self._read(row) for row in db.execute(query, values)]
