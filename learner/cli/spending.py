"""`learner spending`: what was published by date, what it has spent, and what is left."""

from __future__ import annotations

from pathlib import Path

import click

from dprelease.cli.printing import json_option, print_document
from learner.cli.releases import from_option, tell
from learner.client.pinned_roots import TrustStore
from learner.client.sources import answered, hub_first
from learner.client.spending import accounts, latest_delta, signed_manifests, spending_document


@click.command("spending")
@click.option("--delta", type=float, help="delta at which epsilon is shown; that of the latest release if left out.")
@click.option("--budget", type=float, metavar="EPSILON", help="The consortium's budget at that delta, as announced.")
@from_option
@json_option
@click.pass_obj
def spending(home: Path, delta: float | None, budget: float | None, name: str | None, as_json: bool) -> None:
    """Show every release by date with what it spent, what all up to it spent, and what is left of a budget.

    Fetches and checks each signed manifest, from the hub or else a mirror; nothing is taken from an unsigned list. Rosters
    are sets of patients: one account for each.

    \b
    Example:
      learner spending --from trial --budget 3
    """
    consortium = TrustStore(home).get(name)
    found = answered(hub_first(consortium), lambda source: accounts(signed_manifests(source, consortium)), tell)
    if delta is None:
        delta = latest_delta(found)
    print_document(spending_document(consortium.name, found, delta, budget), as_json=as_json)
