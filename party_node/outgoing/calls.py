"""Every call that leaves the hospital: to the coordinator and to the hub. The party dials out; nothing listens here."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dprelease.canonical import sha256
from dprelease.catalogue import Catalogue
from dprelease.errors import IntegrityError, PeerUnavailable
from dprelease.one_line import one_line
from dprelease.release.approval import SignedApproval
from dprelease.release.block import SealedBlock
from dprelease.release.charges import SignedStatement
from dprelease.release.spec import ReleaseSpec
from dprelease.wire.boundary import VERSION, ask, translated
from dprelease.wire.chunks import check_chunk, read_chunks
from dprelease.wire.progress import ProgressDeadline
from dprelease.wire.transport import Credentials, connect
from dprelease.wire.v1 import (
    coordination_pb2,
    coordination_pb2_grpc,
    intake_pb2,
    intake_pb2_grpc,
    release_pb2,
)
from party_node.outgoing.alignments import PEER, Alignments

HEALTH_SECONDS = 10.0

MOST_PAGES = 20
"""Of a list of releases, some 3 MiB each; what is further down is looked at when something before it is over."""


@dataclass(frozen=True)
class PendingRelease:
    """A release as the coordinator tells it.

    Attributes:
        release: digest of the spec.
        data: canonical bytes of the spec, unread: most of what is listed is known already.
        state: the coordinator's state, e.g. ``PROPOSED``; empty for one that only a later version has.
        approvals: signed approvals passed on, unchecked.
        explanation: whom it waits for, or why it ended.
    """

    release: str
    data: bytes
    state: str
    approvals: tuple[bytes, ...]
    explanation: str

    def spec(self) -> ReleaseSpec:
        """The spec; raises `InvalidInput` if it cannot be read."""
        return ReleaseSpec.from_bytes(self.data)

    def signed_approvals(self) -> tuple[SignedApproval, ...]:
        """The approvals, parsed.

        Raises:
            InvalidInput: one is malformed.
        """
        return tuple(SignedApproval.from_bytes(data) for data in self.approvals)


class Coordinator:
    """Calls to the coordinator over one channel.

    Args:
        channel: as ourselves.

    Attributes:
        stub: the same calls as the protocol has them.
        alignments: calls about alignment runs.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self.stub = coordination_pb2_grpc.CoordinationServiceStub(channel)
        self.alignments = Alignments(channel)

    @classmethod
    @contextmanager
    def dial(cls, address: str, credentials: Credentials) -> Iterator[Self]:
        """A connection for as long as the context lasts."""
        with connect(address, credentials) as channel:
            yield cls(channel)

    def report(self, catalogue: Catalogue) -> None:
        """Declare our columns, row count and alignment digest."""
        ask(PEER, self.stub.ReportCatalogue, coordination_pb2.ReportCatalogueRequest(catalogue=catalogue.to_bytes()))

    def pending_releases(self, unsettled: Collection[str] | None = None) -> list[PendingRelease]:
        """The releases we take part in, that are not over or ended lately.

        Args:
            unsettled: of those that ended, the ones wanted, by their digests; all if None. An older coordinator lists all.
        """
        request = coordination_pb2.ListReleasesRequest(
            open_only=unsettled is not None, unsettled=[bytes.fromhex(release) for release in unsettled or ()]
        )
        pending: list[PendingRelease] = []
        for _ in range(MOST_PAGES):
            answer = ask(PEER, self.stub.ListReleases, request)
            pending += map(_pending, answer.releases)
            request.page_token = answer.next_page_token
            if not request.page_token:
                break
        return pending

    def renew(self, signing_request: bytes) -> str:
        """Ask for a later certificate over our key; PEM, unchecked."""
        request = coordination_pb2.RenewCertificateRequest(signing_request=signing_request.decode())
        return ask(PEER, self.stub.RenewCertificate, request).certificate

    def charges(self) -> SignedStatement:
        """What the office has seen charged to us, unchecked."""
        request = coordination_pb2.ListChargesRequest()
        answer = ask(PEER, self.stub.ListCharges, request)
        return SignedStatement.from_bytes(answer.charges)

    def request_deal(self, offers: list[bytes]) -> bytes:
        """What the coordinator deals to us in a session, sealed to our session key.

        Args:
            offers: canonical bytes of every party's signed offer, in the spec's order.

        Raises:
            PeerUnavailable: the coordinator is away, or still at it; ask again.
        """
        request = coordination_pb2.RequestDealRequest(offers=offers)
        return ask(PEER, self.stub.RequestDeal, request).sealed

    def approve(self, approval: bytes, spec: bytes = b"") -> None:
        """Hand in our signed approval; with the spec's canonical bytes where the office has forgotten the release."""
        request = coordination_pb2.ApproveRequest(signed_approval=approval, spec=spec)
        ask(PEER, self.stub.Approve, request)

    def decline(self, release: str, reason: str) -> None:
        """Decline, or withdraw before our block was sent."""
        request = coordination_pb2.DeclineRequest(spec_digest=bytes.fromhex(release), reason=reason)
        ask(PEER, self.stub.Decline, request)


def _pending(record: release_pb2.ReleaseRecord) -> PendingRelease:
    known = record.state in release_pb2.ReleaseState.values()
    state = release_pb2.ReleaseState.Name(record.state).removeprefix("RELEASE_STATE_") if known else ""
    release, words = sha256(record.spec), one_line(record.explanation)
    return PendingRelease(release, record.spec, state, tuple(record.approvals), words)


def reach(address: str, credentials: Credentials, peer: str) -> None:
    """Refuse a server that cannot be reached, or does not serve.

    Args:
        address: host and port.
        credentials: ours.
        peer: whom it is, for the error.

    Raises:
        PeerUnavailable: as `check_reachable`.
    """
    with connect(address, credentials) as channel:
        check_reachable(channel, peer)


def check_reachable(channel: grpc.Channel, peer: str) -> None:
    """Ask a peer whether it can serve. Nothing of ours travels but the certificate.

    Args:
        channel: to it.
        peer: whom the call goes to, for messages.

    Raises:
        PeerUnavailable: it is away, or cannot serve now.
    """
    with translated(peer):
        stub = health_pb2_grpc.HealthStub(channel)
        answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=HEALTH_SECONDS)
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        raise PeerUnavailable(
            f"{peer} answers but cannot serve now; tell the consortium's office if it stays so", peer=peer
        )


def stream(method: Any, requests: Iterator[Any], stall_seconds: float, what: str) -> Any:
    """Send a stream of requests that may take as long as it needs, as long as it moves; the answer.

    Args:
        method: of a stub, with a stream of requests.
        requests: made one after another while the stream moves.
        stall_seconds: longest stand-still before the attempt is given up.
        what: what is sent, for messages.

    Raises:
        PeerUnavailable: the stream stood still; try again.
        grpc.RpcError: as the peer answers.
    """
    calls: list[Any] = []
    with ProgressDeadline(lambda: [call.cancel() for call in calls], stall_seconds) as deadline:

        def moving() -> Iterator[Any]:
            for request in requests:
                deadline.moved()
                yield request

        calls.append(method.future(moving(), metadata=VERSION))
        try:
            return calls[0].result()
        except grpc.FutureCancelledError as error:
            raise PeerUnavailable(f"{what} stood still for {stall_seconds:g} s") from error


def received(call: Any, position: int, size: int, stall_seconds: float) -> Iterator[bytes]:
    """The bytes of a stream of chunks that may take as long as it needs, as long as it moves.

    Args:
        call: under way; what it answers with has a chunk.
        position: of the first byte that comes.
        size: as it was announced.
        stall_seconds: longest stand-still before the attempt is given up.

    Raises:
        IntegrityError: a chunk is not the next one, or is damaged.
        grpc.RpcError: as the peer answers, or the stream stood still.
    """
    with ProgressDeadline(call.cancel, stall_seconds) as deadline:
        for answer in call:
            data = check_chunk(answer.chunk, position, size)
            position += len(data)
            deadline.moved()
            yield data
            deadline.moved()


def naming(requests: Iterator[Any], names: Mapping[str, bytes | int]) -> Iterator[Any]:
    """Requests of which the first says what is uploaded."""
    for number, request in enumerate(requests):
        for field, value in names.items() if number == 0 else ():
            setattr(request, field, value)
        yield request


def upload(channel: grpc.Channel, sealed: SealedBlock, path: Path, stall_seconds: float) -> None:
    """Bring a sealed block to the hub; goes on where an earlier attempt stopped.

    Args:
        channel: to the hub's listener for parties.
        sealed: the block's identity.
        path: its bytes.
        stall_seconds: longest stand-still before the attempt is given up.

    Raises:
        PeerUnavailable: the hub is away, or the stream stood still; try again.
        IntegrityError: the hub claims other bytes than ours.
        Conflict, AccessDenied, ...: as the hub answers.
    """
    stub = intake_pb2_grpc.IntakeServiceStub(channel)
    opened = ask("the hub", stub.OpenBlock, intake_pb2.OpenBlockRequest(sealed=sealed.to_bytes()))
    if opened.offset > sealed.size:
        raise IntegrityError("the hub claims to hold more bytes of our block than there are")
    if opened.offset == sealed.size:
        return
    named: dict[str, bytes | int] = {"spec_digest": bytes.fromhex(sealed.spec), "sequence": sealed.sequence}
    requests = naming(read_chunks(path, opened.offset, intake_pb2.SendBlockRequest), named)
    with translated("the hub"):
        answer = stream(stub.SendBlock, requests, stall_seconds, "the hub: the upload")
    if answer.digest != bytes.fromhex(sealed.sha256):
        raise IntegrityError("the hub acknowledged other bytes than those that were sent")
