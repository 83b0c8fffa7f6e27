"""`party-node check`: the table first, then what it takes to run."""

from __future__ import annotations

import json

import click

from dprelease.errors import DataRefused
from party_node.cli.checkup import check as run_check
from party_node.cli.checkup import of_source
from party_node.cli.look import look_json, print_look
from party_node.cli.options import with_settings
from party_node.cli.show import screen
from party_node.hospital import HospitalState
from party_node.settings import PartySettings
from party_node.source.first_look import look_at


@click.command()
@click.option(
    "--source", "source_only", is_flag=True, help="Look at the table alone: no keys, no enrolment, no network."
)
@click.option("--offline", is_flag=True, help="Do not dial the coordinator and the hub.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@with_settings
def check(settings: PartySettings, source_only: bool, offline: bool, as_json: bool) -> None:
    """Check settings, source, bounds, identifiers, keys, ledger and connections. Nothing of it leaves.

    Exit code 0 when everything is in order, 10 when something is not.

    Example: party-node check --source
    """
    look = look_at(settings)
    if not as_json:
        print_look(screen(), look)
    of_table = of_source(settings, look)
    findings = of_table if source_only else run_check(HospitalState(settings), of_table, connectivity=not offline)
    if as_json:
        shown = look_json(look) if source_only else [finding.to_json() for finding in findings]
        click.echo(json.dumps(shown, indent=2))
    else:
        for finding in findings:
            mark = click.style("ok     ", fg="green") if finding.ok else click.style("PROBLEM", fg="red")
            click.echo(f"{mark} {finding.what}: {finding.words}")
    bad = dict.fromkeys(finding.what for finding in findings if not finding.ok)
    if bad:
        raise DataRefused(f"not in order: {', '.join(bad)}")
