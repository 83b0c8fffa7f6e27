"""The relay: room on the disk, for all parcels and for each party's."""

import shutil
from pathlib import Path

import pytest

from dprelease.errors import PeerUnavailable, TooManyRequests
from learner.hub.approved import most_bytes
from learner.hub.storage import PartyShare, Storage
from tests.learner.parcels import THREE_PARTIES, Hospitals, Office
from tests.learner.world import Sealed, World, fill, pieces

PARTIES = tuple(THREE_PARTIES)

ALL = PartyShare()


def test_a_party_reserves_room_for_all_its_parcels_before_the_first(office: Office, make: Hospitals) -> None:
    office.bring(*make.everything())
    for party in PARTIES:
        sizes = [parcel.header.size for parcel in office.listed() if parcel.header.sender == party]
        assert sum(sizes) == most_bytes(make.schedule, party) > 0


def limited(trio: World, joint: Sealed, folder: Path, limit: int, share: PartyShare = ALL) -> Office:
    return Office(Storage(folder, limit, share), trio, joint)


def test_parcels_count_against_the_storage_limit(trio: World, joint: Sealed, tmp_path: Path) -> None:
    schedule = Hospitals(trio, joint).schedule
    whole = sum(most_bytes(schedule, party) for party in PARTIES)
    office = limited(trio, joint, tmp_path, whole - 1)
    office.bring(office.hospitals.offer("north"), office.hospitals.offer("south"))
    with pytest.raises(PeerUnavailable, match="storage_limit_gib"):
        office.open(office.hospitals.offer("west"))
    assert len(office.listed()) == 2
    office.storage.close()
    office = limited(trio, joint, tmp_path, 1)
    office.bring(office.hospitals.offer("north", 2))  # has its room already
    office.storage.close()
    office = limited(trio, joint, tmp_path, whole)
    office.bring(office.hospitals.offer("west"))
    office.storage.close()


def test_blocks_find_no_room_where_parcels_have_reserved_it(trio: World, joint: Sealed, tmp_path: Path) -> None:
    office = limited(trio, joint, tmp_path, most_bytes(Hospitals(trio, joint).schedule, "north"))
    office.bring(office.hospitals.offer("north"))
    with pytest.raises(PeerUnavailable, match="storage_limit_gib"):
        fill(office.storage, trio, trio.sealed("another"), "north")
    office.storage.drop(joint.digest)
    fill(office.storage, trio, trio.sealed("another"), "north")
    office.storage.close()


def test_parcels_count_against_their_partys_share(trio: World, joint: Sealed, tmp_path: Path) -> None:
    other = trio.sealed("another")
    size = most_bytes(Hospitals(trio, joint).schedule, "north")
    for name, share, words in (
        ("few", PartyShare(releases=1), "north has 1 other unpublished releases"),
        ("small", PartyShare(size=size), f"{size} bytes in all"),
    ):
        office = limited(trio, joint, tmp_path / name, 1 << 30, share)
        office.bring(office.hospitals.offer("north"))
        with pytest.raises(TooManyRequests, match=words):
            fill(office.storage, trio, other, "north")
        office.storage.drop(joint.digest)
        fill(office.storage, trio, other, "north")
        office.restart()
        with pytest.raises(TooManyRequests):
            office.open(office.hospitals.offer("north"))
        office.storage.close()


def test_a_release_with_parcels_and_a_block_is_one_release(trio: World, joint: Sealed, tmp_path: Path) -> None:
    office = limited(trio, joint, tmp_path, 1 << 30, PartyShare(releases=1))
    office.begin()
    fill(office.storage, trio, joint)
    office.storage.close()


def test_a_full_disk_is_refused_before_it_is_full(
    office: Office, make: Hospitals, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.begin()
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10))
    parcel = make.columns("north", "west")
    with pytest.raises(PeerUnavailable, match="no room"):
        office.open(parcel)
    monkeypatch.undo()
    office.bring(parcel)


def test_a_disk_that_fails_asks_for_another_attempt(
    office: Office, make: Hospitals, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.begin()
    parcel = make.columns("north", "west")
    office.open(parcel)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("learner.hub.mailbox.put_at", full)
    with pytest.raises(PeerUnavailable, match="No space left"):
        office.send(parcel, pieces(make.body(parcel)))
    monkeypatch.undo()
    office.bring(parcel)
    assert office.fetch(parcel, "south") == make.body(parcel)
