"""Calls of the hub to the coordinator, and what it believes: a release record only after checking all of it here.

The hub has what it knows already on its disk. Parties make it ask about the rest, so each of them has a budget of questions.
"""

from __future__ import annotations

from collections.abc import Sequence

import grpc

from dprelease.errors import AccessDenied, NotFound, OutOfTurn, PeerUnavailable, TooManyRequests, VersionMismatch
from dprelease.wire.boundary import ask
from dprelease.wire.limits import Buckets, Rate
from dprelease.wire.v1 import coordination_pb2, coordination_pb2_grpc, release_pb2
from learner.hub.approved import AcceptedRun, ApprovedRelease, checked_record, checked_run
from learner.hub.storage import Storage

QUESTIONS = Rate(per_second=1.0, burst=10.0)
"""How often one party may make the hub ask: once for each release or run that it takes part in.

A question is two calls at most. So ten parties at once take 20 of the 50 calls a second that the coordinator allows the hub. Looks
at the revoked keys take 20 more.
"""

PEER = "the coordinator"

_OPEN = frozenset({release_pb2.RELEASE_STATE_APPROVED, release_pb2.RELEASE_STATE_RUNNING})
_ENDED = frozenset(
    {
        release_pb2.RELEASE_STATE_REJECTED,
        release_pb2.RELEASE_STATE_FAILED,
        release_pb2.RELEASE_STATE_CANCELLED,
        release_pb2.RELEASE_STATE_EXPIRED,
    }
)


class Coordination:
    """Calls to the coordinator."""

    def __init__(self, channel: grpc.Channel, consortium: str, root_pem: str) -> None:
        self.use(channel)
        self._consortium = consortium
        self._root_pem = root_pem

    def use(self, channel: grpc.Channel) -> None:
        """Call over another channel from now on, e.g. one that shows a renewed certificate."""
        self._stub = coordination_pb2_grpc.CoordinationServiceStub(channel)
        self._alignments = coordination_pb2_grpc.AlignmentServiceStub(channel)

    @property
    def stub(self) -> coordination_pb2_grpc.CoordinationServiceStub:
        """The coordinator, over the channel of now."""
        return self._stub

    def approved_release(self, digest: str) -> ApprovedRelease:
        """The record of a release whose blocks may come in.

        Raises:
            OutOfTurn: not every party has approved yet, or the release is over.
            IntegrityError, SpecRefused: the record does not check out.
            NotFound, PeerUnavailable: as the coordinator answers.
        """
        found = self._release(digest)
        if found.state not in _OPEN:
            raise OutOfTurn(f"release {digest[:12]} takes no blocks now: {found.explanation or 'it is not approved'}")
        return checked_record(digest, found.proposal, found.consents, self._consortium, self._root_pem)

    def accepted_run(self, digest: str) -> AcceptedRun:
        """The record of an alignment run whose parcels may come in.

        Raises:
            OutOfTurn: not every party has accepted yet, or the run is over.
            IntegrityError: the record does not check out.
            NotFound, PeerUnavailable: as the coordinator answers.
        """
        found = self._run(digest)
        if found.state != release_pb2.RUN_STATE_RUNNING:
            raise OutOfTurn(
                f"alignment run {digest[:12]} takes no parcels now: {found.explanation or 'it is not accepted'}"
            )
        return checked_run(digest, found.proposal, found.consents, self._consortium, self._root_pem)

    def run_has_ended(self, digest: str) -> bool:
        """Tells whether an alignment run is over, with a result or without."""
        return self._run(digest).state not in (release_pb2.RUN_STATE_PROPOSED, release_pb2.RUN_STATE_RUNNING)

    def has_ended(self, digest: str) -> bool:
        """Tells whether the release ended without a publication."""
        return self._release(digest).state in _ENDED

    def was_published(self, digest: str) -> bool:
        """Tells whether the coordinator has heard of its publication."""
        return self._release(digest).state == release_pb2.RELEASE_STATE_PUBLISHED

    def report_intake(self, digest: str, parties: Sequence[str]) -> None:
        """Say of which parties all blocks of a release, or messages of an alignment run, are here and verified."""
        request = coordination_pb2.ReportIntakeRequest(spec_digest=bytes.fromhex(digest), received=parties)
        ask(PEER, self._stub.ReportIntake, request)

    def authorize(self, digest: str) -> None:
        """Ask to publish; afterwards the release can no longer be cancelled.

        Raises:
            Conflict: the release was cancelled, or is over.
        """
        request = coordination_pb2.AuthorizePublicationRequest(spec_digest=bytes.fromhex(digest))
        ask(PEER, self._stub.AuthorizePublication, request)

    def report_publication(self, digest: str, manifest_digest: str) -> None:
        """Say that the release is visible."""
        request = coordination_pb2.ReportPublicationRequest(
            spec_digest=bytes.fromhex(digest), manifest_digest=bytes.fromhex(manifest_digest)
        )
        ask(PEER, self._stub.ReportPublication, request)

    def revoked(self) -> frozenset[str]:
        """Fingerprints of the keys whose blocks are neither taken nor published.

        Raises:
            PeerUnavailable: the coordinator is away, or does not accept this hub: a party can only try again later.
        """
        try:
            answer = ask(PEER, self._stub.ListRevoked, coordination_pb2.ListRevokedRequest())
        except AccessDenied as error:
            raise PeerUnavailable(
                "the coordinator does not accept this hub; at the consortium's office: coordinator hub show"
            ) from error
        return frozenset(key.hex() for key in answer.keys)

    def renew(self, signing_request: bytes) -> str:
        """A later certificate over our key, PEM, unchecked."""
        request = coordination_pb2.RenewCertificateRequest(signing_request=signing_request.decode())
        return ask(PEER, self._stub.RenewCertificate, request).certificate

    def _release(self, digest: str) -> release_pb2.AgreementRecord:
        request = coordination_pb2.GetAgreementRequest(digest=bytes.fromhex(digest))
        return ask(PEER, self._stub.GetRelease, request).agreement

    def _run(self, digest: str) -> release_pb2.AgreementRecord:
        request = coordination_pb2.GetAgreementRequest(digest=bytes.fromhex(digest), reports=True)
        return ask(PEER, self._alignments.GetRun, request).agreement


class AgreementRecords:
    """Records of releases and alignment runs: from the hub's disk, or else from the coordinator, once, and kept."""

    def __init__(self, storage: Storage, coordination: Coordination) -> None:
        self._storage = storage
        self._coordination = coordination
        self._questions = Buckets(QUESTIONS)

    def release(self, digest: str, party: str) -> ApprovedRelease:
        """The record of a release that a party names.

        Raises:
            TooManyRequests: the party names too many that are not known here.
            OutOfTurn, IntegrityError, SpecRefused, NotFound, PeerUnavailable: as `Coordination.approved_release`.
        """
        known = self._storage.record(digest)
        if known is None:
            self._count(party)
            known = self._asked(digest)
        return known

    def session(self, digest: str, party: str) -> ApprovedRelease | AcceptedRun:
        """The record of a release or an alignment run that a party names; raises as `release`."""
        known = self._storage.run(digest) or self._storage.record(digest)
        if known is not None:
            return known
        self._count(party)
        try:
            return self._asked(digest)
        except NotFound as unknown:
            try:
                run = self._coordination.accepted_run(digest)
            except VersionMismatch:  # a coordinator of before, which has no alignment runs
                raise unknown from None
            self._storage.keep_run(run)
            return run

    def _asked(self, digest: str) -> ApprovedRelease:
        known = self._coordination.approved_release(digest)
        self._storage.keep_record(known)
        return known

    def _count(self, party: str) -> None:
        if not self._questions.take(party):
            raise TooManyRequests(f"{party} names too many releases that are not known here")
