"""`coordinator init`, `invite` and `hub`: a consortium is founded, hospitals are asked to join, and one hub publishes."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from coordinator.authority import founding
from coordinator.authority.authority import Authority, hosts_of
from coordinator.cli.options import opened, with_settings
from coordinator.clock import utc_now
from coordinator.service import enrolment
from coordinator.settings import CoordinatorSettings
from dprelease.cli.printing import json_option, print_json
from dprelease.errors import InvalidInput
from dprelease.files.settings import mistakes
from dprelease.identity.certificates import read_certificate, read_identity
from dprelease.privacy.price import mu2_text, rounded_up
from dprelease.spec_base import instant


@click.command()
@click.option("--home", type=click.Path(file_okay=False, path_type=Path), required=True, help="Empty folder to fill.")
@click.option("--consortium", "name", required=True, help="Name of the consortium.")
@click.option("--host", "hosts", multiple=True, required=True, help="Name or address of the coordinator; repeatable.")
@click.option("--hub-host", "hub_hosts", multiple=True, help="Name or address of the hub; by default the same hosts.")
@click.option("--epsilon", type=float, required=True, help="Joint epsilon that all releases together keep to.")
@click.option("--delta", type=float, required=True, help="Joint delta that all releases together keep to.")
@click.option("--listen-host", default="0.0.0.0", show_default=True, help="Address the listeners bind to.")  # noqa: S104
@click.option("--port", type=int, default=7441, show_default=True, help="Coordinator, for parties and the hub.")
@click.option("--enrol-port", type=int, default=7442, show_default=True, help="Coordinator, for enrolment.")
@click.option("--hub-port", type=int, default=7443, show_default=True, help="Hub, for parties.")
@click.option("--hub-public-port", type=int, default=7444, show_default=True, help="Hub, for the public.")
@click.option("--database", help="URL of a PostgreSQL database; an SQLite file in the folder by default.")
def init(home: Path, **options: Any) -> None:
    """Found a consortium: its certificate authority, certificates, settings and database. Never overwrites.

    \b
    Example:
      coordinator init --home office --consortium Trio --host office.example.org --epsilon 3 --delta 1e-6
    """
    options["hub_hosts"] = options["hub_hosts"] or options["hosts"]
    try:
        plan = founding.Founding.model_validate(options)
    except ValidationError as error:
        raise InvalidInput("coordinator init", mistakes(error, founding.Founding, options)) from error
    founded = founding.found(home, plan, utc_now())
    click.echo(f"{plan.name} is founded in {home}.")
    click.echo(f"root fingerprint, for learners to pin: {founded.fingerprint}")
    total = f"mu^2 = {mu2_text(Fraction(founded.mu2))}, (epsilon, delta) = ({rounded_up(plan.epsilon)}, {rounded_up(plan.delta)})"
    click.echo(f"joint budget of all releases together: {total}")
    click.echo(f"next: move {founded.hub} to the hub; export COORDINATOR_CONFIG={founded.settings}; coordinator serve")


@click.command()
@click.argument("name")
@click.option("--share", help="Part of the consortium's budget that the party may ever spend, e.g. 1/3.")
@click.option("--cap-epsilon", type=float, help="The same, as the epsilon of the party's own columns.")
@click.option(
    "--hours", type=click.FloatRange(0, 720, min_open=True), default=24.0, show_default=True, help="Until it lapses."
)
@json_option
@with_settings
def invite(
    settings: CoordinatorSettings, name: str, share: str | None, cap_epsilon: float | None, hours: float, as_json: bool
) -> None:
    """Print a token with which the hospital NAME may enrol once. Hand it over on a channel you trust.

    A new party needs --share or --cap-epsilon. A party that joined before keeps its cap and gets a new certificate.

    \b
    Example:
      coordinator invite north --share 1/3 --hours 24
    """
    if share is not None and cap_epsilon is not None:
        raise InvalidInput("give --share or --cap-epsilon, not both")
    root = Authority.load(settings.root, settings.authority_key).root_pem
    with opened(settings) as store:
        cap = None
        if share is not None:
            cap = enrolment.share_of(store.consortium, _fraction(share))
        elif cap_epsilon is not None:
            cap = enrolment.cap_of_epsilon(store.consortium, cap_epsilon)
        made = enrolment.invite(store, settings, root, name, cap, utc_now(), timedelta(hours=hours))
    if as_json:
        print_json({"party": name, "token": made.token(), "expires": made.expires, "cap_mu2": made.cap_mu2})
        return
    click.echo(f"invites {name} until {made.expires}, once:", err=True)
    click.echo(made.token())


def _fraction(text: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError) as error:
        raise InvalidInput(f"{text!r} is not a part such as 1/3 or 0.25") from error


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
