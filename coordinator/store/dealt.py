"""Randomness dealt by the coordinator, sealed to its receivers, until the release ends. Works in a transaction of the store."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, func, select

from coordinator.store.tables import deals
from dprelease.errors import Conflict


class Deals:
    """Sealed deals, in one transaction. A session is dealt once, for all its parties together, or never."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, session: str, party: str) -> bytes | None:
        """A party's sealed deal of a session; None while the session has none."""
        chosen = select(deals.c.sealed).where(deals.c.session == session, deals.c.party == party)
        return self._connection.execute(chosen).scalar_one_or_none()

    def check_turn(self, release: str, number: int) -> None:
        """Refuse to deal for a round that was dealt, or that lies before one.

        Args:
            release: digest of its spec.
            number: of the round.

        Raises:
            Conflict: it was.
        """
        latest = self._connection.execute(select(func.max(deals.c.round)).where(deals.c.release == release))
        dealt = latest.scalar_one_or_none() or 0
        if number <= dealt:
            raise Conflict(f"another session of release {release[:12]} was dealt for in round {dealt} already")

    def add(self, release: str, number: int, session: str, sealed: Mapping[str, bytes]) -> None:
        """Keep the deals of a session.

        Args:
            release: digest of its spec.
            number: of the round.
            session: digest of the session.
            sealed: party to its sealed deal.

        Raises:
            Conflict: this round, or a later one, was dealt.
        """
        self.check_turn(release, number)
        same = {"session": session, "release": release, "round": number}
        self._connection.execute(
            deals.insert(), [{**same, "party": party, "sealed": data} for party, data in sealed.items()]
        )

    def forget(self, release: str) -> None:
        """Delete what was dealt for a release."""
        self._connection.execute(deals.delete().where(deals.c.release == release))
