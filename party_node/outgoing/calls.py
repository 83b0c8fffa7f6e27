"""Every call that leaves the hospital: to the coordinator and to the hub. The party dials out; nothing listens here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dprelease.catalogue import Catalogue
from dprelease.errors import IntegrityError, PeerUnavailable
from dprelease.release.block import SealedBlock
from dprelease.release.charges import SignedStatement
from dprelease.wire.boundary import VERSION, ask, translated
from dprelease.wire.chunks import check_chunk, read_chunks
from dprelease.wire.retry import PROGRESS_BYTES, ProgressDeadline
from dprelease.wire.transport import Credentials, connect
from dprelease.wire.v1 import (
    coordination_pb2,
    coordination_pb2_grpc,
    intake_pb2,
    intake_pb2_grpc,
    release_pb2,
)
from party_node.outgoing.agreements import PEER, Agreements

HEALTH_SECONDS = 10.0


class Coordinator:
    """Calls to the coordinator over one channel.

    Args:
        channel: as ourselves.

    Attributes:
        stub: the same calls as the protocol has them.
        releases: calls about releases.
        runs: calls about alignment runs.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self.stub = stub = coordination_pb2_grpc.CoordinationServiceStub(channel)
        self._runs = runs = coordination_pb2_grpc.AlignmentServiceStub(channel)
        self.releases = Agreements(stub.ListReleases, stub.Approve, stub.Decline, release_pb2.ReleaseState)
        self.runs = Agreements(runs.ListRuns, runs.AcceptRun, runs.DeclineRun, release_pb2.RunState)

    @classmethod
    @contextmanager
    def dial(cls, address: str, credentials: Credentials) -> Iterator[Self]:
        """A connection for as long as the context lasts."""
        with connect(address, credentials) as channel:
            yield cls(channel)

    def report(self, catalogue: Catalogue) -> None:
        """Declare our columns, row count and alignment digest."""
        ask(PEER, self.stub.ReportCatalogue, coordination_pb2.ReportCatalogueRequest(catalogue=catalogue.to_bytes()))

    def renew(self, signing_request: bytes) -> str:
        """Ask for a later certificate over our key; PEM, unchecked."""
        request = coordination_pb2.RenewCertificateRequest(signing_request=signing_request.decode())
        return ask(PEER, self.stub.RenewCertificate, request).certificate

    def charges(self) -> SignedStatement:
        """Charges to us that the office has seen, unchecked."""
        request = coordination_pb2.ListChargesRequest()
        answer = ask(PEER, self.stub.ListCharges, request)
        return SignedStatement.from_bytes(answer.charges)

    def request_deal(self, offers: list[bytes]) -> bytes:
        """Randomness that the coordinator deals to us in a session, sealed to our session key.

        Args:
            offers: canonical bytes of every party's signed offer, in the spec's order.

        Raises:
            PeerUnavailable: the coordinator is away, or still at it; ask again.
        """
        request = coordination_pb2.RequestDealRequest(offers=offers)
        return ask(PEER, self.stub.RequestDeal, request).sealed

    def finish(self, run: str) -> None:
        """Say that the result of an alignment run is on our disk; not what or how large it is."""
        ask(PEER, self._runs.FinishRun, coordination_pb2.FinishRunRequest(run=bytes.fromhex(run)))


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
    """The bytes of a stream of chunks that may take as long as it needs, as long as it moves: one that trickles does not.

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
        noted = position
        for answer in call:
            data = check_chunk(answer.chunk, position, size)
            position += len(data)
            yield data
            if position - noted >= PROGRESS_BYTES:
                noted = position
                deadline.moved()  # and the time that our disk took is not the peer's


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
