"""A coordinator and a hub of a few lines each, behind real mutual TLS. They keep every byte that they were sent."""

import asyncio
import threading
import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from dprelease.canonical import sha256
from dprelease.errors import DpReleaseError, PeerUnavailable, VersionMismatch
from dprelease.release.approval import SignedApproval
from dprelease.release.block import SealedBlock
from dprelease.release.spec import BlockKey, ReleaseSpec
from dprelease.wire.call import caller
from dprelease.wire.chunks import check_chunk
from dprelease.wire.listener import Listener, listen
from dprelease.wire.news import News
from dprelease.wire.v1 import coordination_pb2, coordination_pb2_grpc, intake_pb2, intake_pb2_grpc, release_pb2
from tests.support.certificates import HOST, Authority, Member


@dataclass
class Server:
    """A listener that can go away and come back under the same port."""

    member: Member
    authority: Authority
    add: Any
    serving: bool = True
    port: int = 0
    _listener: Listener | None = None

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def start(self) -> None:
        credentials = self.member.credentials(self.authority.root)
        self._listener = listen(self.address, credentials, [self.add], mutual=True, probe=lambda: self.serving)
        self.port = self._listener.port

    def stop(self) -> None:
        if self._listener is not None:
            self._listener.stop()
            self._listener = None


@dataclass
class FakeCoordinator(coordination_pb2_grpc.CoordinationServiceServicer):
    """Tells the parties what a test puts into `records`, and notes what they say.

    Attributes:
        records: spec digest to record; states are changed by the test, or by approvals and refusals as they come in.
        received: method and bytes of every request.
        raises: method to the error that it answers with.
        shown: certificate of the connection that ListReleases came over last.
        renews: signing request to the certificate that is given for it; None for a coordinator that does not know how.
        deals: party and signed offers to what is dealt to it; None for a coordinator that does not know how.
        answers: third challenge and its body to the answer about a proof.
        news: who waits; None for a coordinator that does not know how.
        further: that there is another page of releases, whatever page is asked for.
        charges: party to the statement that it is told; None for a coordinator that does not know how.
    """

    records: dict[str, release_pb2.AgreementRecord] = field(default_factory=dict)
    received: list[tuple[str, bytes]] = field(default_factory=list)
    raises: dict[str, DpReleaseError] = field(default_factory=dict)
    asked: threading.Event = field(default_factory=threading.Event)
    shown: str = ""
    renews: Callable[[str], str] | None = None
    deals: Callable[[str, list[bytes]], bytes] | None = None
    answers: Callable[[bytes, bytes], bytes] | None = None
    news: News | None = field(default_factory=News)
    further: str = ""
    charges: Callable[[str], bytes] | None = None

    def propose(self, spec: ReleaseSpec) -> str:
        """Offer a spec; its digest."""
        self.records[spec.digest()] = release_pb2.AgreementRecord(
            proposal=spec.to_bytes(), state=release_pb2.RELEASE_STATE_PROPOSED, explanation="waits for decisions"
        )
        self._tell(spec)
        return spec.digest()

    def move(self, release: str, state: str, explanation: str = "") -> None:
        """Tell the parties another state, true or not."""
        record = self.records[release]
        record.state = release_pb2.ReleaseState.Value(f"RELEASE_STATE_{state}")
        record.explanation = explanation
        self._tell(ReleaseSpec.from_bytes(record.proposal))

    def _tell(self, spec: ReleaseSpec) -> None:
        if self.news is not None:
            self.news.tell(*(part.party for part in spec.parties))

    def state(self, release: str) -> str:
        return release_pb2.ReleaseState.Name(self.records[release].state).removeprefix("RELEASE_STATE_")

    def take(self, approval: bytes) -> None:
        """Keep a signed approval; all of them together approve the release."""
        release = SignedApproval.from_bytes(approval).approval.spec
        record = self.records[release]
        if approval not in record.consents:
            record.consents.append(approval)
        if len(record.consents) == len(ReleaseSpec.from_bytes(record.proposal).parties):
            self.move(release, "APPROVED")

    def heard(self, method: str) -> list[bytes]:
        """Requests of one method."""
        return [data for name, data in self.received if name == method]

    def _note(self, method: str, request: Any, context: Any) -> None:
        caller(context, "party")
        self.received.append((method, request.SerializeToString()))
        if method in self.raises:
            raise self.raises[method]

    def ReportCatalogue(self, request: Any, context: Any) -> coordination_pb2.ReportCatalogueResponse:
        self._note("ReportCatalogue", request, context)
        return coordination_pb2.ReportCatalogueResponse()

    def ListReleases(self, request: Any, context: Any) -> coordination_pb2.ListAgreementsResponse:
        self.shown = context.certificate.decode()
        self.asked.set()
        self._note("ListReleases", request, context)
        return coordination_pb2.ListAgreementsResponse(
            agreements=list(self.records.values()), next_page_token=self.further
        )

    def Approve(self, request: Any, context: Any) -> coordination_pb2.ApproveResponse:
        self._note("Approve", request, context)
        if request.proposal and ReleaseSpec.from_bytes(request.proposal).digest() not in self.records:
            self.records[ReleaseSpec.from_bytes(request.proposal).digest()] = release_pb2.AgreementRecord(
                proposal=request.proposal, state=release_pb2.RELEASE_STATE_FAILED, explanation="forgotten in a restore"
            )
        self.take(request.signed_consent)
        return coordination_pb2.ApproveResponse()

    def ListCharges(self, request: Any, context: Any) -> coordination_pb2.ListChargesResponse:
        if self.charges is None:
            raise VersionMismatch("this one is older")
        return coordination_pb2.ListChargesResponse(charges=self.charges(caller(context, "party").name))

    def RenewCertificate(self, request: Any, context: Any) -> coordination_pb2.RenewCertificateResponse:
        if self.renews is None:
            raise VersionMismatch("this one is older")
        return coordination_pb2.RenewCertificateResponse(certificate=self.renews(request.signing_request))

    async def AwaitNews(self, request: Any, context: Any) -> release_pb2.AwaitNewsResponse:
        if self.news is None:
            raise VersionMismatch("this one is older")
        return release_pb2.AwaitNewsResponse(latest=await self.news.after(caller(context, "party").name, request.seen))

    def RequestDeal(self, request: Any, context: Any) -> coordination_pb2.RequestDealResponse:
        self._note("RequestDeal", request, context)
        if self.deals is None:
            raise VersionMismatch("this one is older")
        sealed = self.deals(caller(context, "party").name, list(request.offers))
        return coordination_pb2.RequestDealResponse(sealed=sealed)

    async def RequestAnswer(self, request: Any, context: Any) -> AsyncIterator[coordination_pb2.RequestAnswerResponse]:
        self._note("RequestAnswer", request, context)
        assert self.answers is not None
        data = self.answers(request.challenge, request.body)
        yield coordination_pb2.RequestAnswerResponse(chunk=release_pb2.Chunk(data=data, crc32=zlib.crc32(data)))

    def Decline(self, request: Any, context: Any) -> coordination_pb2.DeclineResponse:
        self._note("Decline", request, context)
        release = request.digest.hex()
        self.move(release, "REJECTED" if self.state(release) == "PROPOSED" else "FAILED", "declined")
        return coordination_pb2.DeclineResponse()


@dataclass
class FakeHub(intake_pb2_grpc.IntakeServiceServicer):
    """Takes sealed blocks, resumes where it stopped, and breaks when told.

    Attributes:
        sealed: every sealed block that was announced, in order.
        offsets: where every SendBlock began.
        blocks: bytes held, by spec digest, party and sequence number.
        breaks_at: bytes after which the next stream breaks, once.
        stalls: a stream takes nothing and stands still until this is set.
        wrong_digest: acknowledge other bytes than those received.
        coordinator: tells the specs, for whose rounds it hands out blocks of the earlier ones.
        owns: what a hostile hub lists for a party as its own instead; one of before lists nothing.
        lists: what a hostile hub lists for a party instead.
        serves: what a hostile hub hands out instead.
    """

    coordinator: FakeCoordinator
    sealed: list[SealedBlock] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    blocks: dict[tuple[str, str, int], bytearray] = field(default_factory=dict)
    breaks_at: int | None = None
    stalls: threading.Event | None = None
    wrong_digest: bool = False
    raises: DpReleaseError | None = None
    owns: Callable[[tuple[SealedBlock, ...]], tuple[SealedBlock, ...]] = lambda listed: listed
    lists: Callable[[str, tuple[SealedBlock, ...]], tuple[SealedBlock, ...]] = lambda _, listed: listed
    serves: Callable[[str, SealedBlock, bytes], bytes] = lambda _, __, data: data

    def OpenBlock(self, request: Any, context: Any) -> intake_pb2.OpenBlockResponse:
        if self.raises is not None:
            raise self.raises
        sealed = SealedBlock.from_bytes(request.sealed)
        assert caller(context, "party").name == sealed.party
        self.sealed.append(sealed)
        return intake_pb2.OpenBlockResponse(offset=len(self.blocks.setdefault(sealed.key, bytearray())))

    async def SendBlock(self, requests: AsyncIterator[Any], context: Any) -> intake_pb2.SendBlockResponse:
        if self.stalls is not None:
            await asyncio.to_thread(self.stalls.wait, 60)
            raise PeerUnavailable("it stood still too long for anybody to wait")
        key: BlockKey | None = None
        async for request in requests:
            if key is None:
                key = BlockKey(request.spec_digest.hex(), caller(context, "party").name, request.sequence)
                self.offsets.append(request.chunk.offset)
            size = next(sealed.size for sealed in self.sealed if sealed.key == key)
            held = self.blocks[key]
            held += check_chunk(request.chunk, len(held), size)
            if self.breaks_at is not None and len(held) >= self.breaks_at:
                self.breaks_at = None
                raise PeerUnavailable("the disk is away")
        assert key is not None
        digest = sha256(bytes(self.blocks[key]))
        return intake_pb2.SendBlockResponse(digest=bytes(32) if self.wrong_digest else bytes.fromhex(digest))

    def ListEarlierBlocks(self, request: Any, context: Any) -> intake_pb2.ListEarlierBlocksResponse:
        release, party = request.spec_digest.hex(), caller(context, "party").name
        spec = ReleaseSpec.from_bytes(self.coordinator.records[release].proposal)
        first = {sealed.key: sealed for sealed in self.sealed if sealed.spec == release and sealed.sequence == 0}
        keys = [BlockKey(release, part.party, 0) for part in spec.parties]
        whole = all(key in first and len(self.blocks[key]) == first[key].size for key in keys)
        listed = self.lists(party, tuple(first[key] for key in keys) if whole else ())
        own = dict.fromkeys(each for each in self.sealed if (each.spec, each.party) == (release, party))
        return intake_pb2.ListEarlierBlocksResponse(
            sealed=[sealed.to_bytes() for sealed in listed], own=[each.to_bytes() for each in self.owns(tuple(own))]
        )

    async def FetchEarlierBlock(
        self, request: Any, context: Any
    ) -> AsyncIterator[intake_pb2.FetchEarlierBlockResponse]:
        key = BlockKey(request.spec_digest.hex(), request.party, request.sequence)
        sealed = next(each for each in self.sealed if each.key == key)
        data = self.serves(caller(context, "party").name, sealed, bytes(self.blocks[key]))
        for offset in range(request.offset, len(data), 100):
            piece = data[offset : offset + 100]
            chunk = release_pb2.Chunk(offset=offset, data=piece, crc32=zlib.crc32(piece))
            yield intake_pb2.FetchEarlierBlockResponse(chunk=chunk)
