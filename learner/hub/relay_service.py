"""The relay's servicer: decode, call, encode. Errors become statuses at the boundary."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from dprelease.certificates import Identity
from dprelease.errors import InvalidInput
from dprelease.wire.boundary import caller
from dprelease.wire.chunks import read_chunks
from dprelease.wire.interrupt import Interruptible
from dprelease.wire.progress import ProgressDeadline
from dprelease.wire.v1 import relay_pb2, relay_pb2_grpc, release_pb2
from learner.hub.disk import on_disk
from learner.hub.relay import Relay
from learner.hub.revocation import Revocations
from learner.hub.service import watched


class RelayServicer(relay_pb2_grpc.RelayServiceServicer):
    """For parties, over mutual TLS.

    Args:
        relay: the post office.
        revocations: whom the hub no longer listens to.
        stall_seconds: longest stand-still of a stream.
    """

    def __init__(self, relay: Relay, revocations: Revocations, stall_seconds: float) -> None:
        self._relay = relay
        self._revocations = revocations
        self._stall_seconds = stall_seconds

    def OpenParcel(self, request: relay_pb2.OpenParcelRequest, context: Any) -> relay_pb2.OpenParcelResponse:  # noqa: N802
        """Announce a parcel."""
        return relay_pb2.OpenParcelResponse(offset=self._relay.open_parcel(self._caller(context), request.parcel))

    def SendParcel(self, request_iterator: Any, context: Any) -> relay_pb2.SendParcelResponse:  # noqa: N802
        """Receive the body of a parcel."""
        identity = caller(context, "party")
        requests: Interruptible[relay_pb2.SendParcelRequest] = Interruptible(request_iterator)
        with requests, watched(identity, requests, self._revocations, self._stall_seconds) as deadline:
            first = next(requests, None)
            if first is None or len(first.spec_digest) != 32 or len(first.header_digest) != 32:
                raise InvalidInput("the first message of an upload names the release and the parcel by their digests")

            def chunks() -> Iterator[release_pb2.Chunk]:
                for request in chain([first], requests):
                    deadline.moved()
                    if request.spec_digest not in (b"", first.spec_digest):
                        raise InvalidInput("one upload belongs to one release")
                    if request.header_digest not in (b"", first.header_digest):
                        raise InvalidInput("one upload carries one parcel")
                    yield request.chunk

            digest = self._relay.receive(identity, first.spec_digest.hex(), first.header_digest.hex(), chunks())
        return relay_pb2.SendParcelResponse(digest=bytes.fromhex(digest))

    def ListParcels(self, request: relay_pb2.ListParcelsRequest, context: Any) -> relay_pb2.ListParcelsResponse:  # noqa: N802
        """List complete parcels."""
        parcels, last = self._relay.listed(self._caller(context), request.spec_digest.hex(), request.after)
        return relay_pb2.ListParcelsResponse(parcels=parcels, last=last)

    def FetchParcel(  # noqa: N802
        self, request: relay_pb2.FetchParcelRequest, context: Any
    ) -> Iterator[relay_pb2.FetchParcelResponse]:
        """Stream the body of a parcel."""
        identity = self._caller(context)
        path = self._relay.body(identity, request.spec_digest.hex(), request.header_digest.hex(), request.offset)
        with (
            self._revocations.during(identity, lambda error: context.cancel()),
            ProgressDeadline(context.cancel, self._stall_seconds) as deadline,
            on_disk(),
        ):
            for chunk in read_chunks(path, request.offset):
                yield relay_pb2.FetchParcelResponse(chunk=chunk)
                deadline.moved()

    def _caller(self, context: Any) -> Identity:
        identity = caller(context, "party")
        self._revocations.check(identity)
        return identity
