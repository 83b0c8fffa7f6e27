"""The edge of a server and of a client: protocol version, who is calling, what a peer's refusal means here.

Every call carries the caller's protocol version (`dprelease.wire.versions`); one that is not accepted is refused before the
handler runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import grpc

from dprelease.errors import AccessDenied, InvalidInput, Unauthenticated
from dprelease.identity.certificates import Identity, Role, read_identity
from dprelease.wire.call import Call
from dprelease.wire.status import from_wire
from dprelease.wire.transport import CALL_SECONDS
from dprelease.wire.versions import ACCEPTED_VERSIONS as ACCEPTED_VERSIONS
from dprelease.wire.versions import PROTOCOL_VERSION as PROTOCOL_VERSION
from dprelease.wire.versions import VERSION as VERSION
from dprelease.wire.versions import VERSION_KEY as VERSION_KEY
from dprelease.wire.versions import check_version as check_version

Answer = TypeVar("Answer")

OUR_METHODS = "/dprelease.wire."


def caller(call: Call, *roles: Role) -> Identity:
    """Caller, from the certificate that mutual TLS has checked.

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


def ask(peer: str, method: Callable[..., Answer], request: object) -> Answer:
    """Answer of a peer to one short call of a stub.

    Args:
        peer: whom the call goes to, for messages.
        method: of a stub, with one request and one answer.
        request: message.

    Raises:
        DpReleaseError: of the class that the peer raised, or `PeerUnavailable`.
    """
    with translated(peer):
        return method(request, timeout=CALL_SECONDS, metadata=VERSION)
