"""How much one peer may ask for: a token bucket and a number of streams for each, so that nobody starves the others.

On a listener for mutual TLS a peer is a certificate, on any other a network address (IPv6: a /64 network, for whoever
has one address there has them all). What is refused ends as `TooManyRequests`; the peer should wait and try again.
"""

from __future__ import annotations

import hashlib
import ipaddress
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import grpc

from dprelease.errors import TooManyRequests
from dprelease.wire.boundary import OUR_METHODS, rebuilt
from dprelease.wire.status import to_wire

BURST_SECONDS = 5.0
"""A quiet peer may ask for so many seconds' worth of calls at once."""

MOST_PEERS = 10_000
"""Peers that are remembered; the one that was quiet for longest is forgotten first."""

Clock = Callable[[], float]


@dataclass(frozen=True)
class Rate:
    """How often.

    Attributes:
        per_second: calls in the long run.
        burst: calls at once.
    """

    per_second: float
    burst: float

    @classmethod
    def of(cls, per_second: float) -> Rate:
        """A rate with the usual burst."""
        return cls(per_second, max(1.0, per_second * BURST_SECONDS))


HEALTH = Rate.of(10.0)
"""Of health checks: each one looks at the store or the disk."""


class Buckets:
    """A token bucket for each peer, without any thread: tokens are counted when they are asked for.

    Args:
        rate: the same for all.
        clock: seconds that never run backwards.
    """

    def __init__(self, rate: Rate, clock: Clock = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._held: OrderedDict[str, tuple[float, float]] = OrderedDict()  # peer to tokens and when they were counted
        self._lock = threading.Lock()

    def take(self, peer: str) -> bool:
        """Take a token, if the peer has one."""
        with self._lock:
            now = self._clock()
            tokens, then = self._held.pop(peer, (self._rate.burst, now))
            tokens = min(self._rate.burst, tokens + (now - then) * self._rate.per_second)
            allowed = tokens >= 1.0
            self._held[peer] = (tokens - 1.0 if allowed else tokens, now)
            if len(self._held) > MOST_PEERS:
                self._held.popitem(last=False)
            return allowed


class Streams:
    """Streams that are under way.

    Args:
        per_peer: most of one peer.
        total: most of all together.
    """

    def __init__(self, per_peer: int, total: int) -> None:
        self._per_peer = per_peer
        self._total = total
        self._open: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def one(self, peer: str) -> Iterator[None]:
        """One stream, for as long as the context lasts.

        Raises:
            TooManyRequests: the peer, or all together, have too many.
        """
        with self._lock:
            if self._open[peer] >= self._per_peer:
                raise TooManyRequests(f"{peer} has {self._per_peer} streams open already")
            if self._open.total() >= self._total:
                raise TooManyRequests(f"{self._total} streams are open already")
            self._open[peer] += 1
        try:
            yield
        finally:
            with self._lock:
                self._open[peer] -= 1
                if not self._open[peer]:
                    del self._open[peer]


class Limiter(grpc.ServerInterceptor):  # type: ignore[type-arg] # not generic at run time
    """Refuses what is too much, before the handler runs. Stands inside the `Boundary`, which tells the peer.

    Args:
        rate: of calls of one peer.
        streams_per_peer: most streams of one peer.
        streams_total: most streams of all; fewer than there are threads, so that short calls always find one.
        clock: seconds that never run backwards.
    """

    def __init__(self, rate: Rate, streams_per_peer: int, streams_total: int, clock: Clock = time.monotonic) -> None:
        self._calls = Buckets(rate, clock)
        self._checks = Buckets(HEALTH, clock)
        self._streams = Streams(streams_per_peer, streams_total)

    def intercept_service(self, continuation: Any, details: Any) -> Any:
        """Wrap our methods and health checks; a health watch takes no thread, and reflection is off by default."""
        handler = continuation(details)
        if handler is None:
            return None
        streaming = handler.request_streaming or handler.response_streaming
        if not details.method.startswith(OUR_METHODS):
            return handler if streaming else rebuilt(handler, self._check(handler.unary_unary))
        if handler.response_streaming:
            return rebuilt(handler, self._answers(handler.unary_stream or handler.stream_stream))
        if handler.request_streaming:
            return rebuilt(handler, self._upload(handler.stream_unary))
        return rebuilt(handler, self._call(handler.unary_unary))

    def _admit(self, context: grpc.ServicerContext) -> str:
        peer = peer_of(context)
        if not self._calls.take(peer):
            raise TooManyRequests(f"{peer} calls too often")
        return peer

    def _call(self, behaviour: Callable[..., Any]) -> Callable[..., Any]:
        def call(request: Any, context: grpc.ServicerContext) -> Any:
            self._admit(context)
            return behaviour(request, context)

        return call

    def _upload(self, behaviour: Callable[..., Any]) -> Callable[..., Any]:
        def call(requests: Any, context: grpc.ServicerContext) -> Any:
            with self._streams.one(self._admit(context)):
                return behaviour(requests, context)

        return call

    def _answers(self, behaviour: Callable[..., Any]) -> Callable[..., Any]:
        def call(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            with self._streams.one(self._admit(context)):
                yield from behaviour(request, context)

        return call

    def _check(self, behaviour: Callable[..., Any]) -> Callable[..., Any]:
        def call(request: Any, context: grpc.ServicerContext) -> Any:
            if not self._checks.take(peer_of(context)):
                context.abort_with_status(to_wire(TooManyRequests("too many health checks")))
            return behaviour(request, context)

        return call


def streams_of(workers: int) -> int:
    """How many of a listener's threads streams may take: three quarters; the others are for short calls."""
    return max(1, workers * 3 // 4)


def peer_of(context: grpc.ServicerContext) -> str:
    """Who calls, for counting: a certificate, or a source of calls."""
    certificates = list(context.auth_context().get("x509_pem_cert", ()))
    if certificates:
        return f"certificate {hashlib.sha256(certificates[0]).hexdigest()[:16]}"  # type: ignore[arg-type]
    return source_of(context.peer())


def source_of(peer: str) -> str:
    """The network address in what gRPC calls a peer, without the port: it is another for each connection.

    Args:
        peer: e.g. ``ipv4:192.0.2.7:50514`` or ``ipv6:%5B2001:db8::7%5D:50514``.
    """
    kind, _, rest = unquote(peer).partition(":")
    host = rest.rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        if kind == "ipv6":
            address = ipaddress.IPv6Address(host)
            return str(address.ipv4_mapped or ipaddress.IPv6Network((address, 64), strict=False))
        return str(ipaddress.IPv4Address(host))
    except ValueError:
        return kind
