"""The log of calls that ended with an error, which nobody can flood: each kind is told once, then counted.

A kind is a method, an error class and a peer. A caller's words may stand in the error's message, so it is cut short. That
something is not here, not yet, not any more or not now is an answer, whatever is wrong with the caller or its request a refusal.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable

from dprelease.errors import DpReleaseError, NotFound, OutOfTurn, PeerUnavailable, TooManyRequests

PERIOD_SECONDS = 60.0
"""How long a kind is counted before it is told again."""

MOST_KINDS = 50
"""Most kinds that are told in a period; further ones are counted together."""

LONGEST_QUOTE = 200
"""Most letters of a message."""

ANSWERS = (NotFound, OutOfTurn, PeerUnavailable)
"""What callers are told in the protocol's normal course, where nobody did wrong; `TooManyRequests` is none of it."""

Kind = tuple[str, str, str]

log = logging.getLogger(__name__)


class Refusals:
    """Refusals of one listener.

    Args:
        clock: seconds that never run backwards.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = clock()
        self._told: set[Kind] = set()
        self._counted: Counter[str] = Counter()
        self._lock = threading.Lock()

    def note(self, method: str, peer: str, error: BaseException) -> None:
        """Tell or count a refusal. An error that nobody foresaw is told with its traceback."""
        foreseen = isinstance(error, DpReleaseError)
        answered = isinstance(error, ANSWERS) and not isinstance(error, TooManyRequests)
        kind = (method, type(error).__name__, peer)
        self.tell()
        with self._lock:
            told = kind in self._told or len(self._told) >= MOST_KINDS
            if told:
                self._counted[f"{method} {type(error).__name__}"] += 1
            else:
                self._told.add(kind)
        if told:
            return
        if foreseen:
            verb, name = "ended for" if answered else "refused to", type(error).__name__
            log.info("%s %s %s: %s: %.*s", method, verb, peer, name, LONGEST_QUOTE, error)
        else:
            log.error("%s failed for %s", method, peer, exc_info=error)

    def tell(self) -> None:
        """Tell what was only counted, once its period is over."""
        now = self._clock()
        with self._lock:
            if now - self._begun < PERIOD_SECONDS:
                return
            counted, seconds = self._counted.most_common(), now - self._begun
            self._begun, self._told, self._counted = now, set(), Counter()
        if counted:
            each = "; ".join(f"{number} x {kind}" for kind, number in counted)
            log.info("in %.0f s again, and not told one by one: %s", seconds, each)
