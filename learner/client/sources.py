"""Places to ask: a consortium's hub and its mirrors, one after the other until one can answer.

Bytes come from a mirror first: they verify themselves, mirrors are many, and the hub has one listener for everybody. Lists
come from the hub first: nothing shows that a list is complete, and the hub knows the newest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Protocol, TypeVar

from dprelease.errors import DpReleaseError, InvalidInput
from dprelease.release.manifest import Manifest
from learner.client.download import Patience, Source, signed_manifest
from learner.client.hub_client import PublicHub
from learner.client.mirror import Mirror
from learner.client.pinned_roots import Trusted
from learner.listing import Listed

Answer = TypeVar("Answer")


class ListingSource(Source, Protocol):
    """A source that can list; `learner.client.hub_client.PublicHub` and `learner.client.mirror.Mirror` are two."""

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
