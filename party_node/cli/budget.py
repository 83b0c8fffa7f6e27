"""`party-node ledger`: the hospital's privacy budget, and what every entry of it left. Sums are exact; showing changes none."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

import click

from dprelease.cli.printing import json_option, print_document
from dprelease.description.spending import USUAL_DELTA
from dprelease.document.cells import Cell, Said, price
from dprelease.document.document import Document, Heading, Table
from dprelease.errors import NotFound
from dprelease.files.durable import write_durably
from dprelease.mechanisms.registry import mechanism_of
from dprelease.privacy.price import epsilon_at, epsilon_text, mu2_text, price_text, room_text
from party_node.cli.options import with_hospital
from party_node.hospital import HospitalState
from party_node.outgoing.joining import open_roster as add_roster
from party_node.state.books import mismatches
from party_node.state.books import reconcile as reconcile_books
from party_node.state.entries import HOLDING, STAGES, Balance, Entry
from party_node.state.journal import Record

Rounds = Mapping[str, Mapping[str, Fraction]]
"""Release to the mechanisms of its rounds, each with its part of our charge; only of releases of several rounds."""

ONE_ROUND: Rounds = MappingProxyType({})
"""No release has several."""


@dataclass(frozen=True)
class Line:
    """An entry, and where the account stood after it.

    Attributes:
        entry: of the ledger.
        title: of its release, or of what was declared public; empty for ``open``.
        held: mu^2 charged or reserved after the entry.
        left: mu^2 left after it.
        rounds: mechanism of each round of its release to that round's part of the entry's mu^2; empty where there is one.
    """

    entry: Entry
    title: str
    held: Fraction
    left: Fraction
    rounds: Mapping[str, Fraction]

    @property
    def mu2(self) -> Fraction:
        """mu^2 of the entry: the cap for ``open``."""
        return Fraction(self.entry.mu2)


def rounds_of(records: Iterable[Record], entries: Iterable[Entry], party: str) -> Rounds:
    """Each round's part of what releases of several rounds are charged, from the specs that we approved.

    A release that the ledger never held budget for is left out.
    """
    priced = {entry.release for entry in entries if entry.kind in HOLDING}
    rounds = {each.digest: mechanism_of(each.spec).cost(each.spec).rounds for each in records if each.digest in priced}
    return {
        release: {mechanism: charges[party] for mechanism, charges in found.items()}
        for release, found in rounds.items()
        if found
    }


def history(entries: Iterable[Entry], rounds: Rounds = ONE_ROUND) -> tuple[Line, ...]:
    """The account after every entry of one roster, which come oldest first; rounds as of `rounds_of`."""
    cap, held = Fraction(0), Fraction(0)
    holding: dict[str, Fraction] = {}
    titles: dict[str, str] = {}
    lines = []
    for entry in entries:
        if entry.kind == "open":
            cap = Fraction(entry.mu2)
        elif entry.kind in STAGES:
            titles.setdefault(entry.release, str(json.loads(entry.detail).get("title", "")))
            now = Fraction(entry.mu2) if entry.kind in HOLDING else Fraction(0)
            held += now - holding.get(entry.release, Fraction(0))
            holding[entry.release] = now
        title = titles.get(entry.release, "") if entry.release else str(json.loads(entry.detail).get("title", ""))
        lines.append(Line(entry, title, held, cap - held, rounds_at(entry, rounds)))
    return tuple(lines)


def rounds_at(entry: Entry, rounds: Rounds) -> Mapping[str, Fraction]:
    """Each round's part of an entry's mu^2; empty where its release has one round, or the entry names no price."""
    return rounds.get(entry.release, {}) if entry.kind in STAGES else {}


_ENTRY = (
    Heading("number", "no"),
    Heading("at"),
    Heading("kind"),
    Heading("release"),
    Heading("title"),
    Heading("mu2", "mu^2"),
    Heading("epsilon"),
    Heading("held_mu2", "held: mu^2"),
    Heading("held_epsilon", "held: epsilon"),
    Heading("left_mu2", "left: mu^2"),
    *(Heading(key, detail=True) for key in ("roster", "detail", "previous", "hash")),
    Heading("rounds", "of it"),
)


def account(roster: str, balance: Balance, lines: Sequence[Line], delta: float) -> Document:
    """Spent and left, and every entry; as data, every mu^2 is an exact rational, ``"p/q"``.

    Raises:
        InvalidInput: delta is not in (0, 1).
    """
    amounts = {
        "charged": balance.charged,
        "reserved": balance.reserved,
        "spent": balance.held,
        "left": balance.remaining,
        "cap": balance.cap,
        "exposure_of_own_columns": balance.exposed,
    }
    latest = next((line for line in reversed(lines) if line.entry.kind == "reserve" and line.mu2), None)
    like = f"release {latest.entry.release[:12]}, the latest that costs anything" if latest else ""
    return Document(
        f"roster {roster}",
        {name: price(mu2, delta) for name, mu2 in amounts.items()},
        (Table.of("entries", _ENTRY, [_row(line, delta) for line in lines]),),
        (f"The rest is {room_text(balance.remaining, latest.mu2, like)}.",) if latest else (),
        data={"roster": roster, "delta": delta},
    )


def _row(line: Line, delta: float) -> list[Cell]:
    cells: dict[str, Cell] = asdict(line.entry)
    cells |= {"release": Said(line.entry.release, line.entry.release[:12]), "title": line.title}
    amounts = ("mu2", line.mu2), ("held_mu2", line.held), ("left_mu2", line.left)
    cells |= {name: Said(str(mu2), mu2_text(mu2)) for name, mu2 in amounts}
    for name, mu2 in (("epsilon", line.mu2), ("held_epsilon", line.held)):
        cells[name] = Said(epsilon_at(mu2, delta), epsilon_text(mu2, delta))
    rounds = {name: {"mu2": str(mu2), "epsilon": epsilon_at(mu2, delta)} for name, mu2 in line.rounds.items()}
    said = tuple(f"{name}: {mu2_text(mu2)}, {epsilon_text(mu2, delta)}" for name, mu2 in line.rounds.items())
    cells["rounds"] = Said(rounds, said or "")
    return [cells[heading.key] for heading in _ENTRY]


@click.group()
def ledger() -> None:
    """The privacy budget: append-only, hash-chained, kept here.

    Example: party-node ledger show
    """


@ledger.command()
@click.option(
    "--delta",
    type=float,
    help="delta at which epsilon is shown; the consortium's, max_delta of the policy or 1e-6 if left out.",
)
@json_option
@with_hospital
def show(hospital: HospitalState, delta: float | None, as_json: bool) -> None:
    """Amounts that the roster has spent and has left, and the account after every entry, with what each round of a release took.

    Example: party-node ledger show --delta 1e-5
    """
    roster = hospital.settings.roster
    balance, entries = hospital.ledger.balance(roster), hospital.ledger.entries(roster)
    lines = history(entries, rounds_of(hospital.journal.releases(), entries, hospital.settings.name))
    shown = usual_delta(hospital) if delta is None else delta
    print_document(account(roster, balance, lines, shown), as_json=as_json)


def usual_delta(hospital: HospitalState) -> float:
    """delta at which epsilon is shown where a command names none: the consortium's, once it is known, or else the policy's."""
    with suppress(NotFound):
        if hospital.enrolment.delta:
            return hospital.enrolment.delta
    return hospital.settings.policy.limits.max_delta or USUAL_DELTA


@ledger.command("open")
@click.argument("roster")
@with_hospital
def open_roster(hospital: HospitalState, roster: str) -> None:
    """Open the account of another roster: another set of patients, never the same ones under a new name.

    Example: party-node ledger open cohort-2027
    """
    add_roster(hospital, roster, f"opened by hand under enrolment in {hospital.enrolment.consortium}")
    click.echo(f"roster {roster}: {price_text(Fraction(hospital.enrolment.cap_mu2), usual_delta(hospital))}, for good")


@ledger.command()
@with_hospital
def verify(hospital: HospitalState) -> None:
    """Check the hash chain; note the printed hash somewhere else to recognise a lost tail.

    Example: party-node ledger verify
    """
    head = hospital.ledger.verify()
    click.echo(f"whole; last hash {head}")


@ledger.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_hospital
def reconcile(hospital: HospitalState, yes: bool) -> None:
    """After a restore: close every release on which ledger, journal and sealed blocks disagree, at its full price.

    Nothing of a closed release is made or sent here any more. There is no way back.

    Example: party-node ledger reconcile
    """
    found = mismatches(hospital.books)
    for each in found:
        click.echo(f"{each.words}; {price_text(each.mu2, usual_delta(hospital))}")
    if not found:
        click.echo("ledger, journal and sealed blocks agree; nothing to close")
        return
    if not yes:
        click.confirm(f"Charge and close {len(found)} of them for good?", abort=True)
    reconcile_books(hospital.books)
    click.echo(f"closed {len(found)}")


@ledger.command()
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), required=True, help="File to write.")
@with_hospital
def export(hospital: HospitalState, output: Path) -> None:
    """Write all entries as JSON lines, hashes included, and beside them each round's part of a price, which no hash covers.

    Example: party-node ledger export --output ledger.jsonl
    """
    hospital.ledger.verify()
    entries = hospital.ledger.entries()
    rounds = rounds_of(hospital.journal.releases(), entries, hospital.settings.name)
    plain = [
        asdict(entry) | {"rounds": {name: {"mu2": str(mu2)} for name, mu2 in rounds_at(entry, rounds).items()}}
        for entry in entries
    ]
    lines = [json.dumps(each, sort_keys=True) + "\n" for each in plain]
    write_durably(output, "".join(lines).encode())
    click.echo(f"wrote {len(lines)} entries to {output}")
