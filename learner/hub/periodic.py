"""Work that the hub does every few seconds, whatever else happens."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from dprelease.errors import DpReleaseError, PeerUnavailable

log = logging.getLogger(__name__)


class Worker(ABC):
    """A thread that works until it is stopped."""

    def __init__(self, name: str) -> None:
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin, with a first round at once."""
        self._thread.start()

    def stop(self) -> None:
        """End after what is just being done."""
        self._stopping.set()
        self._wake.set()

    def join(self) -> None:
        """Wait for the end, after `stop`."""
        self._thread.join()

    def is_alive(self) -> bool:
        """Tells whether the thread runs."""
        return self._thread.is_alive()

    @abstractmethod
    def _run(self) -> None:
        """Work, until it is stopping."""


class Upkeep(Worker):
    """A thread that does a few things again and again; trouble with one never keeps another from being done.

    Args:
        duties: what to do.
        seconds: between rounds.
    """

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

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.round()
            self._wake.wait(self._seconds)


def _trouble(error: DpReleaseError) -> tuple[type[DpReleaseError], str]:
    """Words for what is wrong; for a peer that is away the same, however its connection breaks meanwhile."""
    peer = error.peer if isinstance(error, PeerUnavailable) else ""
    return type(error), peer or error.message
