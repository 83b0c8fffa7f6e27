"""The connection to the hub, and calls over it: blocks and messages that we send as often as it lacks them, and what it has for us.

Nothing listens here. Between two cycles the daemon waits for news of both servers, a person, or the clock.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dprelease.cli.console import StopSignal
from dprelease.errors import Conflict, DpReleaseError, IntegrityError, PeerUnavailable, refused_as, unforeseen
from dprelease.mpc.messages import MessageHeader
from dprelease.release.block import SealedBlock
from dprelease.wire.boundary import OUR_METHODS, VERSION, ask, translated
from dprelease.wire.chunks import read_chunks, received
from dprelease.wire.news import Listening, wait_for_news
from dprelease.wire.retry import Backoff, ProgressDeadline
from dprelease.wire.transport import Credentials, connect
from dprelease.wire.v1 import intake_pb2, intake_pb2_grpc
from dprelease.wire.v1.relay_pb2_grpc import RelayServiceStub
from party_node.hospital import HospitalState
from party_node.outgoing.office import PEER, Coordinator
from party_node.settings import DaemonSettings
from party_node.state.journal import Journal, Record, Status

log = logging.getLogger(__name__)


class HubConnection:
    """A channel to the hub, dialled when it is first needed, kept from one look to the next and dialled anew after trouble.

    One thread uses it and closes it: to make a stub of a channel that is closed meanwhile ends the process (gRPC 1.85).

    Attributes:
        away: whether the log has said already that the hub is away.
        quiet: whether neither server has had news since the cycle before this one, and nobody decided anything.
    """

    def __init__(self, dial: Callable[[], grpc.Channel]) -> None:
        self.away = self.quiet = False
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

    def wait(self, stop: threading.Event | StopSignal, *, unreached: bool) -> bool:
        """Wait for what was not yet there when the cycle began, or until stopped, or until it is time to look anyway.

        Args:
            stop: noticed within half a second.
            unreached: somebody was away.

        Returns:
            True if it is only time to look: nobody decided anything, and both servers hold a call of ours, so they have no news.

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
        before, self._standing = self._standing, self._journal.standing()
        told = self._news.is_set()
        self._news.clear()
        if self._listening and self._listening[0].anew:
            raise PeerUnavailable("the coordinator was started again")
        # After the news was cleared: whoever told of news since then holds no call of ours any more.
        held = bool(self._listening) and all(each.held for each in self._listening)
        return held and not told and not unreached and before == self._standing


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


HUB = "the hub"
HEALTH_SECONDS = 10.0


def reach(address: str, credentials: Credentials, peer: str) -> None:
    """Refuse a server that cannot be reached, or does not serve.

    Raises:
        PeerUnavailable: as `check_reachable`.
    """
    with connect(address, credentials) as channel:
        check_reachable(channel, peer)


def check_reachable(channel: grpc.Channel, peer: str) -> None:
    """Ask a peer whether it can serve. Nothing of ours travels but the certificate.

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


def bring(
    peer: str,
    what: str,
    method: Any,
    first: Any,
    source: Path | bytes,
    body: MessageHeader | SealedBlock,
    held: int,
    stall_seconds: float,
) -> None:
    """Send what a peer lacks of a file, or of bytes, in a stream that may take as long as it needs, as long as it moves.

    Raises:
        PeerUnavailable: the peer is away, or the stream stood still; try again.
        IntegrityError: the peer claims other bytes than ours.
        Conflict, AccessDenied, ...: as it answers.
    """
    if held > body.size:
        raise IntegrityError(f"{peer} claims to hold more bytes of our {what} than there are")
    if held == body.size:
        return
    calls: list[Any] = []
    with ProgressDeadline(lambda: [call.cancel() for call in calls], stall_seconds) as deadline:

        def moving() -> Iterator[bytes]:
            for request in read_chunks(source, held, first):
                deadline.moved()
                yield request

        with translated(peer):
            calls.append(method.future(moving(), metadata=VERSION))
            try:
                answer = calls[0].result()
            except grpc.FutureCancelledError as error:
                raise PeerUnavailable(f"{peer}: a {what} stood still for {stall_seconds:g} s") from error
    if answer.digest != bytes.fromhex(body.sha256):
        raise IntegrityError(f"{peer} acknowledged other bytes than those that were sent")


def upload(channel: grpc.Channel, sealed: SealedBlock, path: Path, stall_seconds: float) -> None:
    """Bring a sealed block to the hub; goes on where an earlier attempt stopped.

    Raises:
        PeerUnavailable: the hub is away, or the stream stood still; try again.
        IntegrityError: the hub claims other bytes than ours.
        Conflict, AccessDenied, ...: as the hub answers.
    """
    stub = intake_pb2_grpc.IntakeServiceStub(channel)
    opened = ask(HUB, stub.OpenBlock, intake_pb2.OpenBlockRequest(sealed=sealed.to_bytes()))
    send = channel.stream_unary(
        f"{OUR_METHODS}v1.IntakeService/SendBlock", None, intake_pb2.SendBlockResponse.FromString
    )
    first = intake_pb2.SendBlockRequest(spec_digest=bytes.fromhex(sealed.spec), sequence=sealed.sequence)
    bring(HUB, "block", send, first, path, sealed, opened.offset, stall_seconds)


@dataclass(frozen=True)
class Held:
    """Blocks that the hub holds of a release, unchecked.

    Attributes:
        earlier: sealed blocks of all rounds before the last that are whole there, in its order.
        own: ours of any round of which it was told; none from a hub of before that tells.
    """

    earlier: tuple[SealedBlock, ...]
    own: tuple[SealedBlock, ...]


def held_blocks(channel: grpc.Channel, release: str) -> Held:
    """Blocks that the hub holds.

    Raises:
        IntegrityError: one cannot be read.
        PeerUnavailable, NotFound, ...: as the hub answers.
    """
    request = intake_pb2.ListEarlierBlocksRequest(spec_digest=bytes.fromhex(release))
    answer = ask(HUB, intake_pb2_grpc.IntakeServiceStub(channel).ListEarlierBlocks, request)
    with refused_as(IntegrityError, f"{HUB} lists a block that cannot be read"):
        return Held(*(tuple(map(SealedBlock.from_bytes, listed)) for listed in (answer.sealed, answer.own)))


def fetch_block(channel: grpc.Channel, sealed: SealedBlock, stall_seconds: float) -> bytes:
    """The bytes of one of these blocks, as many as were announced; their digest is the caller's to check.

    Args:
        channel: to the hub's listener for parties.
        sealed: the block's identity, of a size that the spec calls for.
        stall_seconds: longest stand-still before the attempt is given up.

    Raises:
        IntegrityError: a chunk is not the next one, or is damaged.
        PeerUnavailable, NotFound, ...: as the hub answers.
    """
    request = intake_pb2.FetchEarlierBlockRequest(
        spec_digest=bytes.fromhex(sealed.spec), party=sealed.party, sequence=sealed.sequence
    )
    stub = intake_pb2_grpc.IntakeServiceStub(channel)
    with translated(HUB):
        return b"".join(received(stub.FetchEarlierBlock(request, metadata=VERSION), 0, sealed.size, stall_seconds))


CONFIRM_SECONDS = 600.0
"""How often a hub is asked whether it still holds a block of a release that is not over: one small call."""


class Delivery:
    """The sealed blocks of one party on their way."""

    def __init__(self, hospital: HospitalState, hub: HubConnection) -> None:
        self._hospital = hospital
        self._hub = hub
        self._ask_after: dict[str, float] = {}  # a release, or a release and how many of its blocks

    def deliver(self, record: Record) -> None:
        """Send the sealed bytes of all rounds; a hub whose storage was restored from an older backup is sent the same again.

        Raises:
            Conflict: the sealed block is gone.
            PeerUnavailable, IntegrityError, ...: see `upload`.
        """
        hospital, release = self._hospital, record.digest
        if record.status == Status.DELIVERED and time.monotonic() < self._ask_after.get(release, 0.0):
            return
        sealed = hospital.vault.find(release)
        if not sealed:
            raise Conflict("the sealed block is gone; it cannot be made again")
        self.send(record, sealed)
        self._ask_after[release] = time.monotonic() + CONFIRM_SECONDS
        if record.status == Status.SEALED:
            hospital.journal.move(release, {Status.SEALED}, Status.DELIVERED, "the hub holds our block")
            log.info("release %s: delivered", release[:12])

    def send_round(self, record: Record, sealed: tuple[SealedBlock, ...]) -> None:
        """Send what was sealed before the last round, and ask now and then whether the hub still holds it; raises as `send`."""
        rounds = f"{record.digest}.{len(sealed)}"
        if time.monotonic() >= self._ask_after.get(rounds, 0.0):
            self.send(record, sealed)
            self._ask_after[rounds] = time.monotonic() + CONFIRM_SECONDS

    def send(self, record: Record, sealed: tuple[SealedBlock, ...]) -> None:
        """Send sealed bytes; the ledger notes it first.

        A hub that is away is found out before that note: what never had a chance to leave can still be given back.

        Raises:
            PeerUnavailable, IntegrityError, ...: see `upload`.
        """
        hospital, hub, release = self._hospital, self._hub.channel(), record.digest
        check_reachable(hub, HUB)
        hospital.ledger.send(hospital.settings.roster, release)
        for block in sealed:
            upload(hub, block, hospital.vault.path(release, block.sequence), hospital.settings.daemon.stall_seconds)
