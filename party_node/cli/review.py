"""`party-node review`: what is proposed, and a person's word on it."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

import click

from dprelease.cli.printing import explain_option, json_option, print_document, print_json
from dprelease.document.document import Document
from dprelease.errors import Conflict, InvalidInput, NotFound
from party_node.aligning.consent import say_no, say_yes
from party_node.cli.options import with_desk
from party_node.cli.show import card, releases, run_card, runs
from party_node.hospital import HospitalState
from party_node.state.journal import MOST_UNDECIDED, Record, Status
from party_node.state.runs import RunEntry


@click.group()
def review() -> None:
    """See what is proposed, what it would publish and cost; approve or decline.

    Example: party-node review list
    """


@review.command("list")
@click.option("--page", type=click.IntRange(1), default=1, help="Which 50, the newest on page 1.", show_default=True)
@json_option
@with_desk
def list_offers(desk: HospitalState, page: int, as_json: bool) -> None:
    """The releases that were offered here, 50 on a page; those that wait for a person, and alignment runs, are on page 1.

    Example: party-node review list --page 2 --json
    """
    records, count = desk.journal.page(page)
    last = -(-count // MOST_UNDECIDED)
    if page > max(1, last):
        raise InvalidInput(f"there is no page {page}; the last one is {max(1, last)}")
    entries = desk.runs.entries() if page == 1 else []
    tables = (*([releases(records)] if records or not entries else []), *([runs(entries)] if entries else []))
    if as_json:
        print_json([line for table in tables for line in table.to_json()])
    else:
        print_document(Document("", tables=tables))
    if page * MOST_UNDECIDED < count:
        click.echo(f"{count} releases in all; older ones: party-node review list --page {page + 1}", err=True)


@review.command()
@click.argument("digits")
@json_option
@explain_option
@with_desk
def show(desk: HospitalState, digits: str, as_json: bool, explain: bool) -> None:
    """Show content and price of a release, or the hospitals of an alignment run. No noise exists yet.

    DIGITS are the first of its name.

    Example: party-node review show 3fa2c1
    """
    print_document(_card(desk, _found(desk, digits)), as_json=as_json, explain=explain)


@review.command()
@click.argument("digits")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_desk
def approve(desk: HospitalState, digits: str, yes: bool) -> None:
    """Approve a release or an alignment run; the daemon signs when it looks next.

    In an alignment run every other hospital learns which of its own patients are patients of all.

    Example: party-node review approve 3fa2c1
    """
    found = _found(desk, digits)
    if found.status != Status.WAITING:
        raise Conflict(f"{found.name} is {found.status} here; there is nothing to approve")
    print_document(_card(desk, found))
    if not yes:
        click.confirm("Approve?", abort=True)
    if isinstance(found, Record):
        desk.accept(found)
    else:
        say_yes(desk, found)
    click.echo(f"approved {found.digest[:12]} at {datetime.now(UTC):%H:%M:%S} UTC; the daemon takes it from here")


@review.command()
@click.argument("digits")
@click.option("--reason", default="", help="Told to the consortium's office; write nothing about patients.")
@with_desk
def decline(desk: HospitalState, digits: str, reason: str) -> None:
    """Decline a release before anything was computed, or take no part in an alignment run any longer.

    A run that has begun counts all the same.

    Example: party-node review decline 3fa2c1 --reason "not before the ethics board has met"
    """
    found = _found(desk, digits)
    if isinstance(found, Record):
        desk.decline(found, reason)
    else:
        say_no(desk, found, reason)
    click.echo(f"declined {found.digest[:12]}")


def _found(desk: HospitalState, digits: str) -> Record | RunEntry:
    """The release, or the alignment run, whose name begins so.

    Raises:
        NotFound: there is none.
        InvalidInput: there are several.
    """
    found: list[Record | RunEntry] = []
    for offers in (desk.journal, desk.runs):
        with suppress(NotFound):
            found.append(offers.find(digits))
    if not found:
        raise NotFound(f"no release and no alignment run {digits} was offered here; see: party-node review list")
    if len(found) > 1:
        raise InvalidInput(f"{digits} fits a release and an alignment run; give more digits")
    return found[0]


def _card(desk: HospitalState, found: Record | RunEntry) -> Document:
    if isinstance(found, RunEntry):
        return run_card(desk, found)
    return card(desk.assess(found.spec), found, desk.findings(found.spec))
