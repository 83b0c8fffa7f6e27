"""`party-node ledger`: the hospital's privacy budget."""

from __future__ import annotations

import json
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

import click

from dprelease.durable import write_durably
from party_node.desk import Desk
from party_node.show import print_ledger, screen


@click.group()
def ledger() -> None:
    """The privacy budget: append-only, hash-chained, kept here.

    Example: party-node ledger show
    """


@ledger.command()
@click.option("--delta", default=1e-6, show_default=True, help="delta at which epsilon is shown.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@click.pass_context
def show(context: click.Context, delta: float, as_json: bool) -> None:
    """The roster's entries and balance.

    Example: party-node ledger show --delta 1e-5
    """
    desk: Desk = context.obj()
    roster = desk.settings.roster
    balance, entries = desk.ledger.balance(roster), desk.ledger.entries(roster)
    if as_json:
        shown = {
            "roster": roster,
            "cap_mu2": float(balance.cap),
            "charged_mu2": float(balance.charged),
            "reserved_mu2": float(balance.reserved),
            "remaining_mu2": float(balance.remaining),
            "delta": delta,
            "spent_epsilon": balance.epsilon(delta),
            "entries": [asdict(entry) for entry in entries],
        }
        click.echo(json.dumps(shown, indent=2))
    else:
        print_ledger(screen(), roster, balance, entries, delta)


@ledger.command("open")
@click.argument("roster")
@click.pass_context
def open_roster(context: click.Context, roster: str) -> None:
    """Open the account of another roster: another set of patients, never the same ones under a new name.

    Example: party-node ledger open cohort-2027
    """
    desk: Desk = context.obj()
    cap = Fraction(desk.enrolment.cap_mu2)
    desk.ledger.open(roster, cap, f"opened by hand under enrolment in {desk.enrolment.consortium}")
    click.echo(f"roster {roster}: mu^2 = {float(cap):.6g}, for good")


@ledger.command()
@click.pass_context
def verify(context: click.Context) -> None:
    """Check the hash chain; note the printed hash somewhere else to recognise a lost tail.

    Example: party-node ledger verify
    """
    desk: Desk = context.obj()
    head = desk.ledger.verify()
    click.echo(f"whole; last hash {head}")


@ledger.command()
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), required=True, help="File to write.")
@click.pass_context
def export(context: click.Context, output: Path) -> None:
    """Write all entries as JSON lines, hashes included.

    Example: party-node ledger export --output ledger.jsonl
    """
    desk: Desk = context.obj()
    desk.ledger.verify()
    lines = [json.dumps(asdict(entry), sort_keys=True) + "\n" for entry in desk.ledger.entries()]
    write_durably(output, "".join(lines).encode())
    click.echo(f"wrote {len(lines)} entries to {output}")
