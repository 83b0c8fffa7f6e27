"""`party-node alignment-key | fingerprint | peers`: what hospitals exchange among themselves, out of band."""

from __future__ import annotations

import json

import click

from party_node.cli.options import with_desk
from party_node.hospital import HospitalState
from party_node.identity import alignment_key_text, key_check


@click.group("alignment-key")
def alignment_key() -> None:
    """The key by which all hospitals order their rows alike. The coordinator never has it.

    Example: party-node alignment-key new
    """


@alignment_key.command()
@with_desk
def new(desk: HospitalState) -> None:
    """Make the key, at one hospital, and print it for the others.

    Example: party-node alignment-key new
    """
    key = desk.identity.new_alignment_key()
    click.echo(alignment_key_text(key))
    click.echo(f"key check {key_check(key)}: hand the line above to the other hospitals, never to the office", err=True)


@alignment_key.command("import")
@click.argument("text")
@with_desk
def import_key(desk: HospitalState, text: str) -> None:
    """Take over the key that another hospital made.

    Example: party-node alignment-key import ABCD-EFGH-...
    """
    click.echo(f"key check {key_check(desk.identity.import_alignment_key(text))}")


@click.command()
@with_desk
def fingerprint(desk: HospitalState) -> None:
    """Print this party's key fingerprint, for the other hospitals to pin.

    Example: party-node fingerprint
    """
    click.echo(desk.identity.fingerprint())


@click.group()
def peers() -> None:
    """Keys of the other hospitals, compared between people: the coordinator alone could forge them.

    Example: party-node peers list
    """


@peers.command("list")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@with_desk
def list_peers(desk: HospitalState, as_json: bool) -> None:
    """The pinned keys.

    Example: party-node peers list --json
    """
    pins = desk.identity.pins()
    if as_json:
        click.echo(json.dumps(pins, indent=2, sort_keys=True))
    else:
        for party, digits in sorted(pins.items()):
            click.echo(f"{party} {digits}")


@peers.command()
@click.argument("party")
@click.argument("digits", metavar="FINGERPRINT")
@with_desk
def pin(desk: HospitalState, party: str, digits: str) -> None:
    """Pin a peer's key after comparing it with its IT department.

    Example: party-node peers pin clinic-b 5f0c...e1
    """
    desk.identity.pin(party, digits)
    click.echo(f"pinned {party}")


@peers.command()
@click.argument("party")
@with_desk
def forget(desk: HospitalState, party: str) -> None:
    """Remove a pinned key, before pinning another.

    Example: party-node peers forget clinic-b
    """
    desk.identity.forget(party)
    click.echo(f"forgot {party}")
