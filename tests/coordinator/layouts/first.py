"""An office as the first layout of the database had it: `first.sql`, written by the software of that layout, and its keys.

There are four releases: one proposed and half approved, one approved by all and dealt for, one published, one cancelled; north and
south take part, east was revoked, west is invited. Keys follow from names, so that none is kept here.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from sqlalchemy import Connection, MetaData, event
from sqlalchemy.engine.interfaces import ReflectedColumn

from coordinator.authority.authority import Authority
from coordinator.store.database import Database
from coordinator.store.store import Store
from dprelease.canonical import sha256
from dprelease.identity.certificates import read_certificate
from dprelease.identity.signing import PrivateKey
from dprelease.mpc.encryption import new_session_key, public_bytes
from dprelease.mpc.messages import sign_message
from dprelease.release.spec import ReleaseSpec
from tests.coordinator.office import Office
from tests.coordinator.sessions import Offers, offer

DUMP, ROOT = (Path(__file__).with_name(name) for name in ("first.sql", "root.pem"))
WEST = "the secret of the invite of west"
PROPOSED, DEALT, PUBLISHED, CANCELLED = "half approved", "dealt for", "public", "given up"
"""Titles of the four releases."""


def key_of(name: str) -> PrivateKey:
    """A private key that anybody can compute."""
    return ec.derive_private_key(int(sha256(name.encode())[:32], 16), ec.SECP256R1())


def session_key_of(name: str) -> X25519PrivateKey:
    return new_session_key(lambda size: bytes.fromhex(sha256(name.encode()))[:size])


def offers_of(spec: ReleaseSpec) -> Offers:
    keys = {part.party: session_key_of(part.party) for part in spec.parties}
    parcels = [sign_message(key_of(party), offer(spec, party, public_bytes(key).hex())) for party, key in keys.items()]
    return Offers(spec, parcels, keys)


def load(path: Path) -> None:
    """Make an SQLite file of the dump."""
    with closing(sqlite3.connect(path)) as db:
        db.executescript(DUMP.read_text())


def copy(path: Path, connection: Connection) -> None:
    """Make the same tables in another database, with the same rows, through an SQLite file of the dump."""
    load(path)
    tables = MetaData()

    @event.listens_for(tables, "column_reflect")
    def of_any_database(_inspector: object, _table: object, column: ReflectedColumn) -> None:
        column["type"] = column["type"].as_generic()

    with closing(Database(f"sqlite:///{path}")) as first, first.reading() as dump:
        tables.reflect(dump)
    tables.create_all(connection)
    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        for table in tables.sorted_tables:
            rows = [dict(row) for row in db.execute(f"SELECT * FROM {table.name}")]  # noqa: S608
            connection.execute(table.insert(), rows)
    connection.exec_driver_sql("SELECT setval('history_number_seq', (SELECT max(number) FROM history))")


def office(store: Store) -> Office:
    """The office over a migrated store: its authority and its hospitals' keys."""
    again = Office(store, Authority(read_certificate(ROOT.read_bytes()), key_of("root")))
    with store.reading() as tx:
        for party in tx.members.all():
            again.keys[party.name], again.certificates[party.name] = key_of(party.name), party.certificate
    return again
