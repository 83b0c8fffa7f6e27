"""`party-node alignment-key | fingerprint | peers`: what hospitals exchange among themselves, out of band."""

from __future__ import annotations

from pathlib import Path

import click

from dprelease.cli.printing import json_option, print_json
from dprelease.errors import Conflict, InvalidInput
from dprelease.identity.peer_keys import PeerKeys
from dprelease.one_line import listed
from party_node.cli.options import with_hospital
from party_node.hospital import HospitalState
from party_node.identity import alignment_key_text, key_check, read_digits


@click.group("alignment-key")
def alignment_key() -> None:
    """The key by which all hospitals order their rows alike. The coordinator never has it.

    Example: party-node alignment-key new
    """


@alignment_key.command()
@with_hospital
def new(hospital: HospitalState) -> None:
    """Make the key, at one hospital, and print it for the others.

    Example: party-node alignment-key new
    """
    key = hospital.identity.new_alignment_key()
    click.echo(alignment_key_text(key))
    click.echo(f"key check {key_check(key)}: hand the line above to the other hospitals, never to the office", err=True)


@alignment_key.command("import")
@click.argument("text")
@with_hospital
def import_key(hospital: HospitalState, text: str) -> None:
    """Take over the key that another hospital made.

    Example: party-node alignment-key import ABCD-EFGH-...
    """
    click.echo(f"key check {key_check(hospital.identity.import_alignment_key(text))}")


@click.command()
@with_hospital
def fingerprint(hospital: HospitalState) -> None:
    """Print this party's key fingerprint, for the other hospitals to pin.

    Example: party-node fingerprint
    """
    click.echo(hospital.identity.fingerprint())


@click.group()
def peers() -> None:
    """Keys of the other hospitals, compared between people: the coordinator alone could forge them.

    Example: party-node peers list
    """


@peers.command("list")
@json_option
@with_hospital
def list_peers(hospital: HospitalState, as_json: bool) -> None:
    """The pinned keys.

    Example: party-node peers list --json
    """
    pins = hospital.identity.pins()
    if as_json:
        print_json(dict(sorted(pins.items())))
    else:
        for party, digits in sorted(pins.items()):
            click.echo(f"{party} {digits}")


@peers.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@with_hospital
def export(hospital: HospitalState, file: Path) -> None:
    """Write the keys that are known here, ours among them, for the other hospitals to pin.

    Example: party-node peers export keys.json
    """
    keys = PeerKeys(consortium=hospital.enrolment.consortium, keys=hospital.pins())
    keys.write(file)
    click.echo(f"wrote the keys of {len(keys.keys)} hospitals to {file}\ndigest {keys.digest()}")


@peers.command()
@click.argument("party", required=False)
@click.argument("digits", metavar="[FINGERPRINT]", required=False)
@click.option("--from", "file", type=click.Path(dir_okay=False, path_type=Path), help="Pin all keys of this file.")
@click.option(
    "--digest", help="Digest of the file, as all hospitals compared it by telephone; you are asked if it is left out."
)
@with_hospital
def pin(hospital: HospitalState, party: str | None, digits: str | None, file: Path | None, digest: str | None) -> None:
    """Pin a peer's key after comparing it with its IT department, or the keys of all after comparing their digest.

    The file is one that `coordinator party keys` or `party-node peers export` wrote.

    \b
    Example:
      party-node peers pin clinic-b 5f0c...e1
      party-node peers pin --from keys.json
    """
    if file is not None and party is None:
        _pin_all(hospital, PeerKeys.read(file), digest)
    elif file is None and digest is None and party is not None and digits is not None:
        if party == hospital.settings.name:
            raise InvalidInput(f"{party} is this hospital itself: name another one, and the key that it read out")
        hospital.identity.pin(party, digits)
        click.echo(f"pinned {party}")
        offered = {name for record in hospital.journal.page(1)[0] for name in record.proposal.party_keys}
        if offered and party not in offered:
            click.echo(f"nothing that was offered here names {party}, only {listed(sorted(offered))}", err=True)
    else:
        raise InvalidInput("name a hospital and its fingerprint, or a file with --from")


def _pin_all(hospital: HospitalState, told: PeerKeys, digest: str | None) -> None:
    peers, before = hospital.identity.others(told), hospital.identity.pins()
    if digest is not None and read_digits(digest, "a digest") != told.digest():
        raise Conflict(
            f"the digest of this file is {told.digest()}, and another one was compared; nothing is pinned; "
            "have the file sent again, and compare anew"
        )
    for name, key in sorted(peers.items()):
        click.echo(f"{name} {key}{' (pinned already)' if before.get(name) == key else ''}")
    click.echo(f"digest {told.digest()}")
    if digest is None:
        click.confirm("Did all these hospitals read the same digest to you, by telephone?", abort=True)
    hospital.identity.pin_all(peers)
    click.echo(f"pinned {', '.join(sorted(peers))}")


@peers.command()
@click.argument("party")
@with_hospital
def forget(hospital: HospitalState, party: str) -> None:
    """Remove a pinned key, before pinning another.

    Example: party-node peers forget clinic-b
    """
    hospital.identity.forget(party)
    click.echo(f"forgot {party}")
