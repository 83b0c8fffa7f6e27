"""The files of parcels: what a restart finds, and a crash between any two steps.

The hub's files: what a restart finds, what never becomes a path, what does not fit.
"""

import hashlib
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import Conflict, IntegrityError, InvalidInput, NotFound, PeerUnavailable
from dprelease.files.durable import TEMPORARY, append_durably
from dprelease.mpc.messages import Message
from dprelease.release.manifest import BlockEntry
from dprelease.release.spec import BlockKey
from dprelease.wire.chunks import CHUNK_BYTES
from dprelease.wire.limits import SHORT_BYTES
from learner.hub import mailbox as parcel_store
from learner.hub import storage as storage_module
from learner.hub.mailbox import ParcelStore, StoredMessage
from learner.hub.storage import Storage
from learner.hub.uploads import put_at
from tests.learner.parcels import Hospitals
from tests.learner.world import Sealed, World, fill
from tests.support.together import together


@pytest.fixture(scope="module")
def make(trio: World, joint: Sealed) -> Hospitals:
    return Hospitals(trio, joint)


@pytest.fixture
def store(tmp_path: Path) -> ParcelStore:
    return ParcelStore(tmp_path / "parcels")


def keep(store: ParcelStore, parcel: Message) -> StoredMessage:
    kept = StoredMessage(parcel)
    store.keep([kept])
    return kept


def bring(store: ParcelStore, make: Hospitals, parcel: Message) -> StoredMessage:
    kept = keep(store, parcel)
    if kept.header.size:
        store.put(kept, 0, make.body(parcel))
    store.finish(kept)
    return kept


def headers(store: ParcelStore) -> list[Message]:
    return [Message.from_bytes(data) for data in store.listed(0)[0]]


def test_what_is_kept_is_found_by_place_and_digest_and_after_a_restart(
    store: ParcelStore, tmp_path: Path, make: Hospitals
) -> None:
    offer, columns = make.offer("north"), make.columns("north", "west")
    kept = bring(store, make, offer)
    begun = keep(store, columns)
    store.put(begun, 0, make.body(columns)[:100])
    for each in (store, ParcelStore(tmp_path / "parcels")):
        assert each.at(offer.header.place) == each.named(kept.digest) == kept
        assert headers(each) == [offer]
        assert each.offers() == {1: {"north": offer.header}}
        found = each.named(begun.digest)
        assert found == begun
        assert found is not None
        assert (each.held(found), each.is_complete(found), each.is_complete(kept)) == (100, False, True)


def test_headers_that_come_together_are_one_file_of_their_round(
    store: ParcelStore, tmp_path: Path, make: Hospitals, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = list(make.everything(1)), [make.offer(party, 2) for party in ("north", "south", "west")]
    store.keep([StoredMessage(parcel) for parcel in (*first, *second)])
    assert [len(list((tmp_path / "parcels" / number).iterdir())) for number in ("1", "2")] == [1, 1]
    for each in (store, ParcelStore(tmp_path / "parcels")):
        assert all(each.at(parcel.header.place) == StoredMessage(parcel) for parcel in (*first, *second))
    store.drop_before(2)
    assert [path.name for path in (tmp_path / "parcels").iterdir()] == ["2"]

    def refuse(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parcel_store, "write_durably", refuse)
    third = [make.offer(party, 3) for party in ("north", "south")]
    with pytest.raises(PeerUnavailable, match="No space"):
        store.keep([StoredMessage(parcel) for parcel in third])
    assert [store.at(parcel.header.place) for parcel in third] == [None, None]


def test_a_body_is_given_up_from_the_offset_on(store: ParcelStore, make: Hospitals) -> None:
    kept = keep(store, make.columns("north", "west"))
    body = make.body(kept.parcel)
    store.put(kept, 0, bytes(200))
    store.put(kept, 0, body[:100])
    assert store.held(kept) == 100
    store.put(kept, 100, body[100:])
    store.finish(kept)
    assert store.body(kept).read_bytes() == body
    store.put(kept, 50, body[50:60])  # the same again changes nothing
    with pytest.raises(IntegrityError):
        store.put(kept, 50, bytes(10))
    store.finish(kept)
    assert headers(store) == [kept.parcel]


def test_bytes_go_to_the_disk_early_where_they_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    early: list[int] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda file, offset, size, advice: early.append(size))
    for size in (SHORT_BYTES, CHUNK_BYTES):
        put_at(tmp_path / "whole", tmp_path / "part", 0, bytes(size))
    assert early == [CHUNK_BYTES]


def test_a_body_that_is_short_is_kept_and_one_that_differs_is_not(store: ParcelStore, make: Hospitals) -> None:
    kept = keep(store, make.columns("north", "west"))
    with pytest.raises(IntegrityError, match="byte 0"):
        store.finish(kept)
    store.put(kept, 0, bytes(100))
    with pytest.raises(IntegrityError, match="byte 100"):
        store.finish(kept)
    assert store.held(kept) == 100
    store.put(kept, 0, bytes(kept.header.size))
    with pytest.raises(IntegrityError, match="differs"):
        store.finish(kept)
    assert store.held(kept) == 0
    assert headers(store) == []


def test_a_crash_before_the_parcel_is_listed(
    store: ParcelStore, tmp_path: Path, make: Hospitals, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, held: int, data: bytes) -> None:
        append_durably(path, held, data[:20])
        raise OSError(28, "No space left on device")

    first = bring(store, make, make.offer("north"))
    offer = keep(store, make.offer("south"))
    columns = keep(store, make.columns("north", "west"))
    store.put(columns, 0, make.body(columns.parcel))
    monkeypatch.setattr(parcel_store, "append_durably", full)
    for kept in (offer, columns):
        with pytest.raises(PeerUnavailable):
            store.finish(kept)
        assert not store.is_complete(kept)
    assert store.body(columns).exists()
    monkeypatch.undo()
    after = ParcelStore(tmp_path / "parcels")
    assert headers(after) == [first.parcel]
    for digest in (columns.digest, offer.digest):
        found = after.named(digest)
        assert found is not None
        after.finish(found)
    assert headers(after) == headers(ParcelStore(tmp_path / "parcels")) == [first.parcel, columns.parcel, offer.parcel]


def test_rounds_go_whole_and_numbers_in_the_listing_stay(store: ParcelStore, tmp_path: Path, make: Hospitals) -> None:
    old = bring(store, make, make.columns("north", "west"))
    unfinished = keep(store, make.columns("south", "west"))
    store.put(unfinished, 0, bytes(10))
    bring(store, make, make.offer("north", 1))
    kept = bring(store, make, make.offer("north", 2))
    assert store.listed(3) == ([], 3)
    store.drop_before(2)
    for each in (store, ParcelStore(tmp_path / "parcels")):
        assert each.listed(0) == each.listed(2) == ([kept.data], 3)
        assert each.listed(3) == ([], 3)
        assert each.named(old.digest) is each.at(old.header.place) is None
    assert sorted(path.name for path in (tmp_path / "parcels").iterdir()) == ["2", "order"]
    for call in (lambda: store.put(unfinished, 10, bytes(10)), lambda: store.finish(unfinished)):
        with pytest.raises(Conflict, match="round 1 was abandoned"):
            call()


def test_a_body_is_verified_while_its_round_goes(
    store: ParcelStore, make: Hospitals, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = keep(store, make.columns("north", "west"))
    store.put(kept, 0, make.body(kept.parcel))
    verify = hashlib.file_digest

    def slowly(*arguments: Any) -> Any:
        store.drop_before(2)
        return verify(*arguments)

    monkeypatch.setattr(hashlib, "file_digest", slowly)
    with pytest.raises(Conflict, match="abandoned"):
        store.finish(kept)
    assert store.listed(0) == ([], 0)


def test_a_crash_while_a_round_is_deleted(tmp_path: Path, make: Hospitals) -> None:
    folder = tmp_path / "parcels"
    before = ParcelStore(folder)
    bring(before, make, make.columns("north", "west"))
    (folder / "1").rename(folder / ".gone-1")
    (folder / "gone-hospital.reserved").write_text("7")  # a party's name may start so
    after = ParcelStore(folder)
    assert after.listed(0) == ([], 1)
    assert sorted(path.name for path in folder.iterdir()) == ["gone-hospital.reserved", "order"]


def test_a_folder_that_cannot_be_read_asks_for_another_attempt(tmp_path: Path) -> None:
    (tmp_path / "parcels" / "order").mkdir(parents=True)
    with pytest.raises(PeerUnavailable):
        ParcelStore(tmp_path / "parcels")


def test_parcels_that_end_at_once_are_all_listed(store: ParcelStore, tmp_path: Path, make: Hospitals) -> None:
    kept = [keep(store, parcel) for parcel in make.everything()]

    def bring_one(each: StoredMessage) -> None:
        if each.header.size:
            store.put(each, 0, make.body(each.parcel))
        store.finish(each)

    together(bring_one, kept)
    listed = headers(store)
    assert {each.header.digest() for each in listed} == {each.digest for each in kept}
    assert len(listed) == len(kept)
    assert headers(ParcelStore(tmp_path / "parcels")) == listed


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
    for call in (storage.entry, storage.held, storage.part, storage.discard_part, storage.forget, storage.complete):
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


def test_room_is_added_up_while_another_release_ends(storage: Storage, world: World) -> None:
    def come_and_go(release: Sealed) -> None:
        for _ in range(200):
            storage.keep_entry(entry(world, release, "north"))
            storage.drop(release.digest)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(come_and_go, [world.sealed(title) for title in ("one", "two")]))
    assert storage.staged() == ()


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


def test_others_do_not_wait_until_a_block_is_synced(
    storage: Storage, world: World, sealed: Sealed, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.keep_entry(entry(world, sealed, "south"))
    storage.put(sealed.key("south"), 0, sealed.blocks["south"])
    other = threading.Thread(target=storage.forget, args=(sealed.key("north"),))
    sync = os.fsync

    def slow(handle: int) -> None:
        if not other.ident:
            other.start()
            other.join(60)
            assert not other.is_alive()
        sync(handle)

    monkeypatch.setattr(os, "fsync", slow)
    storage.complete(sealed.key("south"))
    assert storage.is_complete(sealed.key("south"))


def test_writable_says_no_when_the_folder_is_gone(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "storage", 1)
    assert storage.writable()
    shutil.rmtree(tmp_path / "storage")
    assert not storage.writable()
    storage.close()
