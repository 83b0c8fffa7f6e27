"""The hub's files: what a restart finds, what never becomes a path, what does not fit."""

import shutil
import threading
from pathlib import Path

import pytest

from dprelease.errors import InvalidInput, NotFound, PeerUnavailable
from dprelease.files.durable import TEMPORARY
from dprelease.release.manifest import BlockEntry
from dprelease.sequence import BlockKey
from learner.hub import storage as storage_module
from learner.hub.storage import Storage
from tests.learner.world import Sealed, World, fill


def entry(world: World, sealed: Sealed, party: str) -> BlockEntry:
    return BlockEntry(sealed=sealed.identities[party], certificate=world.parties[party].certificate)


@pytest.mark.parametrize("digest", ["", "..", "../" + "a" * 61, "a" * 63, "A" * 64, "a" * 64 + "\n", "a" * 63 + "/"])
def test_no_other_digest_becomes_a_path(storage: Storage, digest: str) -> None:
    for call in (storage.record, storage.published, storage.drop, storage.reveal, storage.release):
        with pytest.raises(InvalidInput):
            call(digest)


@pytest.mark.parametrize("party", ["", ".", "..", "../north", "a/b", "/etc/passwd", "north\x00", "north\n", "a" * 65])
def test_no_other_name_becomes_a_path(storage: Storage, party: str) -> None:
    digest = "a" * 64
    for call in (
        storage.entry,
        storage.held,
        storage.part,
        storage.discard_part,
        storage.forget,
        storage.complete,
    ):
        with pytest.raises(InvalidInput):
            call(BlockKey(digest, party))
    with pytest.raises(InvalidInput):
        storage.put(BlockKey(digest, party), 0, b"x")


def test_bytes_are_held_until_complete_and_a_set_back_gives_up_the_rest(
    storage: Storage, world: World, sealed: Sealed
) -> None:
    storage.keep_entry(entry(world, sealed, "north"))
    assert storage.held(sealed.key("north")) == 0
    storage.put(sealed.key("north"), 0, b"abcdef")
    storage.put(sealed.key("north"), 2, b"XY")
    assert storage.part(sealed.key("north")) == b"abXY"
    assert not storage.is_complete(sealed.key("north"))
    storage.complete(sealed.key("north"))
    assert storage.is_complete(sealed.key("north"))
    assert storage.held(sealed.key("north")) == 4


def test_a_restart_finds_records_parts_and_complete_blocks(tmp_path: Path, world: World, sealed: Sealed) -> None:
    before = Storage(tmp_path, 1 << 30)
    fill(before, world, sealed, "north")
    before.keep_entry(entry(world, sealed, "south"))
    before.put(sealed.key("south"), 0, sealed.blocks["south"][:33])
    stray = tmp_path / "staging" / sealed.digest / f".record.json.1{TEMPORARY}"
    stray.write_bytes(b"half a reco")
    before.close()
    after = Storage(tmp_path, 1 << 30)
    assert after.staged() == (sealed.digest,)
    assert after.record(sealed.digest) == world.record(sealed)
    assert after.entry(sealed.key("south")) == entry(world, sealed, "south")
    assert (after.is_complete(sealed.key("north")), after.held(sealed.key("south"))) == (True, 33)
    assert not stray.exists()
    after.close()


def test_one_hub_at_a_time(tmp_path: Path) -> None:
    first = Storage(tmp_path, 1 << 30)
    with pytest.raises(InvalidInput, match="another hub"):
        Storage(tmp_path, 1 << 30)
    first.close()
    Storage(tmp_path, 1 << 30).close()


def test_a_file_in_the_way_is_said_plainly(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="cannot be used"):
        Storage(tmp_path / "file", 1)


def test_what_is_announced_counts_against_the_limit(tmp_path: Path, world: World, sealed: Sealed) -> None:
    size = {party: len(block) for party, block in sealed.blocks.items()}
    storage = Storage(tmp_path, size["north"] + size["south"] - 1)
    storage.keep_entry(entry(world, sealed, "north"))
    storage.keep_entry(entry(world, sealed, "north"))  # not counted twice
    with pytest.raises(PeerUnavailable, match="storage_limit_gib"):
        storage.keep_entry(entry(world, sealed, "south"))
    assert storage.entry(sealed.key("south")) is None
    storage.drop(sealed.digest)
    storage.keep_entry(entry(world, sealed, "south"))
    storage.close()


def test_a_full_disk_is_refused_before_it_is_full(
    storage: Storage, world: World, sealed: Sealed, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10))
    with pytest.raises(PeerUnavailable, match="no room"):
        storage.keep_entry(entry(world, sealed, "north"))


def test_a_disk_that_fails_asks_for_another_attempt(storage: Storage, world: World, sealed: Sealed) -> None:
    storage.keep_entry(entry(world, sealed, "north"))
    storage.drop(sealed.digest)
    with pytest.raises(PeerUnavailable):
        storage.put(sealed.key("north"), 0, b"abc")


def test_reveal_is_one_rename(storage: Storage, world: World, sealed: Sealed) -> None:
    with pytest.raises(NotFound):
        storage.reveal(sealed.digest)
    fill(storage, world, sealed)
    assert storage.index.digests() == frozenset()
    storage.reveal(sealed.digest)
    assert storage.index.digests() == {sealed.digest}
    published = storage.published(sealed.digest)
    assert published is not None
    assert {path.name for path in (published.path / "blocks").iterdir()} == {"north.0.block", "south.0.block"}
    assert storage.staged() == (sealed.digest,)  # until it was reported


def test_a_release_is_not_moved_away_while_its_last_block_settles(
    storage: Storage, world: World, sealed: Sealed, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(storage, world, sealed, "north")
    storage.keep_entry(entry(world, sealed, "south"))
    storage.put(sealed.key("south"), 0, sealed.blocks["south"])
    publisher = threading.Thread(target=storage.reveal, args=(sealed.digest,))
    rename = storage_module.rename_durably

    def slow(source: Path, target: Path) -> None:
        if not publisher.ident:
            source.rename(target)
            publisher.start()
            publisher.join(0.2)  # a publisher that does not wait is through by now
            assert target.exists()
        else:
            rename(source, target)

    monkeypatch.setattr(storage_module, "rename_durably", slow)
    storage.complete(sealed.key("south"))
    publisher.join(60)
    assert storage.index.digests() == {sealed.digest}


def test_writable_says_no_when_the_folder_is_gone(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "storage", 1)
    assert storage.writable()
    shutil.rmtree(tmp_path / "storage")
    assert not storage.writable()
    storage.close()
