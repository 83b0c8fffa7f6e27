"""A revoked party: its uploads are cut while they run, its blocks are not published, and nobody else is disturbed."""

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from dprelease.errors import AccessDenied, Conflict, DpReleaseError, IntegrityError, PeerUnavailable
from dprelease.identity.certificates import read_identity
from dprelease.wire.boundary import VERSION, translated
from dprelease.wire.transport import connect
from dprelease.wire.v1 import intake_pb2, intake_pb2_grpc, public_pb2, public_pb2_grpc, release_pb2
from learner.hub.publish import Signer, Upkeep, advance
from learner.hub.revocation import Revocations
from learner.hub.server import Hub
from learner.hub.storage import Storage
from tests.learner.test_publish import Office
from tests.learner.world import PATIENCE_SECONDS, FakeCoordinator, Sealed, World, eventually, fill, pieces, requests
from tests.support.certificates import mint

LOOKS_OFTEN = {"limits": {"stop_seconds": 0.0, "revocation_seconds": 0.02}}
LOOKS_RARELY = {"limits": {"stop_seconds": 0.0, "revocation_seconds": 3600.0}}


class Upload:
    """A party's upload that goes on when the test says so."""

    def __init__(self, channel: grpc.Channel, sealed: Sealed, party: str) -> None:
        self.stub = intake_pb2_grpc.IntakeServiceStub(channel)
        self.sealed, self.party = sealed, party
        self.taken = threading.Event()
        self.go_on = threading.Event()
        self._pool = ThreadPoolExecutor(1)

    def open(self) -> int:
        request = intake_pb2.OpenBlockRequest(sealed=self.sealed.identities[self.party].to_bytes())
        with translated("the hub"):
            return self.stub.OpenBlock(request, timeout=PATIENCE_SECONDS, metadata=VERSION).offset

    def _halting(self) -> Iterator[Any]:
        messages = list(requests(self.sealed.digest, pieces(self.sealed.blocks[self.party])))
        yield from messages[: len(messages) // 2]
        self.taken.set()
        self.go_on.wait(PATIENCE_SECONDS)
        yield from messages[len(messages) // 2 :]

    def _send(self) -> str:
        with translated("the hub"):
            return self.stub.SendBlock(self._halting(), timeout=PATIENCE_SECONDS, metadata=VERSION).digest.hex()

    def begin(self) -> Any:
        """Send the first half and halt; the outcome is what comes of it."""
        assert self.open() == 0
        outcome = self._pool.submit(self._send)
        assert self.taken.wait(PATIENCE_SECONDS)
        return outcome

    def end(self) -> None:
        self.go_on.set()
        self._pool.shutdown()


@pytest.fixture
def upload(world: World, sealed: Sealed) -> Iterator[Callable[..., Upload]]:
    with ExitStack() as opened:

        def make(hub: Hub, party: str, release: Sealed = sealed) -> Upload:
            channel = opened.enter_context(
                connect(f"localhost:{hub.party_port}", world.credentials(world.parties[party]))
            )
            made = Upload(channel, release, party)
            opened.callback(made.end)
            return made

        yield make


def key_of(world: World, party: str) -> str:
    return world.parties[party].identity.fingerprint


def listed(world: World, hub: Hub) -> int:
    with connect(f"localhost:{hub.public_port}", world.credentials(None)) as channel:
        stub = public_pb2_grpc.PublicServiceStub(channel)
        answer = stub.ListPublished(public_pb2.ListPublishedRequest(), timeout=PATIENCE_SECONDS, metadata=VERSION)
        return len(answer.releases)


def test_an_upload_under_way_is_cut_and_the_other_partys_is_not(
    start_hub: Callable[..., Hub],
    upload: Callable[..., Upload],
    coordinator: FakeCoordinator,
    world: World,
    sealed: Sealed,
    tmp_path: Path,
) -> None:
    other = world.sealed("of south alone, for this test")
    coordinator.offer(sealed)
    coordinator.offer(other)
    hub = start_hub(**LOOKS_OFTEN)
    north, south = upload(hub, "north"), upload(hub, "south", other)
    cut, goes_on = north.begin(), south.begin()
    coordinator.revoked.add(key_of(world, "north"))
    coordinator.offer(sealed, release_pb2.RELEASE_STATE_FAILED)  # as the office's own revocation does
    with pytest.raises(AccessDenied):  # although it is the party that keeps everybody waiting
        cut.result(PATIENCE_SECONDS)
    assert not north.go_on.is_set()
    south.go_on.set()
    assert goes_on.result(PATIENCE_SECONDS) == other.identities["south"].sha256
    with pytest.raises(AccessDenied):
        north.open()
    eventually(lambda: not (tmp_path / "storage" / "staging" / sealed.digest).exists())
    assert listed(world, hub) == 0
    assert coordinator.named("AuthorizePublication") == []


def test_a_block_is_not_taken_note_of_before_the_coordinator_was_asked(
    start_hub: Callable[..., Hub],
    upload: Callable[..., Upload],
    coordinator: FakeCoordinator,
    world: World,
    sealed: Sealed,
    tmp_path: Path,
) -> None:
    coordinator.offer(sealed)
    hub = start_hub(**LOOKS_RARELY)
    coordinator.wait(lambda: coordinator.looks == 1)
    coordinator.revoked.add(key_of(world, "north"))
    with pytest.raises(AccessDenied):
        upload(hub, "north").open()
    assert upload(hub, "south").open() == 0
    coordinator.away.add("ListRevoked")
    with pytest.raises(PeerUnavailable):  # it cannot know, so it does not take anything
        upload(hub, "south").open()
    assert [path.name for path in (tmp_path / "storage").rglob("*.sealed.json")] == ["south.0.sealed.json"]


def test_a_send_without_an_open_is_refused_too(
    start_hub: Callable[..., Hub],
    upload: Callable[..., Upload],
    coordinator: FakeCoordinator,
    world: World,
    sealed: Sealed,
) -> None:
    coordinator.offer(sealed)
    hub = start_hub(**LOOKS_RARELY)
    north = upload(hub, "north")
    assert north.open() == 0
    coordinator.revoked.add(key_of(world, "north"))
    upload(hub, "south").open()  # the hub learns of it on somebody else's call
    with pytest.raises(AccessDenied), translated("the hub"):
        north.stub.SendBlock(
            requests(sealed.digest, pieces(sealed.blocks["north"])), timeout=PATIENCE_SECONDS, metadata=VERSION
        )


def test_a_complete_release_with_a_revoked_key_is_not_published(
    storage: Storage, signer: Signer, world: World, sealed: Sealed
) -> None:
    office = Office()
    office.revoked_keys = frozenset({key_of(world, "south")})
    fill(storage, world, sealed)
    with pytest.raises(Conflict, match="the key of south was revoked"):
        advance(storage, office, signer, sealed.digest, datetime.now(UTC))  # type: ignore[arg-type]
    assert "authorize" not in office.calls
    assert storage.published(sealed.digest) is None
    office.revoked_keys = frozenset({"0" * 64})
    assert advance(storage, office, signer, sealed.digest, datetime.now(UTC))  # type: ignore[arg-type]


class Asked:
    """Answers to `look`, one after the other."""

    def __init__(self, *answers: frozenset[str] | DpReleaseError) -> None:
        self.answers = list(answers)

    def __call__(self) -> frozenset[str]:
        answer = self.answers.pop(0)
        if isinstance(answer, DpReleaseError):
            raise answer
        return answer


def test_trouble_with_asking_changes_nothing_that_is_known(world: World) -> None:
    identity = world.parties["north"].identity
    grown: list[int] = []
    asked = Asked(frozenset({identity.fingerprint}), PeerUnavailable("away"), frozenset())
    revocations = Revocations(asked, lambda: datetime.now(UTC), lambda: grown.append(1))
    revocations.check(identity)
    revocations.refresh()
    assert grown == [1]
    with pytest.raises(PeerUnavailable):
        revocations.refresh()
    for _ in range(2):
        with pytest.raises(AccessDenied), revocations.during(identity, lambda error: None):
            pass
    revocations.refresh()  # it enrolled again
    with revocations.during(identity, lambda error: None):
        pass
    assert grown == [1]


def test_a_look_that_began_before_a_party_came_is_none_of_its_own(world: World) -> None:
    identity = world.parties["north"].identity
    looking, go_on = threading.Event(), threading.Event()
    looks: list[frozenset[str]] = []

    def ask() -> frozenset[str]:
        looks.append(frozenset({identity.fingerprint}) if looks else frozenset())
        looking.set()
        assert go_on.wait(PATIENCE_SECONDS)
        return looks[-1]

    revocations = Revocations(ask, lambda: datetime.now(UTC), lambda: None)
    with ThreadPoolExecutor(9) as pool:
        early = pool.submit(revocations.refresh)
        assert looking.wait(PATIENCE_SECONDS)
        late = [pool.submit(revocations.refresh) for _ in range(8)]
        go_on.set()
        for each in (early, *late):
            each.result(PATIENCE_SECONDS)
    assert 2 <= len(looks) <= 9
    with pytest.raises(AccessDenied):
        revocations.check(identity)


class Queue:
    """A lock that counts who came to it."""

    def __init__(self) -> None:
        self.came = 0
        self._counting, self._lock = threading.Lock(), threading.Lock()

    def __enter__(self) -> None:
        with self._counting:
            self.came += 1
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_all_who_wait_share_a_look_that_fails_too() -> None:
    """Else each would wait, in turn, until the coordinator's silence has lasted too long, and hold a thread."""
    looking, go_on, queue = threading.Event(), threading.Event(), Queue()
    looks: list[int] = []

    def ask() -> frozenset[str]:
        looks.append(1)
        looking.set()
        assert go_on.wait(PATIENCE_SECONDS)
        raise PeerUnavailable("it did not answer in time", peer="the coordinator")

    revocations = Revocations(ask, lambda: datetime.now(UTC), lambda: None)
    revocations._asking = queue  # type: ignore[assignment]
    with ThreadPoolExecutor(9) as pool:
        early = pool.submit(revocations.refresh)
        assert looking.wait(PATIENCE_SECONDS)
        late = [pool.submit(revocations.refresh) for _ in range(8)]
        eventually(lambda: queue.came == 9)
        go_on.set()
        for each in (early, *late):
            with pytest.raises(PeerUnavailable, match="did not answer in time"):
                each.result(PATIENCE_SECONDS)
    assert len(looks) == 2


def test_a_certificate_that_ended_on_an_old_connection_counts_no_more(world: World) -> None:
    identity = read_identity(mint("north", "party", world.root, days=1).certificate)
    now = datetime.now(UTC)
    Revocations(Asked(), lambda: now, lambda: None).check(identity)
    with pytest.raises(AccessDenied, match="expired"):
        Revocations(Asked(), lambda: now + timedelta(days=2), lambda: None).check(identity)


def test_one_duty_in_trouble_keeps_no_other_from_being_done(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    def troubled() -> None:
        done.append("troubled")
        raise PeerUnavailable("the coordinator is away")

    def broken() -> None:
        raise ZeroDivisionError

    upkeep = Upkeep([troubled, broken, lambda: done.append("other")], 3600.0)
    for _ in range(3):
        upkeep.round()
    assert done == ["troubled", "other"] * 3
    assert caplog.text.count("the coordinator is away") == 1  # told once, not every few seconds


def test_the_end_of_trouble_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="learner")
    first, again = (PeerUnavailable(f"the coordinator: {how}", peer="the coordinator") for how in ("closed", "nobody"))
    refused = PeerUnavailable("the coordinator does not accept this hub")
    one, other = IntegrityError("a certificate: too late"), IntegrityError("a certificate: of another root")
    troubles = [first, again, refused, one, other, None, None]

    def asked() -> None:
        error = troubles.pop(0)
        if error is not None:
            raise error

    upkeep = Upkeep([asked], 3600.0)
    while troubles:
        upkeep.round()
    told = [error.message for error in (first, refused, one, other)]
    assert caplog.messages == [*told, f"in order again: {other.message}"]
