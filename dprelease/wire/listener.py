"""Servers: TLS always, no thread held by whoever is silent, a renewed certificate without a shared handshaker.

Listeners are separate for mutual TLS, enrolment and the public, because a listener that does not require a client
certificate never sees one. docs/faults.md says what they hold against.
"""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import grpc
import grpc.aio

from dprelease.errors import InvalidInput
from dprelease.wire.call import USUAL_PACE, Pace, event_loop, run
from dprelease.wire.dispatch import Dispatch, Methods
from dprelease.wire.limits import Limiter
from dprelease.wire.transport import KEEPALIVE_SECONDS, Credentials, check_address

MOST_CONNECTIONS = 10_000
"""Connections of one listener, and at most a quarter of the files that the process may open: enough are left to serve with."""

MOST_WAITING = 4_000
"""Calls that a busy loop has not looked at yet, 16 KiB each. Beyond 1,000, gRPC by itself ends some at random, honest ones too."""

MOST_TRIALS = 20
"""How often another port is tried where any will do."""

DRAIN_SECONDS = 3600.0
"""How long calls may go on under a certificate that was renewed meanwhile; it is still valid for a third of its life."""

_SERVER_OPTIONS = [
    # A server that allowed fewer pings than its clients send would answer them with GOAWAY too_many_pings.
    ("grpc.keepalive_time_ms", 2 * KEEPALIVE_SECONDS * 1000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_SECONDS * 1000 // 2),
    ("grpc.max_concurrent_streams", 128),
    ("grpc.server.max_pending_requests", MOST_WAITING),
    ("grpc.server.max_pending_requests_hard_limit", MOST_WAITING),
    ("grpc.server_handshake_timeout_ms", 20_000),
    ("grpc.so_reuseport", 1),  # a renewed certificate's server begins before the old one ends
]
_PUBLIC_OPTIONS = [
    # Whoever has no certificate is cut off after a while: nothing else frees what a caller that reads nothing holds.
    ("grpc.max_connection_age_ms", 600_000),
    ("grpc.max_connection_age_grace_ms", 600_000),
]


class Listener:
    """A running server; make one with `listen`."""

    port: int

    def __init__(self, address: str, dispatch: Dispatch, workers: ThreadPoolExecutor, *, mutual: bool) -> None:
        self._host = address.rpartition(":")[0]
        self.port = int(address.rpartition(":")[2])
        self._dispatch = dispatch
        self._workers = workers
        self._mutual = mutual
        self._servers: list[grpc.aio.Server] = []  # the last one takes connections, those before it end
        self._drains: set[asyncio.Task[None]] = set()
        self._stopped = False
        self._telling = asyncio.run_coroutine_threadsafe(dispatch.tell_refusals(), event_loop())

    def present(self, credentials: Credentials) -> None:
        """Show a certificate from now on; calls that are under way go on under the one before.

        A server of its own begins for it, and the one before takes no new connections. gRPC could swap the certificate
        of a running server, but not while connections are being made: that corrupts its memory.

        Raises:
            InvalidInput: certificate or key is missing or unreadable, or the address cannot be listened on.
        """
        if credentials.key is None or credentials.certificate is None:
            raise InvalidInput("a server needs a certificate and its key")
        credentials.check()
        pair, root = [(credentials.key, credentials.certificate)], credentials.root if self._mutual else None
        run(self._present(grpc.ssl_server_credentials(pair, root, require_client_auth=self._mutual)))

    def stop(self, grace: float | None = None) -> None:
        """Take no more calls; end those under way after a grace in seconds, and return when all have ended."""
        self._telling.cancel()
        run(self._stop(grace))
        self._workers.shutdown(wait=False)

    @staticmethod
    def stop_all(listeners: Sequence[Listener], grace: float | None = None) -> None:
        """Stop several at once, so that they share one grace."""
        with ThreadPoolExecutor(max(1, len(listeners))) as stopping:
            list(stopping.map(lambda listener: listener.stop(grace), listeners))

    async def _present(self, tls: grpc.ServerCredentials) -> None:
        if self._stopped:
            return
        most = min(MOST_CONNECTIONS, _files_allowed() // 4)
        options = [
            *_SERVER_OPTIONS,
            ("grpc.max_allowed_incoming_connections", most),
            ("grpc.max_receive_message_length", self._dispatch.most_request_bytes),
        ]
        server = grpc.aio.server(options=options if self._mutual else [*options, *_PUBLIC_OPTIONS])
        server.add_generic_rpc_handlers((self._dispatch,))
        address = f"{self._host}:{self.port}"
        try:
            self.port = server.add_secure_port(address, tls)
        except RuntimeError as error:
            raise InvalidInput(
                f"cannot listen on {address}: is the port taken, or the certificate unreadable?"
            ) from error
        await server.start()
        for before in self._servers[-1:]:
            drain = asyncio.create_task(self._drain(before))
            self._drains.add(drain)
            drain.add_done_callback(self._drains.discard)
        self._servers.append(server)

    async def _drain(self, server: grpc.aio.Server) -> None:
        await server.stop(DRAIN_SECONDS)
        self._servers.remove(server)

    async def _stop(self, grace: float | None) -> None:
        self._stopped = True
        await asyncio.gather(*(server.stop(grace) for server in self._servers))


def listen(
    address: str,
    credentials: Credentials,
    register: Sequence[Callable[[Any], None]],
    *,
    mutual: bool,
    probe: Callable[[], bool] = lambda: True,
    reflect: bool = False,
    workers: int = 16,
    limiter: Limiter | None = None,
    pace: Pace = USUAL_PACE,
) -> Listener:
    """Start a server.

    Args:
        address: host:port to listen on; port 0 takes any free one.
        credentials: our certificate and key, and the root that callers must chain to.
        register: functions that add servicers to the server. A method that is a plain function runs on a thread, once
            its message is here; one that carries a stream is a coroutine or an asynchronous generator.
        mutual: require a client certificate.
        probe: whether the role is able to serve.
        reflect: offer gRPC reflection.
        workers: threads; none is held by a caller that is waited for.
        limiter: how much one peer may ask for; None does not limit.
        pace: how slow a caller may be.

    Raises:
        InvalidInput: the address is malformed or cannot be listened on, or the certificate cannot be used.
    """
    check_address(address)
    methods = Methods()
    for add in register:
        add(methods)
    methods.add_health(probe)
    if reflect:
        methods.add_reflection()
    pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="worker")
    with _held(address) as free:
        listener = Listener(free, Dispatch(methods, pool, workers, limiter, pace), pool, mutual=mutual)
        try:
            listener.present(credentials)
        except Exception:
            listener.stop()
            raise
    return listener


@contextmanager
def _held(address: str) -> Iterator[str]:
    """The address with a port that nobody listens on, kept from others for as long as the context lasts.

    With SO_REUSEPORT the kernel would share a taken port out between both, and gRPC takes a free one for each family alone.
    """
    host, _, wanted = address.rpartition(":")
    try:
        places = socket.getaddrinfo(host.strip("[]"), int(wanted), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror:  # gRPC says what is wrong with the name
        places = []
    for _ in range(MOST_TRIALS if wanted == "0" else 1):
        with ExitStack() as held:
            port = int(wanted)
            try:
                for family, kind, protocol, _name, place in places:
                    trial = held.enter_context(socket.socket(family, kind, protocol))
                    trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    if family == socket.AF_INET6:
                        trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                    trial.bind((place[0], port, *place[2:]))
                    port = trial.getsockname()[1]
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
            yield f"{host}:{port}"
            return
    raise InvalidInput(f"cannot listen on {address}: is the port taken?")


def _files_allowed() -> int:
    """How many files this process may open, raised as far as we need and the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8 * MOST_CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, 8 * MOST_CONNECTIONS)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    with suppress(OSError, ValueError):  # then it stays as it is
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
