"""Places to ask: a consortium's hub and its mirrors, one after the other until one can answer.

Bytes come from a mirror first: they verify themselves, mirrors are many, and the hub has one listener for everybody. Lists
come from the hub first: nothing shows that a list is complete, and the hub knows the newest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Protocol, Self, TypeVar

import grpc
from pydantic import ValidationError

from dprelease.errors import DpReleaseError, IntegrityError, InvalidInput
from dprelease.release.manifest import Manifest
from dprelease.release.spec import BlockKey
from dprelease.release.stream import Checkpoint
from dprelease.wire.boundary import VERSION, ask, translated
from dprelease.wire.chunks import received
from dprelease.wire.transport import Credentials, connect
from dprelease.wire.v1 import public_pb2, public_pb2_grpc
from learner.client.download import Patience, Source, signed_manifest
from learner.client.mirror import Mirror
from learner.client.pinned_roots import Trusted
from learner.listing import Listed

Answer = TypeVar("Answer")


class ListingSource(Source, Protocol):
    """A source that can list; `learner.client.sources.PublicHub` and `learner.client.mirror.Mirror` are two."""

    def releases(self) -> Iterator[Listed]:
        """Lines for people to choose from, unsigned, newest first."""
        ...


@dataclass(frozen=True)
class SourceAddress:
    """Where to ask."""

    name: str
    dial: Callable[[], AbstractContextManager[ListingSource]]


def mirrors_first(consortium: Trusted) -> tuple[SourceAddress, ...]:
    """Places to ask for bytes."""
    return (*_mirrors(consortium), *_hub(consortium))


def hub_first(consortium: Trusted) -> tuple[SourceAddress, ...]:
    """Places to ask what there is."""
    return (*_hub(consortium), *_mirrors(consortium))


def answered(
    places: Sequence[SourceAddress], question: Callable[[ListingSource], Answer], tell: Callable[[str], None]
) -> Answer:
    """Answer of the first place that can give one.

    Args:
        places: one or more, in order.
        question: put to one after the other, from its beginning.
        tell: gets one line for each place that could not answer.

    Raises:
        InvalidInput: the question cannot be answered anywhere.
        DpReleaseError: what the last place failed with.
    """
    for place, following in pairwise(places):
        try:
            with place.dial() as source:
                return question(source)
        except InvalidInput:
            raise
        except DpReleaseError as error:
            tell(f"{place.name} cannot serve this ({error.message}); asking {following.name} instead")
    with places[-1].dial() as source:
        return question(source)


def signed_manifests(
    source: ListingSource, consortium: Trusted, patience: Patience | None = None
) -> Iterator[Manifest]:
    """Every manifest that a hub or mirror lists, each checked against the pinned root.

    Raises:
        IntegrityError: one does not verify, or is not the one that the list names.
        PeerUnavailable: the source is away.
    """
    for line in source.releases():
        yield signed_manifest(source, consortium, line.digest, patience)


def _hub(consortium: Trusted) -> tuple[SourceAddress, ...]:
    return (SourceAddress("the hub", partial(PublicHub.dial, consortium)),) if consortium.hub else ()


def _mirrors(consortium: Trusted) -> tuple[SourceAddress, ...]:
    return tuple(SourceAddress(f"the mirror {url}", partial(Mirror.dial, url)) for url in consortium.mirrors)


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
