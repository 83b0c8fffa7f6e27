"""A trusted dealer of correlated randomness, run by the coordinator: fresh for each session, sealed to each hospital.

A deal is made once for a session, in a thread of its own, because it takes work that grows with the patients. Seeds and
plain deals are in memory only and only while it is made; what is kept cannot be opened here. A kill in between leaves
nothing, and whoever asks next starts anew.

Source: docs/protocol.md, step 3 and "Whom to let deal".
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from coordinator.clock import Clock
from coordinator.lifecycle import Stage, Tick, Topic, advance
from coordinator.store.agreements import Agreement
from coordinator.store.store import Store, Transaction
from dprelease.agreement import check_all
from dprelease.errors import AccessDenied, DpReleaseError, InvalidInput, OutOfTurn, PeerUnavailable
from dprelease.identity.certificates import read_identity
from dprelease.mechanisms.registry import mechanism_of
from dprelease.mpc.correlated_randomness import deal
from dprelease.mpc.exchange import seal_deals
from dprelease.mpc.messages import Message, MessageHeader, check_message, session_digest
from dprelease.mpc.schedule import COORDINATOR, Schedule
from dprelease.release.approval import SignedApproval
from dprelease.wire.v1 import coordination_pb2 as pb

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DealRequest:
    """A session whose offers were checked.

    Attributes:
        schedule: of the release.
        headers: one offer of each party, in the spec's order.
    """

    schedule: Schedule
    headers: tuple[MessageHeader, ...]

    @property
    def digest(self) -> str:
        """The session's identity."""
        return session_digest(self.headers)

    @property
    def release(self) -> str:
        """Digest of the release's spec."""
        return self.headers[0].task

    @property
    def round(self) -> int:
        """Which round of the release it is."""
        return self.headers[0].round

    def sealed(self, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        """Each party's message, encrypted to the session key that it offered.

        Raises:
            IntegrityError: a session key is not one; the party is named.
        """
        return seal_deals(self.schedule, self.headers, messages)


def request_deal(
    request: pb.RequestDealRequest, store: Store, dealer: Dealer, party: str, root_pem: bytes
) -> pb.RequestDealResponse:
    """Randomness dealt to a party in the session that these offers make; the same bytes as often as it asks.

    Raises:
        InvalidInput: the bytes are not offers, or not one of each party in the spec's order and of one round; or the
            coordinator does not deal for this release.
        NotFound: no such release.
        AccessDenied: the caller is not a party of it.
        Conflict: the release is not approved by everybody, or is over; or another session was dealt in this round.
        IntegrityError: an offer was not signed by its party, or holds no usable key.
        PeerUnavailable: the deal is being made; ask again.
    """
    session = read_session(request.offers, store, party, root_pem)
    return pb.RequestDealResponse(sealed=dealer.fetch(session, party))


def read_session(offers: Iterable[bytes], store: Store, party: str, root_pem: bytes) -> DealRequest:
    """The session that signed offers make, after checking them under the keys that approved the release.

    Raises:
        As `request_deal`, except PeerUnavailable.
    """
    parcels = [Message.from_bytes(data) for data in offers]
    if not parcels:
        raise InvalidInput("a session is named by the offer of every party")
    with store.reading() as tx:
        release = tx.releases.get(parcels[0].header.task)
    if party not in release.record.parties:
        raise AccessDenied(f"{party} is not a party of release {release.digest[:12]}")
    spec = release.read_spec()
    schedule = mechanism_of(spec).schedule(spec)
    if schedule is None or not schedule.dealt_by(COORDINATOR):
        raise InvalidInput(f"the coordinator deals nothing for release {release.digest[:12]}")
    _check_running(release)
    headers = tuple(parcel.header for parcel in parcels)
    if [header.sender for header in headers] != [part.party for part in spec.parties]:
        raise InvalidInput("a session is named by one offer of every party, in the spec's order")
    if any(header.kind != "hello" or header.round != headers[0].round for header in headers):
        raise InvalidInput("a session is named by offers of one round, and by nothing else")
    approvals = [SignedApproval.from_bytes(data) for data in release.consents]
    check_all(approvals, spec, root_pem.decode())
    keys = {signed.approval.party: read_identity(signed.certificate).key for signed in approvals}
    for parcel in parcels:
        check_message(parcel, schedule, keys)
    session = DealRequest(schedule, headers)
    session.sealed(dict.fromkeys(release.record.parties, b""))  # refuses an unusable key before the work, not after it
    return session


class Dealer:
    """Makes deals, one at a time, each once."""

    def __init__(self, store: Store, clock: Clock, kept: Callable[[], object] = lambda: None) -> None:
        self._store = store
        self._clock = clock
        self._kept = kept
        self._lock = threading.Lock()  # guards the next line
        self._under_way: set[str] = set()  # releases whose deal is being made
        self._turn = threading.Lock()  # held by the one deal that is being made
        self._keeping = threading.Lock()  # guards the next line
        self._stopped = False

    def fetch(self, session: DealRequest, party: str) -> bytes:
        """A party's sealed deal; begins to make the session's deals if nobody has.

        Raises:
            Conflict: the release is not running, or another session of this round was dealt.
            PeerUnavailable: it is being made; ask again.
        """
        with self._lock:
            found = self._held(session, party)
            if found is None and session.release not in self._under_way:
                self._under_way.add(session.release)
                threading.Thread(target=self._work, args=(session,), name="dealer", daemon=True).start()
        if found is None:
            raise PeerUnavailable(f"the deal for release {session.release[:12]} is being made; ask again")
        return found

    def stop(self) -> None:
        """Keep nothing any more. A write that is under way is waited for; a computation is given up."""
        with self._keeping:
            self._stopped = True

    def _held(self, session: DealRequest, party: str) -> bytes | None:
        with self._store.reading() as tx:
            self._check(tx, session)
            found = tx.deals.find(session.digest, party)
            if found is None:
                tx.deals.check_turn(session.release, session.round)
            return found

    def _check(self, tx: Transaction, session: DealRequest) -> None:
        release = tx.releases.get(session.release)
        _check_running(release)
        if advance(release.record, Tick(), self._clock()).final:
            raise OutOfTurn(f"the time of release {session.release[:12]} is over")

    def _work(self, session: DealRequest) -> None:
        try:
            with self._turn:
                self._make(session)
        except DpReleaseError as error:
            log.warning("nothing was dealt for release %s: %s", session.release[:12], error.message)
        except Exception:
            log.exception("nothing was dealt for release %s", session.release[:12])
        finally:
            with self._lock:
                self._under_way.remove(session.release)
            self._kept()

    def _make(self, session: DealRequest) -> None:
        if self._stopped:
            return
        sealed = session.sealed(deal(session.schedule, COORDINATOR))
        with self._keeping:
            if self._stopped:
                return
            with self._store.writing() as tx:
                self._check(tx, session)
                tx.deals.add(session.release, session.round, session.digest, sealed)
                tx.history.note(
                    f"dealt for round {session.round}",
                    self._clock(),
                    about=Topic.RELEASE,
                    agreement=session.release,
                )


def _check_running(release: Agreement) -> None:
    if release.record.state not in (Stage.APPROVED, Stage.RUNNING):
        raise OutOfTurn(f"release {release.digest[:12]} is {release.record.state}: nothing is dealt now")
