"""Calls that a hub offers to everybody, as the client sees it. Nothing here is believed before it is verified."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

import grpc
from pydantic import ValidationError

from dprelease.errors import IntegrityError, InvalidInput
from dprelease.release.stream import Checkpoint
from dprelease.sequence import BlockKey
from dprelease.wire.boundary import VERSION, ask, translated
from dprelease.wire.chunks import received
from dprelease.wire.transport import Credentials, connect
from dprelease.wire.v1 import public_pb2, public_pb2_grpc
from learner.client.pinned_roots import Trusted
from learner.listing import Listed

PEER = "the hub"
MOST_RELEASES = 100_000
"""Releases beyond which a list is not believed to end."""


class PublicHub:
    """Calls to a hub's public listener."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._stub = public_pb2_grpc.PublicServiceStub(channel)

    @classmethod
    @contextmanager
    def dial(cls, consortium: Trusted) -> Iterator[Self]:
        """A connection to the consortium's hub, whose certificate must chain to the pinned root.

        Raises:
            InvalidInput: its address is not known.
        """
        if consortium.hub is None:
            raise InvalidInput(f"no hub of {consortium.name} is known; add it with learner trust add --hub HOST:PORT")
        with connect(consortium.hub, Credentials(consortium.root.encode())) as channel:
            yield cls(channel)

    def releases(self, page_size: int = 100) -> Iterator[Listed]:
        """All published releases, newest first.

        Raises:
            IntegrityError: the list does not end.
        """
        token, count = "", 0
        while True:
            request = public_pb2.ListPublishedRequest(page_size=page_size, page_token=token)
            page = ask(PEER, self._stub.ListPublished, request)
            for line in page.releases:
                yield _listed(line)
            count += len(page.releases)
            token = page.next_page_token
            if not token:
                return
            if not page.releases or count > MOST_RELEASES:
                raise IntegrityError("the hub's list of releases does not end")

    def manifest(self, prefix: str) -> tuple[bytes, str]:
        """Manifest and signature of the release whose digest starts with these hexadecimal digits, unchecked."""
        request = public_pb2.GetManifestRequest(spec_digest=bytes.fromhex(prefix))
        answer = ask(PEER, self._stub.GetManifest, request)
        return answer.manifest, answer.signature

    def block(self, key: BlockKey, offset: int, size: int) -> Iterator[bytes]:
        """The bytes of a block of this size from an offset on.

        Raises:
            IntegrityError: a chunk is not the next one, or is damaged.
            PeerUnavailable: the hub is away, or too little came for too long; go on from the last byte.
        """
        request = public_pb2.DownloadBlockRequest(
            spec_digest=bytes.fromhex(key.release), party=key.party, sequence=key.sequence, offset=offset
        )
        with translated(PEER):
            yield from received(self._stub.DownloadBlock(request, metadata=VERSION), offset, size)


def _listed(line: public_pb2.PublishedRelease) -> Listed:
    at = line.checkpoint
    try:
        place = Checkpoint(stream=at.stream.hex(), number=at.number, last=at.last or None) if at.number else None
    except ValidationError as error:
        raise IntegrityError("the hub's list has a checkpoint of no stream") from error
    return Listed(line.spec_digest.hex(), line.title, line.published, line.rows, line.columns, line.size, place)
