"""What the hub does every few seconds, whatever else happens."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from dprelease.errors import DpReleaseError

log = logging.getLogger(__name__)


class Upkeep:
    """A thread that does a few things again and again; trouble with one never keeps another from being done."""

    def __init__(self, duties: Sequence[Callable[[], object]], seconds: float) -> None:
        self._duties = duties
        self._seconds = seconds
        self._told: dict[int, str] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)

    def start(self) -> None:
        """Begin, with a first round at once."""
        self._thread.start()

    def stop(self) -> None:
        """End after the present duty."""
        self._stopping.set()

    def join(self) -> None:
        """Wait for the end, after `stop`."""
        self._thread.join()

    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def round(self) -> None:
        """Do everything once. Trouble is told when it begins, changes or ends, not every few seconds."""
        for number, duty in enumerate(self._duties):
            try:
                duty()
            except DpReleaseError as error:
                if self._told.get(number) != error.message:
                    log.warning("%s", error.message)
                self._told[number] = error.message
            except Exception:
                log.exception("a duty failed in an unforeseen way")
            else:
                if number in self._told:
                    log.info("in order again: %s", self._told.pop(number))

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.round()
            self._stopping.wait(self._seconds)
