"""Tells parties and hub that something changed, whoever changed it: a call of theirs, the clock, or a command of the office.

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
"""How often the history is looked at: one number, by its primary key."""

HUB = "hub"
"""Whom `news` knows by this name."""

log = logging.getLogger(__name__)


def named(party: str) -> str:
    """A party's name in `news`."""
    return f"party {party}"


class Announcer:
    """A thread that tells what is new in the history.

    Args:
        store: the consortium's.

    Attributes:
        news: held calls of parties and hub.
    """

    def __init__(self, store: Store) -> None:
        self.news = News()
        self._store = store
        with store.reading() as tx:
            self._seen = tx.history.latest()
        self._changed = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="announcer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def look(self) -> None:
        """Something may have changed: look now."""
        self._changed.set()

    def stop(self) -> None:
        """End soon, and let go of every call that is held."""
        self._stopping.set()
        self._changed.set()
        self.news.stop()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._tell()
            except PeerUnavailable as error:
                log.debug("%s", error.message)
            except Exception:
                log.exception("the history could not be looked at")
                self._stopping.wait(60 * LOOK_SECONDS)
            self._changed.wait(LOOK_SECONDS)
            self._changed.clear()

    def _tell(self) -> None:
        with self._store.reading() as tx:
            latest = tx.history.latest()
            if latest == self._seen:
                return
            names = {HUB}
            for digest, party in tx.history.concerned(self._seen):
                members = tx.agreements.parties(digest) if digest else ()
                names |= {named(each) for each in members}
                names |= {named(party)} if party else set()
        self.news.tell(*names)
        self._seen = latest
