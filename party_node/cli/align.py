"""`party-node align`: alignment runs, and a person's word on each."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.table import Table as Grid

from dprelease.errors import DpReleaseError
from dprelease.one_line import one_line
from party_node.aligning.consent import consider, say_no, say_yes
from party_node.cli.options import with_desk
from party_node.cli.show import print_card, screen
from party_node.hospital import HospitalState
from party_node.state.runs import RunEntry, RunStatus


@click.group()
def align() -> None:
    """Find the patients that all hospitals have, without showing who the others are.

    Example: party-node align list
    """


@align.command("list")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@with_desk
def list_runs(desk: HospitalState, as_json: bool) -> None:
    """All alignment runs that were ever offered here; the one in force has the highest version.

    Example: party-node align list --json
    """
    entries = desk.runs.entries()
    if as_json:
        click.echo(json.dumps([_line(entry) for entry in entries], indent=2))
        return
    grid = Grid("run", "status", "version", "common patients", "note")
    for entry in entries:
        shown = (entry.version, entry.common)
        grid.add_row(entry.run[:12], entry.status, *(_number(each) for each in shown), one_line(entry.note))
    screen().print(grid)


@align.command()
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@with_desk
def show(desk: HospitalState, run: str, as_json: bool) -> None:
    """Who would take part, with how many patients, and what has to be done first.

    Example: party-node align show 3fa2c1
    """
    card = _card(desk, desk.runs.find(run))
    if as_json:
        click.echo(json.dumps(card, indent=2))
    else:
        print_card(screen(), card)


@align.command()
@click.argument("run")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_desk
def accept(desk: HospitalState, run: str, yes: bool) -> None:
    """Take part: every other hospital that takes part learns which of its own patients are patients of all.

    Example: party-node align accept 3fa2c1
    """
    entry = desk.runs.find(run)
    print_card(screen(), _card(desk, entry))
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


def _line(entry: RunEntry) -> dict[str, Any]:
    return {
        "run": entry.run,
        "roster": entry.task.roster,
        "status": entry.status.value,
        "version": entry.version,
        "common_patients_seen_here_only": entry.common,
        "note": entry.note,
    }


def _card(desk: HospitalState, entry: RunEntry) -> dict[str, Any]:
    """What the hospital sees on its own screen, JSON-ready."""
    task, found = entry.task, _line(entry)
    own = task.member(desk.settings.name)
    found |= {
        "consortium": task.consortium,
        "identifiers": task.identifiers or "as they stand",
        "accept_before": task.expires,
        "our_patients": None if own is None else own.patients,
        "other_hospitals": {each.party: f"{each.patients} patients" for each in task.members if each is not own},
        "they_learn": "each hospital learns which of its own patients all hospitals have, and nothing of other patients",
    }
    if entry.status in {RunStatus.WAITING, RunStatus.ACCEPTED}:
        try:
            consent = consider(desk, task)
        except DpReleaseError as error:
            return found | {"cannot_be_accepted": error.message}
        pinned = {peer.party: "key pinned" if not peer.first else "key not pinned" for peer in consent.peers}
        found["other_hospitals"] = {name: f"{what}, {pinned[name]}" for name, what in found["other_hospitals"].items()}
        found |= {
            "runs_before": consent.attempts,
            "runs_left": f"{consent.most - consent.attempts - 1} after this one, of {consent.most}",
            "first": list(consent.blockers),
        }
    return found


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
