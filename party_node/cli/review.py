"""`party-node review`: what is proposed, and a person's word on it."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from dprelease.cli.printing import explain_option, json_option, print_document, print_json
from dprelease.document.document import Document
from dprelease.errors import Conflict, InvalidInput
from party_node.cli.options import with_desk
from party_node.cli.show import card, releases
from party_node.hospital import HospitalState
from party_node.state.journal import MOST_UNDECIDED, Record, Status


@click.group()
def review() -> None:
    """See what is proposed, what it would publish and cost; approve or decline.

    Example: party-node review list
    """


@review.command("list")
@click.option("--page", type=click.IntRange(1), default=1, help="Which 50, the newest on page 1.", show_default=True)
@json_option
@with_desk
def list_releases(desk: HospitalState, page: int, as_json: bool) -> None:
    """The releases that were offered here, 50 on a page; those that wait for a person are on page 1.

    Example: party-node review list --page 2 --json
    """
    records, count = desk.journal.page(page)
    last = -(-count // MOST_UNDECIDED)
    if page > max(1, last):
        raise InvalidInput(f"there is no page {page}; the last one is {max(1, last)}")
    shown = releases(records)
    if as_json:
        print_json(shown.to_json())
    else:
        print_document(Document("", tables=(shown,)))
    if page * MOST_UNDECIDED < count:
        click.echo(f"{count} releases in all; older ones: party-node review list --page {page + 1}", err=True)


@review.command()
@click.argument("release")
@json_option
@explain_option
@with_desk
def show(desk: HospitalState, release: str, as_json: bool, explain: bool) -> None:
    """What a release would publish and what it costs, from metadata alone: no noise exists yet.

    Example: party-node review show 3fa2c1
    """
    record = desk.journal.find(release)
    print_document(_card(desk, record), as_json=as_json, explain=explain)


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
    print_document(_card(desk, record))
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


def _card(desk: HospitalState, record: Record) -> Document:
    return card(desk.assess(record.spec), record, desk.findings(record.spec))
