"""A set of digests on disk: every seed that was ever dealt to us, since dealt randomness serves once.

A mask used twice would show the difference of two masked columns, which is the difference of the columns.
Source: docs/protocol.md, step 3.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dprelease.errors import IntegrityError
from party_node.state.transactions import prepare, transaction

_SCHEMA = "CREATE TABLE IF NOT EXISTS seeds (digest TEXT PRIMARY KEY, session TEXT NOT NULL, dealer TEXT NOT NULL)"


class UsedSeeds:
    """The party's list of seeds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        prepare(path, _SCHEMA)

    def use(self, digests: Iterable[str], session: str, dealer: str) -> None:
        """Note that the seeds of a deal serve in a session; noting the same again changes nothing.

        Raises:
            IntegrityError: the dealer dealt a seed that served before, or twice in this deal, or dealt twice in this
                session; nothing is noted.
        """
        named = list(digests)
        who = dealer or "the coordinator"
        if len(set(named)) != len(named):
            raise IntegrityError(f"{who} dealt one seed twice; nothing is masked with it")
        with transaction(self._path) as db:
            noted = db.execute(
                "SELECT digest FROM seeds WHERE session = ? AND dealer = ?", (session, dealer)
            ).fetchall()
            if noted and {digest for (digest,) in noted} != set(named):
                raise IntegrityError(f"{who} dealt twice in one session; nothing is masked with the second deal")
            for digest in named:
                row = db.execute("SELECT session, dealer FROM seeds WHERE digest = ?", (digest,)).fetchone()
                if row is not None and tuple(row) != (session, dealer):
                    raise IntegrityError(f"{who} dealt a seed that was used before; nothing is masked with it")
                db.execute("INSERT OR IGNORE INTO seeds VALUES (?, ?, ?)", (digest, session, dealer))
