"""The edge of a server and of a client: protocol version, who is calling, what a peer's refusal means here.

Every call carries the caller's protocol version. A server accepts its own version and the one before, so that hospitals
can upgrade one by one; anything else is refused before the handler runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import grpc

from dprelease.errors import AccessDenied, InvalidInput, Unauthenticated, VersionMismatch
from dprelease.identity.certificates import Identity, Role, read_identity
from dprelease.wire.call import Call
from dprelease.wire.status import from_wire

PROTOCOL_VERSION = 1
ACCEPTED_VERSIONS = frozenset({PROTOCOL_VERSION})
VERSION_KEY = "dprelease-protocol"
VERSION: tuple[tuple[str, str], ...] = ((VERSION_KEY, str(PROTOCOL_VERSION)),)
"""Metadata that a client sends with every call: ``stub.Method(request, timeout=..., metadata=VERSION)``."""

OUR_METHODS = "/dprelease.wire."


def check_version(metadata: Sequence[tuple[str, str | bytes]]) -> None:
    """Refuse a caller of another protocol version.

    Raises:
        VersionMismatch: the version is missing, malformed or not accepted.
    """
    found = [value for key, value in metadata if key == VERSION_KEY]
    if len(found) != 1 or found[0] not in {str(version) for version in ACCEPTED_VERSIONS}:
        raise VersionMismatch(f"the caller speaks protocol {found or 'unknown'}, this side {PROTOCOL_VERSION}")


def caller(call: Call, *roles: Role) -> Identity:
    """Who is calling, from the certificate that mutual TLS has checked.

    Raises:
        Unauthenticated: there is no usable certificate.
        AccessDenied: its role is none of `roles`.
    """
    if call.certificate is None:
        raise Unauthenticated("the caller presented no certificate")
    try:
        identity = read_identity(call.certificate)
    except InvalidInput as error:
        raise Unauthenticated(error.message) from error
    if identity.role not in roles:
        raise AccessDenied(f"{identity.name} is a {identity.role}; this call is for {' or '.join(roles)}")
    return identity


@contextmanager
def translated(peer: str) -> Iterator[None]:
    """Turn a failed call into the error class that the peer raised.

    Args:
        peer: whom the calls go to, for messages.
    """
    try:
        yield
    except grpc.RpcError as error:
        raise from_wire(error, peer) from error
