"""`party-node check`: is everything in order, seen from inside the hospital. Nothing found here leaves it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import numpy as np

from dprelease.catalogue import FEWEST_COMPARED
from dprelease.errors import DataRefused, DpReleaseError, InvalidInput
from dprelease.identity.certificates import read_certificate
from dprelease.one_line import listed
from dprelease.privacy.price import price_text
from party_node.alignment_key import key_check
from party_node.cli.budget import usual_delta
from party_node.hospital import HospitalState
from party_node.outgoing.calls import reach
from party_node.settings import PartySettings
from party_node.source.batches import last_complete
from party_node.source.first_look import SourceLook
from party_node.source.patients import in_force
from party_node.source.subjects import read_subjects
from party_node.state.books import check as check_books

_SOON = 6
"""A certificate is due for renewal with a third of its life left; with less than a sixth, that did not work."""


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
        what: what was looked at.
        ok: whether it is in order.
        words: what was found, and how to mend it if it is not in order.
    """

    what: str
    ok: bool
    words: str

    def to_json(self) -> dict[str, object]:
        """JSON-ready."""
        return asdict(self)


def check(desk: HospitalState, of_table: list[Finding], *, connectivity: bool = True) -> list[Finding]:
    """Look at declarations, keys, ledger, peers and connections, beside what was seen of the source.

    Args:
        desk: the party's state.
        of_table: from `of_source`.
        connectivity: also dial the coordinator and the hub.
    """
    findings = [*of_table]
    try:
        desk.columns()
    except DataRefused as error:
        findings.append(Finding("public columns", False, error.message))
    findings.append(_attempt("alignment key", lambda: _alignment_key(desk)))
    if desk.runs.in_force(desk.settings.roster) is not None:
        findings.append(_attempt("aligned", lambda: _aligned(desk)))
    else:
        findings.append(Finding("patients", True, _compared(desk.settings)))
    enrolled = _attempt("enrolment", lambda: _certificate(desk))
    findings.append(enrolled)
    findings.append(_attempt("ledger", lambda: _ledger(desk)))
    findings.append(_attempt("books", lambda: _books(desk)))
    pins = desk.identity.pins()
    pinned = (
        ", ".join(sorted(pins))
        or "compare the digest of the file of keys by telephone, then run `party-node peers pin --from FILE`"
    )
    findings.append(Finding("peers", bool(pins), f"{len(pins)} keys pinned: {pinned}"))
    if connectivity and enrolled.ok:
        enrolment = desk.enrolment
        findings.append(_attempt("coordinator", lambda: _health(desk, enrolment.coordinator, "the coordinator")))
        findings.append(_attempt("hub", lambda: _health(desk, enrolment.hub, "the hub")))
    return findings


def _attempt(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, look())
    except DpReleaseError as error:
        return Finding(what, False, error.message)


def of_source(settings: PartySettings, look: SourceLook) -> list[Finding]:
    """The findings of a first look at the source."""
    findings = [Finding("settings", True, f"party {settings.name}, roster {settings.roster}")]
    findings += [Finding("source", False, words) for words in look.problems]
    if not look.problems:
        rows = (
            f"{look.rows} rows, no identifier twice"
            if look.read is None
            else f"{look.size}, one of which is made of each"
        )
        findings.append(Finding("source", True, f"{rows}, {len(look.columns)} columns"))
    if settings.source.tells_batches and look.rows:
        findings.append(Finding("batches", True, _batches(look.batches, settings)))
    for name, column in look.columns.items():
        words = "; ".join(filter(None, (column.findings.words() if column.cells else "", column.problem)))
        if words:
            findings.append(Finding(f"column {name}", not column.problem, words))
    return findings


def _batches(rows: dict[int, int], settings: PartySettings) -> str:
    """Which batches there are, and of which the office is not told."""
    if not rows:
        return "none is complete yet"
    there = listed([f"{number} ({rows[number]} rows)" for number in sorted(rows, reverse=True)])
    last, fewest = last_complete(np.array([*rows]), settings.source), FEWEST_COMPARED * settings.rows_per_subject
    silent = [str(number) for number in sorted(rows) if number > last or rows[number] < fewest]
    told = f"; the office is not told of {listed(silent)}: not complete, or fewer than {FEWEST_COMPARED} patients"
    return f"{there}, the latest first{told if silent else ''}"


def _compared(settings: PartySettings) -> str:
    """The warning that a digest of our patients tells others something while no alignment run is in force."""
    if settings.same_patients:
        return "party.toml says that all hospitals have the patients of this table, and no others"
    return "not compared with other hospitals' yet: align, or say same_patients = true where all have just these"


def _alignment_key(desk: HospitalState) -> str:
    return f"key check {key_check(desk.identity.alignment_key())}; it must be the same at every hospital"


def _aligned(desk: HospitalState) -> str:
    """How many patients of the table are read; raises `DataRefused` where some that should be are gone from it."""
    roster, entry = in_force(desk.runs, desk.settings), desk.runs.in_force(desk.settings.roster)
    assert roster is not None, entry  # noqa: S101 - callers looked
    assert entry is not None, roster  # noqa: S101
    subjects = read_subjects(desk.settings, desk.identity.alignment_key())
    gone, named = roster.gone_from(subjects), f"version {entry.version}, alignment run {entry.run[:12]}"
    if gone:
        raise DataRefused(
            f"{named}: {gone} of its {entry.common} patients are in the table no more; put them back, or ask the office to "
            "align anew"
        )
    return f"{named}: its {entry.common} patients are read, of {len(subjects)} in the table"


def _certificate(desk: HospitalState) -> str:
    certificate = read_certificate(desk.enrolment.certificate)
    left = certificate.not_valid_after_utc - datetime.now(UTC)
    days = left.days
    if left < (certificate.not_valid_after_utc - certificate.not_valid_before_utc) / _SOON:
        when = f"expires in {days} days and was not renewed; start the daemon, or" if days >= 0 else "has expired;"
        raise InvalidInput(
            f"the certificate {when} ask the consortium's office for a new invite: party-node enrol TOKEN"
        )
    return f"consortium {desk.enrolment.consortium}, certificate valid for {days} more days"


def _ledger(desk: HospitalState) -> str:
    head, left = desk.ledger.verify(), desk.ledger.balance(desk.settings.roster).remaining
    return f"chain whole, last hash {head[:16]}, left: {price_text(left, usual_delta(desk))}"


def _books(desk: HospitalState) -> str:
    check_books(desk.books)
    return "ledger, journal and sealed blocks agree"


def _health(desk: HospitalState, address: str, name: str) -> str:
    reach(address, desk.identity.credentials(), name)
    return f"{address} answers"
