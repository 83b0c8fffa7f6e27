"""Channels and servers: TLS always, keepalive that matches on both sides, default message limits untouched.

Listeners are separate for mutual TLS, enrolment and the public, because a listener that does not require a client
certificate never sees one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from dprelease.errors import InvalidInput
from dprelease.wire.boundary import Boundary
from dprelease.wire.limits import Limiter

KEEPALIVE_SECONDS = 60
CALL_SECONDS = 30.0
"""Deadline of a call that carries no stream. Streams have deadlines on progress: `dprelease.wire.progress`."""

_CLIENT_OPTIONS = [
    ("grpc.keepalive_time_ms", KEEPALIVE_SECONDS * 1000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_retries", 0),
]
# A server that allowed fewer pings than its clients send would answer them with GOAWAY too_many_pings.
_SERVER_OPTIONS = [
    ("grpc.keepalive_time_ms", 2 * KEEPALIVE_SECONDS * 1000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_SECONDS * 1000 // 2),
    ("grpc.so_reuseport", 0),
]


@dataclass(frozen=True)
class Credentials:
    """PEM files of one side of a connection.

    Attributes:
        root: the consortium root that the other side must chain to.
        certificate: our certificate; None for a caller without one.
        key: our private key; None for a caller without one.
    """

    root: bytes
    certificate: bytes | None = None
    key: bytes | None = None


def connect(address: str, credentials: Credentials) -> grpc.Channel:
    """A channel to a server, as ourselves if we have a certificate.

    Args:
        address: host:port; the host is the name that the server's certificate must carry.
        credentials: root to check the server against, and our own certificate if any.
    """
    check_address(address)
    tls = grpc.ssl_channel_credentials(credentials.root, credentials.key, credentials.certificate)
    return grpc.secure_channel(address, tls, options=_CLIENT_OPTIONS)


class Health(health.HealthServicer):
    """Standard health service that asks the role each time, so that it can say no."""

    def __init__(self, probe: Callable[[], bool]) -> None:
        super().__init__()
        self._probe = probe

    def Check(self, request: Any, context: Any) -> Any:  # noqa: N802 - the service's name
        """SERVING while the role's store and disk answer."""
        serving = health_pb2.HealthCheckResponse
        self.set("", serving.SERVING if self._probe() else serving.NOT_SERVING)
        return super().Check(request, context)


@dataclass(frozen=True)
class Listener:
    """A running server.

    Attributes:
        server: stop it with `server.stop(grace)`.
        port: the port it listens on.
    """

    server: grpc.Server
    port: int


def listen(
    address: str,
    credentials: Credentials | Callable[[], Credentials],
    register: Sequence[Callable[[grpc.Server], None]],
    *,
    mutual: bool,
    names: Sequence[str] = (),
    probe: Callable[[], bool] = lambda: True,
    reflect: bool = False,
    workers: int = 16,
    limiter: Limiter | None = None,
) -> Listener:
    """Start a server.

    Args:
        address: host:port to listen on; port 0 takes any free one.
        credentials: our certificate and key, and the root that callers must chain to; or a function that tells them,
            which is asked at every new connection, so that a renewed certificate needs no restart.
        register: functions that add servicers to the server.
        mutual: require a client certificate.
        names: full names of the services, for reflection.
        probe: whether the role is able to serve.
        reflect: offer gRPC reflection.
        workers: threads.
        limiter: how much one peer may ask for; None does not limit.

    Raises:
        InvalidInput: the address is malformed or cannot be listened on.
    """
    check_address(address)
    # The boundary stands outside: it tells a peer that the limiter refused.
    interceptors = [Boundary(), *([] if limiter is None else [limiter])]
    server = grpc.server(ThreadPoolExecutor(max_workers=workers), interceptors=interceptors, options=_SERVER_OPTIONS)
    for add in register:
        add(server)
    health_pb2_grpc.add_HealthServicer_to_server(Health(probe), server)
    if reflect:
        reflection.enable_server_reflection([*names, health.SERVICE_NAME, reflection.SERVICE_NAME], server)
    tls = _server_credentials(credentials if callable(credentials) else lambda: credentials, mutual=mutual)
    try:
        port = server.add_secure_port(address, tls)
    except RuntimeError as error:
        raise InvalidInput(f"cannot listen on {address}: is the port taken, or the certificate unreadable?") from error
    server.start()
    return Listener(server, port)


def _server_credentials(present: Callable[[], Credentials], *, mutual: bool) -> grpc.ServerCredentials:
    def configuration(ours: Credentials) -> Any:
        if ours.key is None or ours.certificate is None:
            raise InvalidInput("a server needs a certificate and its key")
        pair = [(ours.key, ours.certificate)]
        return grpc.ssl_server_certificate_configuration(pair, ours.root if mutual else None)

    return grpc.dynamic_ssl_server_credentials(
        configuration(present()), lambda: configuration(present()), require_client_authentication=mutual
    )


def check_address(address: str) -> None:
    """Refuse what is not host:port.

    Raises:
        InvalidInput: with an example.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise InvalidInput(f"{address!r} is not host:port, e.g. hub.example.org:7443")
