"""Whom the hub no longer listens to: the keys that the consortium's office revoked, asked for every few seconds."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from dprelease.errors import AccessDenied, DpReleaseError
from dprelease.identity.certificates import Identity
from dprelease.wire.limits import Buckets, Rate

log = logging.getLogger(__name__)

LOOKS = Rate.of(20.0)
"""How often the hub looks, however many parties make it: less than half of the calls that the coordinator allows it."""

End = Callable[[DpReleaseError], object]
"""Ends a call with an error, from another thread."""


class Revocations:
    """The revoked keys as of the last look, and the calls that are under way.

    Args:
        ask: asks the coordinator for the fingerprints of all revoked keys.
        now: the time, at which a caller's certificate must be valid.
        grown: called when keys were added.
    """

    def __init__(
        self, ask: Callable[[], frozenset[str]], now: Callable[[], datetime], grown: Callable[[], object]
    ) -> None:
        self._ask = ask
        self._now = now
        self._grown = grown
        self._revoked: frozenset[str] = frozenset()
        self._under_way: dict[int, tuple[Identity, End]] = {}
        self._asking = threading.Lock()  # so that an older answer never replaces a newer one
        self._lock = threading.Lock()
        self._looks = 0  # begun so far
        self._latest = 0  # the last of them that was answered
        self._failed: tuple[int, DpReleaseError] | None = None  # the last of them that was not, and why
        self._pace = Buckets(LOOKS)

    def refresh(self) -> None:
        """Ask now; calls of revoked keys that are under way end.

        All who wait for their turn share one look, which begins after the last of them came, and its failure: where the coordinator
        is silent, nobody waits for more than two of its silences.

        Raises:
            PeerUnavailable: the coordinator is away, or does not accept this hub.
        """
        wanted = self._looks + 1
        with self._asking:
            if self._latest >= wanted:
                return
            if self._failed and self._failed[0] >= wanted:
                raise self._failed[1]
            while not self._pace.take("all parties"):
                time.sleep(1 / LOOKS.per_second)
            self._looks += 1
            try:
                revoked = self._ask()
            except DpReleaseError as error:
                self._failed = self._looks, error
                raise
            with self._lock:
                added = revoked - self._revoked
                self._revoked, self._latest = revoked, self._looks
                ending = [call for call in self._under_way.values() if call[0].fingerprint in revoked]
        for identity, end in ending:
            log.warning("a call of %s is cut: its key was revoked", identity.name)
            end(_refusal(identity))
        if added:
            self._grown()

    def look_up(self, identity: Identity) -> None:
        """Ask now, and refuse a caller whose key was revoked; raises as `refresh` and `check`."""
        self.refresh()
        self.check(identity)

    def check(self, identity: Identity) -> None:
        """Refuse a caller whose key was revoked, or whose certificate has ended on an old connection.

        Raises:
            AccessDenied: it was, or has.
        """
        if self._now() > identity.expires:
            raise AccessDenied(f"the certificate of {identity.name} has expired")
        if identity.fingerprint in self._revoked:
            raise _refusal(identity)

    @contextmanager
    def during(self, identity: Identity, end: End) -> Iterator[None]:
        """While a call is under way: end it as soon as its key is revoked.

        Raises:
            AccessDenied: it is already.
        """
        call = object()
        with self._lock:
            self.check(identity)
            self._under_way[id(call)] = (identity, end)
        try:
            yield
        finally:
            with self._lock:
                del self._under_way[id(call)]


def _refusal(identity: Identity) -> AccessDenied:
    return AccessDenied(f"{identity.name} was revoked")
