"""`party-node`: what a hospital's IT department types."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import click

from dprelease.errors import DataRefused
from dprelease.invite import Invite
from dprelease.price import mu2_text
from dprelease.settings import read_settings
from dprelease.version import __version__
from dprelease.wire.console import Commands, StopSignal, log_json_option, log_to_stderr
from party_node.checkup import check as run_check
from party_node.cli_budget import ledger
from party_node.cli_keys import alignment_key, fingerprint, peers
from party_node.cli_public import public
from party_node.daemon import Daemon
from party_node.desk import Desk
from party_node.settings import PartySettings
from party_node.show import card, print_card, print_releases, screen


@click.group(cls=Commands, context_settings={"auto_envvar_prefix": "PARTY_NODE"})
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("party.toml"),
    show_default=True,
    envvar="PARTY_NODE_CONFIG",
    help="Settings file.",
)
@click.version_option(__version__)
@click.pass_context
def main(context: click.Context, config: Path) -> None:
    """A hospital's node: it reads the hospital's own table and answers for every byte that leaves.

    Example: party-node --config /etc/dprelease/party.toml check
    """
    context.obj = lambda: Desk(read_settings(config, PartySettings))


main.add_command(ledger)
main.add_command(alignment_key)
main.add_command(fingerprint)
main.add_command(peers)
main.add_command(public)


@main.command()
@click.argument("token")
@click.pass_context
def enroll(context: click.Context, token: str) -> None:
    """Join the consortium with an invite; keys are made here and stay here.

    Example: party-node enroll eyJhZGRyZXNzIjoi...
    """
    desk: Desk = context.obj()
    enrolment = desk.enrol(Invite.from_token(token))
    click.echo(f"enrolled in {enrolment.consortium} as {enrolment.party}")
    click.echo(f"budget of roster {desk.settings.roster}: mu^2 = {mu2_text(Fraction(enrolment.cap_mu2))}, for good")
    click.echo(f"key fingerprint, for the other hospitals: {desk.identity.fingerprint()}")


@main.command()
@click.option("--offline", is_flag=True, help="Do not dial the coordinator and the hub.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@click.pass_context
def check(context: click.Context, offline: bool, as_json: bool) -> None:
    """Check settings, source, bounds, identifiers, keys, ledger and connections. Nothing of it leaves.

    Exit code 0 when everything is in order, 10 when something is not.

    Example: party-node check --offline
    """
    findings = run_check(context.obj(), connectivity=not offline)
    if as_json:
        click.echo(json.dumps([finding.to_json() for finding in findings], indent=2))
    else:
        for finding in findings:
            mark = click.style("ok     ", fg="green") if finding.ok else click.style("PROBLEM", fg="red")
            click.echo(f"{mark} {finding.what}: {finding.words}")
    bad = [finding.what for finding in findings if not finding.ok]
    if bad:
        raise DataRefused(f"not in order: {', '.join(bad)}")


@main.command()
@click.option("--verbose", is_flag=True, help="Log more; never a cell or an identifier.")
@log_json_option
@click.pass_context
def run(context: click.Context, verbose: bool, log_json: bool) -> None:
    """Run the daemon until it is stopped by SIGTERM or SIGINT.

    Example: party-node --config /etc/dprelease/party.toml run
    """
    from dprelease.noise import SecureNoise

    log_to_stderr(verbose=verbose, as_json=log_json)
    stop = StopSignal()
    Daemon(context.obj(), SecureNoise()).run(stop)


@main.group()
def review() -> None:
    """See what is proposed, what it would publish and cost; approve or decline.

    Example: party-node review list
    """


@review.command("list")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@click.pass_context
def list_releases(context: click.Context, as_json: bool) -> None:
    """All releases that were ever offered here.

    Example: party-node review list --json
    """
    records = context.obj().journal.records()
    if as_json:
        lines = [
            {"release": record.release, "status": record.status.value, "title": record.spec.title, "note": record.note}
            for record in records
        ]
        click.echo(json.dumps(lines, indent=2))
    else:
        print_releases(screen(), records)


@review.command()
@click.argument("release")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@click.pass_context
def show(context: click.Context, release: str, as_json: bool) -> None:
    """What a release would publish and what it costs, from metadata alone: no noise exists yet.

    Example: party-node review show 3fa2c1
    """
    desk: Desk = context.obj()
    record = desk.journal.find(release)
    shown = card(desk.assess(record.spec), record)
    if as_json:
        click.echo(json.dumps(shown, indent=2, default=str))  # an exact mu^2 is "p/q"
    else:
        print_card(screen(), shown)


@review.command()
@click.argument("release")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def approve(context: click.Context, release: str, yes: bool) -> None:
    """Approve a release; the daemon signs when it looks next.

    Example: party-node review approve 3fa2c1
    """
    desk: Desk = context.obj()
    record = desk.journal.find(release)
    print_card(screen(), card(desk.assess(record.spec), record))
    if not yes:
        click.confirm("Approve?", abort=True)
    desk.accept(record)
    click.echo(f"approved {record.release[:12]} at {datetime.now(UTC):%H:%M:%S} UTC; the daemon takes it from here")


@review.command()
@click.argument("release")
@click.option("--reason", default="", help="Told to the consortium's office; write nothing about patients.")
@click.pass_context
def decline(context: click.Context, release: str, reason: str) -> None:
    """Decline a release, before anything was computed.

    Example: party-node review decline 3fa2c1 --reason "not before the ethics board has met"
    """
    desk: Desk = context.obj()
    record = desk.journal.find(release)
    desk.decline(record, reason)
    click.echo(f"declined {record.release[:12]}")
