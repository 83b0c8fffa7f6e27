"""`party-node check`: the table first, then what it takes to run."""

from __future__ import annotations

import sys

import click

from dprelease.cli.printing import json_option, print_document, print_json
from dprelease.errors import DataRefused
from party_node.cli.checkup import check as run_check
from party_node.cli.checkup import of_source
from party_node.cli.look import look
from party_node.cli.options import with_settings
from party_node.hospital import HospitalState
from party_node.settings import PartySettings
from party_node.source.first_look import look_at


@click.command()
@click.option(
    "--source", "source_only", is_flag=True, help="Look at the table alone: no keys, no enrolment, no network."
)
@click.option("--offline", is_flag=True, help="Do not dial the coordinator and the hub.")
@json_option
@with_settings
def check(settings: PartySettings, source_only: bool, offline: bool, as_json: bool) -> None:
    """Check settings, source, bounds, identifiers, keys, ledger and connections. Nothing of it leaves.

    Exit code 0 when everything is in order, 10 when something is not.

    Example: party-node check --source
    """
    found = look_at(settings)
    ascii_only = not str(sys.stdout.encoding).lower().startswith("utf")
    seen = look(found, ascii_only=ascii_only)
    if source_only or not as_json:
        print_document(seen, as_json=as_json)
    of_table = of_source(settings, found)
    findings = of_table if source_only else run_check(HospitalState(settings), of_table, connectivity=not offline)
    if as_json and not source_only:
        print_json([finding.to_json() for finding in findings])
    elif not as_json:
        for finding in findings:
            mark = click.style("ok     ", fg="green") if finding.ok else click.style("PROBLEM", fg="red")
            click.echo(f"{mark} {finding.what}: {finding.words}")
    bad = dict.fromkeys(finding.what for finding in findings if not finding.ok)
    if bad:
        raise DataRefused(f"not in order: {', '.join(bad)}")
