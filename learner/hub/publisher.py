"""Threads of the hub: one does a few things every few seconds, one takes complete sets to publication until that succeeds."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from datetime import datetime

from dprelease.errors import DpReleaseError, InternalError, PeerUnavailable
from dprelease.mechanisms.base import FIRST_ROUND, EarlierRounds
from dprelease.wire.news import Listening, wait_for_news
from dprelease.wire.retry import Backoff
from learner.hub.coordination import PEER, Coordination
from learner.hub.publish import Signer, advance, read_ahead
from learner.hub.storage import Storage

log = logging.getLogger(__name__)


class Worker(threading.Thread):
    """A thread that works until it is stopped."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._stopping = threading.Event()
        self._wake = threading.Event()

    def stop(self) -> None:
        """End after what is just being done."""
        self._stopping.set()
        self._wake.set()


class Upkeep(Worker):
    """A thread that does a few things again and again; trouble with one never keeps another from being done."""

    def __init__(self, duties: Sequence[Callable[[], object]], seconds: float) -> None:
        super().__init__("upkeep")
        self._duties = duties
        self._seconds = seconds
        self._told: dict[int, DpReleaseError] = {}

    def round(self) -> None:
        """Do everything once. Trouble is told when it begins, changes or ends, not every few seconds."""
        for number, duty in enumerate(self._duties):
            try:
                duty()
            except DpReleaseError as error:
                if number not in self._told or _trouble(self._told[number]) != _trouble(error):
                    log.warning("%s", error.message)
                    self._told[number] = error
            except Exception:
                log.exception("a duty failed in an unforeseen way")
            else:
                if number in self._told:
                    log.info("in order again: %s", self._told.pop(number).message)

    def run(self) -> None:
        """Do everything again and again."""
        while not self._stopping.is_set():
            self.round()
            self._wake.wait(self._seconds)


def _trouble(error: DpReleaseError) -> tuple[type[DpReleaseError], str]:
    """Words for what is wrong; for a peer that is away the same, however its connection breaks meanwhile."""
    peer = error.peer if isinstance(error, PeerUnavailable) else ""
    return type(error), peer or error.message


class Publisher(Worker):
    """Publishes what is complete and reports what was published."""

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
        self._ahead: dict[str, EarlierRounds] = {}
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
        self._ahead = {digest: known for digest, known in self._ahead.items() if digest in staged}
        for digest in staged:
            if self._stopping.is_set():
                break
            what = f"{'release' if self._storage.run(digest) is None else 'alignment run'} {digest[:12]}"
            try:
                known = self._ahead.get(digest, FIRST_ROUND)
                if advance(self._storage, self._coordination, self._signer(), digest, self._now(), known):
                    over = "published" if self._storage.published(digest) else "over, and not published"
                    log.info("%s is %s", what, over if what.startswith("release") else "over")
                elif digest not in self._ahead and (earlier := read_ahead(self._storage, digest)):
                    self._ahead[digest] = earlier
            except (PeerUnavailable, InternalError) as error:
                away = isinstance(error, PeerUnavailable) and error.peer == PEER  # of which `Upkeep` warns
                log.log(logging.INFO if away else logging.WARNING, "%s waits: %s", what, error.message)
                reached = False
            except DpReleaseError as error:
                log.error("%s cannot go on: %s: %s", what, type(error).__name__, error.message)
            except Exception:
                log.exception("%s failed in an unforeseen way", what)
        return reached

    def run(self) -> None:
        """Publish what is complete, whenever something changed or it is time to look again."""
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
