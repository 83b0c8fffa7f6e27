"""A real hub, with parties, learners and a coordinator that a test drives over real TLS."""

from collections.abc import Callable, Iterable

import pytest

from dprelease.wire.v1 import release_pb2
from learner.hub.server import Hub
from tests.learner.conftest import (
    coordinator,
    dial,
    folder,
    joint,
    sealed,
    signer,
    start_hub,
    storage,
    trio,
    trusted,
    world,
)
from tests.learner.test_hub import Dial, Party, Public, Start
from tests.learner.world import PARTIES, FakeCoordinator, Sealed, World

__all__ = [
    "coordinator",
    "dial",
    "folder",
    "joint",
    "sealed",
    "signer",
    "start_hub",
    "storage",
    "trio",
    "trusted",
    "world",
]


@pytest.fixture
def hub(start_hub: Start, coordinator: FakeCoordinator, sealed: Sealed) -> Hub:
    """A running hub, and a release that every party approved."""
    coordinator.offer(sealed)
    return start_hub()


@pytest.fixture
def north(hub: Hub, dial: Dial, world: World, sealed: Sealed) -> Party:
    return Party(dial(hub.party_port, world.parties["north"]), sealed, "north")


@pytest.fixture
def check(hub: Hub, dial: Dial, world: World, coordinator: FakeCoordinator, sealed: Sealed) -> Callable[[], None]:
    """Nothing is public yet; then the honest parties bring their blocks, and exactly that is published."""

    def honest() -> None:
        public = Public(dial(hub.public_port))
        assert list(public.list().releases) == []
        assert coordinator.named("AuthorizePublication") == []
        for name in PARTIES:
            party = Party(dial(hub.party_port, world.parties[name]), sealed, name)
            if party.open() < len(party.block):
                party.upload()
        coordinator.wait(lambda: bool(coordinator.named("ReportPublication")))
        digest = bytes.fromhex(sealed.digest)
        blocks = {name: _joined(public.download(digest, name)) for name in PARTIES}
        assert blocks == sealed.blocks

    return honest


def _joined(chunks: Iterable[release_pb2.Chunk]) -> bytes:
    return b"".join(piece.data for piece in chunks)
