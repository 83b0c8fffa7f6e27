"""`party-node enrol` and `run`: a node's life."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import click

from dprelease.cli.console import StopSignal, log_json_option, log_to_stderr
from dprelease.errors import Unauthenticated
from dprelease.identity.invite import Invite
from dprelease.privacy.noise import SecureNoise
from dprelease.privacy.price import price_text
from dprelease.threads import without_pandas
from party_node.cli.budget import usual_delta
from party_node.cli.options import read_party, with_config, with_hospital
from party_node.daemon import Daemon
from party_node.hospital import HospitalState
from party_node.outgoing.joining import enrol as join


@click.command()
@click.argument("token")
@click.option("--ledger-lost", is_flag=True, help="Open a new ledger, charged with all that is known of the lost one.")
@with_hospital
def enrol(hospital: HospitalState, token: str, ledger_lost: bool) -> None:
    """Join the consortium with an invite; keys are made here and stay here.

    Example: party-node enrol eyJhZGRyZXNzIjoi...
    """
    try:
        enrolment = join(hospital, Invite.from_token(token), ledger_lost=ledger_lost)
    except Unauthenticated as error:
        words = f"{error.message} An invite serves once and lapses: ask the consortium's office for a new one"
        raise Unauthenticated(words) from error
    click.echo(f"enrolled in {enrolment.consortium} as {enrolment.party}")
    cap = price_text(Fraction(enrolment.cap_mu2), usual_delta(hospital))
    click.echo(f"budget of roster {hospital.settings.roster}: {cap}, for good")
    click.echo(f"key fingerprint, for the other hospitals: {hospital.identity.fingerprint()}")


@click.command()
@click.option("--verbose", is_flag=True, help="Log more; never a cell or an identifier.")
@log_json_option
@with_config
def run(config: Path, verbose: bool, log_json: bool) -> None:
    """Run the daemon until it is stopped by SIGTERM or SIGINT. It notices by itself when its settings or the table change.

    Example: party-node run --config /etc/dprelease/party.toml
    """
    without_pandas()
    hospital = HospitalState(read_party(config))
    log_to_stderr(verbose=verbose, as_json=log_json)
    stop = StopSignal()
    Daemon(hospital, SecureNoise(), config).run(stop)
