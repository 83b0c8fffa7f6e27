"""`learner trust`: which consortia's releases are believed."""

from __future__ import annotations

from pathlib import Path

import click

from dprelease.cli.printing import json_option, print_document
from dprelease.document.cells import Said
from dprelease.document.document import Document, Heading, Table
from dprelease.identity.certificates import certificate_fingerprint
from learner.client.pinned_roots import TrustStore, check_fingerprint, check_holder, read_root


@click.group()
def trust() -> None:
    """Pin consortium roots; nothing is believed without one.

    \b
    Example:
      learner trust list
    """


@trust.command("add")
@click.argument("name")
@click.option("--root", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Root, PEM.")
@click.option("--hub", metavar="HOST:PORT", help="The hub's public listener.")
@click.option(
    "--mirror", "mirrors", multiple=True, metavar="URL", help="A folder with its releases; several: best first."
)
@click.option("--fingerprint", metavar="HEX", help="SHA-256 that the root must have; replaces the question.")
@click.option("--yes", is_flag=True, help="Do not ask; for scripts that got the root over a safe way.")
@click.pass_obj
def add(
    home: Path, name: str, root: Path, hub: str | None, mirrors: tuple[str, ...], fingerprint: str | None, yes: bool
) -> None:
    """Pin the root certificate of consortium NAME, and say where its releases are: a hub, mirrors, or both.

    Compare the fingerprint with the one that the consortium publishes elsewhere, e.g. on paper. Run it again to change
    the addresses; those that are not named again are forgotten.

    \b
    Example:
      learner trust add trial --root root.pem --hub hub.example.org:7444 --mirror https://mirror.example.org/trial
    """
    pem = read_root(root)
    check_holder(pem, name)
    found = certificate_fingerprint(pem)
    click.echo(f"root of {name}: SHA-256 {found}")
    if fingerprint is not None:
        check_fingerprint(found, fingerprint)
    elif not yes:
        click.confirm("Is this the fingerprint that the consortium publishes?", abort=True)
    trusted = TrustStore(home).add(name, pem, hub, mirrors)
    places = [*([f"its hub is {hub}"] if hub else []), *(f"a mirror is {url}" for url in trusted.mirrors)]
    click.echo(f"{name} is trusted; {', '.join(places)}")


@trust.command("list")
@json_option
@click.pass_obj
def list_trusted(home: Path, as_json: bool) -> None:
    """Show the consortia that are trusted.

    \b
    Example:
      learner trust list --json
    """
    rows = [
        (
            each.name,
            Said(each.hub, each.hub or "none"),
            Said(each.mirrors, " ".join(each.mirrors) or "none"),
            each.fingerprint,
        )
        for each in TrustStore(home).all()
    ]
    headings = (Heading("name", "consortium"), "hub", "mirrors", Heading("root_sha256", "root SHA-256"))
    print_document(Document("", tables=(Table.of("consortia", headings, rows),)), as_json=as_json)


@trust.command("remove")
@click.argument("name")
@click.pass_obj
def remove(home: Path, name: str) -> None:
    """Trust consortium NAME no longer; fetched releases stay, but verify no more.

    \b
    Example:
      learner trust remove trial
    """
    TrustStore(home).remove(name)
    click.echo(f"{name} is trusted no longer")
