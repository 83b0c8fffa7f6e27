"""`party-node align`: alignment runs, and a person's word on each."""

from __future__ import annotations

import click

from dprelease.cli.printing import json_option, print_document, print_json
from dprelease.document.cells import Cell, Said
from dprelease.document.document import Document, Heading, Table
from dprelease.errors import DpReleaseError
from party_node.aligning.consent import consider, say_no, say_yes
from party_node.cli.options import with_desk
from party_node.hospital import HospitalState
from party_node.state.runs import RunEntry, RunStatus

SEEN_HERE = "common_patients_seen_here_only"
"""Key of the one number that never leaves."""


@click.group()
def align() -> None:
    """Find the patients that all hospitals have, without showing who the others are.

    Example: party-node align list
    """


@align.command("list")
@json_option
@with_desk
def list_runs(desk: HospitalState, as_json: bool) -> None:
    """All alignment runs that were ever offered here; the one in force has the highest version.

    Example: party-node align list --json
    """
    entries = desk.runs.entries()
    headings = ("run", "roster", "status", "version", Heading(SEEN_HERE, "common patients"), "note")
    found = Table.of("runs", headings, [tuple(_line(entry).values()) for entry in entries])
    if as_json:
        print_json(found.to_json())
    else:
        print_document(Document("", tables=(found,)))


@align.command()
@click.argument("run")
@json_option
@with_desk
def show(desk: HospitalState, run: str, as_json: bool) -> None:
    """Who would take part, with how many patients, and what has to be done first.

    Example: party-node align show 3fa2c1
    """
    print_document(_card(desk, desk.runs.find(run)), as_json=as_json)


@align.command()
@click.argument("run")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_desk
def accept(desk: HospitalState, run: str, yes: bool) -> None:
    """Take part: every other hospital that takes part learns which of its own patients are patients of all.

    Example: party-node align accept 3fa2c1
    """
    entry = desk.runs.find(run)
    print_document(_card(desk, entry))
    if not yes:
        click.confirm("Accept?", abort=True)
    say_yes(desk, entry)
    click.echo(f"accepted {entry.run[:12]}; the daemon takes it from here, once all hospitals have accepted")


@align.command()
@click.argument("run")
@click.option("--reason", default="", help="Told to the consortium's office; write nothing about patients.")
@with_desk
def decline(desk: HospitalState, run: str, reason: str) -> None:
    """Take no part, or go on no longer. A run that has begun counts all the same.

    Example: party-node align decline 3fa2c1 --reason "a newer export comes on Monday"
    """
    entry = desk.runs.find(run)
    say_no(desk, entry, reason)
    click.echo(f"declined {entry.run[:12]}")


def _line(entry: RunEntry) -> dict[str, Cell]:
    return {
        "run": Said(entry.run, entry.run[:12]),
        "roster": entry.task.roster,
        "status": entry.status.value,
        "version": entry.version,
        SEEN_HERE: entry.common,
        "note": Said(entry.note, entry.note),
    }


def _card(desk: HospitalState, entry: RunEntry) -> Document:
    """What the hospital sees on its own screen."""
    task = entry.task
    own = task.member(desk.settings.name)
    others = {each.party: f"{each.patients:,} patients" for each in task.members if each is not own}
    found: dict[str, Cell | tuple[str, ...]] = {
        **_line(entry),
        "consortium": task.consortium,
        "identifiers": task.identifiers or "as they stand",
        "accept_before": task.expires,
        "our_patients": None if own is None else own.patients,
        "they_learn": "each hospital learns which of its own patients all hospitals have, and nothing of other patients",
    }
    if entry.status in {RunStatus.WAITING, RunStatus.ACCEPTED}:
        try:
            consent = consider(desk, task)
        except DpReleaseError as error:
            found["cannot_be_accepted"] = error.message
        else:
            for peer in consent.peers:
                others[peer.party] += ", key not pinned" if peer.first else ", key pinned"
            found |= {
                "runs_before": consent.attempts,
                "runs_left": f"{consent.most - consent.attempts - 1} after this one, of {consent.most}",
                "first": tuple(consent.blockers),
            }
    shown = tuple(f"{name}: {words}" for name, words in others.items())
    return Document(f"alignment run {entry.run[:12]}", found | {"other_hospitals": Said(others, shown)})
