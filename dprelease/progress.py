"""Progress of a long reading, for the log of a node and the screen of a command: no line leaves the machine."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TypeVar

EVERY_SECONDS = 10.0
"""A line comes this often; a shorter reading has none."""

_log = logging.getLogger(__name__)

Rows = TypeVar("Rows", bound=Sized)


def watched(
    batches: Iterable[Rows],
    share: Callable[[int], float | None],
    clock: Callable[[], float] = time.monotonic,
    verb: str = "read",
) -> Iterator[Rows]:
    """The same batches; every `EVERY_SECONDS` the log tells rows so far, rows a second and the time left.

    Args:
        batches: rows of a source, some at a time.
        share: the part that so many rows are, from 0 to 1; None where nothing tells how many there are.
        clock: seconds.
        verb: what was done with them.
    """
    begun = told = clock()
    rows = 0
    for batch in batches:
        rows += len(batch)
        now = clock()
        if now - told >= EVERY_SECONDS:
            told, done = now, share(rows)
            left = f", about {_duration((now - begun) * (1 - done) / done)} left" if done else ""
            _log.info("%s %s rows, %s a second%s", verb, f"{rows:,}", f"{rows / (now - begun):,.0f}", left)
        yield batch


@contextmanager
def shown_on_stderr() -> Iterator[None]:
    """Show these lines on the screen of a command that has no log."""
    handler, level = logging.StreamHandler(sys.stderr), _log.level
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    try:
        yield
    finally:
        _log.removeHandler(handler)
        _log.setLevel(level)


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min" if minutes else "1 min"
