"""`party-node`: what a hospital's IT department types."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dprelease.cli.console import Command, Commands
from dprelease.version import __version__

if TYPE_CHECKING:
    from party_node.hospital import Desk

COMMANDS = {
    "alignment-key": Command(
        "party_node.cli.keys:alignment_key", "The secret by which hospitals agree on the order of patients."
    ),
    "check": Command("party_node.cli.node:check", "Check settings, table, keys, ledger and connections.", "pyarrow"),
    "enrol": Command("party_node.cli.node:enrol", "Join the consortium with an invite."),
    "fingerprint": Command("party_node.cli.keys:fingerprint", "This hospital's key, for the others to pin."),
    "ledger": Command("party_node.cli.budget:ledger", "The privacy budget: append-only, hash-chained, kept here."),
    "peers": Command("party_node.cli.keys:peers", "Keys of the other hospitals, compared between people."),
    "public": Command("party_node.cli.public:public", "Columns that are published exactly, outside the guarantee."),
    "review": Command("party_node.cli.review:review", "See what is proposed; approve or decline."),
    "run": Command("party_node.cli.node:run", "Run the daemon.", "pyarrow"),
}


@click.group(cls=Commands, lazy=COMMANDS, context_settings={"auto_envvar_prefix": "PARTY_NODE"})
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("party.toml"),
    show_default=True,
    envvar="PARTY_NODE_CONFIG",
    show_envvar=True,
    help="Settings file.",
)
@click.version_option(__version__)
@click.pass_context
def main(context: click.Context, config: Path) -> None:
    """A hospital's node: it reads the hospital's own table and answers for every byte that leaves.

    Example: party-node --config /etc/dprelease/party.toml check
    """

    def desk() -> Desk:
        from dprelease.errors import InvalidInput
        from dprelease.files.settings import read_settings
        from party_node.hospital import Desk
        from party_node.settings import PartySettings

        if not config.exists():
            raise InvalidInput(
                f"there is no {config}; name the settings before the command (party-node --config FILE ...) or in "
                "PARTY_NODE_CONFIG, after the sample deploy/party.toml"
            )
        return Desk(read_settings(config, PartySettings))

    context.obj = desk
