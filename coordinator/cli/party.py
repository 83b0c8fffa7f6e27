"""`coordinator party`: who takes part."""

from __future__ import annotations

import math
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from coordinator.cli.options import opened, print_json, print_table, with_json, with_settings
from coordinator.clock import utc_now
from coordinator.service import enrolment
from coordinator.settings import CoordinatorSettings
from coordinator.store.members import Party
from coordinator.store.store import Store, Transaction
from dprelease.data.columns import public
from dprelease.errors import InvalidInput
from dprelease.identity.peer_keys import PeerKeys
from dprelease.privacy.gaussian import epsilon_of
from dprelease.privacy.price import epsilon_figure, mu2_text
from dprelease.spec_base import instant
from dprelease.wire.versions import PROTOCOL_VERSION


@click.group()
def party() -> None:
    """Who takes part.

    \b
    Example:
      coordinator party list
    """


@party.command("list")
@with_json
@with_settings
def list_parties(settings: CoordinatorSettings, as_json: bool) -> None:
    """List enrolled, invited and revoked parties, their caps and when each was last heard of.

    Hospitals compare the key fingerprints by telephone, because the coordinator is also the certificate authority.

    \b
    Example:
      coordinator party list --json
    """
    now = utc_now()
    with opened(settings) as store, store.reading() as tx:
        found, delta = _describe(store, tx, now), store.consortium.delta
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo("nobody yet; see: coordinator invite --help")
        return
    header = (
        "PARTY",
        "STATE",
        f"CAP, AT delta = {delta:g}",
        "ROWS",
        "COLUMNS",
        "LAST SEEN",
        "CERTIFICATE UNTIL",
        "KEY",
    )
    print_table(header, [tuple(_cell(key, row) for key in _SHOWN) for row in found])
    for row in found:
        if row["state"] == "enrolled" and (row["protocol"] or PROTOCOL_VERSION) < PROTOCOL_VERSION:
            older = f"{row['party']} runs older software (protocol {row['protocol']})"
            click.echo(f"{older}: update it before this office is updated again")


@party.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@with_settings
def keys(settings: CoordinatorSettings, file: Path) -> None:
    """Write the keys of all enrolled hospitals to FILE, for each of them to pin: party-node peers pin --from FILE.

    Hospitals compare its digest among themselves, by telephone: the office could have written other keys.

    \b
    Example:
      coordinator party keys keys.json
    """
    now = utc_now()
    with opened(settings) as store, store.reading() as tx:
        enrolled = {each.name: each.fingerprint for each in tx.members.all() if _state(each, now) == "enrolled"}
        name = store.consortium.name
    if not enrolled:
        raise InvalidInput("no hospital is enrolled yet; see: coordinator party list")
    written = PeerKeys(consortium=name, keys=enrolled)
    written.write(file)
    click.echo(f"wrote the keys of {len(enrolled)} hospitals to {file}\ndigest {written.digest()}")


@party.command()
@click.argument("name")
@with_settings
def revoke(settings: CoordinatorSettings, name: str) -> None:
    """Stop accepting the certificate of NAME, and end its releases that are not about to be public.

    \b
    Example:
      coordinator party revoke north
    """
    with opened(settings) as store:
        ended = store.revoke(name, utc_now())
    click.echo(f"{name} is revoked; {len(ended)} releases ended" + "".join(f" {digest[:12]}" for digest in ended))


_SHOWN = ("party", "state", "cap_mu2", "rows", "columns", "last_seen", "certificate_until", "key")


def _describe(store: Store, tx: Transaction, now: datetime) -> list[dict[str, Any]]:
    delta = store.consortium.delta
    held = enrolment.caps(tx, now)
    catalogues = tx.members.catalogues()
    rows = []
    for member in tx.members.all():
        catalogue = catalogues.get(member.name)
        rows.append(
            {
                "party": member.name,
                "state": _state(member, now),
                **_cap(member.cap_mu2 if member.name in held else Fraction(0), delta),
                "rows": catalogue.rows if catalogue else None,
                "columns": [column.name for column in catalogue.columns] if catalogue else None,
                "public_columns": [column.name for column in public(catalogue.columns)] if catalogue else None,
                "batches": [batch.number for batch in catalogue.batches] if catalogue else None,
                "last_seen": _when(member.last_seen),
                "protocol": member.protocol,
                "certificate_until": instant(member.expires),
                "key": member.fingerprint,
                "history": [{"at": instant(line.at), "what": line.what} for line in tx.history.of_party(member.name)],
            }
        )
    known = {row["party"] for row in rows}
    for invitation in tx.members.invitations(now):
        if invitation.party not in known:
            state = f"invited until {instant(invitation.expires)}"
            row = dict.fromkeys((*_SHOWN, "public_columns", "batches", "protocol", "history")) | {
                "party": invitation.party,
                "state": state,
            }
            rows.append(row | _cap(invitation.cap_mu2, delta))
    return rows


def _state(member: Party, now: datetime) -> str:
    if member.revoked is not None:
        return f"revoked at {instant(member.revoked)}"
    return "enrolled" if now < member.expires else "certificate expired"


def _cap(mu2: Fraction, delta: float) -> dict[str, Any]:
    return {"cap_mu2": str(mu2), "cap_epsilon": epsilon_of(math.sqrt(mu2), delta)}


def _when(moment: datetime | None) -> str | None:
    return None if moment is None else instant(moment)


def _cell(key: str, row: dict[str, Any]) -> str:
    value = row[key]
    if value is None:
        return "-"
    if key == "cap_mu2":
        return f"mu^2 {mu2_text(Fraction(value))}, epsilon {epsilon_figure(row['cap_epsilon'])}"
    return str(len(value)) if key == "columns" else str(value)
