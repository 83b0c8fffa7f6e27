"""Calls to the coordinator about releases and alignment runs. The party dials out; nothing listens here."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import grpc

from dprelease.agreement import SignedAcceptance
from dprelease.canonical import sha256
from dprelease.catalogue import Catalogue
from dprelease.errors import IntegrityError
from dprelease.intersection.task import Task
from dprelease.mpc.messages import Message
from dprelease.one_line import one_line, quoted
from dprelease.release.approval import SignedApproval
from dprelease.release.charges import SignedStatement
from dprelease.release.spec import ReleaseSpec
from dprelease.wire.boundary import VERSION, ask, translated
from dprelease.wire.chunks import received
from dprelease.wire.transport import Credentials, connect
from dprelease.wire.v1 import coordination_pb2, coordination_pb2_grpc, release_pb2

PEER = "the coordinator"

OVER = frozenset({"PUBLISHED", "DONE", "REJECTED", "DECLINED", "FAILED", "CANCELLED", "EXPIRED"})
"""States in which the office goes on with no agreement."""

MOST_PAGES = 20
"""Pages of a list, some 3 MiB each; the rest comes when something before it is over."""


@dataclass(frozen=True)
class Pending:
    """A release, or an alignment run, as the coordinator tells it.

    Attributes:
        digest: of the proposal.
        data: canonical bytes of the proposal, unread: most of what is listed is known already.
        state: the coordinator's state, e.g. ``PROPOSED``; empty for one that only a later version has.
        consents: signed consents passed on, unchecked.
        explanation: whom it waits for, or why it ended.
    """

    digest: str
    data: bytes
    state: str
    consents: tuple[bytes, ...]
    explanation: str

    def approvals(self) -> tuple[SignedApproval, ...]:
        """The consents to a release; raises `InvalidInput` if one is malformed."""
        return tuple(map(SignedApproval.from_bytes, self.consents))

    def acceptances(self) -> tuple[SignedAcceptance, ...]:
        """The consents to an alignment run; raises `InvalidInput` if one is malformed."""
        return tuple(map(SignedAcceptance.from_bytes, self.consents))


class AgreementCalls:
    """Calls about agreements of one kind."""

    def __init__(self, listing: Any, approving: Any, declining: Any, states: Any) -> None:
        self._listing, self._approving, self._declining = listing, approving, declining
        # Each name begins with that of the enum, as in RUN_STATE_DONE.
        self._states = {number: name.partition("_STATE_")[2] for name, number in states.items()}

    def pending(self, unsettled: Collection[str] | None = None) -> list[Pending]:
        """Agreements that we take part in, and that are not over or ended lately.

        Args:
            unsettled: of those that ended, the ones wanted, by their digests; all if None. An older coordinator lists all.

        Raises:
            VersionMismatch: this coordinator knows none of the kind.
        """
        request = coordination_pb2.ListAgreementsRequest(
            open_only=unsettled is not None, unsettled=[bytes.fromhex(digest) for digest in unsettled or ()]
        )
        pending: list[Pending] = []
        for _ in range(MOST_PAGES):
            answer = ask(PEER, self._listing, request)
            pending += (
                Pending(
                    sha256(record.proposal),
                    record.proposal,
                    self._states.get(record.state, ""),
                    tuple(record.consents),
                    one_line(record.explanation),
                )
                for record in answer.agreements
            )
            request.page_token = answer.next_page_token
            if not request.page_token:
                break
        return pending

    def approve(self, consent: bytes, proposal: bytes = b"") -> None:
        """Hand in our signed consent; with the spec's canonical bytes where the office has forgotten the release."""
        ask(PEER, self._approving, coordination_pb2.ApproveRequest(signed_consent=consent, proposal=proposal))

    def decline(self, digest: str, reason: str) -> None:
        """Decline, or withdraw before our block was sent."""
        request = coordination_pb2.DeclineRequest(digest=bytes.fromhex(digest), reason=reason)
        ask(PEER, self._declining, request)


def left_alone(to: logging.Logger, what: str, reasons: Sequence[str]) -> None:
    """Say in one line how much of what the coordinator lists cannot be read, if anything."""
    if reasons:
        words = (
            f"1 {what} cannot be read and is" if len(reasons) == 1 else f"{len(reasons)} {what}s cannot be read and are"
        )
        to.warning("%s left alone; update this software? %s", words, quoted(reasons[0]))


class Coordinator:
    """Calls to the coordinator over one channel.

    Attributes:
        stub: of all other calls.
        releases: calls about releases.
        about: kind of proposals to calls about its agreements.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self.stub = stub = coordination_pb2_grpc.CoordinationServiceStub(channel)
        self._runs = runs = coordination_pb2_grpc.AlignmentServiceStub(channel)
        self.releases = AgreementCalls(stub.ListReleases, stub.Approve, stub.Decline, release_pb2.ReleaseState)
        aligning = AgreementCalls(runs.ListRuns, runs.AcceptRun, runs.DeclineRun, release_pb2.RunState)
        self.about: Mapping[type, AgreementCalls] = {ReleaseSpec: self.releases, Task: aligning}

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

    def request_answer(self, asked: Message, body: bytes, size: int) -> bytes:
        """The coordinator's answer about a proof towards us, sealed to our session key; the same bytes as often as we ask.

        Args:
            asked: our signed third challenge.
            body: its body.
            size: bytes of the answer, by the schedule.

        Raises:
            PeerUnavailable: the coordinator is away, or still at it; ask again.
            Conflict: it holds nothing of the session any more, or has answered another challenge.
            IntegrityError: the answer has another length, or was damaged on the way.
        """
        request = coordination_pb2.RequestAnswerRequest(challenge=asked.to_bytes(), body=body)
        with translated(PEER):
            answer = b"".join(received(self.stub.RequestAnswer(request, metadata=VERSION), 0, size))
        if len(answer) != size:
            raise IntegrityError(f"{PEER} answered {len(answer)} bytes about a proof; {size} are due")
        return answer

    def finish(self, run: str) -> None:
        """Say that the result of an alignment run is on our disk; not what or how large it is."""
        ask(PEER, self._runs.FinishRun, coordination_pb2.FinishRunRequest(run=bytes.fromhex(run)))
