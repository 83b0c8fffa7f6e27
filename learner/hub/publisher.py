"""The thread that takes complete sets to publication: at the start, after every block, and until it succeeds."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

from dprelease.errors import DpReleaseError, InternalError, PeerUnavailable
from dprelease.wire.news import Listening, wait_for_news
from dprelease.wire.retry import Backoff
from learner.hub.coordination import PEER, Coordination
from learner.hub.periodic import Worker
from learner.hub.publish import Signer, advance, read_ahead
from learner.hub.storage import Storage

log = logging.getLogger(__name__)


class Publisher(Worker):
    """Publishes what is complete and reports what was published.

    Args:
        storage: the hub's files.
        coordination: calls to the coordinator.
        signer: tells who signs now.
        now: the time.
        sweep_seconds: how often to look again when nothing happens.
        backoff: waits while the coordinator is away.
    """

    def __init__(
        self,
        storage: Storage,
        coordination: Coordination,
        signer: Callable[[], Signer],
        now: Callable[[], datetime],
        sweep_seconds: float,
        backoff: Backoff,
    ) -> None:
        super().__init__("publisher")
        self._storage = storage
        self._coordination = coordination
        self._signer = signer
        self._now = now
        self._sweep_seconds = sweep_seconds
        self._backoff = backoff
        self._ahead: set[str] = set()
        self._news = Listening(lambda: coordination.stub, self.wake)

    def nudge(self, digest: str) -> None:
        """A block has become complete: look now."""
        log.info("release %s has another complete block", digest[:12])
        self.wake()

    def wake(self) -> None:
        """Something changed: look now."""
        self._wake.set()

    def round(self) -> bool:
        """Advance every staged release and alignment run; one that cannot go on never holds up another.

        Returns:
            Tells whether everybody who had to be asked was there.
        """
        reached, staged = True, self._storage.staged()
        self._ahead.intersection_update(staged)
        for digest in staged:
            if self._stopping.is_set():
                break
            what = f"{'release' if self._storage.run(digest) is None else 'alignment run'} {digest[:12]}"
            try:
                if advance(self._storage, self._coordination, self._signer(), digest, self._now()):
                    over = "published" if self._storage.published(digest) else "over, and not published"
                    log.info("%s is %s", what, over if what.startswith("release") else "over")
                elif digest not in self._ahead and read_ahead(self._storage, digest):
                    self._ahead.add(digest)
            except (PeerUnavailable, InternalError) as error:
                away = isinstance(error, PeerUnavailable) and error.peer == PEER  # of which `Upkeep` warns
                log.log(logging.INFO if away else logging.WARNING, "%s waits: %s", what, error.message)
                reached = False
            except DpReleaseError as error:
                log.error("%s cannot go on: %s: %s", what, type(error).__name__, error.message)
            except Exception:
                log.exception("%s failed in an unforeseen way", what)
        return reached

    def _run(self) -> None:
        waits = self._backoff.waits()
        while True:
            self._wake.clear()
            if self._stopping.is_set():
                self._news.close()
                return
            if self.round():
                waits, seconds = self._backoff.waits(), self._sweep_seconds
            else:
                seconds = next(waits)
            wait_for_news(self._wake, seconds, [self._news])
