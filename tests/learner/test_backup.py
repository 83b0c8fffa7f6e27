"""A hub's storage from an older backup: what is sent again, what is taken back, and what is never made a second time.

What the hub believes of the coordinator: nothing that it did not check. Over real mutual TLS.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest

from dprelease.canonical import sha256
from dprelease.errors import Conflict, IntegrityError, NotFound, PeerUnavailable
from dprelease.release.verification import verify_release
from dprelease.wire.transport import connect
from dprelease.wire.v1 import release_pb2
from learner.client.download import fetch
from learner.client.library import Library
from learner.client.mirror import Mirror
from learner.client.pinned_roots import Trusted
from learner.hub.coordination import Coordination
from learner.hub.publish import Signer
from learner.hub.server import Hub
from learner.hub.storage import Storage
from learner.listing import INDEX, Index
from tests.learner.parcels import Office as Relaying
from tests.learner.test_hub import Party, Public
from tests.learner.test_publish import Office, step
from tests.learner.world import CONSORTIUM, FakeCoordinator, Sealed, World, eventually, fill, publish_to
from tests.support.web import serving

Start = Callable[..., Hub]
Dial = Callable[..., grpc.Channel]
ATTENTIVE = {"limits": {"stop_seconds": 0.0, "sweep_seconds": 0.02}}


def opened(root: Path, world: World) -> Storage:
    return Storage(root, 1 << 30, root_pem=world.root.certificate)


@pytest.mark.parametrize("kept", ["nothing", "that it was announced", "half of it"])
def test_a_block_that_the_hub_has_forgotten_is_taken_again(
    start_hub: Start, dial: Dial, world: World, coordinator: FakeCoordinator, sealed: Sealed, tmp_path: Path, kept: str
) -> None:
    coordinator.offer(sealed)
    hub = start_hub()
    Party(dial(hub.party_port, world.parties["north"]), sealed, "north").upload()
    hub.__exit__(None, None, None)
    stage = tmp_path / "storage" / "staging" / sealed.digest
    if kept == "nothing":
        shutil.rmtree(stage)
    else:
        (stage / "release" / "blocks" / "north.0.block").unlink()
    if kept == "half of it":
        (stage / "parts" / "north.0.part").write_bytes(sealed.blocks["north"][:100])
    hub = start_hub()
    north = Party(dial(hub.party_port, world.parties["north"]), sealed, "north")
    assert north.open() == (100 if kept == "half of it" else 0)
    assert north.upload() == sha256(sealed.blocks["north"])
    assert north.open() == len(sealed.blocks["north"])
    Party(dial(hub.party_port, world.parties["south"]), sealed, "south").upload()
    coordinator.wait(lambda: coordinator.named("ReportPublication") != [])


def test_a_release_that_is_gone_gets_no_second_manifest(
    storage: Storage, signer: Signer, world: World, sealed: Sealed
) -> None:
    """Its blocks are staged in the older copy, complete; a mirror and learners have the first manifest."""
    office = Office()
    office.known.add(sealed.digest)
    fill(storage, world, sealed)
    with pytest.raises(Conflict, match="gone from published/, so this storage is older"):
        step(storage, office, signer, sealed)
    assert storage.published(sealed.digest) is None
    assert "authorize" not in office.calls
    assert storage.staged() == (sealed.digest,)


def test_a_release_is_taken_back_from_what_a_learner_fetched(
    start_hub: Start,
    dial: Dial,
    world: World,
    coordinator: FakeCoordinator,
    trusted: Trusted,
    sealed: Sealed,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    coordinator.offer(sealed)
    hub = start_hub(**ATTENTIVE)
    for name in sealed.blocks:
        Party(dial(hub.party_port, world.parties[name]), sealed, name).upload()
    coordinator.wait(lambda: coordinator.named("ReportPublication") != [])
    first = Public(dial(hub.public_port)).manifest(bytes.fromhex(sealed.digest))
    hub.__exit__(None, None, None)
    root, library = tmp_path / "storage", Library(tmp_path / "home")
    with serving(root / "published") as web, Mirror.dial(web.url) as mirror:
        fetch(mirror, trusted, library, sealed.digest)

    shutil.rmtree(root)
    with closing(Storage(root, 1 << 30)) as older:
        fill(older, world, sealed)
    coordinator.records[sealed.digest].state = release_pb2.RELEASE_STATE_PUBLISHED
    before = len(coordinator.named("ReportPublication"))
    hub = start_hub(**ATTENTIVE)
    eventually(lambda: "gone from published/" in caplog.text)
    with pytest.raises(NotFound):
        Public(dial(hub.public_port)).manifest(bytes.fromhex(sealed.digest))
    hub.__exit__(None, None, None)

    shutil.copytree(library.kept(sealed.digest).path, root / "published" / sealed.digest)
    public = Public(dial(start_hub(**ATTENTIVE).public_port))
    assert public.manifest(bytes.fromhex(sealed.digest)) == first
    assert verify_release(*first, lambda block: sealed.blocks[block.party], world.root.certificate)
    coordinator.wait(lambda: len(coordinator.named("ReportPublication")) == before + 1)
    assert coordinator.named("ReportPublication")[-1] == (sealed.digest, sha256(first[0]))
    eventually(lambda: not (root / "staging" / sealed.digest).exists())


def _damaged_block(folder: Path) -> None:
    block = folder / "blocks" / "north.0.block"
    block.write_bytes(block.read_bytes()[:-1] + b"x")


def _other_name(folder: Path) -> None:
    folder.rename(folder.with_name("ab" * 32))


def _no_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


@pytest.mark.parametrize("damage", [_damaged_block, _other_name, _no_manifest])
def test_what_does_not_verify_is_not_listed(
    tmp_path: Path, world: World, sealed: Sealed, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    good = world.sealed("a good one")
    with closing(opened(tmp_path / "storage", world)) as storage:
        for each in (sealed, good):
            publish_to(storage, world, each)
    published = tmp_path / "storage" / "published"
    (published / INDEX).unlink()  # as with folders that were put back
    damage(published / sealed.digest)
    with closing(opened(tmp_path / "storage", world)) as storage:
        assert storage.index.lines.keys() == {good.digest}
    assert "is not listed" in caplog.text
    assert [line.digest for line in Index.from_bytes((published / INDEX).read_bytes()).releases] == [good.digest]


def test_what_the_list_knows_is_not_read_again_at_a_start(tmp_path: Path, world: World, sealed: Sealed) -> None:
    """Learners verify for themselves; a start does not wait for gigabytes."""
    with closing(opened(tmp_path / "storage", world)) as storage:
        publish_to(storage, world, sealed)
    _damaged_block(tmp_path / "storage" / "published" / sealed.digest)
    with closing(opened(tmp_path / "storage", world)) as storage:
        assert storage.index.lines.keys() == {sealed.digest}
        with pytest.raises(IntegrityError):
            storage.release(sealed.digest).verify(world.root.certificate)


def test_the_list_goes_neither_behind_nor_ahead_of_the_folders(tmp_path: Path, world: World, sealed: Sealed) -> None:
    later, published = world.sealed("a later one"), tmp_path / "storage" / "published"
    now = datetime.now(UTC)
    with closing(opened(tmp_path / "storage", world)) as storage:
        publish_to(storage, world, sealed, now - timedelta(hours=1))
        older = (published / INDEX).read_bytes()
        publish_to(storage, world, later, now)
    newer = (published / INDEX).read_bytes()
    (published / INDEX).write_bytes(older)
    opened(tmp_path / "storage", world).close()
    assert (published / INDEX).read_bytes() == newer
    shutil.rmtree(published / later.digest)
    opened(tmp_path / "storage", world).close()
    assert (published / INDEX).read_bytes() == older


def test_what_the_office_has_forgotten_stays_until_it_says_what_became_of_it(
    start_hub: Start,
    dial: Dial,
    world: World,
    coordinator: FakeCoordinator,
    sealed: Sealed,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    coordinator.offer(sealed)
    hub = start_hub(**ATTENTIVE)
    Party(dial(hub.party_port, world.parties["north"]), sealed, "north").upload()
    stage = tmp_path / "storage" / "staging" / sealed.digest
    known = coordinator.records.pop(sealed.digest)
    eventually(lambda: "cannot go on: NotFound" in caplog.text)
    assert stage.exists()
    known.state = release_pb2.RELEASE_STATE_FAILED
    coordinator.records[sealed.digest] = known
    eventually(lambda: not stage.exists())


def test_parcels_of_an_older_copy_are_worse_than_none(office: Relaying, caplog: pytest.LogCaptureFixture) -> None:
    """The parties are in round 3: a mailbox that is still in round 1 refuses them, an empty one takes all of it again."""
    parcels, copy = office.storage.parcels(office.sealed.digest), office.storage.parcels("0" * 64)
    office.begin(1)
    shutil.copytree(parcels, copy)
    office.begin(2)
    office.begin(3)
    shutil.rmtree(parcels)
    copy.rename(parcels)
    office.restart()
    with pytest.raises(Conflict, match="nobody has begun round 2 yet"):
        office.begin(3)
    shutil.rmtree(parcels)
    office.restart()
    everything = list(office.hospitals.everything(3))
    office.bring(*everything)
    assert office.listed() == everything


def test_a_mailbox_one_round_behind_catches_up(office: Relaying) -> None:
    parcels, copy = office.storage.parcels(office.sealed.digest), office.storage.parcels("0" * 64)
    first = list(office.hospitals.everything(1))
    office.bring(*first[: len(first) // 2])
    shutil.copytree(parcels, copy)
    office.bring(*first[len(first) // 2 :])
    shutil.rmtree(parcels)
    copy.rename(parcels)
    office.restart()
    lacking = [parcel for parcel in first if parcel not in office.listed()]
    assert lacking == first[len(first) // 2 :]
    office.bring(*lacking)
    assert office.listed() == first


@pytest.fixture
def coordination(world: World, coordinator: FakeCoordinator) -> Iterator[Coordination]:
    with connect(coordinator.address, world.credentials(world.hub)) as channel:
        yield Coordination(channel, CONSORTIUM, world.root.certificate)


def test_an_approved_release_is_believed_after_checking(
    coordination: Coordination, coordinator: FakeCoordinator, world: World, sealed: Sealed
) -> None:
    coordinator.offer(sealed)
    assert coordination.approved_release(sealed.digest) == world.record(sealed)


def test_approvals_may_come_in_any_order(
    coordination: Coordination, coordinator: FakeCoordinator, world: World, sealed: Sealed
) -> None:
    coordinator.offer(sealed)
    record = coordinator.records[sealed.digest]
    swapped = [record.consents[1], record.consents[0]]
    del record.consents[:]
    record.consents.extend(swapped)
    assert coordination.approved_release(sealed.digest) == world.record(sealed)


@pytest.mark.parametrize(
    "state", ["PROPOSED", "PUBLISHED", "REJECTED", "FAILED", "CANCELLED", "EXPIRED", "UNSPECIFIED"]
)
def test_no_other_state_takes_blocks(
    coordination: Coordination, coordinator: FakeCoordinator, sealed: Sealed, state: str
) -> None:
    coordinator.offer(sealed, release_pb2.ReleaseState.Value(f"RELEASE_STATE_{state}"))
    with pytest.raises(Conflict):
        coordination.approved_release(sealed.digest)
    assert coordination.has_ended(sealed.digest) is (state in {"REJECTED", "FAILED", "CANCELLED", "EXPIRED"})


def test_another_consortium_is_refused(coordinator: FakeCoordinator, world: World, sealed: Sealed) -> None:
    coordinator.offer(sealed)
    with connect(coordinator.address, world.credentials(world.hub)) as channel:
        elsewhere = Coordination(channel, "elsewhere", world.root.certificate)
        with pytest.raises(IntegrityError, match="elsewhere"):
            elsewhere.approved_release(sealed.digest)


def test_errors_keep_their_class(coordination: Coordination, coordinator: FakeCoordinator, sealed: Sealed) -> None:
    with pytest.raises(NotFound):
        coordination.approved_release(sealed.digest)
    coordinator.away = {"AuthorizePublication"}
    coordinator.refused = {"ReportIntake"}
    with pytest.raises(PeerUnavailable):
        coordination.authorize(sealed.digest)
    with pytest.raises(Conflict):
        coordination.report_intake(sealed.digest, ["north"])
    coordination.report_publication(sealed.digest, "ab" * 32)
    assert coordinator.named("ReportPublication") == [(sealed.digest, "ab" * 32)]
