"""`party-node check`: the table first, with a small plot of every column, then what it takes to run. Nothing of it leaves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from tempfile import TemporaryFile

import click
import numpy as np

from dprelease.catalogue import FEWEST_COMPARED
from dprelease.cli.printing import json_option, print_document, print_json
from dprelease.data.columns import OTHER
from dprelease.document.cells import UNKNOWN, Cell, Said
from dprelease.document.document import Document, Heading, Table
from dprelease.errors import DataRefused, DpReleaseError, InvalidInput
from dprelease.files.durable import disk_takes
from dprelease.identity.certificates import read_certificate
from dprelease.one_line import listed, one_line
from dprelease.privacy.price import price_text
from dprelease.progress import shown_on_stderr
from party_node.cli.budget import usual_delta
from party_node.cli.options import with_settings
from party_node.hospital import HospitalState
from party_node.identity import key_check
from party_node.outgoing.hub import reach
from party_node.settings import PartySettings
from party_node.source.alignment import in_force
from party_node.source.first_look import CellCounts, ColumnLook, Histogram, Levels, SourceLook, look_at
from party_node.source.table import last_complete, read_subjects
from party_node.state.books import check as check_books

_SOON = 6
"""A certificate is due for renewal with a third of its life left; with less than a sixth, that did not work."""


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    what: str
    ok: bool
    words: str


def check_state(hospital: HospitalState, of_table: list[Finding], *, connectivity: bool = True) -> list[Finding]:
    """Look at declarations, keys, ledger, peers and connections, beside what was seen of the source."""
    findings = [*of_table]
    try:
        hospital.columns()
    except DataRefused as error:
        findings.append(Finding("public columns", False, error.message))
    findings.append(_attempt("state", lambda: _state(hospital)))
    findings.append(_attempt("alignment key", lambda: _alignment_key(hospital)))
    if hospital.journal.in_force(hospital.settings.roster) is not None:
        findings.append(_attempt("aligned", lambda: _aligned(hospital)))
    else:
        findings.append(Finding("patients", True, _compared(hospital.settings)))
    enrolled = _attempt("enrolment", lambda: _certificate(hospital))
    findings.append(enrolled)
    findings.append(_attempt("ledger", lambda: _ledger(hospital)))
    findings.append(_attempt("books", lambda: _books(hospital)))
    pins = hospital.identity.pins()
    pinned = (
        ", ".join(sorted(pins))
        or "compare the digest of the file of keys by telephone, then run `party-node peers pin --from FILE`"
    )
    findings.append(Finding("peers", bool(pins), f"{len(pins)} keys pinned: {pinned}"))
    if connectivity and enrolled.ok:
        enrolment = hospital.enrolment
        findings.append(_attempt("coordinator", lambda: _health(hospital, enrolment.coordinator, "the coordinator")))
        findings.append(_attempt("hub", lambda: _health(hospital, enrolment.hub, "the hub")))
    return findings


def _attempt(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, look())
    except DpReleaseError as error:
        return Finding(what, False, error.message.removeprefix(f"the {what}: "))


def of_source(settings: PartySettings, look: SourceLook) -> list[Finding]:
    """The findings of a first look at the source."""
    findings = [Finding("settings", True, f"party {settings.name}, roster {settings.roster}")]
    findings += [Finding("source", False, words) for words in look.problems]
    if not look.problems:
        rows = (
            f"{look.rows:,} rows, no identifier twice"
            if look.read is None
            else f"{look.size}, one of which is made of each"
        )
        findings.append(Finding("source", True, f"{rows}, {len(look.columns)} columns"))
    if settings.source.tells_batches and look.rows:
        findings.append(Finding("batches", True, _batches(look.batches, settings)))
    for name, column in look.columns.items():
        words = "; ".join(filter(None, (column.told.words() if column.cells else "", column.problem)))
        if words:
            findings.append(Finding(f"column {name}", not column.problem, words))
    return findings


def _batches(rows: dict[int, int], settings: PartySettings) -> str:
    """Which batches there are, and of which the office is not told."""
    if not rows:
        return "none is complete yet"
    there = listed([f"{number} ({rows[number]:,} rows)" for number in sorted(rows, reverse=True)])
    last, fewest = last_complete(np.array([*rows]), settings.source), FEWEST_COMPARED * settings.rows_per_subject
    silent = [str(number) for number in sorted(rows) if number > last or rows[number] < fewest]
    told = f"; the office is not told of {listed(silent)}: not complete, or fewer than {FEWEST_COMPARED} patients"
    return f"{there}, the latest first{told if silent else ''}"


def _compared(settings: PartySettings) -> str:
    """The warning that a digest of our patients tells others something while no alignment run is in force."""
    if settings.same_patients:
        return "party.toml says that all hospitals have the patients of this table, and no others"
    return "not compared with other hospitals' yet: align, or say same_patients = true where all have just these"


def _state(hospital: HospitalState) -> str:
    folder = hospital.settings.state
    with disk_takes(f"{folder} takes no file"), TemporaryFile(dir=folder) as file:
        file.write(bytes(1 << 16))  # more than a buffer holds
    return f"{folder} takes files"


def _alignment_key(hospital: HospitalState) -> str:
    return f"key check {key_check(hospital.identity.alignment_key())}; it must be the same at every hospital"


def _aligned(hospital: HospitalState) -> str:
    """How many patients of the table are read; raises `DataRefused` where some that should be are gone from it."""
    roster, entry = in_force(hospital.journal, hospital.settings), hospital.journal.in_force(hospital.settings.roster)
    assert roster is not None, entry  # noqa: S101 - callers looked
    assert entry is not None, roster  # noqa: S101
    subjects = read_subjects(hospital.settings, hospital.identity.alignment_key())
    gone, named = roster.gone_from(subjects), f"version {entry.version}, alignment run {entry.digest[:12]}"
    if gone:
        raise DataRefused(
            f"{named}: {gone:,} of its {entry.common:,} patients are in the table no more; put them back, or ask the office to "
            "align anew"
        )
    return f"{named}: its {entry.common:,} patients are read, of {len(subjects):,} in the table"


def _certificate(hospital: HospitalState) -> str:
    certificate = read_certificate(hospital.enrolment.certificate)
    left = certificate.not_valid_after_utc - datetime.now(UTC)
    days = left.days
    if left < (certificate.not_valid_after_utc - certificate.not_valid_before_utc) / _SOON:
        when = f"expires in {days} days and was not renewed; start the daemon, or" if days >= 0 else "has expired;"
        raise InvalidInput(
            f"the certificate {when} ask the consortium's office for a new invite: party-node enrol TOKEN"
        )
    return f"consortium {hospital.enrolment.consortium}, certificate expires in {days} days"


def _ledger(hospital: HospitalState) -> str:
    head, left = hospital.ledger.verify(), hospital.ledger.balance(hospital.settings.roster).remaining
    return f"chain whole, last hash {head[:16]}, left: {price_text(left, usual_delta(hospital))}"


def _books(hospital: HospitalState) -> str:
    check_books(hospital.books)
    return "ledger, journal and sealed blocks agree"


def _health(hospital: HospitalState, address: str, name: str) -> str:
    reach(address, hospital.identity.credentials(), name)
    return f"{address} answers"


STAYS = "All of this is about patients and stays on this screen: nothing of it was sent or kept. Copy it into no ticket or mail."
_BLOCKS = " ▁▂▃▄▅▆▇█"
_ASCII = " .:-=+*#@"
_MOST_LEVELS = 12
_BAR = 20
_LONGEST_TEXT = 40
_MOST_EXAMPLES = 3
_KINDS = ("unreadable", "outside")


def look(found: SourceLook, *, ascii_only: bool = False) -> Document:
    """The columns of a source, each with its counts, examples and a plot."""
    examples = tuple(Heading(key, detail=True) for key in ("kind", "problem", "examples"))
    counts = tuple(Heading(key) for key in ("missing", "unreadable", "outside"))
    fill = Heading("fill")
    distribution = Heading("distribution", "distribution within what is declared")
    undeclared = [one_line(name) for name in found.undeclared]
    return Document(
        f"{found.place}: {found.size}",
        tables=(
            Table.of(
                "columns",
                (Heading("name", "column"), *counts, fill, distribution, *examples),
                [_row(name, each, found, ascii_only=ascii_only) for name, each in found.columns.items()],
                detail=not found.rows and not any(each.problem for each in found.columns.values()),
            ),
        ),
        notes=(*((f"Not declared, so never read: {listed(undeclared)}.",) if undeclared else ()), STAYS),
        data={
            "source": found.place,
            "rows": found.rows,
            "in_order": found.in_order,
            "problems": found.problems,
            "batches": found.batches,
            "not_declared": list(found.undeclared),
            "stays_here": STAYS,
        },
    )


def _row(name: str, column: ColumnLook, source: SourceLook, *, ascii_only: bool) -> list[Cell]:
    seen = bool(source.rows) and not column.unread
    examples = [{"kind": each.kind, "text": each.text, "where": source.where(each.row)} for each in column.examples]
    return [
        name,
        *(Said(count, f"{count:,}" if seen else UNKNOWN) for count in asdict(column.told).values()),
        column.declared.offered[0].fill_text if column.declared.offered else "",
        Said(data_of(column.distribution), tuple(_described(column, source.where, ascii_only=ascii_only))),
        column.declared.column.kind,
        column.problem,
        Said(examples, ""),
    ]


def _described(look: ColumnLook, where: Callable[[int], str], *, ascii_only: bool) -> list[str]:
    if look.unread:
        return [one_line(look.problem)]
    lines = plot(look.distribution, look.findings.outside, ascii_only=ascii_only)
    levels = {level.casefold(): f" (declared: {one_line(level)!r})" for level in look.declared.column.vocabulary}
    for kind in _KINDS:
        found = [
            f"{one_line(each.text, _LONGEST_TEXT)!r} in {where(each.row)}{levels.get(each.text.strip().casefold(), '')}"
            for each in look.examples
            if each.kind == kind
        ]
        lines += [f"{kind}: {', '.join(found[:_MOST_EXAMPLES])}"] if found else []
    return lines


def data_of(counts: CellCounts) -> dict[str, object]:
    """A column's distribution, JSON-ready; of a histogram the cells between the empty ones at either end."""
    if not isinstance(counts, Histogram):
        return asdict(counts)
    first, last = counts.occupied
    shown = {"edges": counts.edges[first : last + 1].tolist(), "counts": counts.counts[first:last].tolist()}
    return {**shown, "below": counts.below, "above": counts.above}


def plot(counts: CellCounts, outside: int, *, ascii_only: bool = False) -> list[str]:
    """A column's distribution in a few lines of text."""
    if isinstance(counts, Histogram):
        return [_histogram(counts, _ASCII if ascii_only else _BLOCKS)]
    if isinstance(counts, Levels):
        return _bars(counts, outside, "#" if ascii_only else "█")
    return [f"{counts.first} to {counts.last}" if counts.first else "none"]


def _histogram(counts: Histogram, blocks: str) -> str:
    first, last = counts.occupied
    bars = _heights(counts.counts[first:last].tolist(), blocks)
    below = f"{counts.below:,} below < " if counts.below else ""
    above = f" > {counts.above:,} above" if counts.above else ""
    return f"{below}{counts.edges[first]:g} |{bars}| {counts.edges[last]:g}{above}"


def _heights(counts: Sequence[int], blocks: str) -> str:
    """A block for each count, as high as it is; the lowest one for whatever is not 0."""
    most = max(counts, default=0)
    return "".join(blocks[-(-count * (len(blocks) - 1) // most)] if count else blocks[0] for count in counts)


def _bars(counts: Levels, outside: int, block: str) -> list[str]:
    shown = list(counts.levels.items())[:_MOST_LEVELS]
    shown += [(OTHER if len(shown) == 1 else "(no declared level)", counts.undeclared)] if outside else []
    most, width = max((count for _, count in shown), default=0), max(len(one_line(level)) for level, _ in shown)
    digits = len(f"{most:,}")
    lines = [
        f"{one_line(level):{width}} {count:>{digits},} {block * -(-count * _BAR // most) if count else ''}".rstrip()
        for level, count in shown
    ]
    more = len(counts.levels) - _MOST_LEVELS
    return [*lines, *([f"levels not shown: {more}"] if more > 0 else [])]


@click.command()
@click.option(
    "--source", "source_only", is_flag=True, help="Look at the table alone: no keys, no enrolment, no network."
)
@click.option("--offline", is_flag=True, help="Do not dial the coordinator and the hub.")
@json_option
@with_settings
def check(settings: PartySettings, source_only: bool, offline: bool, as_json: bool) -> None:
    """Check settings, source, bounds, identifiers, keys, ledger and connections. Nothing of it leaves.

    Exit code 0 when everything is in order, 10 when something is not.

    Example: party-node check --source
    """
    with shown_on_stderr():
        found = look_at(settings)
    ascii_only = not str(sys.stdout.encoding).lower().startswith("utf")
    seen = look(found, ascii_only=ascii_only)
    if source_only or not as_json:
        print_document(seen, as_json=as_json)
    of_table = of_source(settings, found)
    findings = of_table if source_only else check_state(HospitalState(settings), of_table, connectivity=not offline)
    if as_json and not source_only:
        print_json([asdict(finding) for finding in findings])
    elif not as_json:
        for finding in findings:
            mark = click.style("ok     ", fg="green") if finding.ok else click.style("PROBLEM", fg="red")
            click.echo(f"{mark} {finding.what}: {finding.words}")
    bad = dict.fromkeys(finding.what for finding in findings if not finding.ok)
    if bad:
        raise DataRefused(f"not in order: {', '.join(bad)}")
