"""`party-node`: what a hospital's IT department types."""

from __future__ import annotations

import click

from dprelease.cli.console import Command, Commands
from dprelease.version import __version__

COMMANDS = {
    "alignment-key": Command(
        "party_node.cli.keys:alignment_key", "The secret by which hospitals agree on the order of patients."
    ),
    "check": Command("party_node.cli.check:check", "Check settings, table, keys, ledger and connections.", "pyarrow"),
    "declare": Command("party_node.cli.declare:declare", "Write a first party.toml from a table's header.", "pyarrow"),
    "enrol": Command("party_node.cli.node:enrol", "Join the consortium with an invite."),
    "fingerprint": Command("party_node.cli.keys:fingerprint", "This hospital's key, for the others to pin."),
    "ledger": Command("party_node.cli.budget:ledger", "The privacy budget: append-only, hash-chained, kept here."),
    "peers": Command("party_node.cli.keys:peers", "Keys of the other hospitals, compared between people."),
    "public": Command("party_node.cli.public:public", "Columns that are published exactly, outside the guarantee."),
    "review": Command(
        "party_node.cli.review:review", "See releases and alignment runs that are proposed; approve or decline."
    ),
    "run": Command("party_node.cli.node:run", "Run the daemon.", "pyarrow"),
}


@click.group(cls=Commands, lazy=COMMANDS, context_settings={"auto_envvar_prefix": "PARTY_NODE"})
@click.version_option(__version__)
def main() -> None:
    """A hospital's node: it reads the hospital's own table and answers for every byte that leaves.

    Example: party-node check --config /etc/dprelease/party.toml
    """
