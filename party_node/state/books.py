"""Ledger, journal, vault and streams side by side, and the office's word: one story, unless one was restored from an older backup.

Every step of a release is written to them in a fixed order, so after any crash only few combinations are possible. Any other
one means that a store has forgotten something. If all were restored together the office is the witness: it has seen which
releases all hospitals approved. When anything disagrees, nobody here can tell what has left the hospital: the node does not
run, and `reconcile` closes such a release at its full price.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

from dprelease.errors import IntegrityError
from dprelease.release.accounting import guarantee
from dprelease.release.charges import Charge
from party_node.state.entries import CHARGED, Entry, last_kept, last_made, last_stage
from party_node.state.journal import PUBLISHED, Journal, Record, Status
from party_node.state.ledger import Ledger
from party_node.state.session import SessionFolder
from party_node.state.streams import Streams, over
from party_node.state.vault import Vault

RESTORE = (
    "restore ledger.sqlite, journal.sqlite and sealed/, with streams/ and alignments.sqlite of older software, from one moment, "
    "the latest that there is; or close such releases at their full price: party-node ledger reconcile"
)
"""Advice where the stores disagree."""

_MAY: Mapping[Status | None, frozenset[str]] = MappingProxyType(
    {
        None: frozenset({""}),
        Status.WAITING: frozenset({""}),
        Status.ACCEPTED: frozenset({"", "reserve", "refund"}),
        Status.APPROVED: frozenset({"reserve", "charge", "send", "refund"}),
        Status.SEALED: frozenset({"charge", "send", "refund"}),
        Status.DELIVERED: frozenset({"send"}),
        Status.DECLINED: frozenset({"", "reserve", "charge", "send", "refund"}),
        Status.ENDED: frozenset({"", "send", "refund"}),
    }
)
"""Status in the journal to the last entries that the ledger may have; ``close`` it may always have."""


@dataclass(frozen=True)
class Books:
    """All that a hospital keeps of what it was charged, and what the office has told it."""

    ledger: Ledger
    journal: Journal
    vault: Vault
    streams: Streams
    sessions: Path
    party: str
    seen: tuple[Charge, ...] = ()


@dataclass(frozen=True)
class Mismatch:
    """A release on which the books disagree.

    Attributes:
        release: spec digest.
        roster: whose budget it is.
        mu2: what it is charged.
        exposure: mu^2 of what it reveals of our own columns.
        words: what does not fit.
    """

    release: str
    roster: str
    mu2: Fraction
    exposure: Fraction
    words: str


def mismatches(books: Books) -> list[Mismatch]:
    """Releases on which the books disagree, in the order of their digests."""
    entries: dict[str, list[Entry]] = {}
    for entry in books.ledger.entries():
        if entry.release:
            entries.setdefault(entry.release, []).append(entry)
    records = {record.digest: record for record in books.journal.releases()}
    seen = {charge.release: charge for charge in books.seen}
    done = over(records.values(), {release: last_stage(own) for release, own in entries.items()})
    found = []
    for release in sorted(entries.keys() | records.keys() | seen.keys()):
        charge, record, own = seen.get(release), records.get(release), entries.get(release, [])
        words = (
            _unknown(charge, own)
            or _unfinished(charge, record, own)
            or _disagreement(record, own, books)
            or _lost(record, own, books, done)
            or _uncharged(release, own, books)
        )
        if words:
            price = _price(charge, record, own, books.party)
            found.append(Mismatch(release, *price, f"release {release[:12]}: {words}"))
    return found


def check(books: Books) -> None:
    """Refuse to go on with books that disagree.

    Raises:
        IntegrityError: they do; on what, and what to do.
    """
    found = mismatches(books)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise IntegrityError(f"the books disagree, so one of them is older: {found[0].words}{more}; {RESTORE}")


def reconcile(books: Books) -> list[Mismatch]:
    """Close every release on which the books disagree: charged for good, over here, no block of it made or sent.

    Returns:
        What was closed.
    """
    found = mismatches(books)
    for each in found:
        books.ledger.close(each.roster, each.release, each.mu2, each.exposure, each.words)
        if books.journal.get(each.release) is not None:
            books.journal.move(each.release, set(Status), Status.ENDED, "closed: the books disagreed")
    return found


def _unknown(charge: Charge | None, entries: list[Entry]) -> str:
    """Facts that the ledger does not know of a release that the office saw approved by all; empty if it knows it."""
    stage = last_stage(entries)
    if charge is None or stage in CHARGED or (stage and not charge.published):
        return ""
    return f"the office saw it {'published' if charge.published else 'approved by all'}, the ledger says {stage or 'nothing'}"


def _unfinished(charge: Charge | None, record: Record | None, entries: list[Entry]) -> str:
    """Entries that the ledger lacks of a release of several rounds that the office saw published; empty if it has all."""
    made = last_made(entries)
    if charge is None or record is None or not (charge.published and made) or last_stage(entries) == "close":
        return ""
    whole = record.spec.rounds()[-1].stop
    return (
        f"the office saw it published, the ledger knows of {len(made)} of {whole} blocks" if len(made) < whole else ""
    )


def _disagreement(record: Record | None, entries: list[Entry], books: Books) -> str:
    """Contradictions about a release; empty if all does."""
    status = None if record is None else record.status
    stage = last_stage(entries)
    told = status or "nothing"
    if stage == "close":
        return ""
    if stage not in _MAY[status] or (record is not None and record.note == PUBLISHED and stage not in CHARGED):
        return f"the journal says {told}, the ledger {stage or 'nothing'}"
    if record is None or status not in {Status.APPROVED, Status.SEALED, Status.DELIVERED} or stage == "refund":
        return ""
    made = last_made(entries)
    try:
        sealed = tuple(block.sha256 for block in books.vault.find(record.digest))
    except IntegrityError as error:
        return error.message
    if made and not sealed:
        return "its block was made and is gone from sealed/; no second one is ever made"
    ends = [sequences.stop for sequences in record.spec.rounds()]
    further = [end for end in ends if end > len(made)][:1]  # sealed before it is noted
    if made and (sealed[: len(made)] != made or len(sealed) not in {len(made), *further}):
        return "sealed/ holds another block than the ledger knows"
    if status != Status.APPROVED and len(made) != ends[-1]:
        return f"the journal says {told}, the ledger knows of {len(made) or 'no'} block"
    return ""


def _lost(record: Record | None, entries: list[Entry], books: Books, done: set[str]) -> str:
    """State that is lost of a checkpoint that later ones of its stream add to; empty if nothing is, or no later one comes."""
    noted = last_kept(entries)
    if record is None or not noted or last_stage(entries) == "close":
        return ""
    place = record.spec.place
    try:
        if place.stream not in done:
            books.streams.check(place.stream, place.number, noted)
    except IntegrityError as error:
        return error.message
    return ""


def _uncharged(release: str, entries: list[Entry], books: Books) -> str:
    """Messages of a session that are frozen after the charge alone, although the ledger has none; empty if there are none."""
    stage = last_stage(entries)
    if stage not in {"", "reserve", "charge"}:
        return ""
    frozen = {message.header.kind for message in SessionFolder(books.sessions / release).messages()}
    return f"joint/ holds masked columns, the ledger says {stage or 'nothing'}" if "columns" in frozen else ""


def _price(
    charge: Charge | None, record: Record | None, entries: list[Entry], party: str
) -> tuple[str, Fraction, Fraction]:
    """Roster, charge and exposure of a release."""
    if record is not None:
        given = guarantee(record.spec)
        return record.spec.roster, given.party(party).mu2, given.added(party)
    if charge is not None:
        return charge.roster, Fraction(charge.mu2), Fraction(charge.exposure)
    return entries[0].roster, max(Fraction(each.mu2) for each in entries), max(each.exposure for each in entries)
