"""Stores, offices and a running world. The store is SQLite in a file and, where there is a server, PostgreSQL."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url

from coordinator.clock import utc_now
from coordinator.service import dealer as dealing
from coordinator.settings import CoordinatorSettings
from coordinator.store.agreements import Agreement
from coordinator.store.store import Store
from dprelease.files.settings import read_settings
from dprelease.wire.transport import Credentials
from learner.hub.server import Hub
from learner.hub.settings import HubSettings
from tests.coordinator.office import STUDY, Clock, Office, founded, two_hospitals
from tests.coordinator.sessions import Desk, Offers, Slow, approved
from tests.coordinator.world import Stub, World, report
from tests.support.postgres import Cluster

POSTGRES = "DPRELEASE_TEST_POSTGRES_URL"
"""Names an empty database that tests may use instead of a server of their own."""


@pytest.fixture(scope="session")
def shared_database(request: pytest.FixtureRequest) -> str:
    """URL of a PostgreSQL database for tests that come one after another: to make one takes longer than to empty it."""
    pytest.importorskip("psycopg", reason="pip install 'dprelease[postgresql]'")
    url = os.environ.get(POSTGRES)
    if url is None:
        cluster: Cluster = request.getfixturevalue("postgres")
        return cluster.database()
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty database, for tests that hold on every kind of database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'coordinator.sqlite'}"
    url: str = request.getfixturevalue("shared_database")
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    engine.dispose()
    return url


@pytest.fixture
def any_store(database_url: str) -> Iterator[Store]:
    """An empty store on either database."""
    store = Store.create(database_url, "Trio", epsilon=3.0, delta=1e-6)
    yield store
    store.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store on SQLite."""
    store = Store.create(f"sqlite:///{tmp_path / 'coordinator.sqlite'}", "Trio", epsilon=3.0, delta=1e-6)
    yield store
    store.close()


@pytest.fixture
def office(store: Store) -> Office:
    """Two hospitals, enrolled, with catalogues."""
    return two_hospitals(store)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A founded folder that COORDINATOR_CONFIG points at, as commands want it."""
    made = founded(tmp_path / "office", datetime.now(UTC), hosts=("localhost",), port=0, enrol_port=0)
    monkeypatch.setenv("COORDINATOR_CONFIG", str(made.settings))
    return made.settings.parent


@pytest.fixture
def opened(home: Path) -> Iterator[Office]:
    """North and south in this folder's store, enrolled at the present time."""
    store, now = Store.open(read_settings(home / "coordinator.toml", CoordinatorSettings).database), utc_now()
    yield two_hospitals(store, now)
    store.close()


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """The usual request as a file."""
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


@contextmanager
def serving(home: Path, **plan: object) -> Iterator[World]:
    """A founded consortium whose coordinator runs on free ports."""
    now = datetime.now(UTC).replace(microsecond=0)
    made = founded(home, now, **plan)
    settings = read_settings(made.settings, CoordinatorSettings)
    settings = settings.model_copy(update={"listen": "127.0.0.1:0", "listen_enrolment": "127.0.0.1:0"})
    files = [(made.hub / name).read_bytes() for name in ("root.pem", "hub.pem", "hub.key")]
    world = World(settings, Clock(now), Credentials(*files))
    world.start()
    yield world
    world.opened.close()
    world.stop()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with serving(tmp_path / "office") as world:
        yield world


@pytest.fixture
def hub(world: World, tmp_path: Path) -> Iterator[Hub]:
    assert world.server is not None
    folder = world.settings.certificate.parent / "hub"
    settings = {
        "consortium": "Trio",
        "storage": tmp_path / "storage",
        "listen_parties": "localhost:0",
        "listen_public": "localhost:0",
        "coordinator": f"localhost:{world.server.port}",
        "limits": {"stop_seconds": 0.0, "revocation_seconds": 0.05},
        **{key: folder / file for key, file in (("root", "root.pem"), ("certificate", "hub.pem"), ("key", "hub.key"))},
    }
    with Hub(HubSettings.model_validate(settings)) as running:
        yield running


@pytest.fixture
def two(world: World) -> tuple[Stub, Stub]:
    """North and south, enrolled over the wire, with catalogues."""
    north, south = world.join("north"), world.join("south")
    report(north, "north")
    report(south, "south")
    return north, south


@pytest.fixture
def desk(office: Office) -> Desk:
    """North and south, and a coordinator that deals."""
    return Desk(office)


@pytest.fixture
def release(desk: Desk) -> Agreement:
    """Joint moments of both, approved."""
    return approved(desk.office)


@pytest.fixture
def offers(desk: Desk, release: Agreement) -> Offers:
    """The first round of that release."""
    return Offers.of(release.read_spec(), desk.office.keys)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    """Dealing takes until `go` is set."""
    slow = Slow()
    monkeypatch.setattr(dealing, "deal", slow)
    yield slow
    slow.go.set()
