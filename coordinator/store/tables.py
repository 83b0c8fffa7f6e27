"""The coordinator's tables. Secrets are kept as hashes, proposals and consents as the bytes that were signed.

Dealt randomness is here as ciphertext that the coordinator cannot open itself.
"""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction

from sqlalchemy import (
    Boolean,
    Column,
    Dialect,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.types import TypeDecorator

from dprelease.spec_base import instant, moment

REVISION = "0005"
"""Revision of this layout: the last one in `coordinator.store.migrations.versions`."""


class Moment(TypeDecorator[datetime]):
    """A time in UTC, to the second, as text that sorts by time: the same on every database."""

    impl = String(20)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        """To the database."""
        return None if value is None else instant(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:
        """From the database."""
        return None if value is None else moment(value)


class Rational(TypeDecorator[Fraction]):
    """An exact rational number as text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Fraction | None, dialect: Dialect) -> str | None:
        """To the database."""
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Fraction | None:
        """From the database."""
        return None if value is None else Fraction(value)


layout = MetaData()

version = Table(
    "alembic_version",
    layout,
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),  # as alembic makes it
)

meta = Table("meta", layout, Column("key", String(32), primary_key=True), Column("value", Text, nullable=False))

invites = Table(
    "invites",
    layout,
    Column("secret_hash", String(64), primary_key=True),
    Column("party", String(64), nullable=False),
    Column("cap_mu2", Rational, nullable=False),
    Column("created", Moment, nullable=False),
    Column("expires", Moment, nullable=False),
    Column("used", Moment),
)

parties = Table(
    "parties",
    layout,
    Column("name", String(64), primary_key=True),
    Column("certificate", Text, nullable=False),
    Column("fingerprint", String(64), nullable=False, unique=True),
    Column("serial", String(64), nullable=False),
    Column("cap_mu2", Rational, nullable=False),
    Column("enrolled", Moment, nullable=False),
    Column("revoked", Moment),
    Column("last_seen", Moment),
    Column("protocol", Integer),
)

revocations = Table(
    "revocations",
    layout,
    Column("fingerprint", String(64), primary_key=True),
    Column("party", String(64), nullable=False),
    Column("at", Moment, nullable=False),
)

catalogues = Table(
    "catalogues",
    layout,
    Column("party", String(64), ForeignKey("parties.name"), primary_key=True),
    Column("catalogue", LargeBinary, nullable=False),
    Column("reported", Moment, nullable=False),
)

agreements = Table(
    "agreements",
    layout,
    Column("digest", String(64), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("title", Text, nullable=False),
    Column("joint", Boolean, nullable=False),
    Column("proposal", LargeBinary, nullable=False),
    Column("created", Moment, nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("since", Moment, nullable=False),
    Column("deadline", Moment),
    Column("run_seconds", Integer, nullable=False),
    Column("publishing", Moment),
    Column("manifest", String(64)),
    Column("reason", Text, nullable=False),
)

consents = Table(
    "consents",
    layout,
    Column("agreement", String(64), ForeignKey("agreements.digest"), primary_key=True),
    Column("party", String(64), ForeignKey("parties.name"), primary_key=True),
    Column("position", Integer, nullable=False),
    Column("consent", LargeBinary),
    Column("approved", Moment),
    Column("declined", Moment),
    Column("received", Moment),
    Column("finished", Moment),
)

deals = Table(
    "deals",
    layout,
    Column("session", String(64), primary_key=True),
    Column("party", String(64), ForeignKey("parties.name"), primary_key=True),
    Column("release", String(64), ForeignKey("agreements.digest"), nullable=False),
    Column("round", Integer, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    UniqueConstraint("release", "round", "party"),  # a round has one session
)

history = Table(
    "history",
    layout,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("at", Moment, nullable=False),
    Column("release", String(64), index=True),
    Column("party", String(64)),
    Column("what", Text, nullable=False),
)
