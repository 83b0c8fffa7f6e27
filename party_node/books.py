"""Ledger, journal and vault side by side: three stores that tell one story, unless one of them was restored from an older backup.

Every step of a release is written to them in a fixed order, so after any crash only few combinations are possible. Any other
one means that a store has forgotten something. Then nobody here can tell what has left the hospital: the node does not run, and
`reconcile` closes such a release at its full price.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from dprelease.accounting import guarantee
from dprelease.errors import IntegrityError
from party_node.journal import Journal, Record, Status
from party_node.ledger import CHARGED, Entry, Ledger
from party_node.repetition import PUBLISHED
from party_node.sealing import Vault

RESTORE = (
    "restore ledger.sqlite, journal.sqlite and sealed/ from one moment, the latest that there is; or close such releases at "
    "their full price: party-node ledger reconcile"
)
"""What to do about it."""

_MAY: Mapping[Status | None, frozenset[str]] = MappingProxyType(
    {
        None: frozenset({""}),
        Status.WAITING: frozenset({""}),
        Status.ACCEPTED: frozenset({"", "reserve", "free"}),
        Status.APPROVED: frozenset({"reserve", "charge", "send", "free"}),
        Status.SEALED: frozenset({"charge", "send", "free"}),
        Status.DELIVERED: frozenset({"send"}),
        Status.DECLINED: frozenset({"", "reserve", "charge", "send", "free"}),
        Status.ENDED: frozenset({"", "send", "free"}),
    }
)
"""What the ledger may say last of a release that stands so in the journal; ``close`` it may always say."""


@dataclass(frozen=True)
class Mismatch:
    """A release on which the books disagree.

    Attributes:
        release: spec digest.
        roster: whose budget it is.
        mu2: its whole price.
        words: what does not fit.
    """

    release: str
    roster: str
    mu2: Fraction
    words: str


def mismatches(ledger: Ledger, journal: Journal, vault: Vault, party: str) -> list[Mismatch]:
    """Releases on which the books disagree, in the order of their digests.

    Args:
        ledger: the budget.
        journal: of releases.
        vault: of sealed blocks.
        party: our name.
    """
    entries = [entry for entry in ledger.entries() if entry.release]
    records = {record.release: record for record in journal.records()}
    found = []
    for release in sorted({entry.release for entry in entries} | records.keys()):
        record, own = records.get(release), [entry for entry in entries if entry.release == release]
        words = _disagreement(record, own, vault)
        if words:
            found.append(Mismatch(release, *_price(record, own, party), f"release {release[:12]}: {words}"))
    return found


def check(ledger: Ledger, journal: Journal, vault: Vault, party: str) -> None:
    """Refuse to go on with books that disagree.

    Raises:
        IntegrityError: they do; on what, and what to do.
    """
    found = mismatches(ledger, journal, vault, party)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise IntegrityError(f"the books disagree, so one of them is older: {found[0].words}{more}; {RESTORE}")


def reconcile(ledger: Ledger, journal: Journal, vault: Vault, party: str) -> list[Mismatch]:
    """Close every release on which the books disagree: charged for good, over here, no block of it made or sent.

    Returns:
        What was closed.
    """
    found = mismatches(ledger, journal, vault, party)
    for each in found:
        ledger.close(each.roster, each.release, each.mu2, each.words)
        if journal.get(each.release) is not None:
            journal.move(each.release, set(Status), Status.ENDED, "closed: the books disagreed")
    return found


def _disagreement(record: Record | None, entries: list[Entry], vault: Vault) -> str:
    """What does not fit about a release; empty if all does."""
    status = None if record is None else record.status
    stage = next((entry.kind for entry in reversed(entries) if entry.kind != "made"), "")
    told = status or "nothing"
    if stage == "close":
        return ""
    if stage not in _MAY[status] or (record is not None and record.note == PUBLISHED and stage not in CHARGED):
        return f"the journal says {told}, the ledger {stage or 'nothing'}"
    if record is None or status not in {Status.APPROVED, Status.SEALED, Status.DELIVERED} or stage == "free":
        return ""
    made = any(entry.kind == "made" for entry in entries)
    try:
        sealed = vault.find(record.release)
    except IntegrityError as error:
        return error.message
    if made and sealed is None:
        return "its block was made and is gone from sealed/; no second one is ever made"
    if made and sealed is not None and sealed.sha256 not in {entry.block for entry in entries}:
        return "sealed/ holds another block than the ledger knows"
    if not made and status != Status.APPROVED:
        return f"the journal says {told}, the ledger knows of no block"
    return ""


def _price(record: Record | None, entries: list[Entry], party: str) -> tuple[str, Fraction]:
    """Roster and mu^2 of a release."""
    if record is not None:
        return record.spec.roster, guarantee(record.spec).party(party).mu2
    return entries[0].roster, max(Fraction(entry.mu2) for entry in entries)
