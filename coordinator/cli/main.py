"""`coordinator`: what the consortium's office types."""

from __future__ import annotations

import click

from dprelease.cli.console import Command, Commands
from dprelease.version import __version__

COMMANDS = {
    "align": Command("coordinator.cli.release:align", "Let hospitals find the patients that all of them have."),
    "backup": Command("coordinator.cli.serve:backup", "Copy the database, and what to do after a restore."),
    "hub": Command("coordinator.cli.founding:hub", "Who publishes: one hub at a time."),
    "init": Command("coordinator.cli.founding:init", "Found a consortium."),
    "invite": Command("coordinator.cli.founding:invite", "Print a token with which a hospital may enrol once."),
    "migrate": Command("coordinator.cli.serve:migrate", "Bring the database up to date with the software."),
    "party": Command("coordinator.cli.party:party", "Who takes part."),
    "plan": Command("coordinator.cli.plan:plan", "State the worth of a release before it is proposed."),
    "release": Command("coordinator.cli.release:release", "Propose releases and see where they stand."),
    "serve": Command("coordinator.cli.serve:serve", "Serve hospitals and the hub."),
}


@click.group(cls=Commands, lazy=COMMANDS)
@click.version_option(__version__)
def main() -> None:
    """The consortium's office: who takes part, which releases are proposed, and where each one stands.

    \b
    Example:
      coordinator init --home office --consortium Trio --host office.example.org --epsilon 3 --delta 1e-6
    """
