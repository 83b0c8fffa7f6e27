"""The hospital's privacy budget: append-only, hash-chained, on its own disk.

One account for each roster (set of patients), with a cap on mu^2 that is fixed at enrolment: all parties' caps sum to
at most the consortium's, so a joint cap over time holds although nobody sees another's ledger (docs/guarantees.md 8).
mu^2 adds under composition, exactly, in rationals.

A release moves through ``reserve -> charge -> send``; ``refund`` ends it before the first byte and gives the budget back,
after ``send`` nothing does. ``close`` ends it for good at its full price, whatever it was: books that were restored from
backups of different moments cannot tell what has left (`party_node.state.books`). Another stage, ``made``, names all blocks
that were ever made for a release; it is noted once for each round, before a byte of it leaves, and no noise is drawn for that
round where it stands. SQLite with synchronous=EXTRA: an entry that was returned from survives a power cut, the
removal of the rollback journal included. One engine and one file on purpose: triggers refuse any change to an entry,
and the chain shows any that happened elsewhere.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from pathlib import Path

from dprelease.errors import BudgetExceeded, Conflict, IntegrityError, InvalidInput, PolicyRefused
from dprelease.privacy.price import mu2_text
from dprelease.spec_base import instant
from party_node.state.entries import STAGES, Balance, Entry, aligned, balance_of, last_made, stage_of
from party_node.state.transactions import prepare, transaction

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    number INTEGER PRIMARY KEY, roster TEXT NOT NULL, kind TEXT NOT NULL, release TEXT NOT NULL,
    mu2 TEXT NOT NULL, detail TEXT NOT NULL, at TEXT NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL UNIQUE
);
CREATE TRIGGER IF NOT EXISTS no_update BEFORE UPDATE ON entries
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER IF NOT EXISTS no_delete BEFORE DELETE ON entries
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""
_GENESIS = "0" * 64
_COLUMNS = "number, roster, kind, release, mu2, detail, at, previous, hash"


class Ledger:
    """The ledger of one hospital. Any number of processes may use the file at once."""

    def __init__(self, path: Path) -> None:
        self._transaction = partial(transaction, path)
        prepare(path, _SCHEMA)

    def entries(self, roster: str | None = None) -> list[Entry]:
        """All entries, oldest first, or those of one roster."""
        with self._transaction() as db:
            return [entry for entry in _read(db) if roster in (None, entry.roster)]

    def head(self) -> str:
        """Hash of the last entry; another one says that something happened."""
        with self._transaction() as db:
            row = db.execute("SELECT hash FROM entries ORDER BY number DESC LIMIT 1").fetchone()
        return _GENESIS if row is None else str(row[0])

    def open(self, roster: str, cap: Fraction, detail: str = "") -> None:
        """Open a roster's account with its cap; opening it again with the same cap changes nothing.

        Raises:
            Conflict: the roster was opened with another cap; caps are fixed at enrolment.
        """
        with self._transaction() as db:
            opened = [entry for entry in _read(db) if entry.roster == roster and entry.kind == "open"]
            if not opened:
                _append(db, roster, "open", "", cap, {"cap": detail})
            elif Fraction(opened[0].mu2) != cap:
                raise Conflict(f"the budget of roster {roster} was fixed at mu^2 = {opened[0].mu2}; it cannot change")

    def balance(self, roster: str, *, without: str = "") -> Balance:
        """A roster's budget, without one release if it is named, so that its cost can be shown beside the rest.

        Raises:
            NotFound: the roster was never opened.
        """
        with self._transaction() as db:
            return balance_of(
                [entry for entry in _read(db) if entry.kind == "open" or entry.release != without], roster
            )

    def stage(self, roster: str, release: str) -> str:
        """The last thing that happened to a release: ``reserve``, ``charge``, ``send``, ``refund``, ``close``, or empty."""
        with self._transaction() as db:
            return stage_of(_read(db), roster, release)

    def stages(self, roster: str) -> dict[str, str]:
        """The last thing that happened to every release of a roster; see `stage`."""
        return {entry.release: entry.kind for entry in self.entries(roster) if entry.kind in STAGES}

    def made(self, roster: str) -> dict[str, tuple[str, ...]]:
        """Release to the SHA-256 of each of its blocks, of all blocks that were ever made here; see `make`."""
        return {entry.release: entry.blocks for entry in self.entries(roster) if entry.kind == "made"}

    def kept(self, roster: str) -> dict[str, str]:
        """Release to the SHA-256 of what is kept of it for later checkpoints of its stream; see `make`."""
        return {entry.release: entry.kept for entry in self.entries(roster) if entry.kept}

    def make(
        self, roster: str, release: str, blocks: tuple[str, ...], before: tuple[str, ...] = (), kept: str = ""
    ) -> None:
        """Note the blocks of a round, after all were sealed and before a byte of any leaves; again changes nothing.

        Args:
            roster: whose budget.
            release: spec digest.
            blocks: SHA-256 of each block's bytes, by sequence number.
            before: those of the rounds before, as they were noted; the entry names them too.
            kept: SHA-256 of what is kept for later checkpoints of a stream; empty outside streams.

        Raises:
            Conflict: the release holds no budget.
            IntegrityError: other blocks were made before.
        """
        with self._transaction() as db:
            entries = _read(db)
            if stage_of(entries, roster, release) not in {"reserve", "charge", "send"}:
                raise Conflict(f"the ledger holds no budget for a block of release {release[:12]}")
            noted = last_made(entry for entry in entries if (entry.roster, entry.release) == (roster, release))
            if noted == before:
                detail = {"blocks": (*before, *blocks)} | ({"kept": kept} if kept else {})
                _append(db, roster, "made", release, Fraction(0), detail)
            elif noted != (*before, *blocks):
                raise IntegrityError(
                    f"the ledger knows another block of release {release[:12]}; this one must not leave"
                )

    def declare_public(self, roster: str, declared: Iterable[dict[str, str | float]]) -> None:
        """Note, for good, that the owner declared columns public, all of them or none; no entry takes that back."""
        with self._transaction() as db:
            for detail in declared:
                _append(db, roster, "public", "", Fraction(0), detail)

    def align(self, roster: str, run: str, most: int, detail: dict[str, str | float]) -> None:
        """Note an alignment run, for good, before its first byte leaves; the same one again changes nothing.

        Raises:
            PolicyRefused: `most` of the roster were noted before.
        """
        with self._transaction() as db:
            before = aligned(_read(db), roster)
            if run in before:
                return
            if len(before) >= most:
                raise PolicyRefused(
                    f"roster {roster} was aligned {len(before)} times, and alignments = {most} under [policy] allows no more"
                )
            _append(db, roster, "align", "", Fraction(0), detail | {"run": run})

    def alignments(self, roster: str) -> tuple[str, ...]:
        """The alignment runs of a roster of which a byte may have left, oldest first."""
        return aligned(self.entries(roster), roster)

    def reserve(
        self, roster: str, release: str, mu2: Fraction, detail: dict[str, str | float], exposure: Fraction | None = None
    ) -> None:
        """Promise budget to a release; doing so again changes nothing. One that shows nothing private costs 0.

        Args:
            roster: whose budget.
            release: spec digest.
            mu2: what is charged.
            detail: for people.
            exposure: mu^2 of what is revealed of our own columns, where that is not what is charged.

        Raises:
            InvalidInput: `mu2` is negative.
            BudgetExceeded: the cap does not allow it.
            Conflict: the release was refunded before; it needs a new proposal.
        """
        if mu2 < 0:
            raise InvalidInput(f"a release gives no budget back; mu^2 = {mu2} cannot be reserved")
        with self._transaction() as db:
            entries = _read(db)
            stage = stage_of(entries, roster, release)
            if stage in {"refund", "close"}:
                raise Conflict("this release was given up here; a new attempt needs a new proposal")
            if stage:
                return
            balance = balance_of(entries, roster)
            if mu2 > balance.remaining:
                raise BudgetExceeded(
                    f"release {release[:12]} needs mu^2 = {mu2_text(mu2)}; roster {roster} has "
                    f"{mu2_text(balance.remaining)} of {mu2_text(balance.cap)} left",
                    needed=float(mu2),
                    remaining=float(balance.remaining),
                )
            if exposure not in (None, mu2):
                detail = detail | {"exposure": str(exposure)}
            _append(db, roster, "reserve", release, mu2, detail)

    def charge(self, roster: str, release: str) -> None:
        """Turn the reservation into a charge; doing so again changes nothing.

        Raises:
            Conflict: nothing is reserved.
        """
        self._advance(roster, release, "charge", {"reserve"}, {"charge", "send"})

    def send(self, roster: str, release: str) -> None:
        """Note, before the first byte leaves, that from here on the charge stands; again changes nothing.

        Raises:
            Conflict: the release is not charged. No charge, no bytes.
        """
        self._advance(roster, release, "send", {"charge"}, {"send"})

    def refund(self, roster: str, release: str) -> None:
        """Give back what a release holds, before its first byte; again changes nothing.

        Raises:
            Conflict: bytes have left, or nothing was reserved. No refund after bytes.
        """
        self._advance(roster, release, "refund", {"reserve", "charge"}, {"refund"})

    def close(self, roster: str, release: str, mu2: Fraction, exposure: Fraction, reason: str) -> None:
        """Charge a release for good and end it, whatever stands here and whatever the cap says; again changes nothing."""
        with self._transaction() as db:
            if stage_of(_read(db), roster, release) != "close":
                _append(db, roster, "close", release, mu2, {"exposure": str(exposure), "reason": reason})

    def _advance(self, roster: str, release: str, kind: str, after: set[str], already: set[str]) -> None:
        with self._transaction() as db:
            entries = _read(db)
            stage = stage_of(entries, roster, release)
            if stage in already:
                return
            if stage not in after:
                raise Conflict(f"the ledger cannot {kind} release {release[:12]} after {stage or 'nothing'}")
            reserved = next(
                entry for entry in entries if (entry.roster, entry.release, entry.kind) == (roster, release, "reserve")
            )
            _append(db, roster, kind, release, Fraction(reserved.mu2), {})

    def verify(self) -> str:
        """Check the chain from the first entry to the last; return the last hash, to be noted elsewhere.

        Raises:
            IntegrityError: with the first entry that was altered, lost or inserted.
        """
        previous, entries = _GENESIS, self.entries()
        for number, entry in enumerate(entries, start=1):
            if entry.number != number or entry.previous != previous or entry.hash != entry.expected_hash():
                raise IntegrityError(f"the ledger's chain is broken at entry {number}: restore it from a backup")
            previous = entry.hash
        return previous


def _read(db: sqlite3.Connection) -> list[Entry]:
    return [Entry(*row) for row in db.execute(f"SELECT {_COLUMNS} FROM entries ORDER BY number")]  # noqa: S608


def _append(
    db: sqlite3.Connection, roster: str, kind: str, release: str, mu2: Fraction, detail: Mapping[str, object]
) -> None:
    last = db.execute("SELECT number, hash FROM entries ORDER BY number DESC LIMIT 1").fetchone() or (0, _GENESIS)
    at = instant(datetime.now(UTC))
    entry = Entry(last[0] + 1, roster, kind, release, str(mu2), json.dumps(detail, sort_keys=True), at, last[1], "")
    fields = [*vars(entry).values()][:-1]
    db.execute(
        f"INSERT INTO entries ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        [*fields, entry.expected_hash()],
    )
