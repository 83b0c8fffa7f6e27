"""From complete sets to publications: the order of steps, and a restart between any two of them."""

import errno
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest

from dprelease.canonical import sha256
from dprelease.errors import Conflict, DpReleaseError, IntegrityError, InternalError, PeerUnavailable
from dprelease.wire.retry import Backoff
from learner.hub.publish import Publisher, Signer, advance, prepare
from learner.hub.storage import Storage
from tests.learner.world import PARTIES, Sealed, World, fill
from tests.support.certificates import mint


class Office:
    """A coordinator without a network: writes calls down, fails where it is told to."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.ended: set[str] = set()
        self.known: set[str] = set()
        self.fails: dict[str, DpReleaseError] = {}
        self.before: Callable[[str], None] = lambda name: None
        self.received: tuple[str, ...] = ()
        self.manifests: list[str] = []
        self.revoked_keys: frozenset[str] = frozenset()

    @property
    def stub(self) -> object:
        """It tells no news."""
        raise PeerUnavailable("x")

    def _note(self, name: str) -> None:
        self.before(name)
        if name in self.fails:
            raise self.fails[name]
        self.calls.append(name)

    def has_ended(self, digest: str) -> bool:
        self._note("ended?")
        return digest in self.ended

    def was_published(self, digest: str) -> bool:
        return digest in self.known

    def report_intake(self, digest: str, parties: tuple[str, ...]) -> None:
        self._note("intake")
        self.received = tuple(parties)

    def revoked(self) -> frozenset[str]:
        self._note("revoked?")
        return self.revoked_keys

    def authorize(self, digest: str) -> None:
        self._note("authorize")

    def report_publication(self, digest: str, manifest_digest: str) -> None:
        self._note("published")
        self.manifests.append(manifest_digest)


def step(storage: Storage, office: Office, signer: Signer, sealed: Sealed, now: datetime | None = None) -> bool:
    return advance(storage, office, signer, sealed.digest, now or datetime.now(UTC))  # type: ignore[arg-type]


def visible_manifest(storage: Storage, sealed: Sealed) -> str:
    published = storage.published(sealed.digest)
    assert published is not None
    return sha256(published.signed_manifest()[0])


def test_an_incomplete_set_is_reported_and_waits(
    storage: Storage, signer: Signer, world: World, sealed: Sealed
) -> None:
    office = Office()
    fill(storage, world, sealed, "south")
    assert not step(storage, office, signer, sealed)
    assert office.calls == ["ended?", "intake"]
    assert office.received == ("south",)
    assert storage.published(sealed.digest) is None


def test_a_complete_set_is_verified_authorized_revealed_and_reported(
    storage: Storage, signer: Signer, world: World, sealed: Sealed
) -> None:
    office = Office()
    seen: dict[str, bool] = {}
    office.before = lambda name: seen.update({name: storage.published(sealed.digest) is not None})
    fill(storage, world, sealed)
    assert step(storage, office, signer, sealed)
    assert office.calls == ["ended?", "intake", "revoked?", "authorize", "published"]
    assert office.received == PARTIES
    assert seen == {"ended?": False, "intake": False, "revoked?": False, "authorize": False, "published": True}
    assert office.manifests == [visible_manifest(storage, sealed)]
    assert storage.staged() == ()
    published = storage.published(sealed.digest)
    assert published is not None
    release = published.verify(world.root.certificate)
    assert release.digest == sealed.digest
    assert {party: block.to_bytes() for party, (block,) in release.blocks.items()} == sealed.blocks


@pytest.mark.parametrize("where", ["ended?", "intake", "revoked?", "authorize", "published"])
def test_a_restart_after_any_step_goes_on(
    tmp_path: Path, signer: Signer, world: World, sealed: Sealed, where: str
) -> None:
    office = Office()
    before = Storage(tmp_path, 1 << 30)
    fill(before, world, sealed)
    office.fails = {where: PeerUnavailable("away")}
    with pytest.raises(PeerUnavailable):
        step(before, office, signer, sealed)
    revealed = visible_manifest(before, sealed) if where == "published" else None
    before.close()
    after = Storage(tmp_path, 1 << 30)
    assert after.staged() == (sealed.digest,)
    office.fails = {}
    assert step(after, office, signer, sealed)
    assert revealed in (None, visible_manifest(after, sealed))
    assert office.manifests == [visible_manifest(after, sealed)]
    assert after.staged() == ()
    after.close()


def test_a_refused_publication_stays_invisible_and_is_dropped_once_it_is_over(
    storage: Storage, signer: Signer, world: World, sealed: Sealed
) -> None:
    office = Office()
    fill(storage, world, sealed)
    office.fails = {"authorize": Conflict("cancelled")}
    with pytest.raises(Conflict):
        step(storage, office, signer, sealed)
    assert storage.published(sealed.digest) is None
    assert storage.staged() == (sealed.digest,)
    office.ended = {sealed.digest}
    assert step(storage, office, signer, sealed)
    assert storage.staged() == ()
    assert storage.published(sealed.digest) is None


def test_damaged_blocks_are_never_authorized_nor_published(
    storage: Storage, signer: Signer, world: World, sealed: Sealed
) -> None:
    office = Office()
    fill(storage, world, sealed)
    path = storage.release(sealed.digest).block("south")
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    with pytest.raises(IntegrityError, match="south"):
        step(storage, office, signer, sealed)
    assert "authorize" not in office.calls
    assert storage.published(sealed.digest) is None


def test_a_manifest_that_would_not_verify_is_never_published(
    storage: Storage, signer: Signer, world: World, sealed: Sealed
) -> None:
    office = Office()
    fill(storage, world, sealed)
    expired = datetime.now(UTC) + timedelta(days=365)
    other_root = mint("trial", None)
    for wrong, now in (
        (Signer(mint("hub", "hub", world.root).key, signer.certificate, signer.root_pem), None),
        (Signer(signer.key, mint("hub", "hub", other_root, key=signer.key).certificate, signer.root_pem), None),
        (Signer(signer.key, mint("hub", "party", world.root, key=signer.key).certificate, signer.root_pem), None),
        (signer, expired),
    ):
        with pytest.raises(IntegrityError):
            step(storage, office, wrong, sealed, now)
        assert storage.published(sealed.digest) is None
    assert "authorize" not in office.calls


def test_preparing_an_incomplete_set_is_refused(storage: Storage, signer: Signer, world: World, sealed: Sealed) -> None:
    fill(storage, world, sealed, "north")
    with pytest.raises(Conflict, match="not complete"):
        prepare(storage, world.record(sealed), signer, datetime.now(UTC))


def test_a_folder_whose_record_is_not_yet_written_is_left_alone(
    storage: Storage, signer: Signer, sealed: Sealed, tmp_path: Path
) -> None:
    (tmp_path / "storage" / "staging" / sealed.digest).mkdir()
    assert not step(storage, Office(), signer, sealed)
    assert storage.staged() == (sealed.digest,)


@pytest.fixture
def publisher_of(storage: Storage, signer: Signer) -> Iterator[Callable[[Office], Publisher]]:
    made: list[Publisher] = []

    def make(office: Office) -> Publisher:
        made.append(Publisher(storage, office, lambda: signer, lambda: datetime.now(UTC), 600, Backoff(0.01, 0.02)))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for publisher in made:
        if publisher.is_alive():
            publisher.stop()
            publisher.join()


def test_one_release_never_blocks_another(
    storage: Storage, world: World, sealed: Sealed, publisher_of: Callable[[Office], Publisher]
) -> None:
    other = world.sealed("another release")
    first, second = sorted((sealed, other), key=lambda each: each.digest)
    fill(storage, world, first)
    fill(storage, world, second)
    path = storage.release(first.digest).block("south")
    path.write_bytes(b"damaged")
    assert publisher_of(Office()).round()
    assert storage.published(first.digest) is None
    assert storage.published(second.digest) is not None


@pytest.mark.parametrize(
    ("error", "reached", "level"),
    [
        (PeerUnavailable("away", peer="the coordinator"), False, logging.INFO),  # of which the upkeep warns
        (PeerUnavailable("the coordinator's block finds no room on the disk"), False, logging.WARNING),
        (PeerUnavailable("the disk has no room"), False, logging.WARNING),
        (InternalError("lost"), False, logging.WARNING),
        (Conflict("no"), True, logging.ERROR),
    ],
)
def test_a_round_says_whether_to_come_back_soon(
    storage: Storage,
    world: World,
    sealed: Sealed,
    publisher_of: Callable[[Office], Publisher],
    error: DpReleaseError,
    reached: bool,
    level: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="learner")
    office = Office()
    office.fails = {"intake": error}
    fill(storage, world, sealed)
    assert publisher_of(office).round() is reached
    assert [line.levelno for line in caplog.records] == [level]


def test_a_storage_that_is_away_for_a_moment_does_not_end_the_thread(
    storage: Storage, publisher_of: Callable[[Office], Publisher], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "staged", Mock(side_effect=[OSError(errno.ESTALE, "Stale file handle"), ()]))
    publisher = publisher_of(Office())
    assert [publisher.round(), publisher.round()] == [False, True]


def test_an_unforeseen_error_does_not_end_the_thread(
    storage: Storage, world: World, sealed: Sealed, publisher_of: Callable[[Office], Publisher]
) -> None:
    office = Office()

    def fail(name: str) -> None:
        raise ZeroDivisionError

    office.before = fail
    fill(storage, world, sealed)
    publisher = publisher_of(office)
    assert publisher.round()
    publisher.start()
    publisher.nudge(sealed.digest)
    assert publisher.is_alive()
    publisher.stop()
    publisher.join()
    assert not publisher.is_alive()
