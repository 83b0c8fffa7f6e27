"""The connection to the hub, kept from one look to the next and dialled anew after trouble."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import grpc

from dprelease.errors import DpReleaseError, PeerUnavailable, unforeseen
from dprelease.wire.transport import connect
from dprelease.wire.v1.relay_pb2_grpc import RelayServiceStub
from party_node.hospital import HospitalState
from party_node.outgoing.agreements import PEER

log = logging.getLogger(__name__)


class HubLine:
    """A channel to the hub, dialled when it is first needed.

    One thread uses it and closes it; others may only make calls of the stubs that it hands out, because making a stub of a
    channel that is closed meanwhile ends the process (gRPC 1.85).

    Args:
        dial: with the certificate of that moment.

    Attributes:
        away: whether the log has said already that the hub is away.
    """

    def __init__(self, dial: Callable[[], grpc.Channel]) -> None:
        self.away = False
        self._dial = dial
        self._open: tuple[grpc.Channel, RelayServiceStub] | None = None
        self._lock = threading.Lock()

    @classmethod
    def of(cls, desk: HospitalState) -> HubLine:
        """The line of a hospital, to the hub that its enrolment names."""
        return cls(lambda: connect(desk.enrolment.hub, desk.identity.credentials()))

    def channel(self) -> grpc.Channel:
        """The channel, for the thread that closes it.

        Raises:
            InvalidInput: as for `dprelease.wire.transport.connect`.
        """
        return self._dialled()[0]

    def relay(self) -> RelayServiceStub:
        """The relay's calls, for any thread; raises as `channel`."""
        return self._dialled()[1]

    def close(self) -> None:
        """Hang up; the next call dials anew. The connection may be half open, or show a certificate renewed since."""
        with self._lock:
            if self._open is not None:
                self._open[0].close()
                self._open = None

    def _dialled(self) -> tuple[grpc.Channel, RelayServiceStub]:
        with self._lock:
            if self._open is None:
                channel = self._dial()
                self._open = channel, RelayServiceStub(channel)
            return self._open


def attempt(step: Callable[[], object], what: str, note: Callable[[str], object], hub: HubLine) -> bool:
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
