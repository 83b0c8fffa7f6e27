"""The edge of a server and of a client: protocol version, error translation, who is calling.

Every call carries the caller's protocol version. A server accepts its own version and the one before, so that hospitals
can upgrade one by one; anything else is refused before the handler runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import grpc

from dprelease.certificates import Identity, Role, read_identity
from dprelease.errors import AccessDenied, DpReleaseError, InvalidInput, Unauthenticated, VersionMismatch
from dprelease.wire.status import from_wire, to_wire

PROTOCOL_VERSION = 1
ACCEPTED_VERSIONS = frozenset({PROTOCOL_VERSION})
VERSION_KEY = "dprelease-protocol"
VERSION: tuple[tuple[str, str], ...] = ((VERSION_KEY, str(PROTOCOL_VERSION)),)
"""Metadata that a client sends with every call: ``stub.Method(request, timeout=..., metadata=VERSION)``."""

OUR_METHODS = "/dprelease.wire."

log = logging.getLogger(__name__)


def check_version(metadata: Sequence[tuple[str, str | bytes]]) -> None:
    """Refuse a caller of another protocol version.

    Raises:
        VersionMismatch: the version is missing, malformed or not accepted.
    """
    found = [value for key, value in metadata if key == VERSION_KEY]
    if len(found) != 1 or found[0] not in {str(version) for version in ACCEPTED_VERSIONS}:
        raise VersionMismatch(f"the caller speaks protocol {found or 'unknown'}, this side {PROTOCOL_VERSION}")


class Boundary(grpc.ServerInterceptor):  # type: ignore[type-arg] # not generic at run time
    """Checks the version and turns every error of a handler into its row of the status table."""

    def intercept_service(self, continuation: Any, details: Any) -> Any:
        """Wrap the handler of one of our methods; health and reflection pass as they are."""
        handler = continuation(details)
        if handler is None or not details.method.startswith(OUR_METHODS):
            return handler
        if handler.response_streaming:
            wrapped: Callable[..., Any] = _streaming(handler.unary_stream or handler.stream_stream, details)
        else:
            wrapped = _single(handler.unary_unary or handler.stream_unary, details)
        return rebuilt(handler, wrapped)


def rebuilt(handler: Any, behaviour: Callable[..., Any]) -> Any:
    """A handler of the same kind with another behaviour, for interceptors."""
    make = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[(handler.request_streaming, handler.response_streaming)]
    return make(behaviour, handler.request_deserializer, handler.response_serializer)


def _single(behaviour: Callable[..., Any], details: Any) -> Callable[..., Any]:
    def call(request: Any, context: grpc.ServicerContext) -> Any:
        try:
            check_version(details.invocation_metadata)
            return behaviour(request, context)
        except Exception as error:
            _abort(context, details.method, error)

    return call


def _streaming(behaviour: Callable[..., Any], details: Any) -> Callable[..., Any]:
    def call(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        try:
            check_version(details.invocation_metadata)
            yield from behaviour(request, context)
        except Exception as error:
            _abort(context, details.method, error)

    return call


def _abort(context: grpc.ServicerContext, method: str, error: Exception) -> None:
    if not context.is_active():  # the peer went away; there is nobody to tell
        return
    if isinstance(error, DpReleaseError):
        log.info("%s refused: %s: %s", method, type(error).__name__, error.message)
    else:
        log.exception("%s failed", method)
    context.abort_with_status(to_wire(error))


def caller(context: grpc.ServicerContext, *roles: Role) -> Identity:
    """Who is calling, from the certificate that mutual TLS has checked.

    Raises:
        Unauthenticated: there is no usable certificate.
        AccessDenied: its role is none of `roles`.
    """
    certificates = list(context.auth_context().get("x509_pem_cert", ()))
    if len(certificates) != 1:
        raise Unauthenticated("the caller presented no certificate")
    try:
        identity = read_identity(cast(bytes, certificates[0]))
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
