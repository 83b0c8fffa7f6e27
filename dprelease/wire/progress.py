"""Deadlines on progress: a stream may take as long as it needs, as long as it moves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

STALL_SECONDS = 60.0
"""How long a stream may stand still."""

PROGRESS_BYTES = 1 << 16
"""What has to come before a download that trickles or breaks counts as moving."""


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
