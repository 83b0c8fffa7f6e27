"""The connection to the hub, and what the daemon waits for between two cycles: news of both servers, a person, the clock."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc

from dprelease.cli.console import StopSignal
from dprelease.errors import DpReleaseError, PeerUnavailable, unforeseen
from dprelease.wire.news import Listening, wait_for_news
from dprelease.wire.retry import Backoff
from dprelease.wire.transport import connect
from dprelease.wire.v1.relay_pb2_grpc import RelayServiceStub
from party_node.hospital import HospitalState
from party_node.outgoing.office import PEER, Coordinator
from party_node.settings import DaemonSettings
from party_node.state.journal import Journal

log = logging.getLogger(__name__)


class HubConnection:
    """A channel to the hub, dialled when it is first needed, kept from one look to the next and dialled anew after trouble.

    One thread uses it and closes it: to make a stub of a channel that is closed meanwhile ends the process (gRPC 1.85).

    Attributes:
        away: whether the log has said already that the hub is away.
    """

    def __init__(self, dial: Callable[[], grpc.Channel]) -> None:
        self.away = False
        self._dial = dial
        self._open: grpc.Channel | None = None

    @classmethod
    def of(cls, hospital: HospitalState) -> HubConnection:
        """The connection of a hospital to the hub that its enrolment names."""
        return cls(lambda: connect(hospital.enrolment.hub, hospital.identity.credentials()))

    def channel(self) -> grpc.Channel:
        """The channel; raises `InvalidInput` as `dprelease.wire.transport.connect`."""
        if self._open is None:
            self._open = self._dial()
        return self._open

    def close(self) -> None:
        """Hang up; the next call dials anew. The connection may be half open, or show a certificate renewed since."""
        if self._open is not None:
            self._open.close()
            self._open = None


class Notifications:
    """Listens to both servers, over connections that we dialled."""

    def __init__(self, settings: DaemonSettings, journal: Journal) -> None:
        self.follow(settings)
        self._journal = journal
        self._standing = journal.standing()
        self._news = threading.Event()
        self._listening: tuple[Listening, ...] = ()

    def follow(self, settings: DaemonSettings) -> None:
        """Take over other manners."""
        self._poll_seconds = settings.poll_seconds
        self._backoff = Backoff(longest_seconds=settings.longest_wait_seconds)
        self._again = self._backoff.waits()

    @contextmanager
    def open(self, coordinator: Coordinator, hub: HubConnection) -> Iterator[None]:
        """Listen for as long as the context lasts."""
        stubs = (lambda: coordinator.stub, lambda: RelayServiceStub(hub.channel()))
        self._listening = tuple(Listening(stub, self._news.set) for stub in stubs)
        try:
            yield
        finally:
            for each in self._listening:
                each.close()

    def wait(self, stop: threading.Event | StopSignal, *, unreached: bool) -> None:
        """Wait for what was not yet there when the cycle began, or until stopped, or until it is time to look anyway.

        Args:
            stop: noticed within half a second.
            unreached: somebody was away.

        Raises:
            PeerUnavailable: the coordinator was started again while we listened: it may have been restored, and is told again what
                we know of it, as at every connection.
        """
        seconds = self._poll_seconds
        if unreached:
            seconds = min(seconds, next(self._again))
        else:
            self._again = self._backoff.waits()

        def over() -> bool:
            # A person decides by a command in another process, perhaps while the cycle ran: compared with before the cycle.
            return stop.is_set() or self._journal.standing() != self._standing

        wait_for_news(self._news, seconds, self._listening, over)
        self._standing = self._journal.standing()
        self._news.clear()
        if self._listening and self._listening[0].anew:
            raise PeerUnavailable("the coordinator was started again")


def try_step(step: Callable[[], object], what: str, note: Callable[[str], object], hub: HubConnection) -> bool:
    """Do a step of a release or run, which never holds up another: trouble is logged, and noted in words.

    Returns:
        True if everybody who had to be asked was there.
    """
    try:
        step()
    except PeerUnavailable as error:
        hub.close()  # a connection that is half open would keep it so
        office = error.peer == PEER  # of the coordinator the daemon itself warns
        log.log(logging.INFO if office or hub.away else logging.WARNING, "%s waits: %s", what, error.message)
        hub.away |= not office
        note(error.message)
        return False
    except DpReleaseError as error:
        log.error("%s is held: %s", what, error.message)
        note(error.message)
    except Exception as error:
        words = unforeseen(error)
        log.error("%s is held: %s", what, words)
        note(words)
    return True
