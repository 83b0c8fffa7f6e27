"""Thin servicers: decode, call, encode. Errors become statuses at the boundary."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

from dprelease.errors import InvalidInput
from dprelease.identity.certificates import Identity
from dprelease.release.spec import BlockKey
from dprelease.release.stream import Checkpoint
from dprelease.wire.call import Call, caller
from dprelease.wire.chunks import OpenFile, OpenFiles, stream_chunks
from dprelease.wire.limits import OpenStreams
from dprelease.wire.news import News
from dprelease.wire.v1 import (
    intake_pb2,
    intake_pb2_grpc,
    public_pb2,
    public_pb2_grpc,
    relay_pb2,
    relay_pb2_grpc,
    release_pb2,
)
from learner.hub.intake import Intake
from learner.hub.mailbox import MOST_HEADER_BYTES, PAGE_BYTES
from learner.hub.published import Shelf
from learner.hub.relay import Relay
from learner.hub.revocation import Revocations
from learner.hub.uploads import Upload, on_disk
from learner.listing import Listed


class _ForParties:
    """For parties, over mutual TLS."""

    def __init__(self, revocations: Revocations, streams: OpenStreams) -> None:
        self._revocations, self._streams = revocations, streams

    def _caller(self, context: Any) -> Identity:
        identity = caller(context, "party")
        self._revocations.check(identity)
        return identity

    async def _send(
        self, context: Any, identity: Identity, find: Callable[[], Path], offset: int
    ) -> AsyncIterator[bytes]:
        """A file that a party asked for, until its key is revoked."""
        with self._revocations.during(identity, context.end), on_disk():
            opened = partial(context.work, lambda: OpenFile(find()))
            async with aclosing(stream_chunks(context, opened, offset, self._streams.__len__)) as chunks:
                async for chunk in chunks:
                    yield chunk


class IntakeServicer(_ForParties, intake_pb2_grpc.IntakeServiceServicer):
    """Blocks of parties."""

    def __init__(self, intake: Intake, revocations: Revocations, streams: OpenStreams) -> None:
        super().__init__(revocations, streams)
        self._intake = intake

    def OpenBlock(self, request: intake_pb2.OpenBlockRequest, context: Any) -> intake_pb2.OpenBlockResponse:  # noqa: N802
        """Announce a block."""
        identity = caller(context, "party")
        self._revocations.look_up(identity)
        return intake_pb2.OpenBlockResponse(
            offset=self._intake.open_block(identity, context.certificate.decode(), request.sealed)
        )

    async def SendBlock(self, request_iterator: Any, context: Any) -> intake_pb2.SendBlockResponse:  # noqa: N802
        """Receive a block."""
        identity = caller(context, "party")

        def begin(first: intake_pb2.SendBlockRequest) -> Upload:
            if len(first.spec_digest) != 32:
                raise InvalidInput("the first message of an upload names the release by its digest")
            return self._intake.begin(identity, first.spec_digest.hex(), first.sequence)

        with self._revocations.during(identity, context.end):
            digest = await receive(context, request_iterator, begin, ("spec_digest", "sequence"))
        return intake_pb2.SendBlockResponse(digest=bytes.fromhex(digest))

    def ListEarlierBlocks(  # noqa: N802
        self, request: intake_pb2.ListEarlierBlocksRequest, context: Any
    ) -> intake_pb2.ListEarlierBlocksResponse:
        """List the blocks that the next round builds on, and what is here of the caller's."""
        identity, release = self._caller(context), request.spec_digest.hex()
        found, own = self._intake.earlier_blocks(identity, release), self._intake.announced(identity, release)
        return intake_pb2.ListEarlierBlocksResponse(
            sealed=[sealed.to_bytes() for sealed in found], own=[sealed.to_bytes() for sealed in own]
        )

    def FetchEarlierBlock(  # type: ignore[override] # noqa: N802 - the answers are encoded already
        self, request: intake_pb2.FetchEarlierBlockRequest, context: Any
    ) -> AsyncIterator[bytes]:
        """Stream one of them."""
        identity = self._caller(context)
        key = BlockKey(request.spec_digest.hex(), request.party, request.sequence)
        find = partial(self._intake.earlier_block, identity, key, request.offset)
        return self._send(context, identity, find, request.offset)


async def receive(
    call: Call, requests: AsyncIterator[Any], begin: Callable[[Any], Upload], names: tuple[str, ...]
) -> str:
    """Take in an upload: one chunk is hashed and written while the next one comes.

    Args:
        call: the upload's call.
        requests: its messages, each with a chunk.
        begin: from the first message to the upload.
        names: fields that say what is uploaded; what the first message says holds for all.

    Returns:
        SHA-256 of the whole.

    Raises:
        InvalidInput: there is no message, or a later one names something else than the first.
    """
    first: Any = None
    upload: Upload | None = None
    under_way: asyncio.Future[None] | None = None
    try:
        async for request in requests:
            if upload is None:
                first = request
                upload = await call.work(begin, first)
            elif any(getattr(request, name) not in (b"", 0, getattr(first, name)) for name in names):
                raise InvalidInput("one upload carries one block or parcel")
            if under_way is not None:
                await under_way
            under_way = call.start(upload.take, request.chunk)
        if upload is None or under_way is None:
            raise InvalidInput("an upload has at least one message")
        await under_way
    finally:
        if under_way is not None:
            under_way.cancel()
    return await call.work(upload.finish)


class RelayServicer(_ForParties, relay_pb2_grpc.RelayServiceServicer):
    """Parcels of parties."""

    def __init__(self, relay: Relay, revocations: Revocations, streams: OpenStreams, news: News) -> None:
        super().__init__(revocations, streams)
        self._relay = relay
        self._news = news

    def OpenParcel(self, request: relay_pb2.OpenParcelRequest, context: Any) -> relay_pb2.OpenParcelResponse:  # noqa: N802
        """Announce a parcel."""
        (offset,) = self._relay.open_parcels(self._caller(context), [(request.parcel, request.body)])
        return relay_pb2.OpenParcelResponse(offset=offset)

    def OpenParcels(self, request: relay_pb2.OpenParcelsRequest, context: Any) -> relay_pb2.OpenParcelsResponse:  # noqa: N802
        """Announce parcels."""
        announced = [(each.parcel, each.body) for each in request.parcels]
        return relay_pb2.OpenParcelsResponse(offsets=self._relay.open_parcels(self._caller(context), announced))

    async def SendParcel(self, request_iterator: Any, context: Any) -> relay_pb2.SendParcelResponse:  # noqa: N802
        """Receive the body of a parcel."""
        identity = caller(context, "party")

        def begin(first: relay_pb2.SendParcelRequest) -> Upload:
            if len(first.spec_digest) != 32 or len(first.header_digest) != 32:
                raise InvalidInput("the first message of an upload names the release and the parcel by their digests")
            return self._relay.begin(identity, first.spec_digest.hex(), first.header_digest.hex())

        with self._revocations.during(identity, context.end):
            digest = await receive(context, request_iterator, begin, ("spec_digest", "header_digest"))
        return relay_pb2.SendParcelResponse(digest=bytes.fromhex(digest))

    def ListParcels(self, request: relay_pb2.ListParcelsRequest, context: Any) -> relay_pb2.ListParcelsResponse:  # noqa: N802
        """List complete parcels."""
        seen = request.after, request.mark
        parcels, last, mark = self._relay.listed(self._caller(context), request.spec_digest.hex(), *seen)
        whole = sum(map(len, parcels)) + MOST_HEADER_BYTES <= PAGE_BYTES
        return relay_pb2.ListParcelsResponse(parcels=parcels, last=last, whole=whole, mark=mark)

    def FetchShortParcels(  # noqa: N802
        self, request: relay_pb2.FetchShortParcelsRequest, context: Any
    ) -> relay_pb2.FetchShortParcelsResponse:
        """Hand out short bodies."""
        identity, parcels = self._caller(context), [digest.hex() for digest in request.header_digests]
        with on_disk():
            bodies = self._relay.short_bodies(identity, request.spec_digest.hex(), parcels)
        return relay_pb2.FetchShortParcelsResponse(bodies=bodies)

    def FetchParcel(  # type: ignore[override] # noqa: N802 - the answers are encoded already
        self, request: relay_pb2.FetchParcelRequest, context: Any
    ) -> AsyncIterator[bytes]:
        """Stream the body of a parcel."""
        identity = self._caller(context)
        named = (request.spec_digest.hex(), request.header_digest.hex(), request.offset)
        return self._send(context, identity, partial(self._relay.body, identity, *named), request.offset)

    async def AwaitNews(  # noqa: N802
        self, request: release_pb2.AwaitNewsRequest, context: Any
    ) -> release_pb2.AwaitNewsResponse:
        """Wait for parcels. No thread is held."""
        identity = caller(context, "party")
        with self._revocations.during(identity, context.end):
            return release_pb2.AwaitNewsResponse(latest=await self._news.after(identity.name, request.seen))


class PublicServicer(public_pb2_grpc.PublicServiceServicer):
    """For everybody."""

    def __init__(self, shelf: Shelf, streams: OpenStreams) -> None:
        self._shelf = shelf
        self._streams = streams
        self._blocks = OpenFiles()

    async def ListPublished(  # noqa: N802
        self, request: public_pb2.ListPublishedRequest, context: Any
    ) -> public_pb2.ListPublishedResponse:
        """List published releases, from memory."""
        lines, token = self._shelf.page(request.page_size, request.page_token)
        return public_pb2.ListPublishedResponse(releases=map(_line_to_proto, lines), next_page_token=token)

    def GetManifest(self, request: public_pb2.GetManifestRequest, context: Any) -> public_pb2.GetManifestResponse:  # noqa: N802
        """Hand out a manifest."""
        data, signature = self._shelf.signed_manifest(request.spec_digest)
        return public_pb2.GetManifestResponse(manifest=data, signature=signature)

    def DownloadBlock(  # type: ignore[override] # noqa: N802 - the answers are encoded already
        self, request: public_pb2.DownloadBlockRequest, context: Any
    ) -> AsyncIterator[bytes]:
        """Stream a block."""
        key = BlockKey(request.spec_digest.hex(), request.party, request.sequence)
        opened = partial(self._blocks.get, context, self._shelf.block, key, request.offset)
        return stream_chunks(context, opened, request.offset, self._streams.__len__)


def _line_to_proto(line: Listed) -> public_pb2.PublishedRelease:
    return public_pb2.PublishedRelease(
        spec_digest=bytes.fromhex(line.digest),
        title=line.title,
        published=line.published,
        rows=line.rows,
        columns=line.columns,
        size=line.size,
        checkpoint=None if line.checkpoint is None else _checkpoint_to_proto(line.checkpoint),
    )


def _checkpoint_to_proto(found: Checkpoint) -> public_pb2.Checkpoint:
    return public_pb2.Checkpoint(stream=bytes.fromhex(found.stream), number=found.number, last=found.last or 0)
