"""When a stream is given up, and when a call is tried again."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self


@dataclass(frozen=True)
class Backoff:
    """Waiting times between attempts.

    Attributes:
        first_seconds: upper end of the first wait.
        longest_seconds: upper end of any wait.
        factor: growth from one wait to the next.
    """

    first_seconds: float = 1.0
    longest_seconds: float = 60.0
    factor: float = 2.0

    def waits(self, uniform: Callable[[float, float], float] = random.uniform) -> Iterator[float]:
        """Endless waiting times in seconds: each uniform between half its upper end and the upper end.

        Args:
            uniform: source of jitter; it spreads reconnects and is no secret.
        """
        upper = min(self.longest_seconds, self.first_seconds)
        while True:
            yield uniform(upper / 2, upper)
            upper = min(self.longest_seconds, upper * self.factor)


STALL_SECONDS = 60.0
"""How long a stream may stand still."""

PROGRESS_BYTES = 1 << 16
"""Bytes that have to come before a download that trickles or breaks counts as moving."""


class ProgressDeadline:
    """Cancels a stream that stands still. Use as a context manager and call `moved` on every chunk.

    Args:
        cancel: called once, from another thread, when nothing moved for `seconds`.
        seconds: longest stand-still.
    """

    def __init__(self, cancel: Callable[[], object], seconds: float = STALL_SECONDS) -> None:
        self.stalled = False
        self._cancel = cancel
        self._seconds = seconds
        self._last = time.monotonic()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="progress-deadline")

    def moved(self) -> None:
        """Note that the stream moved."""
        self._last = time.monotonic()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()

    def _watch(self) -> None:
        while not self._done.wait(max(0.0, self._last + self._seconds - time.monotonic())):
            if time.monotonic() - self._last >= self._seconds:
                self.stalled = True
                self._cancel()
                return
