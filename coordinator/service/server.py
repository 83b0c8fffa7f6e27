"""The composition root: opens the store, starts both listeners and the clockwork that ends what is overdue."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from coordinator.authority.authority import Authority
from coordinator.clock import Clock, utc_now
from coordinator.service.coordination import Announcer, CoordinationService, named
from coordinator.service.dealer import Dealer
from coordinator.service.enrolment import EnrolmentService, OwnCertificate
from coordinator.settings import CoordinatorSettings
from coordinator.store.store import Store
from dprelease.errors import InvalidInput
from dprelease.wire.limits import Limiter, OpenStreams, Rate
from dprelease.wire.listener import Listener, listen
from dprelease.wire.v1.coordination_pb2_grpc import (
    add_AlignmentServiceServicer_to_server,
    add_CoordinationServiceServicer_to_server,
)
from dprelease.wire.v1.enrolment_pb2_grpc import add_EnrolmentServiceServicer_to_server

GRACE_SECONDS = 10.0
"""How long calls in progress may take when the server stops."""

WORKERS = 16
"""Threads of each listener, held while the database is waited for."""

STREAMS_PER_PARTY, STREAMS = 2, 64
"""Most answers about proofs that one party, or all, receive at once."""

log = logging.getLogger(__name__)


class Server:
    """A running coordinator. Everything it knows is in the store, so it may be killed and started again at any time.

    Raises:
        InvalidInput: a file, an address or the database cannot be used.
        PeerUnavailable: the database does not answer.
    """

    def __init__(self, settings: CoordinatorSettings, clock: Clock = utc_now) -> None:
        self._clock = clock
        self._stopping = threading.Event()
        self._authority = Authority.load(settings.root, settings.authority_key)
        self._store = open_store(settings)
        self._announcer = Announcer(self._store)
        self._dealer = Dealer(
            self._store, clock, self._announcer.look, lambda party: self._announcer.tell(named(party))
        )
        self._listeners: list[Listener] = []
        self._ticker = threading.Thread(target=self._tick, args=(settings.tick_seconds,), name="tick", daemon=True)
        try:
            self._own = OwnCertificate(settings, self._authority)
            self._look()
            self._start(settings)
        except Exception:
            self.stop()
            raise

    @property
    def port(self) -> int:
        """Port of the listener for parties and the hub."""
        return self._listeners[0].port

    @property
    def enrolment_port(self) -> int:
        """Port of the listener for enrolment."""
        return self._listeners[1].port

    def stop(self) -> None:
        """Finish calls in progress and close everything."""
        self._stopping.set()
        self._announcer.stop()  # first: nobody who is only waiting for news keeps a listener from ending
        Listener.stop_all(self._listeners, GRACE_SECONDS)
        if self._ticker.is_alive():
            self._ticker.join()
        self._dealer.stop()
        self._store.close()

    def _start(self, settings: CoordinatorSettings) -> None:
        coordination = CoordinationService(
            self._store, self._authority, settings, self._clock, self._dealer, self._announcer
        )
        enrolment = EnrolmentService(self._store, self._authority, settings, self._clock)

        def start(address: str, register: Sequence[Callable[[Any], None]], rate: Rate, *, mutual: bool) -> None:
            self._listeners.append(
                listen(
                    address,
                    self._own.credentials(),
                    register,
                    mutual=mutual,
                    probe=self._store.answers,
                    reflect=settings.reflection,
                    workers=WORKERS,
                    limiter=Limiter(rate, OpenStreams(STREAMS_PER_PARTY, STREAMS)),
                )
            )

        start(
            settings.listen,
            [
                partial(add_CoordinationServiceServicer_to_server, coordination),
                partial(add_AlignmentServiceServicer_to_server, coordination),
            ],
            Rate.of(settings.limits.calls_per_second),
            mutual=True,
        )
        start(
            settings.listen_enrolment,
            [partial(add_EnrolmentServiceServicer_to_server, enrolment)],
            Rate(settings.limits.enrolments_per_minute / 60, settings.limits.enrolments_per_minute),
            mutual=False,
        )
        self._ticker.start()
        self._announcer.start()

    def _tick(self, seconds: float) -> None:
        while not self._stopping.wait(seconds):
            try:
                self._look()
            except Exception:
                log.exception("deadlines could not be looked at; trying again in %g seconds", seconds)

    def _look(self) -> None:
        now = self._clock()
        self._store.tick(now)
        self._dealer.sweep()
        self._announcer.look()
        if self._own.renew(now):
            for listener in self._listeners:
                listener.present(self._own.credentials())


def open_store(settings: CoordinatorSettings, *, copy: bool = False) -> Store:
    """The store that the settings name.

    Raises:
        InvalidInput: there is none, or it is a copy, or it belongs to another consortium.
        PeerUnavailable: the database does not answer.
    """
    store = Store.open(settings.database, copy=copy)
    if store.consortium.name != settings.consortium:
        store.close()
        raise InvalidInput(f"this database belongs to {store.consortium.name}, the settings say {settings.consortium}")
    return store
