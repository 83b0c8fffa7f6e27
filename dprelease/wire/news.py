"""News instead of polls: a caller is held at a server until there is something to ask for; what it is, other calls tell.

News is a number for each caller that changes with everything that happens. None is lost: whoever shows another number than
the present one, because a call broke or the server began anew, is answered at once. Callers dial, nothing listens at them.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import grpc

from dprelease.errors import DpReleaseError, PeerUnavailable, TooManyRequests, VersionMismatch
from dprelease.wire.boundary import VERSION, translated
from dprelease.wire.call import event_loop
from dprelease.wire.limits import Buckets, Rate
from dprelease.wire.retry import Backoff
from dprelease.wire.v1 import release_pb2

HELD_SECONDS = 25.0
"""How long a call is held: proxies and firewalls forget a connection that is silent for 30 to 60 s."""

ANSWER_SECONDS = HELD_SECONDS + 15.0
"""Deadline of such a call."""

MOST_HELD = 2
"""Calls of one caller that are held at once: one, and one whose end has not been noticed yet."""

OLDER_SECONDS = 300.0
"""How long a server that does not know the call is left in peace; it may be upgraded."""

FARTHEST = 1_000_000
"""How much further the number of one server may be at the next answer. One that began anew is its nanoseconds further, or back."""

PACE = Rate(per_second=2.0, burst=20.0)
"""How often a server is asked at most: one that stops, or is hostile, answers every call at once."""

log = logging.getLogger(__name__)


class News:
    """A server's side.

    Args:
        held_seconds: how long a call is held.
    """

    def __init__(self, held_seconds: float = HELD_SECONDS) -> None:
        self._held_seconds = held_seconds
        self._first = time.time_ns()  # a restart gives other numbers
        self._told: Counter[str] = Counter()
        self._held: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._stopped = False

    def tell(self, *names: str) -> None:
        """There is something to ask for; from any thread.

        Args:
            names: of the callers that it concerns.
        """
        event_loop().call_soon_threadsafe(self._tell, names)

    def stop(self) -> None:
        """Answer everybody now, and hold nobody any more."""
        event_loop().call_soon_threadsafe(self._stop)

    async def after(self, name: str, seen: int) -> int:
        """The caller's present number, as soon as it is another than the one seen, or after a while.

        Raises:
            TooManyRequests: too many calls of this caller are held already.
        """
        if seen == self._number(name) and not self._stopped:
            await self._hold(name)
        return self._number(name)

    async def _hold(self, name: str) -> None:
        held, told = self._held[name], asyncio.Event()
        if len(held) >= MOST_HELD:
            raise TooManyRequests(f"{name} waits for news {MOST_HELD} times already")
        held.add(told)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._held_seconds):
                    await told.wait()
        finally:
            held.discard(told)

    def _number(self, name: str) -> int:
        return self._first + self._told[name]

    def _tell(self, names: tuple[str, ...]) -> None:
        for name in names:
            self._told[name] += 1
            for told in self._held[name]:
                told.set()

    def _stop(self) -> None:
        self._stopped = True
        for held in self._held.values():
            for told in held:
                told.set()


class Listening:
    """A caller's side: a thread that asks a server for news for as long as the context lasts.

    A server that does not know the call is asked again much later; until then its caller goes by the clock.

    Args:
        stub: of a service with AwaitNews, asked for before each call. Its channel may be closed meanwhile.
        peer: whom the calls go to, for the log.
        wake: called in the thread whenever there may be news; so it is once the server answers for the first time.
        backoff: waits while the server is away.

    Attributes:
        anew: set once the server began anew while it was listened to.
    """

    def __init__(
        self,
        stub: Callable[[], Any],
        peer: str,
        wake: Callable[[], object],
        backoff: Backoff = Backoff(longest_seconds=10.0),  # noqa: B008 - it is a value
    ) -> None:
        self._stub, self._peer, self._wake, self._backoff = stub, peer, wake, backoff
        self.anew = threading.Event()
        self._stopping = threading.Event()
        self._call: Any = None
        self._hears = False
        self._pace = Buckets(PACE)
        self._thread = threading.Thread(target=self._run, name=f"news of {peer}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        if self._call is not None:
            self._call.cancel()
        self._thread.join()

    @property
    def hears(self) -> bool:
        """Tells whether news would be heard now: the last call was answered."""
        return self._hears

    def _run(self) -> None:
        seen, waits, told = 0, self._backoff.waits(), False
        while not self._stopping.is_set():
            try:
                latest = self._ask(seen)
            except VersionMismatch:
                self._hears = False
                if not told:
                    log.info("%s tells no news; it is asked as often as the settings say", self._peer)
                told = True
                self._stopping.wait(OLDER_SECONDS)
            except DpReleaseError as error:
                self._hears = False
                log.debug("no news of %s: %s", self._peer, error.message)
                self._stopping.wait(next(waits))
            else:
                self._hears, waits = True, self._backoff.waits()
                if seen and not 0 <= latest - seen < FARTHEST:
                    self.anew.set()
                if latest != seen:
                    self._wake()
                seen = latest
                if not self._pace.take(self._peer):
                    self._stopping.wait(1.0)

    def _ask(self, seen: int) -> int:
        try:
            with translated(self._peer):
                request = release_pb2.AwaitNewsRequest(seen=seen)
                self._call = self._stub().AwaitNews.future(request, timeout=ANSWER_SECONDS, metadata=VERSION)
                if self._stopping.is_set():
                    self._call.cancel()
                return int(self._call.result().latest)
        except (grpc.FutureCancelledError, ValueError) as error:  # gRPC's word for a channel that was closed meanwhile
            raise PeerUnavailable(f"{self._peer}: the connection was closed", peer=self._peer) from error
