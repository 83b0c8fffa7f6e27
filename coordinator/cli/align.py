"""`coordinator align`: hospitals agree on the patients that all of them have."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from coordinator.cli.options import opened, print_json, print_table, with_json, with_settings
from coordinator.clock import utc_now
from coordinator.lifecycle.lifecycle import Cancelled
from coordinator.proposals import alignment
from coordinator.settings import CoordinatorSettings
from coordinator.store.agreements import Agreement
from coordinator.store.history import Happening
from dprelease.one_line import one_line
from dprelease.spec_base import instant

SHORT = 12


@click.group()
def align() -> None:
    """Let hospitals find the patients that all of them have. A run may be named by the first digits of its digest.

    \b
    Example:
      coordinator align list
    """


@align.command()
@click.option("--roster", required=True, help="Name of the set of patients.")
@click.option(
    "--hours",
    type=click.FloatRange(min=0, min_open=True, max=8760),
    default=72.0,
    show_default=True,
    help="How long they have to accept.",
)
@click.argument("parties", nargs=-1, required=True)
@with_json
@with_settings
def start(settings: CoordinatorSettings, roster: str, hours: float, parties: tuple[str, ...], as_json: bool) -> None:
    """Offer an alignment run to PARTIES, two to ten hospitals, who have --hours to accept it.

    The numbers of patients that each announced are part of it. Nothing is computed before a person at every hospital accepted,
    and every run counts towards what a hospital allows.

    \b
    Example:
      coordinator align start --roster cohort clinic-a clinic-b registry
    """
    run_time = timedelta(hours=settings.run_hours)
    with opened(settings) as store:
        made = alignment.start(store, roster, parties, timedelta(hours=hours), run_time, utc_now())
    print_json(describe(made)) if as_json else _print(made)


@align.command("list")
@with_json
@with_settings
def list_runs(settings: CoordinatorSettings, as_json: bool) -> None:
    """List alignment runs, oldest first, and whom each one waits for.

    \b
    Example:
      coordinator align list --json
    """
    with opened(settings) as store, store.reading() as tx:
        found = tx.alignments.all()
    if as_json:
        print_json([describe(one) for one in found])
        return
    rows = [(each.digest[:SHORT], each.record.state.value, each.record.explain()) for each in found]
    print_table(("RUN", "STATE", "EXPLANATION"), rows)


@align.command()
@click.argument("prefix", metavar="ID")
@with_json
@with_settings
def show(settings: CoordinatorSettings, prefix: str, as_json: bool) -> None:
    """Show one alignment run: who has accepted, who has finished, what happened.

    \b
    Example:
      coordinator align show 3fa9c1
    """
    with opened(settings) as store, store.reading() as tx:
        found = tx.alignments.find(prefix)
        lines = tx.history.of_agreement(found.digest)
    if as_json:
        print_json(describe(found, lines))
        return
    _print(found)
    for line in lines:
        click.echo(f"{instant(line.at)}  {line.what}")


@align.command()
@click.argument("prefix", metavar="ID")
@click.option("--reason", required=True, help="What the hospitals are told.")
@with_json
@with_settings
def cancel(settings: CoordinatorSettings, prefix: str, reason: str, as_json: bool) -> None:
    """Withdraw an alignment run. What a hospital counted of it stays counted.

    \b
    Example:
      coordinator align cancel 3fa9c1 --reason "clinic-b has a newer export"
    """
    event = Cancelled(one_line(reason, settings.limits.longest_reason))
    with opened(settings) as store, store.writing() as tx:
        found = tx.alignments.advance(tx.alignments.find(prefix).digest, event, utc_now())
    print_json(describe(found)) if as_json else _print(found)


def describe(found: Agreement, lines: tuple[Happening, ...] = ()) -> dict[str, Any]:
    """A run as plain data, with its history if given."""
    record, task = found.record, found.read_task()
    return {
        "run": found.digest,
        "roster": task.roster,
        "state": record.state.value,
        "explanation": record.explain(),
        "waits_for": list(record.waits_for),
        "patients": {member.party: member.patients for member in task.members},
        "identifiers": task.identifiers,
        "accepted": [party for party in record.parties if party in record.approved],
        "declined": [party for party in record.parties if party in record.declined],
        "finished": [party for party in record.parties if party in record.finished],
        "created": task.created,
        "expires": task.expires,
        "history": [{"at": instant(line.at), "what": line.what} for line in lines],
    }


def _print(found: Agreement) -> None:
    task = found.read_task()
    click.echo(f"alignment run {found.digest}")
    click.echo(f"roster {task.roster}: {found.record.state}, {found.record.explain()}")
    for member in task.members:
        click.echo(f"{member.party}: {member.patients} patients")
