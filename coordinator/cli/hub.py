"""`coordinator hub`: who publishes."""

from __future__ import annotations

from pathlib import Path

import click

from coordinator.authority import founding
from coordinator.authority.authority import Authority, hosts_of
from coordinator.cli.options import opened, with_settings
from coordinator.clock import utc_now
from coordinator.settings import CoordinatorSettings
from dprelease.cli.printing import json_option, print_json
from dprelease.errors import InvalidInput
from dprelease.identity.certificates import read_certificate, read_identity
from dprelease.spec_base import instant


@click.group()
def hub() -> None:
    """Show or replace the hub that publishes: one at a time.

    \b
    Example:
      coordinator hub show
    """


@hub.command()
@json_option
@with_settings
def show(settings: CoordinatorSettings, as_json: bool) -> None:
    """Show the key and the certificate's end of the hub that is accepted.

    \b
    Example:
      coordinator hub show --json
    """
    with opened(settings) as store, store.reading() as tx:
        certificate = tx.hub.certificate()
    identity = read_identity(certificate) if certificate else None
    if as_json:
        print_json({"key": identity.fingerprint, "until": instant(identity.expires)} if identity else None)
    elif identity is None:
        click.echo("no hub is accepted; see: coordinator hub reissue --help")
    else:
        click.echo(f"key {identity.fingerprint}, certificate until {instant(identity.expires)}")


@hub.command()
@with_settings
def revoke(settings: CoordinatorSettings) -> None:
    """Accept no hub until one is issued again: nothing more is taken in or published under the key it has.

    \b
    Example:
      coordinator hub revoke
    """
    with opened(settings) as store, store.writing() as tx:
        tx.hub.clear()
        tx.history.note("the hub was revoked", utc_now())
    click.echo("no hub is accepted any more; for a new one: coordinator hub reissue --into FOLDER --host NAME")


@hub.command()
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), required=True, help="New folder.")
@click.option("--host", "hosts", multiple=True, help="Name or address of the hub; repeatable. Else those it has.")
@with_settings
def reissue(settings: CoordinatorSettings, into: Path, hosts: tuple[str, ...]) -> None:
    """Make a new key and certificate for the hub, in place of those it has; the old key is refused from now on.

    Move hub.key, hub.pem and root.pem to the hub, beside its hub.toml and storage, and start it again.

    \b
    Example:
      coordinator hub reissue --into new-hub --host hub.example.org
    """
    authority = Authority.load(settings.root, settings.authority_key)
    with opened(settings) as store, store.writing() as tx:
        present = tx.hub.certificate()
        if not hosts and present is None:
            raise InvalidInput("no hub is accepted now, so its names are not known; give --host")
        names = hosts or hosts_of(read_certificate(present or ""))
        tx.hub.set(founding.write_identity(into, authority, "hub", names, utc_now()))
        tx.history.note(f"the hub was issued again for {', '.join(names)}", utc_now())
    click.echo(f"move hub.key, hub.pem and root.pem from {into} to the hub and start it again")
