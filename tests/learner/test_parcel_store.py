"""The files of parcels: what a restart finds, and a crash between any two steps."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import Conflict, IntegrityError, PeerUnavailable
from dprelease.mpc.messages import Message
from learner.hub import mailbox as parcel_store
from learner.hub.mailbox import Kept, ParcelStore
from tests.learner.parcels import Hospitals
from tests.learner.world import Sealed, World


@pytest.fixture(scope="module")
def make(trio: World, joint: Sealed) -> Hospitals:
    return Hospitals(trio, joint)


@pytest.fixture
def store(tmp_path: Path) -> ParcelStore:
    return ParcelStore(tmp_path / "parcels")


def bring(store: ParcelStore, make: Hospitals, parcel: Message) -> Kept:
    kept = store.keep(parcel)
    if kept.header.size:
        store.put(kept, 0, make.body(parcel))
    store.finish(kept)
    return kept


def headers(store: ParcelStore) -> list[Message]:
    return [Message.from_bytes(data) for data in store.listed(0)[0]]


def test_a_folder_that_is_not_there_is_empty(store: ParcelStore, tmp_path: Path, make: Hospitals) -> None:
    assert store.listed(0) == ([], 0)
    assert store.offers() == {}
    assert store.at(make.offer("north").header.place) is None
    assert store.named(make.offer("north").header.digest()) is None
    store.drop_before(5)
    assert not (tmp_path / "parcels").exists()


def test_what_is_kept_is_found_by_place_and_digest_and_after_a_restart(
    store: ParcelStore, tmp_path: Path, make: Hospitals
) -> None:
    offer, columns = make.offer("north"), make.columns("north", "west")
    kept = bring(store, make, offer)
    begun = store.keep(columns)
    store.put(begun, 0, make.body(columns)[:100])
    for each in (store, ParcelStore(tmp_path / "parcels")):
        assert each.at(offer.header.place) == each.named(kept.digest) == kept
        assert headers(each) == [offer]
        assert each.offers() == {1: {"north": offer.header}}
        found = each.named(begun.digest)
        assert found == begun
        assert found is not None
        assert (each.held(found), each.is_complete(found), each.is_complete(kept)) == (100, False, True)


def test_a_body_is_given_up_from_the_offset_on(store: ParcelStore, make: Hospitals) -> None:
    kept = store.keep(make.columns("north", "west"))
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


def test_a_body_that_is_short_is_kept_and_one_that_differs_is_not(store: ParcelStore, make: Hospitals) -> None:
    kept = store.keep(make.columns("north", "west"))
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
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    first = bring(store, make, make.offer("north"))
    offer = store.keep(make.offer("south"))
    columns = store.keep(make.columns("north", "west"))
    store.put(columns, 0, make.body(columns.parcel))
    monkeypatch.setattr(parcel_store, "write_durably", full)
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
    unfinished = store.keep(make.columns("south", "west"))
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
    kept = store.keep(make.columns("north", "west"))
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
    kept = [store.keep(parcel) for parcel in make.everything()]
    barrier = threading.Barrier(len(kept))

    def bring_one(each: Kept) -> Callable[[], None]:
        def run() -> None:
            barrier.wait(30)
            if each.header.size:
                store.put(each, 0, make.body(each.parcel))
            store.finish(each)

        return run

    threads = [threading.Thread(target=bring_one(each)) for each in kept]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    listed = headers(store)
    assert {each.header.digest() for each in listed} == {each.digest for each in kept}
    assert len(listed) == len(kept)
    assert headers(ParcelStore(tmp_path / "parcels")) == listed
