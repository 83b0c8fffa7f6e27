"""Thin servicers: decode, call, encode. Errors become statuses at the boundary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, cast

import grpc

from dprelease.certificates import Identity
from dprelease.errors import InvalidInput, PeerUnavailable
from dprelease.wire.boundary import caller
from dprelease.wire.chunks import read_chunks
from dprelease.wire.interrupt import Interruptible
from dprelease.wire.progress import ProgressDeadline
from dprelease.wire.v1 import intake_pb2, intake_pb2_grpc, public_pb2, public_pb2_grpc, release_pb2
from learner.hub.intake import Intake
from learner.hub.revocation import Revocations
from learner.hub.shelf import Shelf
from learner.listing import Listed

Context = grpc.ServicerContext


class IntakeServicer(intake_pb2_grpc.IntakeServiceServicer):
    """For parties, over mutual TLS.

    Args:
        intake: the door.
        revocations: whom the hub no longer listens to.
        stall_seconds: longest stand-still of an upload.
    """

    def __init__(self, intake: Intake, revocations: Revocations, stall_seconds: float) -> None:
        self._intake = intake
        self._revocations = revocations
        self._stall_seconds = stall_seconds

    def OpenBlock(self, request: intake_pb2.OpenBlockRequest, context: Any) -> intake_pb2.OpenBlockResponse:  # noqa: N802
        """Announce a block."""
        identity = caller(context, "party")
        self._revocations.look()
        self._revocations.check(identity)
        certificate = cast(bytes, context.auth_context()["x509_pem_cert"][0]).decode()
        return intake_pb2.OpenBlockResponse(offset=self._intake.open_block(identity, certificate, request.sealed))

    def SendBlock(self, request_iterator: Any, context: Any) -> intake_pb2.SendBlockResponse:  # noqa: N802
        """Receive a block."""
        identity = caller(context, "party")
        requests: Interruptible[intake_pb2.SendBlockRequest] = Interruptible(request_iterator)
        with requests, watched(identity, requests, self._revocations, self._stall_seconds) as deadline:
            first = next(requests, None)
            if first is None or len(first.spec_digest) != 32:
                raise InvalidInput("the first message of an upload names the release by its digest")

            def chunks() -> Iterator[release_pb2.Chunk]:
                for request in chain([first], requests):
                    deadline.moved()
                    if request.spec_digest not in (b"", first.spec_digest):
                        raise InvalidInput("one upload carries one block")
                    yield request.chunk

            digest = self._intake.receive(identity, first.spec_digest.hex(), chunks())
        return intake_pb2.SendBlockResponse(digest=bytes.fromhex(digest))


@contextmanager
def watched(
    identity: Identity, requests: Interruptible[Any], revocations: Revocations, stall_seconds: float
) -> Iterator[ProgressDeadline]:
    """An upload that ends, with the reason for an answer, when it stands still or its key is revoked.

    Args:
        identity: who uploads.
        requests: its messages.
        revocations: whom the hub no longer listens to.
        stall_seconds: longest stand-still.
    """
    stalled = PeerUnavailable(f"an upload of {identity.name} stood still for {stall_seconds:g} s")
    with (
        revocations.during(identity, requests.interrupt),
        ProgressDeadline(lambda: requests.interrupt(stalled), stall_seconds) as deadline,
    ):
        yield deadline


class PublicServicer(public_pb2_grpc.PublicServiceServicer):
    """For everybody.

    Args:
        shelf: published releases.
        stall_seconds: longest stand-still of a download.
    """

    def __init__(self, shelf: Shelf, stall_seconds: float) -> None:
        self._shelf = shelf
        self._stall_seconds = stall_seconds

    def ListPublished(  # noqa: N802
        self, request: public_pb2.ListPublishedRequest, context: Any
    ) -> public_pb2.ListPublishedResponse:
        """List published releases."""
        lines, token = self._shelf.page(request.page_size, request.page_token)
        return public_pb2.ListPublishedResponse(releases=map(_line_to_proto, lines), next_page_token=token)

    def GetManifest(self, request: public_pb2.GetManifestRequest, context: Any) -> public_pb2.GetManifestResponse:  # noqa: N802
        """Hand out a manifest."""
        data, signature = self._shelf.signed_manifest(request.spec_digest)
        return public_pb2.GetManifestResponse(manifest=data, signature=signature)

    def DownloadBlock(  # noqa: N802
        self, request: public_pb2.DownloadBlockRequest, context: Any
    ) -> Iterator[public_pb2.DownloadBlockResponse]:
        """Stream a block."""
        path = self._shelf.block(request.spec_digest, request.party, request.offset)
        with ProgressDeadline(context.cancel, self._stall_seconds) as deadline:
            for chunk in read_chunks(path, request.offset):
                yield public_pb2.DownloadBlockResponse(chunk=chunk)
                deadline.moved()


def _line_to_proto(line: Listed) -> public_pb2.PublishedRelease:
    return public_pb2.PublishedRelease(
        spec_digest=bytes.fromhex(line.digest),
        title=line.title,
        published=line.published,
        rows=line.rows,
        columns=line.columns,
        size=line.size,
    )
