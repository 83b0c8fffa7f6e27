"""A trusted dealer of correlated randomness, run by the coordinator: fresh for each session, sealed to each hospital.

A deal is made once for a session, in a thread of its own, because it takes work that grows with the patients. Seeds and
plain deals are in memory only and only while it is made; what is kept cannot be opened here. A kill in between leaves
nothing, and whoever asks next starts anew.

If the session has range proofs, their seeds stay in memory until each is answered once, the next round is dealt or the release
is over. A restart loses them, and then hospitals begin the next round. Sealed answers stay until the same end. If all of them take
more than `MOST_ANSWER_BYTES`, the oldest that were fetched go first.

Source: docs/protocol.md, step 3 and "Whom to let deal"; docs/range_proofs.md 3.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from coordinator.clock import Clock
from coordinator.lifecycle import Stage, Tick, Topic, advance
from coordinator.store.agreements import Agreement
from coordinator.store.store import Store, Transaction
from dprelease.agreement import check_all
from dprelease.errors import (
    AccessDenied,
    Conflict,
    DpReleaseError,
    IntegrityError,
    InvalidInput,
    OutOfTurn,
    PeerUnavailable,
)
from dprelease.identity.certificates import read_identity
from dprelease.identity.signing import PublicKey
from dprelease.mpc.exchange import seal_answer, seal_deals
from dprelease.mpc.messages import Message, MessageHeader, check_message, session_digest
from dprelease.mpc.schedule import COORDINATOR, DealtSeeds, Schedule, deal
from dprelease.release.approval import SignedApproval
from dprelease.release.spec import ReleaseSpec
from dprelease.wire.v1 import coordination_pb2 as pb

log = logging.getLogger(__name__)

MOST_ANSWER_BYTES = 1 << 28
"""Bytes of sealed answers beyond which those that were fetched are dropped; a receiver that lost one begins the next round."""


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


def read_session(offers: Iterable[bytes], store: Store, party: str, root_pem: bytes) -> DealRequest:
    """The session that signed offers make, after checking them under the keys that approved the release.

    Raises:
        InvalidInput: the bytes are not offers, or not one of each party in the spec's order and of one round; or the
            coordinator does not deal for this release.
        NotFound: no such release.
        AccessDenied: the caller is not a party of it.
        Conflict: the release is not approved by everybody, or is over.
        IntegrityError: an offer was not signed by its party, or holds no usable key.
    """
    parcels = [Message.from_bytes(data) for data in offers]
    if not parcels:
        raise InvalidInput("a session is named by the offer of every party")
    release, schedule = _read_release(parcels[0].header.task, store, party)
    spec, headers = release.read_spec(), tuple(parcel.header for parcel in parcels)
    if [header.sender for header in headers] != [part.party for part in spec.parties]:
        raise InvalidInput("a session is named by one offer of every party, in the spec's order")
    if any(header.kind != "hello" or header.round != headers[0].round for header in headers):
        raise InvalidInput("a session is named by offers of one round, and by nothing else")
    keys = _keys(release, spec, root_pem)
    for parcel in parcels:
        check_message(parcel, schedule, keys)
    session = DealRequest(schedule, headers)
    session.sealed(dict.fromkeys(release.record.parties, b""))  # refuses an unusable key before the work, not after it
    return session


def request_answer(
    request: pb.RequestAnswerRequest, store: Store, dealer: Dealer, party: str, root_pem: bytes
) -> bytes:
    """The sealed answer about a proof; the same bytes as often as its receiver sends the same challenge.

    Raises:
        InvalidInput: the bytes are no message; or the coordinator does not deal for this release.
        NotFound: no such release.
        AccessDenied: the caller is not a party of it, or asks in the name of another.
        Conflict: the release is not running; its latest session is another, or was dealt before a restart; or this proof was
            answered to another challenge, or its answer was fetched and is kept no longer.
        IntegrityError: the message is no third challenge of this release, was not signed by the caller, or has another body.
        PeerUnavailable: the answer is being made; ask again.
    """
    asked = Message.from_bytes(request.challenge)
    header = asked.header
    release, schedule = _read_release(header.task, store, party)
    if header.sender != party:
        raise AccessDenied(f"{party} spoke for {header.sender}")
    check_message(asked, schedule, _keys(release, release.read_spec(), root_pem))
    body = len(request.body), hashlib.sha256(request.body).hexdigest()
    if header.kind != "challenge-3" or body != (header.size, header.sha256):
        raise IntegrityError(f"{party} asks with something else than a third challenge that it signed")
    return dealer.answer(header, request.body)


def _read_release(digest: str, store: Store, party: str) -> tuple[Agreement, Schedule]:
    with store.reading() as tx:
        release = tx.releases.get_of(party, digest)
    spec = release.read_spec()
    schedule = spec.schedule()
    if not schedule.dealt_by(COORDINATOR):
        raise InvalidInput(f"the coordinator deals nothing for release {digest[:12]}")
    _check_running(release)
    return release, schedule


def _keys(release: Agreement, spec: ReleaseSpec, root_pem: bytes) -> dict[str, PublicKey]:
    """The keys that approved."""
    approvals = [SignedApproval.from_bytes(data) for data in release.consents]
    check_all(approvals, spec, root_pem.decode())
    return {signed.approval.party: read_identity(signed.certificate).key for signed in approvals}


@dataclass
class _Answer:
    """An answer that is made, or is there: the only one of its proof."""

    asked: MessageHeader
    sealed: bytes = b""
    fetched: bool = False


@dataclass(frozen=True, repr=False)
class _DealtSession:
    """A session that was dealt, of which proofs may be answered: in memory alone.

    Attributes:
        session: as it was asked for.
        seeds: those of proofs that were not asked for yet.
        answers: (prover, receiver) to what was asked for.
    """

    session: DealRequest
    seeds: DealtSeeds
    answers: dict[tuple[str, str], _Answer] = field(default_factory=dict)


class Dealer:
    """Makes deals and answers about proofs, one at a time, each once.

    Args:
        store: the consortium's.
        clock: tells the present.
        kept: called when a deal is there, or its making ended.
        answered: called with the party for which an answer is there.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        kept: Callable[[], object] = lambda: None,
        answered: Callable[[str], object] = lambda party: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._kept, self._answered = kept, answered
        self._lock = threading.Lock()  # guards the next two lines
        self._under_way: set[str] = set()  # releases whose deal is being made
        self._sessions: dict[str, _DealtSession] = {}  # release to its latest session, if that has proofs
        self._turn = threading.Lock()  # held by the one deal, or answer, that is being made
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

    def answer(self, asked: MessageHeader, challenges: bytes) -> bytes:
        """The sealed answer about a proof; begins to make it at the first challenge.

        Args:
            asked: header of a third challenge, which was checked.
            challenges: its body.

        Raises:
            Conflict: the release is not running, we hold nothing of the session, another challenge was answered, or the answer
                was fetched and is kept no longer.
            PeerUnavailable: it is being made; ask again.
        """
        release, proof = asked.task, (asked.dealer, asked.sender)
        with self._lock:
            held = self._sessions.get(release)
            if held is None or (held.session.digest, held.session.round) != (asked.session, asked.round):
                raise Conflict(f"the coordinator holds nothing of this session of release {release[:12]} any more")
            with self._store.reading() as tx:
                self._check(tx, held.session)
            answer = held.answers.get(proof)
            if answer is None:
                answer = _Answer(asked)
                arguments = held, answer, challenges
                threading.Thread(target=self._answer, args=arguments, name="dealer", daemon=True).start()
                held.answers[proof] = answer
            if answer.asked != asked:
                raise Conflict(f"{asked.sender} has challenged the dealer about {asked.dealer} before, in another way")
            if not answer.sealed and answer.fetched:
                raise Conflict(f"the answer about {asked.dealer} was fetched, and is kept no longer")
            if not answer.sealed:
                raise PeerUnavailable(f"an answer for release {release[:12]} is being made; ask again")
            answer.fetched = True
            return answer.sealed

    def sweep(self) -> None:
        """Forget all that was held of releases that are over, or were dealt for anew."""
        with self._lock:
            held = tuple(self._sessions.items())
        if not held:
            return
        with self._store.reading() as tx:
            over = [each for release, each in held if tx.deals.latest(release) != each.session.round]
        for each in over:
            self._forget(each)

    def stop(self) -> None:
        """Keep nothing any more. A write that is under way is waited for; a computation is given up."""
        with self._keeping:
            self._stopped = True
        with self._lock:
            self._sessions.clear()

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
        self._in_turn(session, "dealt", lambda: self._make(session))
        with self._lock:
            self._under_way.remove(session.release)
        self._kept()

    def _answer(self, held: _DealtSession, answer: _Answer, challenges: bytes) -> None:
        if self._in_turn(held.session, "answered", lambda: self._make_answer(held, answer, challenges)):
            self._answered(answer.asked.sender)
        else:
            self._forget(held)  # the seeds are used up: the next round is due

    def _in_turn(self, session: DealRequest, what: str, make: Callable[[], None]) -> bool:
        """Make something when nothing else is made; tells whether that went well."""
        try:
            with self._turn:
                if not self._stopped:
                    make()
        except DpReleaseError as error:
            log.warning("nothing was %s for release %s: %s", what, session.release[:12], error.message)
        except Exception:
            log.exception("nothing was %s for release %s", what, session.release[:12])
        else:
            return True
        return False

    def _make_answer(self, held: _DealtSession, answer: _Answer, challenges: bytes) -> None:
        asked, session = answer.asked, held.session
        plain = held.seeds.answer(session.digest, asked.dealer, asked.sender, challenges)
        sealed = seal_answer(session.schedule, session.headers, asked, plain)
        with self._lock:  # nobody fetches this one before room is made for it
            answer.sealed = sealed
            made = [each for other in self._sessions.values() for each in other.answers.values()]
            excess = sum(len(each.sealed) for each in made) - MOST_ANSWER_BYTES
            for each in made:
                if excess > 0 and each.fetched:
                    excess, each.sealed = excess - len(each.sealed), b""

    def _forget(self, held: _DealtSession) -> None:
        held.seeds.forget()
        with self._lock:
            if self._sessions.get(held.session.release) is held:
                del self._sessions[held.session.release]

    def _make(self, session: DealRequest) -> None:
        held = _DealtSession(session, DealtSeeds())
        sealed = session.sealed(deal(session.schedule, COORDINATOR, kept=held.seeds))
        with self._keeping:
            if self._stopped:
                return
            with self._store.writing() as tx:
                self._check(tx, session)
                tx.deals.add(session.release, session.round, session.digest, sealed)
                words = f"dealt for round {session.round}"
                tx.history.note(words, self._clock(), about=Topic.RELEASE, agreement=session.release)
            if session.schedule.claims:
                with self._lock:
                    self._sessions[session.release] = held


def _check_running(release: Agreement) -> None:
    if release.record.state not in (Stage.APPROVED, Stage.RUNNING):
        raise OutOfTurn(f"release {release.digest[:12]} is {release.record.state}: nothing is dealt now")
