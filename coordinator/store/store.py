"""The coordinator's durable state: a consortium, its members and its releases, behind two kinds of transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Self

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from coordinator.lifecycle import PartyRevoked, Tick, Topic
from coordinator.store.agreements import AgreementTable, Deals, History
from coordinator.store.database import Database
from coordinator.store.members import HubCertificate, Members
from coordinator.store.tables import REVISION, layout, meta, version
from coordinator.store.upkeep import COPIED, Copies, check_revision
from dprelease.errors import DpReleaseError, InvalidInput
from dprelease.privacy.calibration import budget
from dprelease.spec_base import Target


@dataclass(frozen=True)
class Consortium:
    """Settings fixed when the consortium was founded.

    Attributes:
        name: its name.
        epsilon: of the joint guarantee that all releases together keep to.
        delta: of the same.
        mu2: total mu^2; the parties' caps sum to at most this.
    """

    name: str
    epsilon: float
    delta: float
    mu2: Fraction


@dataclass(frozen=True)
class Transaction:
    """Tables that can be read, or changed together."""

    members: Members
    agreements: AgreementTable
    releases: AgreementTable
    alignments: AgreementTable
    deals: Deals
    history: History
    hub: HubCertificate
    copies: Copies

    def of(self, kind: Topic) -> AgreementTable:
        """The agreements of one kind."""
        return self.releases if kind is Topic.RELEASE else self.alignments


class Store:
    """Open with `Store.open`; make a new one with `Store.create`."""

    def __init__(self, database: Database, consortium: Consortium) -> None:
        self._database = database
        self.consortium = consortium

    @classmethod
    def create(cls, url: str, name: str, epsilon: float, delta: float) -> Self:
        """A new, empty store for a new consortium.

        Raises:
            InvalidInput: there is a consortium in this database already.
            PeerUnavailable: the database does not answer.
        """
        total = budget(Target(scope="joint", epsilon=epsilon, delta=delta))
        database = Database(url)
        try:
            if database.has_tables():
                raise InvalidInput(f"there is a consortium in {database.url} already; it is left as it is")
            values = {"consortium": name, "epsilon": repr(epsilon), "delta": repr(delta), "mu2": str(total)}
            with database.writing() as connection:
                layout.create_all(connection)
                connection.execute(version.insert().values(version_num=REVISION))
                connection.execute(meta.insert(), [{"key": key, "value": value} for key, value in values.items()])
        except DpReleaseError:
            database.close()
            raise
        return cls(database, Consortium(name, epsilon, delta, total))

    @classmethod
    def open(cls, url: str, *, copy: bool = False) -> Self:
        """An existing store.

        Raises:
            InvalidInput: there is none, or it has another layout (`coordinator.store.upkeep`), or it is a copy.
            PeerUnavailable: the database does not answer.
        """
        database = Database(url)
        try:
            if not database.has_tables():
                raise InvalidInput(f"there is no consortium in {database.url}; run: coordinator init")
            with database.reading() as connection:
                check_revision(connection)
                found = {row.key: row.value for row in connection.execute(select(meta))}
            if COPIED in found and not copy:
                raise InvalidInput(
                    f"{database.url} is a copy of {found[COPIED]} and may have forgotten what happened since; to use it: "
                    "coordinator backup restored"
                )
        except DpReleaseError:
            database.close()
            raise
        consortium = Consortium(
            found["consortium"], float(found["epsilon"]), float(found["delta"]), Fraction(found["mu2"])
        )
        return cls(database, consortium)

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """See one state of the store.

        Raises:
            PeerUnavailable: the database does not answer.
        """
        with self._database.reading() as connection:
            yield _transaction(connection)

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Change the store: everything in the block or nothing, on disk when it ends.

        Raises:
            PeerUnavailable: the database does not answer.
        """
        with self._database.writing() as connection:
            yield _transaction(connection)

    def answers(self) -> bool:
        """Tells whether the database can be read and written now."""
        try:
            with self._database.writing() as connection:
                connection.execute(meta.update().where(meta.c.key == "consortium").values(value=meta.c.value))
        except (DpReleaseError, SQLAlchemyError):
            return False
        return True

    def tick(self, now: datetime) -> None:
        """End every agreement whose deadline has passed. Run at every start and every few seconds after."""
        with self.reading() as tx:
            due = [each.digest for each in tx.agreements.open() if (each.record.deadline or now) <= now]
        for digest in due:
            with self.writing() as tx:
                tx.agreements.advance(digest, Tick(), now)

    def revoke(self, name: str, now: datetime) -> tuple[str, ...]:
        """Revoke a party and end its open agreements, but for releases that are about to be public, all at once.

        Returns:
            Digests of the releases that ended.

        Raises:
            NotFound: no such party.
        """
        with self.writing() as tx:
            tx.members.revoke(name, now)
            tx.history.note(f"{name} was revoked", now, party=name)
            mine = [each.digest for each in tx.agreements.open() if name in each.record.parties]
            ended = [tx.agreements.advance(digest, PartyRevoked(name), now) for digest in mine]
        return tuple(each.digest for each in ended if each.record.final and each.record.kind is Topic.RELEASE)

    def close(self) -> None:
        """Close every connection."""
        self._database.close()


def _transaction(connection: Connection) -> Transaction:
    return Transaction(
        Members(connection),
        AgreementTable(connection),
        AgreementTable(connection, Topic.RELEASE),
        AgreementTable(connection, Topic.RUN),
        Deals(connection),
        History(connection),
        HubCertificate(connection),
        Copies(connection),
    )
