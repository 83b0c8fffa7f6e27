"""Channels: TLS always, keepalive that matches the servers' (`dprelease.wire.listener`), no answer longer than it may be.

Addresses are checked here before anybody dials them, also those of clusters of dask.distributed.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

import grpc
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from dprelease.errors import InvalidInput
from dprelease.identity.certificates import read_certificate
from dprelease.wire.limits import answer_limits

KEEPALIVE_SECONDS = 60

_CLIENT_OPTIONS = [
    ("grpc.keepalive_time_ms", KEEPALIVE_SECONDS * 1000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_retries", 0),
    # A server that was away is found again within seconds of its return.
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    ("grpc.service_config", answer_limits()),
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

    def check(self) -> None:
        """Refuse what gRPC would end the process for, e.g. a certificate file that was cut to nothing.

        Raises:
            InvalidInput: a certificate or key cannot be read, or one comes without the other.
        """
        if (self.certificate is None) != (self.key is None) or self.key == b"":
            raise InvalidInput("a certificate and its key belong together; one of them is missing")
        for pem in (self.root, self.certificate):
            if pem is not None:
                read_certificate(pem)
        if self.key is not None:
            try:
                load_pem_private_key(self.key, None)
            except (ValueError, TypeError) as error:
                raise InvalidInput("the private key cannot be read") from error


def connect(address: str, credentials: Credentials) -> grpc.Channel:
    """A channel to a server, as ourselves if we have a certificate.

    Args:
        address: host:port; the host is the name that the server's certificate must carry.
        credentials: root to check the server against, and our own certificate if any.

    Raises:
        InvalidInput: the address is malformed, or a certificate cannot be read.
    """
    check_address(address)
    credentials.check()
    tls = grpc.ssl_channel_credentials(credentials.root, credentials.key, credentials.certificate)
    return grpc.secure_channel(address, tls, options=_CLIENT_OPTIONS)


def check_address(address: str) -> None:
    """Refuse what is not host:port.

    Raises:
        InvalidInput: with an example.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise InvalidInput(f"{address!r} is not host:port, e.g. hub.example.org:7443")


def check_cluster(address: str) -> str:
    """The address of a scheduler, as it came.

    Raises:
        ValueError: it is none, or one that is reached without TLS.
    """
    url = urlsplit(address)
    if url.scheme not in {"tls", "tcp"} or not url.hostname:
        raise ValueError('address is that of the scheduler, "tls://host:8786"')
    if url.scheme == "tcp" and not is_loopback(url.hostname):
        raise ValueError("workers are reached over TLS alone: let the scheduler listen on tls://")
    return address


def is_loopback(host: str) -> bool:
    """Tells whether a host is this machine, by its address or as ``localhost``."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
