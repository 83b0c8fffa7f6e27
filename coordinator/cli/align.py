"""`coordinator align`: hospitals agree on the patients that all of them have."""

from __future__ import annotations

from datetime import timedelta

import click

from coordinator.cli.options import opened, with_settings
from coordinator.cli.release_report import agreement
from coordinator.clock import utc_now
from coordinator.proposals import alignment
from coordinator.settings import CoordinatorSettings
from dprelease.cli.printing import json_option, print_document


@click.group()
def align() -> None:
    """Let hospitals find the patients that all of them have. Runs are listed and cancelled as releases are.

    \b
    Example:
      coordinator align start --roster cohort clinic-a clinic-b
      coordinator release list
    """


@align.command()
@click.option("--roster", required=True, help="Name of the set of patients.")
@click.option(
    "--hours",
    type=click.FloatRange(min=0, min_open=True, max=8760),
    default=72.0,
    show_default=True,
    help="How long they have to approve.",
)
@click.argument("parties", nargs=-1, required=True)
@json_option
@with_settings
def start(settings: CoordinatorSettings, roster: str, hours: float, parties: tuple[str, ...], as_json: bool) -> None:
    """Offer an alignment run to PARTIES, two to ten hospitals, who have --hours to approve it.

    The numbers of patients that each announced are part of it. Nothing is computed before a person at every hospital approved,
    and every run counts towards what a hospital allows.

    \b
    Example:
      coordinator align start --roster cohort clinic-a clinic-b registry
    """
    run_time = timedelta(hours=settings.run_hours)
    with opened(settings) as store:
        made = alignment.start(store, roster, parties, timedelta(hours=hours), run_time, utc_now())
    print_document(agreement(made), as_json=as_json)
