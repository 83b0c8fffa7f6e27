"""The hub's relay and the dealing coordinator in a few lines each, behind real mutual TLS; they break when told."""

import asyncio
import threading
import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from dprelease.canonical import sha256
from dprelease.errors import Conflict, DpReleaseError, NotFound, PeerUnavailable, VersionMismatch
from dprelease.intersection.ring import Ring
from dprelease.mechanisms.registry import mechanism_of
from dprelease.mpc.messages import Message, MessageHeader
from dprelease.release.spec import ReleaseSpec
from dprelease.wire.call import caller
from dprelease.wire.chunks import check_chunk
from dprelease.wire.news import News
from dprelease.wire.v1 import relay_pb2, relay_pb2_grpc, release_pb2
from tests.party_node.fakes import FakeCoordinator
from tests.party_node.joint_post import Office, Post


@dataclass
class FakeRelay(relay_pb2_grpc.RelayServiceServicer):
    """Keeps what a `Post` keeps, resumes where an upload stopped, and breaks when told.

    Attributes:
        coordinator: tells the specs; given a dealer when a release is first seen here.
        posts: release to what is kept of it.
        offices: release to what the coordinator deals for it.
        rings: alignment run to its ring; what else is asked for is a release.
        open: header digest to a message that was announced.
        partial: header digest to the part of a body that has come.
        offsets: where every upload began.
        hears: told of every message that is announced.
        listed: where every list began.
        page: most headers in one answer.
        mark: of the list; empty for a hub of the version before.
        last: what a hostile relay says instead of where its answer ends.
        held: what a hostile relay says instead of how much it holds.
        breaks_at: bytes after which the next upload breaks, once.
        stalls: an upload stands still until this is set.
        wrong_digest: acknowledge other bytes than those received.
        raises: every call fails so.
        short: short bodies come with their announcements, and several are fetched at once; not at a hub of the version before.
        alters: what a hostile relay makes of a short body.
        news: who waits; None for a hub that does not know how.
    """

    coordinator: FakeCoordinator
    posts: dict[str, Post] = field(default_factory=dict)
    offices: dict[str, Office] = field(default_factory=dict)
    rings: dict[str, Ring] = field(default_factory=dict)
    open: dict[str, Message] = field(default_factory=dict)
    partial: dict[str, bytearray] = field(default_factory=dict)
    offsets: list[int] = field(default_factory=list)
    hears: Callable[[str, MessageHeader], object] = lambda party, header: None
    listed: list[int] = field(default_factory=list)
    page: int = 3
    mark: bytes = b"a list"
    last: int | None = None
    held: int | None = None
    breaks_at: int | None = None
    stalls: threading.Event | None = None
    wrong_digest: bool = False
    raises: DpReleaseError | None = None
    short: bool = False
    alters: Callable[[bytes], bytes] = bytes
    news: News | None = field(default_factory=News)

    def __post_init__(self) -> None:
        self.coordinator.deals, self.coordinator.answers = self._deal, self._answer
        self._dealing = threading.Lock()

    def _deal(self, party: str, offers: list[bytes]) -> bytes:
        release = Message.from_bytes(offers[0]).header.task
        with self._dealing:  # once for both hospitals
            office = self.offices.setdefault(release, Office(self.post(release).schedule))
            return office.request(party, offers)

    def _answer(self, challenge: bytes, body: bytes) -> bytes:
        asked = Message.from_bytes(challenge)
        return self.offices[asked.header.task].answer(asked, body)

    def post(self, release: str) -> Post:
        """What is kept of a release."""
        if self.raises is not None:
            raise self.raises
        if release in self.rings:
            return self.posts.setdefault(release, Post(self.rings[release]))
        if release not in self.coordinator.records:
            raise NotFound("no such release")
        if release not in self.posts:
            spec = ReleaseSpec.from_bytes(self.coordinator.records[release].proposal)
            schedule = mechanism_of(spec).schedule(spec)
            assert schedule is not None
            self.posts[release] = Post(schedule)
        return self.posts[release]

    def OpenParcel(self, request: Any, context: Any) -> relay_pb2.OpenParcelResponse:
        message = Message.from_bytes(request.parcel)
        header, party = message.header, caller(context, "party").name
        post = self.post(header.task)
        self.hears(party, header)
        if header.digest() in post.messages:
            return relay_pb2.OpenParcelResponse(offset=header.size)
        post.check(party, header)
        if not header.size or (request.body and self.short):
            post.take(party, message, request.body)
            self._tell(post)
            return relay_pb2.OpenParcelResponse(offset=header.size)
        self.open[header.digest()] = message
        held = len(self.partial.setdefault(header.digest(), bytearray()))
        return relay_pb2.OpenParcelResponse(offset=held if self.held is None else self.held)

    def OpenParcels(self, request: Any, context: Any) -> relay_pb2.OpenParcelsResponse:
        if not self.short:
            raise VersionMismatch("this one is older")
        return relay_pb2.OpenParcelsResponse(
            offsets=[self.OpenParcel(each, context).offset for each in request.parcels]
        )

    async def SendParcel(self, requests: AsyncIterator[Any], context: Any) -> relay_pb2.SendParcelResponse:
        if self.stalls is not None:
            await asyncio.to_thread(self.stalls.wait, 60)
            raise PeerUnavailable("it stood still too long for anybody to wait")
        message: Message | None = None
        async for request in requests:
            if message is None:
                message = self.open.get(request.header_digest.hex())
                if message is None or message.header.task != request.spec_digest.hex():
                    raise Conflict("nobody announced it")
                self.offsets.append(request.chunk.offset)
            held = self.partial[message.header.digest()]
            held += check_chunk(request.chunk, len(held), message.header.size)
            if self.breaks_at is not None and len(held) >= self.breaks_at:
                self.breaks_at = None
                del held[len(held) // 2 :]
                raise PeerUnavailable("the disk is away")
        assert message is not None
        body = bytes(self.partial[message.header.digest()])
        self.post(message.header.task).take(caller(context, "party").name, message, body)
        self._tell(self.post(message.header.task))
        digest = sha256(body if not self.wrong_digest else body + b".")
        return relay_pb2.SendParcelResponse(digest=bytes.fromhex(digest))

    async def AwaitNews(self, request: Any, context: Any) -> release_pb2.AwaitNewsResponse:
        if self.news is None:
            raise VersionMismatch("this one is older")
        return release_pb2.AwaitNewsResponse(latest=await self.news.after(caller(context, "party").name, request.seen))

    def _tell(self, post: Post) -> None:
        if self.news is not None:
            self.news.tell(*post.schedule.parties)

    def ListParcels(self, request: Any, context: Any) -> relay_pb2.ListParcelsResponse:
        post = self.post(request.spec_digest.hex())
        self.listed.append(request.after)
        listed = post.lists(caller(context, "party").name, tuple(post.messages.values()))
        after = request.after if request.mark in (b"", self.mark) else 0
        found = listed[after : after + self.page]
        last = after + len(found) if self.last is None else self.last
        parcels = [message.to_bytes() for message in found]
        return relay_pb2.ListParcelsResponse(parcels=parcels, last=last, mark=self.mark)

    def FetchShortParcels(self, request: Any, context: Any) -> relay_pb2.FetchShortParcelsResponse:
        if not self.short:
            raise VersionMismatch("this one is older")
        post, party = self.post(request.spec_digest.hex()), caller(context, "party").name
        bodies = [post.fetch(party, post.messages[digest.hex()].header) for digest in request.header_digests]
        return relay_pb2.FetchShortParcelsResponse(bodies=[self.alters(body) for body in bodies])

    async def FetchParcel(self, request: Any, context: Any) -> AsyncIterator[relay_pb2.FetchParcelResponse]:
        post = self.post(request.spec_digest.hex())
        message = post.messages.get(request.header_digest.hex())
        if message is None:
            raise NotFound("no such message")
        body = post.fetch(caller(context, "party").name, message.header)
        for offset in range(request.offset, len(body), 500):
            data = body[offset : offset + 500]
            chunk = release_pb2.Chunk(offset=offset, data=data, crc32=zlib.crc32(data))
            yield relay_pb2.FetchParcelResponse(chunk=chunk)
