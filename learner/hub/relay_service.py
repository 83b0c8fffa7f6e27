"""The relay's servicer: decode, call, encode. Errors become statuses at the boundary."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any

from dprelease.errors import InvalidInput
from dprelease.identity.certificates import Identity
from dprelease.wire.call import caller
from dprelease.wire.chunks import stream_chunks
from dprelease.wire.limits import OpenStreams
from dprelease.wire.news import News
from dprelease.wire.v1 import relay_pb2, relay_pb2_grpc, release_pb2
from learner.hub.disk import on_disk
from learner.hub.relay import Relay
from learner.hub.revocation import Revocations
from learner.hub.service import receive
from learner.hub.uploads import Upload


class RelayServicer(relay_pb2_grpc.RelayServiceServicer):
    """For parties, over mutual TLS.

    Args:
        relay: the post office.
        revocations: whom the hub no longer listens to.
        streams: uploads and downloads that are under way.
        news: of parcels, for parties by name.
    """

    def __init__(self, relay: Relay, revocations: Revocations, streams: OpenStreams, news: News) -> None:
        self._relay = relay
        self._revocations = revocations
        self._streams = streams
        self._news = news

    def OpenParcel(self, request: relay_pb2.OpenParcelRequest, context: Any) -> relay_pb2.OpenParcelResponse:  # noqa: N802
        """Announce a parcel."""
        return relay_pb2.OpenParcelResponse(offset=self._relay.open_parcel(self._caller(context), request.parcel))

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
        parcels, last = self._relay.listed(self._caller(context), request.spec_digest.hex(), request.after)
        return relay_pb2.ListParcelsResponse(parcels=parcels, last=last)

    async def FetchParcel(  # type: ignore[override] # noqa: N802 - the answers are encoded already
        self, request: relay_pb2.FetchParcelRequest, context: Any
    ) -> AsyncIterator[bytes]:
        """Stream the body of a parcel."""
        identity = self._caller(context)
        named = (request.spec_digest.hex(), request.header_digest.hex(), request.offset)
        find = partial(self._relay.body, identity, *named)
        with self._revocations.during(identity, context.end), on_disk():
            async with aclosing(stream_chunks(context, find, request.offset, self._streams.__len__)) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def AwaitNews(  # noqa: N802
        self, request: release_pb2.AwaitNewsRequest, context: Any
    ) -> release_pb2.AwaitNewsResponse:
        """Wait for parcels. No thread is held."""
        identity = caller(context, "party")
        with self._revocations.during(identity, context.end):
            return release_pb2.AwaitNewsResponse(latest=await self._news.after(identity.name, request.seen))

    def _caller(self, context: Any) -> Identity:
        identity = caller(context, "party")
        self._revocations.check(identity)
        return identity
