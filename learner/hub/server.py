"""Composition root of the hub: builds everything, starts it, stops it in order."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from dprelease.certificates import check_certificate, read_certificate
from dprelease.errors import InvalidInput
from dprelease.signing import key_fingerprint, load_private_key
from dprelease.wire import transport
from dprelease.wire.retry import Backoff
from dprelease.wire.v1.intake_pb2_grpc import add_IntakeServiceServicer_to_server
from dprelease.wire.v1.public_pb2_grpc import add_PublicServiceServicer_to_server
from learner.hub.coordination import Coordination
from learner.hub.intake import Intake
from learner.hub.publish import Signer
from learner.hub.publisher import Publisher
from learner.hub.record import Record
from learner.hub.service import IntakeServicer, PublicServicer
from learner.hub.shelf import Shelf
from learner.hub.storage import Storage
from learner.settings import HubSettings

log = logging.getLogger(__name__)

GIB = 1 << 30


class Hub:
    """A running hub; use as a context manager.

    Args:
        settings: hub.toml.
        backoff: waits while the coordinator is away.

    Raises:
        InvalidInput: a file cannot be read, the key is not the certificate's, the storage or an address is in use.
        IntegrityError: the certificate is not the consortium's, has expired, or is not a hub's.

    Attributes:
        party_port: where parties connect.
        public_port: where everybody connects.
    """

    party_port: int
    public_port: int

    def __init__(self, settings: HubSettings, backoff: Backoff | None = None) -> None:
        self._settings = settings
        self._signer = read_signer(settings)
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
        credentials = transport.Credentials(
            settings.root.read_bytes(), settings.certificate.read_bytes(), settings.key.read_bytes()
        )
        storage = Storage(settings.storage, int(limits.storage_limit_gib * GIB))
        running.callback(storage.close)
        channel = transport.connect(settings.coordinator, credentials)
        running.callback(channel.close)
        coordination = Coordination(channel, settings.consortium, self._signer.root_pem)
        publisher = Publisher(storage, coordination, self._signer, _now, limits.sweep_seconds, self._backoff)

        def find_record(digest: str) -> Record:
            known = storage.record(digest)
            if known is None:
                known = coordination.approved_release(digest)
                storage.keep_record(known)
            return known

        intake = Intake(storage, find_record, self._signer.root_pem, publisher.nudge, _now)
        intake_servicer = IntakeServicer(intake, limits.stall_seconds)
        public_servicer = PublicServicer(Shelf(storage), limits.stall_seconds)

        def healthy() -> bool:
            return publisher.is_alive() and storage.writable()

        def stop_publisher() -> None:
            publisher.stop()
            channel.close()  # ends a call that is under way
            publisher.join()

        publisher.start()
        running.callback(stop_publisher)
        parties = transport.listen(
            settings.listen_parties,
            credentials,
            [lambda server: add_IntakeServiceServicer_to_server(intake_servicer, server)],
            mutual=True,
            names=["dprelease.wire.v1.IntakeService"],
            probe=healthy,
            reflect=settings.reflection,
            workers=limits.party_workers,
        )
        running.callback(lambda: parties.server.stop(limits.stop_seconds).wait())
        public = transport.listen(
            settings.listen_public,
            credentials,
            [lambda server: add_PublicServiceServicer_to_server(public_servicer, server)],
            mutual=False,
            names=["dprelease.wire.v1.PublicService"],
            probe=healthy,
            reflect=settings.reflection,
            workers=limits.public_workers,
        )
        running.callback(lambda: public.server.stop(limits.stop_seconds).wait())
        self.party_port, self.public_port = parties.port, public.port


def read_signer(settings: HubSettings) -> Signer:
    """The hub's key and certificate, checked against the consortium root as of now.

    Raises:
        InvalidInput: a file cannot be read, or the key is not the certificate's.
        IntegrityError: the certificate is not the consortium's, has expired, or is not a hub's.
    """
    root, certificate = _read(settings.root), _read(settings.certificate)
    identity = check_certificate(certificate, root, _now(), "hub")
    key = load_private_key(settings.key)
    if key_fingerprint(key.public_key()) != identity.fingerprint:
        raise InvalidInput(f"{settings.key} is not the key of {settings.certificate}")
    return Signer(key, certificate, root)


def _read(path: Path) -> str:
    try:
        pem = path.read_text(encoding="ascii")
        read_certificate(pem)
    except (OSError, UnicodeDecodeError, InvalidInput) as error:
        raise InvalidInput(f"cannot read the certificate {path}: {error}") from error
    return pem


def _now() -> datetime:
    return datetime.now(UTC)
