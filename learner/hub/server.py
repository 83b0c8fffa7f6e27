"""Composition root of the hub: builds everything, starts it, stops it in order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Any, Self

import grpc

from dprelease.wire import transport
from dprelease.wire.call import Pace
from dprelease.wire.limits import Limiter, OpenStreams, Rate
from dprelease.wire.listener import Listener, listen
from dprelease.wire.news import News
from dprelease.wire.retry import Backoff
from dprelease.wire.v1.intake_pb2_grpc import add_IntakeServiceServicer_to_server
from dprelease.wire.v1.public_pb2_grpc import add_PublicServiceServicer_to_server
from dprelease.wire.v1.relay_pb2_grpc import add_RelayServiceServicer_to_server
from learner.hub.coordination import AgreementRecords, Coordination
from learner.hub.identity import HubIdentity
from learner.hub.intake import Intake
from learner.hub.publish import Publisher, Upkeep
from learner.hub.published import Shelf
from learner.hub.relay import Relay
from learner.hub.revocation import Revocations
from learner.hub.service import IntakeServicer, PublicServicer, RelayServicer
from learner.hub.settings import HubSettings
from learner.hub.storage import PartyShare, Storage

log = logging.getLogger(__name__)

GIB = 1 << 30


class Hub:
    """A running hub; use as a context manager.

    Raises:
        InvalidInput: a file cannot be read, the key is not the certificate's, the storage or an address is in use.
        IntegrityError: the certificate is not the consortium's, has expired, or is not a hub's.
    """

    party_port: int
    public_port: int

    def __init__(self, settings: HubSettings, backoff: Backoff | None = None) -> None:
        self._settings = settings
        self._identity = HubIdentity(settings, _now)
        self._backoff = backoff or Backoff()
        self._running = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as building:
            self._start(building)
            self._running = building.pop_all()
        log.info(
            "ready consortium=%s parties=%d public=%d", self._settings.consortium, self.party_port, self.public_port
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()
        log.info("stopped")

    def _start(self, running: ExitStack) -> None:
        settings, limits = self._settings, self._settings.limits
        identity, root_pem = self._identity, self._identity.signer().root_pem
        share = PartyShare(limits.open_releases_per_party, int(limits.staged_gib_per_party * GIB))
        storage = Storage(settings.storage, int(limits.storage_limit_gib * GIB), share, root_pem)
        running.callback(storage.close)

        def dial() -> grpc.Channel:
            channel = transport.connect(settings.coordinator, identity.credentials())
            channels.append(channel)
            return channel

        def hang_up() -> None:
            for channel in channels:
                channel.close()

        def renew() -> None:
            if identity.renew(coordination.renew):
                coordination.use(dial())  # the channel before it stays open for calls that are under way
                for listener in listeners:
                    listener.present(identity.credentials())

        listeners: list[Listener] = []
        channels: list[grpc.Channel] = []
        running.callback(hang_up)
        coordination = Coordination(dial(), settings.consortium, root_pem)
        publisher = Publisher(storage, coordination, identity.signer, _now, limits.sweep_seconds, self._backoff)
        revocations = Revocations(coordination.revoked, _now, publisher.wake)
        upkeep = Upkeep([revocations.refresh, renew], limits.revocation_seconds)
        news, records = News(), AgreementRecords(storage, coordination)
        intake = Intake(storage, records.release, root_pem, publisher.nudge, _now, news.tell)
        party_streams = OpenStreams(limits.streams_per_peer, limits.streams_total)
        public_streams = OpenStreams(limits.streams_per_peer, limits.streams_total)
        intake_servicer = IntakeServicer(intake, revocations, party_streams)
        relay = Relay(storage, records.session, revocations.look_up, news.tell, coordination.report_intake)
        relay_servicer = RelayServicer(relay, revocations, party_streams, news)
        public_servicer = PublicServicer(Shelf(storage), public_streams)

        def healthy() -> bool:
            return publisher.is_alive() and upkeep.is_alive() and storage.writable()

        def stop_threads() -> None:
            publisher.stop()
            upkeep.stop()
            hang_up()  # ends calls that are under way
            publisher.join()
            upkeep.join()

        def start(
            address: str, register: Sequence[Callable[[Any], None]], streams: OpenStreams, workers: int, *, mutual: bool
        ) -> int:
            listener = listen(
                address,
                identity.credentials(),
                register,
                mutual=mutual,
                probe=healthy,
                reflect=settings.reflection,
                workers=workers,
                limiter=Limiter(Rate.of(limits.calls_per_second), streams),
                pace=Pace(limits.stall_seconds, limits.least_kib_per_second * 1024),
            )
            listeners.append(listener)
            return listener.port

        publisher.start()
        upkeep.start()
        running.callback(stop_threads)
        running.callback(Listener.stop_all, listeners, limits.stop_seconds)
        self.party_port = start(
            settings.listen_parties,
            [
                partial(add_IntakeServiceServicer_to_server, intake_servicer),
                partial(add_RelayServiceServicer_to_server, relay_servicer),
            ],
            party_streams,
            limits.party_workers,
            mutual=True,
        )
        running.callback(news.stop)  # before the listener stops, which waits for calls that are held
        self.public_port = start(
            settings.listen_public,
            [partial(add_PublicServiceServicer_to_server, public_servicer)],
            public_streams,
            limits.public_workers,
            mutual=False,
        )


def _now() -> datetime:
    return datetime.now(UTC)
