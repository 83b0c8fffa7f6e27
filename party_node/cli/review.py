"""`party-node review`: what is proposed, and a person's word on it."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import click

from dprelease.errors import Conflict
from party_node.cli.options import with_desk
from party_node.cli.show import card, print_card, print_releases, screen
from party_node.hospital import HospitalState
from party_node.state.journal import MOST_UNDECIDED, Status


@click.group()
def review() -> None:
    """See what is proposed, what it would publish and cost; approve or decline.

    Example: party-node review list
    """


@review.command("list")
@click.option("--page", type=click.IntRange(1), default=1, help="Which 50, the newest on page 1.", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@with_desk
def list_releases(desk: HospitalState, page: int, as_json: bool) -> None:
    """The releases that were offered here, 50 on a page; those that wait for a person are on page 1.

    Example: party-node review list --page 2 --json
    """
    records, count = desk.journal.page(page)
    if as_json:
        lines = [
            {"release": record.release, "status": record.status.value, "title": record.spec.title, "note": record.note}
            for record in records
        ]
        click.echo(json.dumps(lines, indent=2))
    else:
        print_releases(screen(), records)
    if page * MOST_UNDECIDED < count:
        click.echo(f"{count} releases in all; older ones: party-node review list --page {page + 1}", err=True)


@review.command()
@click.argument("release")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@with_desk
def show(desk: HospitalState, release: str, as_json: bool) -> None:
    """What a release would publish and what it costs, from metadata alone: no noise exists yet.

    Example: party-node review show 3fa2c1
    """
    record = desk.journal.find(release)
    shown = card(desk.assess(record.spec), record, desk.findings(record.spec))
    if as_json:
        click.echo(json.dumps(shown, indent=2, default=str))  # an exact mu^2 is "p/q"
    else:
        print_card(screen(), shown)


@review.command()
@click.argument("release")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_desk
def approve(desk: HospitalState, release: str, yes: bool) -> None:
    """Approve a release; the daemon signs when it looks next.

    Example: party-node review approve 3fa2c1
    """
    record = desk.journal.find(release)
    if record.status is not Status.WAITING:
        raise Conflict(f"release {record.release[:12]} is {record.status} here; there is nothing to approve")
    print_card(screen(), card(desk.assess(record.spec), record, desk.findings(record.spec)))
    if not yes:
        click.confirm("Approve?", abort=True)
    desk.accept(record)
    click.echo(f"approved {record.release[:12]} at {datetime.now(UTC):%H:%M:%S} UTC; the daemon takes it from here")


@review.command()
@click.argument("release")
@click.option("--reason", default="", help="Told to the consortium's office; write nothing about patients.")
@with_desk
def decline(desk: HospitalState, release: str, reason: str) -> None:
    """Decline a release, before anything was computed.

    Example: party-node review decline 3fa2c1 --reason "not before the ethics board has met"
    """
    record = desk.journal.find(release)
    desk.decline(record, reason)
    click.echo(f"declined {record.release[:12]}")
