"""A call that is under way, as the handler of a server sees it.

A call holds no thread while it waits for its caller: it is a task of the event loop. Only a piece of work that may touch
a disk or a database takes a thread, and only for as long as it lasts.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ParamSpec, TypeVar

import grpc.aio
from google.protobuf.message import DecodeError

from dprelease.errors import AccessDenied, DpReleaseError, InvalidInput, PeerUnavailable, Unauthenticated, refused_as
from dprelease.identity.certificates import Identity, Role, read_identity
from dprelease.wire.limits import certificate_peer, most_request_bytes, source_of

_EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined] # missing in the type stubs

P = ParamSpec("P")
T = TypeVar("T")

FIRST_MESSAGE_SECONDS = 10.0
"""How long after its headers a call may bring its first message."""

SENT_GRACE_SECONDS = 5.0
"""Time for each message to a slow reader beyond the least rate: a round trip, a lost packet."""


@dataclass(frozen=True)
class Pace:
    """How slow a caller may be.

    Attributes:
        stall_seconds: most between two messages of an upload.
        least_bytes_per_second: least at which a download must be taken.
    """

    stall_seconds: float = 60.0
    least_bytes_per_second: float = 16 * 1024


USUAL_PACE = Pace()


class Call:
    """One call.

    Attributes:
        method: full name.
        certificate: of the caller, PEM; None without mutual TLS.
        peer: who calls, for counting: a certificate, or a network address.
        reason: the error that `end` was given.
        protocol: version that the caller speaks; None for the standard services, which need none.
        message_bytes: length of the latest message.
    """

    def __init__(self, context: Any, method: str, workers: Executor, pace: Pace) -> None:
        self.method = method
        certificates = list(context.auth_context().get("x509_pem_cert", ()))
        self.certificate: bytes | None = certificates[0] if len(certificates) == 1 else None
        self.peer = source_of(context.peer()) if self.certificate is None else certificate_peer(self.certificate)
        self.reason: DpReleaseError | None = None
        self.protocol: int | None = None
        self.message_bytes = 0
        self._context = context
        self._workers = workers
        self._pace = pace
        self._most_bytes = most_request_bytes([method])
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()

    async def first(self, read: Callable[[bytes], T]) -> T:
        """The one message of a call that has one.

        Raises:
            InvalidInput: there is none, or it is too long or cannot be read.
            PeerUnavailable: it did not come in time.
        """
        message = await self._receive(read, FIRST_MESSAGE_SECONDS)
        if message is None:
            raise InvalidInput("the call ended before its message")
        return message

    async def messages(self, read: Callable[[bytes], T]) -> AsyncIterator[T]:
        """The messages of an upload. One comes while who asks works on the one before.

        Raises:
            InvalidInput: one is too long or cannot be read.
            PeerUnavailable: the upload stood still.
        """

        def begin(seconds: float) -> asyncio.Future[T | None]:
            return _unheard(self._loop.create_task(self._receive(read, seconds)))

        coming = begin(min(FIRST_MESSAGE_SECONDS, self._pace.stall_seconds))
        try:
            while (message := await coming) is not None:
                coming = begin(self._pace.stall_seconds)
                yield message
        finally:
            coming.cancel()

    async def send(self, data: bytes) -> None:
        """Send a message, and wait until the caller has room for it.

        Raises:
            PeerUnavailable: the caller takes it more slowly than at the least rate.
        """
        try:
            async with asyncio.timeout(SENT_GRACE_SECONDS + len(data) / self._pace.least_bytes_per_second):
                await self._context.write(data)
        except TimeoutError as error:
            raise PeerUnavailable(f"{self.peer} takes what it asked for too slowly") from error

    async def work(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Value of a function that may block; it runs on a thread."""
        return await self.start(function, *args, **options)

    def start(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> asyncio.Future[T]:
        """The same, begun now and awaited later; what is never awaited may fail unheard."""
        return _unheard(self._loop.run_in_executor(self._workers, partial(function, *args, **options)))

    def end(self, reason: DpReleaseError) -> None:
        """End the call with an error, from any thread. The first one counts."""
        self._loop.call_soon_threadsafe(self._end, reason)

    def _end(self, reason: DpReleaseError) -> None:
        if self.reason is None and self._task is not None:
            self.reason = reason
            self._task.cancel()

    async def _receive(self, read: Callable[[bytes], T], seconds: float) -> T | None:
        try:
            async with asyncio.timeout(seconds):
                data = await self._context.read()
        except TimeoutError as error:
            raise PeerUnavailable(f"a call of {self.peer} stood still for {seconds:g} s") from error
        if data is _EOF:
            return None
        self.message_bytes = len(data)
        if self.message_bytes > self._most_bytes:
            raise InvalidInput(f"a message of {self.message_bytes:,} bytes; at most {self._most_bytes:,} are read")
        try:
            return read(data)
        except (DecodeError, ValueError) as error:
            raise InvalidInput("a message cannot be read") from error


def _unheard(begun: asyncio.Future[T]) -> asyncio.Future[T]:
    """The same; if nobody awaits it, asyncio logs no failure of it."""
    begun.add_done_callback(lambda done: done.cancelled() or done.exception())
    return begun


def run(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that runs on the loop, for any other thread."""
    return asyncio.run_coroutine_threadsafe(work, event_loop()).result()


@cache
def event_loop() -> asyncio.AbstractEventLoop:
    """The one event loop of this process; its thread starts with the first call and lasts as long as the process.

    All listeners share it, because gRPC wakes all loops of a process through one file descriptor.
    """
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True, name="calls").start()
    return loop


def caller(call: Call, *roles: Role) -> Identity:
    """Caller, from the certificate that mutual TLS has checked.

    Raises:
        Unauthenticated: there is no usable certificate.
        AccessDenied: its role is none of `roles`.
    """
    if call.certificate is None:
        raise Unauthenticated("the caller presented no certificate")
    with refused_as(Unauthenticated):
        identity = read_identity(call.certificate)
    if identity.role not in roles:
        raise AccessDenied(f"{identity.name} is a {identity.role}; this call is for {' or '.join(roles)}")
    return identity
