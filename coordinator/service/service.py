# ruff: noqa: N802 - the methods are called as in the protocol
"""The two services: who is calling, then a function of `coordination` or `enrolment`. Errors are the boundary's work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from coordinator.authority.authority import Authority
from coordinator.clock import Clock
from coordinator.service import coordination, enrolment, renewal, witness
from coordinator.service import dealer as dealing
from coordinator.service.announcer import HUB, Announcer, named
from coordinator.settings import CoordinatorSettings
from coordinator.store.store import Store
from dprelease.wire.boundary import caller
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1.coordination_pb2_grpc import CoordinationServiceServicer
from dprelease.wire.v1.enrolment_pb2 import EnrolRequest, EnrolResponse
from dprelease.wire.v1.enrolment_pb2_grpc import EnrolmentServiceServicer
from dprelease.wire.v1.release_pb2 import AwaitNewsRequest, AwaitNewsResponse


class CoordinationService(CoordinationServiceServicer):
    """Catalogue, proposals, decisions and progress, over mutual TLS.

    Args:
        store: the consortium's.
        authority: its root checks approvals; it renews certificates.
        settings: validity of certificates.
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
        """For a party."""
        return coordination.report_catalogue(
            request, self._store, self._party(context), self._settings.limits, self._clock()
        )

    def ListReleases(self, request: pb.ListReleasesRequest, context: Any) -> pb.ListReleasesResponse:
        """For a party."""
        return coordination.list_releases(request, self._store, self._party(context), self._clock())

    def Approve(self, request: pb.ApproveRequest, context: Any) -> pb.ApproveResponse:
        """For a party."""
        party, limits = self._party(context), self._settings.limits
        with self._changing():
            return coordination.approve(request, self._store, party, self._authority.root_pem, limits, self._clock())

    def Decline(self, request: pb.DeclineRequest, context: Any) -> pb.DeclineResponse:
        """For a party."""
        party = self._party(context)
        with self._changing():
            return coordination.decline(request, self._store, party, self._settings.limits, self._clock())

    def GetRelease(self, request: pb.GetReleaseRequest, context: Any) -> pb.GetReleaseResponse:
        """For the hub."""
        self._hub(context)
        return coordination.get_release(request, self._store)

    def ReportIntake(self, request: pb.ReportIntakeRequest, context: Any) -> pb.ReportIntakeResponse:
        """For the hub."""
        self._hub(context)
        with self._changing():
            return coordination.report_intake(request, self._store, self._clock())

    def AuthorizePublication(
        self, request: pb.AuthorizePublicationRequest, context: Any
    ) -> pb.AuthorizePublicationResponse:
        """For the hub."""
        self._hub(context)
        with self._changing():
            return coordination.authorize_publication(request, self._store, self._clock())

    def ReportPublication(self, request: pb.ReportPublicationRequest, context: Any) -> pb.ReportPublicationResponse:
        """For the hub."""
        self._hub(context)
        with self._changing():
            return coordination.report_publication(request, self._store, self._clock())

    def RenewCertificate(self, request: pb.RenewCertificateRequest, context: Any) -> pb.RenewCertificateResponse:
        """For a party and the hub."""
        identity = caller(context, "party", "hub")
        return renewal.renew(request, self._store, self._authority, self._settings, identity, self._clock())

    def ListRevoked(self, request: pb.ListRevokedRequest, context: Any) -> pb.ListRevokedResponse:
        """For the hub."""
        self._hub(context)
        return coordination.list_revoked(self._store)

    def ListCharges(self, request: pb.ListChargesRequest, context: Any) -> pb.ListChargesResponse:
        """For a party."""
        return witness.list_charges(self._store, self._authority, self._party(context), self._clock())

    def RequestDeal(self, request: pb.RequestDealRequest, context: Any) -> pb.RequestDealResponse:
        """For a party."""
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


class EnrolmentService(EnrolmentServiceServicer):
    """Enrolment, over TLS without a client certificate.

    Args:
        store: the consortium's.
        authority: signs the certificates.
        settings: addresses and validity.
        clock: tells the time.
    """

    def __init__(self, store: Store, authority: Authority, settings: CoordinatorSettings, clock: Clock) -> None:
        self._store = store
        self._authority = authority
        self._settings = settings
        self._clock = clock

    def Enrol(self, request: EnrolRequest, context: Any) -> EnrolResponse:
        """For whoever holds an open invite."""
        return enrolment.enrol(request, self._store, self._authority, self._settings, self._clock())
