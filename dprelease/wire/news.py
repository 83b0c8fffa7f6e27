"""News instead of polls: a caller is held at a server until there is something to ask for; what it is, other calls tell.

News is a number for each caller that changes with everything that happens. None is lost: whoever shows another number than
the present one, because a call broke or the server began anew, is answered at once. Callers dial, nothing listens at them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import grpc

from dprelease.errors import DpReleaseError, TooManyRequests
from dprelease.wire.boundary import VERSION
from dprelease.wire.call import event_loop
from dprelease.wire.limits import Buckets, Rate
from dprelease.wire.v1 import release_pb2

HELD_SECONDS = 25.0
"""A call is held for so long: proxies and firewalls forget a connection that is silent for 30 to 60 s."""

ANSWER_SECONDS = HELD_SECONDS + 15.0
"""Deadline of such a call."""

MOST_HELD = 2
"""Calls of one caller that are held at once: one, and one whose end has not been noticed yet."""

RETRY_SECONDS = 2.0
"""Pause after a call that failed: the server is away, or does not know the call."""

FARTHEST = 1_000_000
"""Largest step of one server's number. The number of a server that began anew is nanoseconds further, or back."""

PACE = Rate(per_second=2.0, burst=20.0)
"""Most calls of one caller: a server that stops, or is hostile, answers every call at once."""

_NAP_SECONDS = 0.5


class News:
    """A server's side."""

    def __init__(self, held_seconds: float = HELD_SECONDS) -> None:
        self._held_seconds = held_seconds
        self._first = time.time_ns()  # a restart gives other numbers
        self._told: Counter[str] = Counter()
        self._held: Counter[str] = Counter()
        self._changed = asyncio.Event()
        self._stopped = False

    def tell(self, *names: str) -> None:
        """Tells callers, from any thread, that there is something to ask for."""
        event_loop().call_soon_threadsafe(self._tell, names)

    def stop(self) -> None:
        """Answers everybody now, and holds nobody any more."""
        event_loop().call_soon_threadsafe(self._tell, (), True)

    async def after(self, name: str, seen: int) -> int:
        """The caller's present number, as soon as it is another than the one seen, or after a while.

        Raises:
            TooManyRequests: too many calls of this caller are held already.
        """
        if seen == self._number(name) and self._held[name] >= MOST_HELD:
            raise TooManyRequests(f"{name} waits for news {MOST_HELD} times already")
        self._held[name] += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._held_seconds):
                    while seen == self._number(name) and not self._stopped:
                        await self._changed.wait()
        finally:
            self._held[name] -= 1
        return self._number(name)

    def _number(self, name: str) -> int:
        return self._first + self._told[name]

    def _tell(self, names: tuple[str, ...], stopped: bool = False) -> None:
        self._stopped |= stopped
        self._told.update(names)
        self._changed.set()
        self._changed = asyncio.Event()


class Listening:
    """A caller's side: one call that is held at a server while the caller waits, see `wait_for_news`.

    Args:
        stub: gives that of a service with AwaitNews, before each call.
        wake: called from another thread whenever there may be news, and so at the first answer.

    Attributes:
        anew: tells whether the server began anew while it was listened to.
    """

    def __init__(self, stub: Callable[[], Any], wake: Callable[[], object]) -> None:
        self.anew = False
        self._stub, self._wake = stub, wake
        self._seen, self._again = 0, 0.0
        self._call: Any = None
        self._pace = Buckets(PACE)

    @property
    def held(self) -> bool:
        """Tells whether a server that has answered before holds a call: it would have answered if there were news."""
        return bool(self._seen) and self._call is not None and not self._call.done()

    def ask(self) -> None:
        """Begins a call unless one is held, or the last one failed just now."""
        held = self._call is not None and not self._call.done()
        if held or time.monotonic() < self._again or not self._pace.take(""):
            return
        request = release_pb2.AwaitNewsRequest(seen=self._seen)
        try:
            self._call = self._stub().AwaitNews.future(request, timeout=ANSWER_SECONDS, metadata=VERSION)
        except (
            DpReleaseError,
            ValueError,
        ):  # it cannot be dialled, or gRPC's word for a channel that was closed meanwhile
            self._failed()
        else:
            self._call.add_done_callback(self._answered)

    def close(self) -> None:
        """Ends the call that is held."""
        if self._call is not None:
            self._call.cancel()

    def _answered(self, call: Any) -> None:
        if call is not self._call:  # told late: a later one was begun once this one was done
            return
        try:
            latest = int(call.result().latest)
        except (grpc.RpcError, grpc.FutureCancelledError):
            self._failed()
            return
        self.anew |= bool(self._seen) and not 0 <= latest - self._seen < FARTHEST
        changed, self._seen = latest != self._seen, latest
        if changed:
            self._wake()

    def _failed(self) -> None:
        self._again = time.monotonic() + RETRY_SECONDS


def wait_for_news(
    event: threading.Event, seconds: float, listening: Iterable[Listening], over: Callable[[], bool] = lambda: False
) -> None:
    """Waits for an event that news set, or until something else is noticed, or for some seconds.

    Args:
        event: set by `wake`.
        seconds: longest wait.
        listening: to servers, whose calls are begun by this thread alone.
        over: looked at twice a second.
    """
    end = time.monotonic() + seconds
    while not over():
        for each in listening:
            each.ask()
        left = min(_NAP_SECONDS, end - time.monotonic())
        if left <= 0 or event.wait(left):
            return
