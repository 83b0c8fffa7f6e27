# ruff: noqa: N802 - the methods are called as in the protocol
"""What the coordinator does for parties and the hub: who calls, then what was asked for. Errors are the boundary's work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from coordinator.authority.authority import Authority
from coordinator.clock import Clock
from coordinator.lifecycle.lifecycle import (
    Approved,
    Declined,
    Event,
    IntakeReported,
    PublicationAuthorized,
    Published,
)
from coordinator.service import dealer as dealing
from coordinator.service import renewal
from coordinator.service.announcer import HUB, Announcer, named
from coordinator.service.recovery import hear_forgotten
from coordinator.service.witness import statement
from coordinator.settings import CoordinatorSettings
from coordinator.store.agreements import Agreement
from coordinator.store.store import Store
from dprelease.agreement import check_consent
from dprelease.catalogue import Catalogue
from dprelease.errors import AccessDenied, Conflict, InvalidInput
from dprelease.one_line import one_line
from dprelease.release.approval import SignedApproval
from dprelease.wire.boundary import caller
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1.coordination_pb2_grpc import CoordinationServiceServicer
from dprelease.wire.v1.release_pb2 import AwaitNewsRequest, AwaitNewsResponse, ReleaseRecord

REMEMBERED = timedelta(days=30)
"""How long a party is still told about a release that has ended."""

DIGEST_BYTES = 32

PAGE_BYTES = 3 << 20
"""Of releases on a page; gRPC takes messages of 4 MiB."""

MOST_UNSETTLED = 500
"""Releases that a party names at most when it asks what became of them."""


class CoordinationService(CoordinationServiceServicer):
    """Catalogue, proposals, decisions and progress, over mutual TLS.

    Args:
        store: the consortium's.
        authority: its root checks approvals; it renews certificates.
        settings: validity of certificates, and how much one caller may ask for.
        clock: tells the time.
        dealer: makes what the coordinator deals.
        announcer: told of every change, holds those who wait for one.
    """

    def __init__(
        self,
        store: Store,
        authority: Authority,
        settings: CoordinatorSettings,
        clock: Clock,
        dealer: dealing.Dealer,
        announcer: Announcer,
    ) -> None:
        self._store = store
        self._authority = authority
        self._settings = settings
        self._clock = clock
        self._dealer = dealer
        self._announcer = announcer

    def ReportCatalogue(self, request: pb.ReportCatalogueRequest, context: Any) -> pb.ReportCatalogueResponse:
        """Keep a party's catalogue."""
        party = self._party(context)
        catalogue = Catalogue.from_bytes(request.catalogue)
        _check_own(party, catalogue.party)
        with self._store.writing() as tx:
            tx.members.report_catalogue(catalogue, self._clock())
        return pb.ReportCatalogueResponse()

    def ListReleases(self, request: pb.ListReleasesRequest, context: Any) -> pb.ListReleasesResponse:
        """A page of a party's releases that are open or ended lately; of the latter only some, where it names them."""
        party = self._party(context)
        if len(request.unsettled) > MOST_UNSETTLED:
            raise InvalidInput(f"a party names at most {MOST_UNSETTLED} releases; ask for all that ended lately")
        among = frozenset(digest.hex() for digest in request.unsettled) if request.open_only else None
        answer, size, last = pb.ListReleasesResponse(), 0, ""
        with self._store.reading() as tx:
            for place, release in tx.releases.of_party(party, self._clock() - REMEMBERED, among, request.page_token):
                record = release_to_proto(release)
                size += record.ByteSize()
                if last and size > PAGE_BYTES:
                    answer.next_page_token = last
                    break
                answer.releases.append(record)
                last = place
        return answer

    def Approve(self, request: pb.ApproveRequest, context: Any) -> pb.ApproveResponse:
        """Keep a party's signed approval; see `approve`."""
        party = self._party(context)
        with self._changing():
            return approve(request, self._store, party, self._authority.root_pem, self._clock())

    def Decline(self, request: pb.DeclineRequest, context: Any) -> pb.DeclineResponse:
        """Note that a party will not take part."""
        party, digest = self._party(context), read_digest(request.spec_digest)
        with self._changing(), self._store.writing() as tx:
            if party not in tx.releases.get(digest).record.parties:
                raise AccessDenied(f"{party} is not a party of release {digest[:12]}")
            event = Declined(party, one_line(request.reason, self._settings.limits.longest_reason))
            tx.releases.advance(digest, event, self._clock())
        return pb.DeclineResponse()

    def GetRelease(self, request: pb.GetReleaseRequest, context: Any) -> pb.GetReleaseResponse:
        """One release with all its approvals, for the hub."""
        self._hub(context)
        with self._store.reading() as tx:
            return pb.GetReleaseResponse(release=release_to_proto(tx.releases.get(read_digest(request.spec_digest))))

    def ReportIntake(self, request: pb.ReportIntakeRequest, context: Any) -> pb.ReportIntakeResponse:
        """Note whose blocks the hub holds."""
        self._hub(context)
        self._advance(request.spec_digest, IntakeReported(frozenset(request.received)))
        return pb.ReportIntakeResponse()

    def AuthorizePublication(
        self, request: pb.AuthorizePublicationRequest, context: Any
    ) -> pb.AuthorizePublicationResponse:
        """Let the hub publish, unless the release was cancelled, lapsed or never approved."""
        self._hub(context)
        self._advance(request.spec_digest, PublicationAuthorized())
        return pb.AuthorizePublicationResponse()

    def ReportPublication(self, request: pb.ReportPublicationRequest, context: Any) -> pb.ReportPublicationResponse:
        """Note that the hub made the release public."""
        self._hub(context)
        self._advance(request.spec_digest, Published(read_digest(request.manifest_digest)))
        return pb.ReportPublicationResponse()

    def RenewCertificate(self, request: pb.RenewCertificateRequest, context: Any) -> pb.RenewCertificateResponse:
        """A later certificate, for a party and the hub."""
        identity = caller(context, "party", "hub")
        return renewal.renew(request, self._store, self._authority, self._settings, identity, self._clock())

    def ListRevoked(self, request: pb.ListRevokedRequest, context: Any) -> pb.ListRevokedResponse:
        """The keys whose blocks the hub must neither take nor publish."""
        self._hub(context)
        with self._store.reading() as tx:
            return pb.ListRevokedResponse(keys=map(bytes.fromhex, tx.members.revoked_keys()))

    def ListCharges(self, request: pb.ListChargesRequest, context: Any) -> pb.ListChargesResponse:
        """What the office has seen charged to a party, signed."""
        party = self._party(context)
        with self._store.reading() as tx:
            signed = statement(self._store, tx, self._authority, party, self._clock())
        return pb.ListChargesResponse(charges=signed.to_bytes())

    def RequestDeal(self, request: pb.RequestDealRequest, context: Any) -> pb.RequestDealResponse:
        """What is dealt to a party in a session."""
        return dealing.request_deal(request, self._store, self._dealer, self._party(context), self._authority.root_pem)

    async def AwaitNews(self, request: AwaitNewsRequest, context: Any) -> AwaitNewsResponse:
        """For a party and the hub. No thread is held."""
        name = await context.work(self._awaiting, context)
        return AwaitNewsResponse(latest=await self._announcer.news.after(name, request.seen))

    def _awaiting(self, context: Any) -> str:
        if caller(context, "party", "hub").role == "party":
            return named(self._party(context))
        self._hub(context)
        return HUB

    def _advance(self, digest: bytes, event: Event) -> None:
        """Let happen to a release what the hub reports."""
        release = read_digest(digest)
        with self._changing(), self._store.writing() as tx:
            tx.releases.advance(release, event, self._clock())

    @contextmanager
    def _changing(self) -> Iterator[None]:
        yield
        self._announcer.look()

    def _hub(self, context: Any) -> None:
        identity = caller(context, "hub")
        with self._store.reading() as tx:
            tx.hub.check(identity, self._clock())

    def _party(self, context: Any) -> str:
        identity = caller(context, "party")
        with self._store.writing() as tx:
            return tx.members.admit(identity, self._clock(), context.protocol).name


def approve(request: pb.ApproveRequest, store: Store, party: str, root_pem: bytes, now: datetime) -> pb.ApproveResponse:
    """Keep a party's signed approval, after checking it as every other party will; see also `hear_forgotten`.

    Raises:
        InvalidInput: the bytes are not a signed approval.
        AccessDenied: it is another party's.
        NotFound: no such release.
        IntegrityError: wrong spec, signature, certificate or key.
        Conflict: the release is past its decision, or the party approved with another commitment before.
    """
    signed = SignedApproval.from_bytes(request.signed_approval)
    approval = signed.approval
    _check_own(party, approval.party)
    if request.spec and hear_forgotten(signed, request.spec, store, root_pem.decode(), now):
        return pb.ApproveResponse()
    with store.reading() as tx:
        spec = tx.releases.get(approval.spec).read_spec()
    check_consent(signed, spec, root_pem.decode())
    with store.writing() as tx:
        for known in map(SignedApproval.from_bytes, tx.releases.get(approval.spec).consents):
            if known.approval.party == party and known.approval.commitment != approval.commitment:
                raise Conflict(f"{party} approved this release before, with another commitment")
        tx.releases.advance(approval.spec, Approved(party), now, request.signed_approval)
    return pb.ApproveResponse()


def release_to_proto(release: Agreement) -> ReleaseRecord:
    """A release as it travels. What a party may not see, such as another's reason to decline, is not in it."""
    return ReleaseRecord(
        spec=release.proposal,
        state=f"RELEASE_STATE_{release.record.state}",
        approvals=release.consents,
        explanation=release.record.explain(),
    )


def read_digest(data: bytes) -> str:
    """A digest as it travels, in hexadecimal; raises `InvalidInput` if it is none."""
    if len(data) != DIGEST_BYTES:
        raise InvalidInput(f"a digest has {DIGEST_BYTES} bytes, not {len(data)}")
    return data.hex()


def _check_own(party: str, named_party: str) -> None:
    if named_party != party:
        raise AccessDenied(f"{party} spoke for {named_party}")
