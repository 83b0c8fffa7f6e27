"""`coordinator party`: who takes part."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from coordinator.cli.options import opened, with_settings
from coordinator.clock import utc_now
from coordinator.service import enrolment
from coordinator.settings import CoordinatorSettings
from coordinator.store.members import Party
from coordinator.store.store import Store, Transaction
from dprelease.cli.printing import json_option, print_document, print_json
from dprelease.data.columns import public
from dprelease.document.cells import Cell, Said, price
from dprelease.document.document import Document, Heading, Table
from dprelease.errors import InvalidInput
from dprelease.identity.peer_keys import PeerKeys
from dprelease.spec_base import instant
from dprelease.wire.boundary import PROTOCOL_VERSION


@click.group()
def party() -> None:
    """Who takes part.

    \b
    Example:
      coordinator party list
    """


@party.command("list")
@json_option
@with_settings
def list_parties(settings: CoordinatorSettings, as_json: bool) -> None:
    """List enrolled, invited and revoked parties, their caps and when each was last heard of.

    Hospitals compare the key fingerprints by telephone, because the coordinator is also the certificate authority.

    \b
    Example:
      coordinator party list --json
    """
    with opened(settings) as store, store.reading() as tx:
        found = _parties(store, tx, utc_now())
    if as_json:
        print_json(found.to_json())
    elif found.rows:
        print_document(Document("", tables=(found,)))
    else:
        click.echo("nobody yet; see: coordinator invite --help")


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


def _parties(store: Store, tx: Transaction, now: datetime) -> Table:
    delta = store.consortium.delta
    held = enrolment.caps(tx, now)
    catalogues = tx.members.catalogues()
    rows: list[dict[str, Cell]] = []
    for member in tx.members.all():
        catalogue = catalogues.get(member.name)
        columns = catalogue.columns if catalogue else ()
        batches = catalogue.batches if catalogue else ()
        rows.append(
            {
                "party": member.name,
                "state": _state(member, now),
                "cap": price(member.cap_mu2 if member.name in held else Fraction(0), delta),
                "rows": catalogue.rows if catalogue else None,
                "columns": Said([column.name for column in columns], f"{len(columns)}") if catalogue else None,
                "last_seen": None if member.last_seen is None else instant(member.last_seen),
                "certificate_until": instant(member.expires),
                "key": member.fingerprint,
                "public_columns": _programs([column.name for column in public(columns)] if catalogue else None),
                "batches": _programs([batch.number for batch in batches] if catalogue else None),
                "protocol": member.protocol,
                "history": _programs(
                    [{"at": instant(line.at), "what": line.what} for line in tx.history.of_party(member.name)]
                ),
            }
        )
    enrolled = {row["party"] for row in rows}
    rows += [
        {
            "party": invitation.party,
            "state": f"invited until {instant(invitation.expires)}",
            "cap": price(invitation.cap_mu2, delta),
        }
        for invitation in tx.members.invitations(now)
        if invitation.party not in enrolled
    ]
    older = [
        f"{row['party']} runs older software (protocol {row['protocol']}): update it before this office is updated again"
        for row in rows
        if row["state"] == "enrolled" and int(str(row["protocol"] or PROTOCOL_VERSION)) < PROTOCOL_VERSION
    ]
    cells = [[row.get(heading.key) for heading in _HEADINGS] for row in rows]
    return Table.of("parties", _HEADINGS, cells, below=tuple(older))


_HEADINGS = (
    *map(Heading, ("party", "state", "cap", "rows", "columns", "last_seen", "certificate_until", "key")),
    *(Heading(key, detail=True) for key in ("public_columns", "batches", "protocol", "history")),
)


def _programs(value: list[Any] | None) -> Said:
    return Said(value, "")


def _state(member: Party, now: datetime) -> str:
    if member.revoked is not None:
        return f"revoked at {instant(member.revoked)}"
    return "enrolled" if now < member.expires else "certificate expired"
