"""Fixtures: one minted consortium for all tests, a coordinator and a hub of its own for each."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest

from dprelease.release.folder import ReleaseFolder
from dprelease.wire.retry import Backoff
from dprelease.wire.transport import connect
from learner.client.pinned_roots import Trusted
from learner.hub.publish import Signer
from learner.hub.server import Hub
from learner.hub.storage import Storage
from tests.learner.commands import Run, runner
from tests.learner.parcels import THREE_PARTIES, Hospitals, Office
from tests.learner.world import CONSORTIUM, FakeCoordinator, Sealed, World, stored
from tests.support.certificates import Member
from tests.support.chains import chains

QUICK = Backoff(first_seconds=0.01, longest_seconds=0.05)


@pytest.fixture(scope="module", autouse=True)
def short_chains() -> Iterator[None]:
    """Commands print what a fit says, whatever it says."""
    with chains(20, 10):
        yield


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("consortium"))


@pytest.fixture(scope="session")
def sealed(world: World) -> Sealed:
    return world.sealed()


@pytest.fixture(scope="session")
def trio(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("three"), THREE_PARTIES)


@pytest.fixture(scope="session")
def joint(trio: World) -> Sealed:
    return trio.sealed(mechanism="moments")


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    made = Storage(tmp_path / "storage", 1 << 30)
    yield made
    made.close()


@pytest.fixture
def office(storage: Storage, trio: World, joint: Sealed) -> Office:
    return Office(storage, trio, joint)


@pytest.fixture
def make(office: Office) -> Hospitals:
    return office.hospitals


@pytest.fixture
def signer(world: World) -> Signer:
    return Signer(world.hub.key, world.hub.certificate, world.root.certificate)


@pytest.fixture(scope="session")
def folder(world: World, sealed: Sealed, tmp_path_factory: pytest.TempPathFactory) -> ReleaseFolder:
    return stored(tmp_path_factory.mktemp("published"), world, sealed)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a module's releases lie, and who reads them has a home."""
    return tmp_path_factory.mktemp("place")


@pytest.fixture
def run(place: Path) -> Run:
    """Commands of who reads them."""
    return runner(place / "home")


@pytest.fixture
def trusted(world: World) -> Trusted:
    return Trusted(name=CONSORTIUM, hub="localhost:1", root=world.root.certificate)


@pytest.fixture
def coordinator(world: World) -> Iterator[FakeCoordinator]:
    fake = FakeCoordinator()
    listener = fake.serve(world.credentials(world.coordinator))
    fake.address = f"localhost:{listener.port}"
    yield fake
    listener.stop()


@pytest.fixture
def start_hub(world: World, coordinator: FakeCoordinator, tmp_path: Path) -> Iterator[Callable[..., Hub]]:
    """Start a hub; starting another on the same storage stops the one before, as a restart does."""
    with ExitStack() as running:

        def start(**settings: Any) -> Hub:
            running.close()
            made = world.settings(tmp_path / "storage", settings.pop("coordinator", coordinator.address), **settings)
            return running.enter_context(Hub(made, QUICK))

        yield start


@pytest.fixture
def dial(world: World) -> Iterator[Callable[[int, Member | None], grpc.Channel]]:
    with ExitStack() as open_channels:

        def open_channel(port: int, member: Member | None = None) -> grpc.Channel:
            return open_channels.enter_context(connect(f"localhost:{port}", world.credentials(member)))

        yield open_channel
