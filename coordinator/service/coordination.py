# ruff: noqa: N802 - the methods are called as in the protocol
"""Services of the coordinator for parties and the hub: who calls, then what was asked for. Errors are the boundary's work."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

from coordinator.authority.authority import Authority
from coordinator.clock import Clock
from coordinator.lifecycle import (
    OPEN,
    Approved,
    Declined,
    Event,
    Finished,
    IntakeReported,
    PublicationAuthorized,
    PublicationReported,
    Stage,
    Topic,
)
from coordinator.service import dealer as dealing
from coordinator.service.enrolment import renew
from coordinator.service.recovery import hear_forgotten, statement
from coordinator.settings import CoordinatorSettings
from coordinator.store.agreements import Agreement
from coordinator.store.store import Store, Transaction
from dprelease.agreement import Signed, SignedAcceptance, check_consent
from dprelease.catalogue import Catalogue
from dprelease.errors import AccessDenied, Conflict, InvalidInput, OutOfTurn, PeerUnavailable
from dprelease.one_line import one_line
from dprelease.release.approval import SignedApproval
from dprelease.wire.call import caller
from dprelease.wire.chunks import CHUNK_BYTES, encode_chunk
from dprelease.wire.news import News
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1.coordination_pb2_grpc import AlignmentServiceServicer, CoordinationServiceServicer
from dprelease.wire.v1.release_pb2 import AgreementRecord, AwaitNewsRequest, AwaitNewsResponse, ReleaseState, RunState

LOOK_SECONDS = 0.25
"""Pause between looks at the history: one number, by its primary key."""

HUB = "hub"
"""Name of the hub in news."""

log = logging.getLogger(__name__)


def named(party: str) -> str:
    """A party's name in news."""
    return f"party {party}"


class Announcer(News):
    """Held calls of parties and hub, and a thread that answers them when something changed, whoever changed it.

    Commands write into the database from processes of their own. So the thread looks at the history a few times a second, and at
    once after a change that was made in this process.
    """

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        with store.reading() as tx:
            self._seen = tx.history.latest()
        self._stands: dict[str, tuple[Stage | None, int]] = {}
        self._look, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="announcer", daemon=True)
        self.start, self.look = self._thread.start, self._look.set

    def stop(self) -> None:
        """Ends soon, and lets go of every call that is held."""
        super().stop()
        self._stopping.set()
        self._look.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._announce()
            except PeerUnavailable as error:
                log.debug("%s", error.message)
            except Exception:
                log.exception("the history could not be looked at")
                self._stopping.wait(60 * LOOK_SECONDS)
            self._look.wait(LOOK_SECONDS)
            self._look.clear()

    def _announce(self) -> None:
        with self._store.reading() as tx:
            latest = tx.history.latest()
            if latest == self._seen:
                return
            names = set[str]()
            for digest, party in tx.history.concerned(self._seen):
                if digest is None or self._moved(tx, digest):
                    names |= {HUB, *map(named, tx.agreements.parties(digest) if digest else ())}
                names |= {named(party)} if party else set()
        self.tell(*names)
        self._seen = latest

    def _moved(self, tx: Transaction, digest: str) -> bool:
        """Tells whether an agreement entered another state, or was dealt for, since its parties were last told.

        That one of them approved, or sent all that is theirs to send, lets no other go on: each would ask for nothing.
        """
        state = tx.agreements.state(digest)
        before, stands = self._stands.pop(digest, None), (state, tx.deals.latest(digest))
        if state in OPEN:
            self._stands[digest] = stands
        return before != stands


REMEMBERED = timedelta(days=30)
"""How long a party is still told about what has ended."""

SEEN_WITHIN = timedelta(minutes=1)
"""How long a call is not noted after one that was: to note waits for the disk."""

DIGEST_BYTES = 32

PAGE_BYTES = 3 << 20
"""Size of a page of agreements; gRPC takes messages of 4 MiB."""

MOST_UNSETTLED = 500
"""Proposals that a party names at most when it asks what became of them."""


class CoordinationService(CoordinationServiceServicer, AlignmentServiceServicer):
    """Catalogue, proposals, decisions and progress of releases and alignment runs, over mutual TLS."""

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

    def ListReleases(self, request: pb.ListAgreementsRequest, context: Any) -> pb.ListAgreementsResponse:
        """A page of a party's releases that are open or ended lately; of the latter only some, where it names them."""
        return self._list(Topic.RELEASE, request, context)

    def ListRuns(self, request: pb.ListAgreementsRequest, context: Any) -> pb.ListAgreementsResponse:
        """As `ListReleases`, of alignment runs."""
        return self._list(Topic.RUN, request, context)

    def Approve(self, request: pb.ApproveRequest, context: Any) -> pb.ApproveResponse:
        """Keep a party's signed approval; see `approve`."""
        return self._approve(SignedApproval.from_bytes, request, context)

    def AcceptRun(self, request: pb.ApproveRequest, context: Any) -> pb.ApproveResponse:
        """As `Approve`, of an alignment run."""
        return self._approve(SignedAcceptance.from_bytes, request, context)

    def Decline(self, request: pb.DeclineRequest, context: Any) -> pb.DeclineResponse:
        """Note that a party will not take part in a release."""
        return self._decline(Topic.RELEASE, request, context)

    def DeclineRun(self, request: pb.DeclineRequest, context: Any) -> pb.DeclineResponse:
        """As `Decline`, of an alignment run."""
        return self._decline(Topic.RUN, request, context)

    def FinishRun(self, request: pb.FinishRunRequest, context: Any) -> pb.FinishRunResponse:
        """Note that a party has the result of an alignment run on its disk."""
        party = self._party(context)
        self._advance(request.run, Finished(party), party)
        return pb.FinishRunResponse()

    def GetRelease(self, request: pb.GetAgreementRequest, context: Any) -> pb.GetAgreementResponse:
        """One release with all its approvals, for the hub."""
        return self._get(Topic.RELEASE, request, context)

    def GetRun(self, request: pb.GetAgreementRequest, context: Any) -> pb.GetAgreementResponse:
        """One alignment run with all its acceptances, for the hub, which asks before it carries a message of the run."""
        answer = self._get(Topic.RUN, request, context)
        if answer.agreement.state == RunState.RUN_STATE_RUNNING and not request.reports:
            with suppress(OutOfTurn), self._store.writing() as tx:  # it may end in between
                run = tx.alignments.get(request.digest.hex())
                tx.alignments.advance(run.digest, IntakeReported(frozenset(run.record.parties)), self._clock())
        return answer

    def ReportIntake(self, request: pb.ReportIntakeRequest, context: Any) -> pb.ReportIntakeResponse:
        """Note who has sent the hub all that is theirs to send."""
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
        self._advance(request.spec_digest, PublicationReported(read_digest(request.manifest_digest)))
        return pb.ReportPublicationResponse()

    def RenewCertificate(self, request: pb.RenewCertificateRequest, context: Any) -> pb.RenewCertificateResponse:
        """A later certificate, for a party and the hub."""
        identity = caller(context, "party", "hub")
        return renew(request, self._store, self._authority, self._settings, identity, self._clock())

    def ListRevoked(self, request: pb.ListRevokedRequest, context: Any) -> pb.ListRevokedResponse:
        """The keys whose blocks the hub must neither take nor publish."""
        self._hub(context)
        with self._store.reading() as tx:
            return pb.ListRevokedResponse(keys=map(bytes.fromhex, tx.members.revoked_keys()))

    def ListCharges(self, request: pb.ListChargesRequest, context: Any) -> pb.ListChargesResponse:
        """Charges to a party that the office has seen, signed."""
        party = self._party(context)
        with self._store.reading() as tx:
            signed = statement(self._store, tx, self._authority, party, self._clock())
        return pb.ListChargesResponse(charges=signed.to_bytes())

    def RequestDeal(self, request: pb.RequestDealRequest, context: Any) -> pb.RequestDealResponse:
        """Randomness dealt to a party in the session that these offers make; the same bytes as often as it asks."""
        party = self._party(context)
        session = dealing.read_session(request.offers, self._store, party, self._authority.root_pem)
        return pb.RequestDealResponse(sealed=self._dealer.fetch(session, party))

    async def RequestAnswer(  # type: ignore[override] # the answers are encoded already
        self, request: pb.RequestAnswerRequest, context: Any
    ) -> AsyncIterator[bytes]:
        """Stream the dealer's answer about a proof."""
        sealed = memoryview(await context.work(self._answer, request, context))
        for start in range(0, len(sealed), CHUNK_BYTES):
            data = sealed[start : start + CHUNK_BYTES]
            yield encode_chunk(start, data)

    def _answer(self, request: pb.RequestAnswerRequest, context: Any) -> bytes:
        root = self._authority.root_pem
        return dealing.request_answer(request, self._store, self._dealer, self._party(context), root)

    async def AwaitNews(self, request: AwaitNewsRequest, context: Any) -> AwaitNewsResponse:
        """For a party and the hub. No thread is held."""
        name = await context.work(self._awaiting, context)
        return AwaitNewsResponse(latest=await self._announcer.after(name, request.seen))

    def _awaiting(self, context: Any) -> str:
        if caller(context, "party", "hub").role == "party":
            return named(self._party(context))
        self._hub(context)
        return HUB

    def _advance(self, data: bytes, event: Event, party: str = "", kind: Topic = Topic.RUN) -> None:
        """Let happen what the hub reports of any agreement, or a party of one of its own of this kind."""
        digest = read_digest(data)
        with self._changing(), self._store.writing() as tx:
            if party:
                tx.of(kind).get_of(party, digest)
            tx.agreements.advance(digest, event, self._clock())

    def _list(self, kind: Topic, request: pb.ListAgreementsRequest, context: Any) -> pb.ListAgreementsResponse:
        party = self._party(context)
        if len(request.unsettled) > MOST_UNSETTLED:
            raise InvalidInput(f"a party names at most {MOST_UNSETTLED} proposals; ask for all that ended lately")
        among = frozenset(digest.hex() for digest in request.unsettled) if request.open_only else None
        answer, size, last = pb.ListAgreementsResponse(), 0, ""
        with self._store.reading() as tx:
            for place, found in tx.of(kind).of_party(party, self._clock() - REMEMBERED, among, request.page_token):
                record = to_proto(found)
                size += record.ByteSize()
                if last and size > PAGE_BYTES:
                    answer.next_page_token = last
                    break
                answer.agreements.append(record)
                last = place
        return answer

    def _approve(self, read: Callable[[bytes], Signed], request: pb.ApproveRequest, context: Any) -> pb.ApproveResponse:
        party = self._party(context)
        signed = read(request.signed_consent)
        with self._changing():
            approve(signed, request.proposal, self._store, party, self._authority.root_pem, self._clock())
        return pb.ApproveResponse()

    def _decline(self, kind: Topic, request: pb.DeclineRequest, context: Any) -> pb.DeclineResponse:
        party = self._party(context)
        reason = one_line(request.reason, self._settings.limits.longest_reason)
        self._advance(request.digest, Declined(party, reason), party, kind)
        return pb.DeclineResponse()

    def _get(self, kind: Topic, request: pb.GetAgreementRequest, context: Any) -> pb.GetAgreementResponse:
        self._hub(context)
        with self._store.reading() as tx:
            return pb.GetAgreementResponse(agreement=to_proto(tx.of(kind).get(read_digest(request.digest))))

    @contextmanager
    def _changing(self) -> Iterator[None]:
        yield
        self._announcer.look()

    def _hub(self, context: Any) -> None:
        identity = caller(context, "hub")
        with self._store.reading() as tx:
            tx.hub.check(identity, self._clock())

    def _party(self, context: Any) -> str:
        identity, now = caller(context, "party"), self._clock()
        with self._store.reading() as tx:
            party = tx.members.check(identity, now)
        lately = party.last_seen is not None and timedelta() <= now - party.last_seen < SEEN_WITHIN
        if lately and party.protocol == context.protocol:
            return party.name
        with self._store.writing() as tx:
            return tx.members.admit(identity, now, context.protocol).name


def approve(signed: Signed, forgotten: bytes, store: Store, party: str, root_pem: bytes, now: datetime) -> None:
    """Keep a party's signed consent, after checking it as every other party will.

    Args:
        signed: the consent.
        forgotten: canonical bytes of the spec, where the party believes that the office has forgotten it; see `hear_forgotten`.
        store: the consortium's.
        party: the caller.
        root_pem: the consortium's root.
        now: the present.

    Raises:
        AccessDenied: it is another party's.
        NotFound: no such release or alignment run.
        IntegrityError: wrong proposal, signature, certificate or key.
        Conflict: it is past its decision, or the party approved with another commitment before.
    """
    consent, kind = signed.consent, Topic.RELEASE if isinstance(signed, SignedApproval) else Topic.RUN
    _check_own(party, consent.party)
    shown = bool(forgotten) and isinstance(signed, SignedApproval)
    if shown and hear_forgotten(signed, forgotten, store, root_pem.decode(), now):
        return
    with store.reading() as tx:
        proposal = tx.of(kind).get(consent.proposal).read()
    check_consent(signed, proposal, root_pem.decode())
    with store.writing() as tx:
        for known in tx.of(kind).get(consent.proposal).read_consents():
            if known.party == party and known.commitment != consent.commitment:
                raise Conflict(f"{party} approved this release before, with another commitment")
        tx.of(kind).advance(consent.proposal, Approved(party), now, signed.to_bytes())


def to_proto(found: Agreement) -> AgreementRecord:
    """An agreement as it travels. It leaves out what a party may not see, such as another's reason to decline."""
    record = found.record
    if record.kind is Topic.RELEASE:
        state: int = ReleaseState.Value(f"RELEASE_STATE_{record.state}")
    else:
        state = RunState.Value("RUN_STATE_" + ("DECLINED" if record.state is Stage.REJECTED else record.state))
    return AgreementRecord(proposal=found.proposal, state=state, consents=found.consents, explanation=record.explain())


def read_digest(data: bytes) -> str:
    """A digest as it travels, in hexadecimal; raises `InvalidInput` if it is none."""
    if len(data) != DIGEST_BYTES:
        raise InvalidInput(f"a digest has {DIGEST_BYTES} bytes, not {len(data)}")
    return data.hex()


def _check_own(party: str, named_party: str) -> None:
    if named_party != party:
        raise AccessDenied(f"{party} spoke for {named_party}")
