"""The edge of a server and of a client: protocol versions, errors as statuses and back, and calls that wait for an answer.

Every call says which version of the protocol its caller speaks, and a server takes its own and the one before. So servers are
updated first, the coordinator before the hub, and whoever calls them one by one in any order after that. A version that is not
accepted is refused before the handler runs.

2  catalogues and specs may have fields that software of protocol 1 refuses; all calls are those of 1

A server turns a raised error into its row's status and constant sentence: no message, cell or path crosses the boundary. A client
turns the status back into the same class; whatever is not in the table becomes `InternalError`, and what only this side can know,
that its table, policy or budget does not allow something, becomes `Conflict`.

Source: docs/format.md, section 13, "Version"; docs/coordinator.md, "Upgrading".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar, cast

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from dprelease import errors
from dprelease.errors import DpReleaseError, VersionMismatch
from dprelease.one_line import quoted

PROTOCOL_VERSION = 2
ACCEPTED_VERSIONS = frozenset({PROTOCOL_VERSION - 1, PROTOCOL_VERSION})
VERSION_KEY = "dprelease-protocol"
VERSION: tuple[tuple[str, str], ...] = ((VERSION_KEY, str(PROTOCOL_VERSION)),)
"""Metadata that a client sends with every call: ``stub.Method(request, timeout=..., metadata=VERSION)``."""

ACCEPTED = ",".join(map(str, sorted(ACCEPTED_VERSIONS)))
"""Versions as a server tells them to a caller of another one, under `ACCEPTED_KEY` in the details of its answer."""
ACCEPTED_KEY = "accepts"

_NUMBER = re.compile(r"[0-9]{1,4}")
_LIST = re.compile(rf"{_NUMBER.pattern}(,{_NUMBER.pattern})*")


def check_version(metadata: Sequence[tuple[str, str | bytes]]) -> int:
    """The version that a caller speaks, if it is one that is taken here.

    Raises:
        VersionMismatch: the version is missing, malformed or not accepted; who has to be updated.
    """
    found = [value for key, value in metadata if key == VERSION_KEY]
    said = found[0] if len(found) == 1 and isinstance(found[0], str) else ""
    if said in map(str, ACCEPTED_VERSIONS):
        return int(said)
    if not _NUMBER.fullmatch(said):
        raise VersionMismatch(f"the caller says {found or 'nothing'} for its protocol version")
    older = int(said) < PROTOCOL_VERSION
    raise VersionMismatch(
        f"the caller speaks protocol {said}, this side takes {ACCEPTED}: update the "
        f"{'caller' if older else 'software on this side'}"
    )


def advice(accepted: str) -> str:
    """Which side is to be updated, where a server refused our version; empty where it takes it, and only lacks a call.

    Args:
        accepted: as the server told it; empty from software of protocol 1, which does not.
    """
    if not _LIST.fullmatch(accepted):
        return f"it is older than protocol {PROTOCOL_VERSION}, which we speak; it has to be updated"
    taken = [int(each) for each in accepted.split(",")]
    if PROTOCOL_VERSION in taken:
        return ""
    behind = "it has to be updated" if max(taken) < PROTOCOL_VERSION else "update the software on this side"
    return f"it takes protocol {accepted.replace(',', ' and ')}, we speak {PROTOCOL_VERSION}; {behind}"


DOMAIN = "dprelease"


@dataclass(frozen=True)
class Ending:
    """A way in which a call ends with an error: a row of the table.

    Attributes:
        error: error class.
        code: gRPC status.
        sentence: what the other side is told, always the same.
        exit_code: of a command that ends with this error.
    """

    error: type[DpReleaseError]
    code: grpc.StatusCode
    sentence: str
    exit_code: int


TABLE: tuple[Ending, ...] = (
    Ending(errors.InvalidInput, grpc.StatusCode.INVALID_ARGUMENT, "The request is not valid.", 2),
    Ending(errors.DataRefused, grpc.StatusCode.FAILED_PRECONDITION, "The party cannot take part.", 10),
    Ending(errors.SpecRefused, grpc.StatusCode.INVALID_ARGUMENT, "The release spec does not check out.", 11),
    Ending(errors.PolicyRefused, grpc.StatusCode.FAILED_PRECONDITION, "The party declines this release.", 12),
    Ending(errors.BudgetExceeded, grpc.StatusCode.RESOURCE_EXHAUSTED, "The privacy budget does not allow this.", 13),
    Ending(errors.NotFound, grpc.StatusCode.NOT_FOUND, "There is no such thing here.", 14),
    Ending(errors.Conflict, grpc.StatusCode.FAILED_PRECONDITION, "The request does not fit the present state.", 15),
    Ending(errors.AccessDenied, grpc.StatusCode.PERMISSION_DENIED, "The certificate does not allow this call.", 16),
    Ending(errors.Unauthenticated, grpc.StatusCode.UNAUTHENTICATED, "The certificate or invite is not valid.", 17),
    Ending(errors.VersionMismatch, grpc.StatusCode.UNIMPLEMENTED, "The protocol versions do not match.", 18),
    Ending(errors.IntegrityError, grpc.StatusCode.DATA_LOSS, "The bytes do not match what was signed.", 19),
    Ending(
        errors.ProofRefused, grpc.StatusCode.DATA_LOSS, "A proof that masked columns lie in their bounds failed.", 23
    ),
    Ending(errors.PeerUnavailable, grpc.StatusCode.UNAVAILABLE, "The service is not available now.", 20),
    Ending(errors.TooManyRequests, grpc.StatusCode.RESOURCE_EXHAUSTED, "Too many requests; try again later.", 22),
    Ending(errors.InternalError, grpc.StatusCode.INTERNAL, "Something went wrong on this side.", 21),
)

LOCAL = frozenset({errors.DataRefused, errors.SpecRefused, errors.PolicyRefused, errors.BudgetExceeded})
"""Judgements of a hospital on its own data, proposals, limits and ledger, on which it acts in its own name: it declines, withdraws,
gives back. From a peer they are that peer's trouble."""

_BY_CLASS = {row.error: row for row in TABLE}
_BY_NAME = {row.error.__name__: row for row in TABLE}


def row_for(error: BaseException) -> Ending:
    """The table's row for an error; unforeseen errors get the row of `InternalError`."""
    for kind in type(error).__mro__:
        if kind in _BY_CLASS:
            return _BY_CLASS[kind]
    return _BY_CLASS[errors.InternalError]


def to_wire(error: BaseException) -> grpc.Status:
    """The status a server aborts with: code, constant sentence, and the class's name for the other side.

    With `VersionMismatch` go the versions that are taken here.
    """
    row = row_for(error)
    detail = any_pb2.Any()
    more = {ACCEPTED_KEY: ACCEPTED} if row.error is errors.VersionMismatch else {}
    detail.Pack(error_details_pb2.ErrorInfo(reason=row.error.__name__, domain=DOMAIN, metadata=more))
    code: tuple[int, str] = row.code.value
    return rpc_status.to_status(status_pb2.Status(code=code[0], message=row.sentence, details=[detail]))


def from_wire(error: grpc.RpcError, peer: str) -> DpReleaseError:
    """The error a client raises for a failed call; never one of `LOCAL`."""
    info = _details(error)
    row = _BY_NAME.get(info.reason) if info is not None else None
    if info is not None and row is not None:
        raised = errors.Conflict if row.error in LOCAL else row.error
        words = advice(info.metadata[ACCEPTED_KEY]) if row.error is errors.VersionMismatch else ""
        said = ": ".join(each for each in (peer, words, row.sentence) if each)
        return raised(said, peer=peer) if issubclass(raised, errors.PeerUnavailable) else raised(said)
    code = error.code()
    if code == grpc.StatusCode.UNIMPLEMENTED:
        return errors.VersionMismatch(f"{peer} does not know this call; check that both sides run the same version")
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED):
        return errors.PeerUnavailable(f"{peer}: {diagnose(error.details() or '')}", peer=peer)
    did = next((said for mark, said in _TOO_LONG if mark in (error.details() or "")), f"answered {code.name}")
    return errors.InternalError(f"{peer} {did}")


def _details(error: grpc.RpcError) -> error_details_pb2.ErrorInfo | None:
    try:
        status = rpc_status.from_call(cast(grpc.Call, error))
    except ValueError:
        return None
    for detail in status.details if status is not None else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info) and info.domain == DOMAIN:
            return info
    return None


_TOO_LONG = (
    ("SERVER: Received message larger", "takes no message as long as ours"),
    ("CLIENT: Received message larger", "sent an answer longer than any that is read here"),
)
_STRANGER = "its certificate is not from the expected consortium, or has expired; check the clock"
_MISNAMED = "its certificate does not name this host; use the name it was made for"
_REFUSES_US = "it refused our certificate; it may have expired or been issued by another consortium"
_UNKNOWN_HOST = "its host name is not known; check the address"
_DIAGNOSES = (
    ("WRONG_VERSION_NUMBER", "it does not speak TLS on this port; check the address, or a proxy that terminates TLS"),
    ("CERTIFICATE_VERIFY_FAILED", _STRANGER),
    ("certificate signature failure", _STRANGER),
    ("Hostname Verification", _MISNAMED),
    ("Peer name", _MISNAMED),
    ("CERTIFICATE_REQUIRED", "it wants a client certificate; enrol first"),
    ("tlsv1 alert", _REFUSES_US),
    ("sslv3 alert", _REFUSES_US),
    # With TLS 1.3 a server that refuses our certificate says so only by closing the connection.
    ("Socket closed", f"it closed the connection; if that does not pass, {_REFUSES_US}"),
    ("handshake failed", "the TLS handshake failed; check address, certificates and clock"),
    ("Connection refused", "nothing listens there; check that it runs and that the port is right"),
    ("DNS", _UNKNOWN_HOST),
    ("hostname lookup", _UNKNOWN_HOST),
    ("Name or service", _UNKNOWN_HOST),
    ("Deadline", "it did not answer in time"),
)


def diagnose(details: str) -> str:
    """A transport error in words that a person can act on."""
    for mark, words in _DIAGNOSES:
        if mark.lower() in details.lower():
            return words
    return "it cannot be reached now" + (f" ({quoted(details)})" if details else "")


def exit_code(error: BaseException) -> int:
    """Exit code of a command that ends with this error."""
    return row_for(error).exit_code


Answer = TypeVar("Answer")

OUR_METHODS = "/dprelease.wire."

CALL_SECONDS = 30.0
"""Deadline of a call that carries no stream. Streams have deadlines on progress: `dprelease.wire.retry`."""


@contextmanager
def translated(peer: str) -> Iterator[None]:
    """Turn a failed call into the error class that the peer raised."""
    try:
        yield
    except grpc.RpcError as error:
        raise from_wire(error, peer) from error


def ask(peer: str, method: Callable[..., Answer], request: object) -> Answer:
    """Answer of a peer to one short call of a stub.

    Raises:
        DpReleaseError: of the class that the peer raised, or `PeerUnavailable`.
    """
    with translated(peer):
        return method(request, timeout=CALL_SECONDS, metadata=VERSION)
