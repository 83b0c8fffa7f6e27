"""From a call's bytes to a method's answer: version, limits, message, handler, status, log. One way for every kind of call.

gRPC's own kinds of handler read a message before anybody may refuse it, and answer garbage without our error details.
So every method is registered as a stream of bytes in both directions, which is the same on the wire.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import aclosing, suppress
from typing import Any
from weakref import WeakValueDictionary

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from dprelease.errors import DpReleaseError, NotFound, OutOfTurn, PeerUnavailable, TooManyRequests, VersionMismatch
from dprelease.wire.boundary import OUR_METHODS, check_version, to_wire
from dprelease.wire.call import Call, Pace
from dprelease.wire.limits import SHORT_BYTES, Limiter, most_request_bytes

UNKNOWN = "a method that is not here"

_GONE = grpc.aio.InternalError
"""Error of gRPC when a call is written to that is over already."""


class Methods(dict[str, Any]):
    """Full name to handler, filled by the functions that protoc made for adding a servicer to a server."""

    def add_generic_rpc_handlers(self, handlers: Sequence[Any]) -> None:
        """For older callers; the same methods come through the other function."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Take a service's methods."""
        self.update({f"/{service}/{name}": handler for name, handler in handlers.items()})

    def add_health(self, probe: Callable[[], bool]) -> None:
        """The standard health check, which asks the role each time, so that it can say no. There is no Watch."""
        health_pb2_grpc.add_HealthServicer_to_server(_Health(probe), self)
        del self["/grpc.health.v1.Health/Watch"]

    def add_reflection(self) -> None:
        """gRPC reflection of all services that are here."""
        everything = [*dict.fromkeys(method.split("/")[1] for method in self), reflection.SERVICE_NAME]
        servicer = reflection.aio.ReflectionServicer(everything)  # type: ignore[attr-defined] # it is in __all__
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, self)


class _Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc] # has no types
    def __init__(self, probe: Callable[[], bool]) -> None:
        self._probe = probe

    def Check(self, request: Any, context: Any) -> Any:  # noqa: N802 - the service's name
        serving = health_pb2.HealthCheckResponse
        return serving(status=serving.SERVING if self._probe() else serving.NOT_SERVING)


class Dispatch(grpc.GenericRpcHandler):  # type: ignore[type-arg] # not generic at run time
    """All methods of a listener.

    Args:
        methods: full name to handler.
        workers: threads for plain functions and for work of the others that blocks.
        threads: how many there are; one peer may hold a quarter of them, and waits for its turn beyond that.
        limiter: how much one peer may ask for; None does not limit.
        pace: how slow a caller may be.

    Attributes:
        most_request_bytes: of the longest request that is taken; gRPC itself refuses longer ones before they are here.
    """

    def __init__(self, methods: Methods, workers: Executor, threads: int, limiter: Limiter | None, pace: Pace) -> None:
        self._workers = workers
        self._share = max(1, threads // 4)
        self._turns: WeakValueDictionary[tuple[str, bool], asyncio.Semaphore] = WeakValueDictionary()
        self._limiter = limiter
        self._pace = pace
        self._refusals = Refusals()
        self._methods = {name: self._entry(name, handler) for name, handler in methods.items()}
        self._unknown = self._entry(UNKNOWN, None)
        self.most_request_bytes = most_request_bytes(methods)

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        """The entry of a method."""
        return self._methods.get(details.method, self._unknown)

    async def tell_refusals(self) -> None:
        """Tell now and then how many calls were refused, until cancelled."""
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            self._refusals.tell()

    def _entry(self, method: str, handler: Any) -> Any:
        async def enter(_messages: Any, context: Any) -> None:
            call = Call(context, method, self._workers, self._pace)
            status: grpc.Status | None = None
            try:
                await self._answer(call, handler, context)
            except asyncio.CancelledError:
                if call.reason is None:  # the caller went away, or the server stops
                    raise
                status = self._refusal(call, call.reason)
            except _GONE:
                status = self._refusal(call, PeerUnavailable("the caller hung up"))
            except Exception as error:
                status = self._refusal(call, error)
            # The error is gone by now, and with it what was made of the message; the caller may let us wait.
            if status is not None:
                with suppress(_GONE):  # gRPC would log a traceback for every caller who hung up meanwhile
                    await context.abort(status.code, status.details, status.trailing_metadata)

        return grpc.stream_stream_rpc_method_handler(enter)

    def _refusal(self, call: Call, error: BaseException) -> grpc.Status:
        self._refusals.note(call.method, call.peer, error)
        return to_wire(error)

    async def _answer(self, call: Call, handler: Any, context: Any) -> None:
        if handler is None:
            raise VersionMismatch("the caller asks for a method that is not here")
        if call.method.startswith(OUR_METHODS):
            call.protocol = check_version(context.invocation_metadata())
        streams = handler.request_streaming or handler.response_streaming
        self._admit(call, context, streams=streams)
        if handler.response_streaming:
            # Before the first message, so that a caller who never takes it can still be told why the call ends.
            await context.send_initial_metadata(())
        read, written = handler.request_deserializer, handler.response_serializer
        if handler.request_streaming and handler.response_streaming:
            await self._send_all(call, handler.stream_stream(call.messages(read), call), written)
        elif handler.request_streaming:
            await call.send(written(await handler.stream_unary(call.messages(read), call)))
        elif handler.response_streaming:
            await self._send_all(call, handler.unary_stream(await call.first(read), call), written)
        else:
            await call.send(written(await self._short(call, handler.unary_unary, await call.first(read))))

    async def _send_all(self, call: Call, answers: AsyncGenerator[Any, None], written: Callable[[Any], bytes]) -> None:
        async with aclosing(answers):
            async for answer in answers:
                data = answer if isinstance(answer, bytes) else written(answer)
                del answer  # as large as its bytes, and a slow reader lets us wait
                await call.send(data)

    def _admit(self, call: Call, context: Any, *, streams: bool) -> None:
        if self._limiter is None:
            return
        if not call.method.startswith(OUR_METHODS):
            self._limiter.admit_check(call.peer)
            return
        self._limiter.admit(call.peer)
        if streams:
            # Counted until gRPC has let go of the call, not only until its handler has ended.
            over = self._limiter.streams.begin(call.peer)
            context.add_done_callback(lambda _: over())

    async def _short(self, call: Call, function: Callable[..., Any], request: Any) -> Any:
        if inspect.iscoroutinefunction(function):
            return await function(request, call)
        # Long messages of one peer are read one after another: each takes memory, and keeps all other threads waiting.
        long = call.message_bytes > SHORT_BYTES
        turn = self._turns.setdefault((call.peer, long), asyncio.Semaphore(1 if long else self._share))
        async with turn:
            return await call.work(function, request, call)


PERIOD_SECONDS = 60.0
"""How long a kind is counted before it is told again."""

MOST_KINDS = 50
"""Most kinds that are told in a period; further ones are counted together."""

LONGEST_QUOTE = 200
"""Most letters of a message."""

ANSWERS = (NotFound, OutOfTurn, PeerUnavailable)
"""Answers in the protocol's normal course, where nobody did wrong; `TooManyRequests` is none of them."""

Kind = tuple[str, str, str]
"""A method, an error class and a peer."""

log = logging.getLogger(__name__)


class Refusals:
    """The log of one listener's calls that ended with an error, which nobody can flood: each kind is told once, then counted.

    A caller's words may stand in the error's message, so it is cut short. That something is not here, not yet, not any more or
    not now is an answer, whatever is wrong with the caller or its request a refusal.
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
