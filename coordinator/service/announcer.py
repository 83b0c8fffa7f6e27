"""News of the office: parties and hub are told that something changed, whoever changed it: a call of theirs, the clock, a command.

Commands write into the database from processes of their own. So a thread looks at the history a few times a second, and at
once after a change that was made in this process.
"""

from __future__ import annotations

import logging
import threading

from coordinator.store.store import Store
from dprelease.errors import PeerUnavailable
from dprelease.wire.news import News

LOOK_SECONDS = 0.25
"""Pause between looks at the history: one number, by its primary key."""

HUB = "hub"
"""Name of the hub in news."""

log = logging.getLogger(__name__)


def named(party: str) -> str:
    """A party's name in news."""
    return f"party {party}"


class Announcer(News):
    """Held calls of parties and hub, and a thread that answers them."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        with store.reading() as tx:
            self._seen = tx.history.latest()
        self._look, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="announcer", daemon=True)
        self.start, self.look = self._thread.start, self._look.set

    def stop(self) -> None:
        """Ends soon, and lets go of every call that is held."""
        super().stop()
        self._stopping.set()
        self._look.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._announce()
            except PeerUnavailable as error:
                log.debug("%s", error.message)
            except Exception:
                log.exception("the history could not be looked at")
                self._stopping.wait(60 * LOOK_SECONDS)
            self._look.wait(LOOK_SECONDS)
            self._look.clear()

    def _announce(self) -> None:
        with self._store.reading() as tx:
            latest = tx.history.latest()
            if latest == self._seen:
                return
            names = {HUB}
            for digest, party in tx.history.concerned(self._seen):
                names |= {named(each) for each in (tx.agreements.parties(digest) if digest else ())}
                names |= {named(party)} if party else set()
        self.tell(*names)
        self._seen = latest
