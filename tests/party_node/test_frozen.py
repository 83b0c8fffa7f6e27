"""Approved rows on disk: one reading of the source for a release, nothing else read after the approval, nothing left at its end."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from party_node.source.reader import FilesReader
from party_node.state.streams import CheckpointRows
from tests.party_node.joint_release import SETTLED, joint_spec
from tests.party_node.test_rounds import delivered_once
from tests.party_node.world import Hospital, World


def on_disk(hospital: Hospital) -> list[str]:
    """Names of all files of approved rows."""
    frozen = hospital.folder / "state" / "frozen"
    return sorted(str(path.relative_to(frozen)) for path in frozen.rglob("*") if path.is_file())


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The source of every full reading, as it begins."""
    begun: list[Path] = []
    batches = FilesReader.batches

    def counted(self: FilesReader, columns: list[str]) -> Iterator[pa.RecordBatch]:
        begun.extend(self._readers)
        return batches(self, columns)

    monkeypatch.setattr(FilesReader, "batches", counted)
    return begun


def whole_life(world: World, release: str) -> None:
    """Both hospitals, each with one daemon from its first look at the table to the end of the release."""
    hospitals = (world.north, world.south)
    daemons = [hospital.daemon() for hospital in hospitals]
    with world.north.dialled() as north, world.south.dialled() as south:
        for _ in range(12):
            for daemon, coordinator in zip(daemons, (north, south), strict=True):
                daemon.cycle(coordinator)
            if all(hospital.record(release).status in SETTLED for hospital in hospitals):
                break
        world.coordinator.move(release, "PUBLISHED")
        for daemon, coordinator in zip(daemons, (north, south), strict=True):
            daemon.cycle(coordinator)


def mixed(world: World) -> str:
    return world.propose(grid_bits=16)


def in_ranges(world: World) -> str:
    return world.coordinator.propose(joint_spec(world, two_rounds=True))


@pytest.mark.parametrize("propose", [mixed, in_ranges])
def test_a_source_is_read_once_for_a_release(world: World, reads: list[Path], propose: Callable[[World], str]) -> None:
    """Catalogue, approval, both rounds and the session."""
    release = propose(world)
    whole_life(world, release)
    assert [hospital.status(release) for hospital in (world.north, world.south)] == ["ended", "ended"]
    assert sorted(reads) == [world.north.source, world.south.source]


def test_a_source_that_changed_before_the_approval_is_read_again(careful: World, reads: list[Path]) -> None:
    release, north = careful.propose(grid_bits=16), careful.north
    daemon = north.daemon()
    with north.dialled() as coordinator:
        daemon.cycle(coordinator)
        north.hospital_state().accept(north.record(release))
        north.source.write_text(north.source.read_text().replace("41.70000", "42.70000"))
        daemon.cycle(coordinator)
        daemon.cycle(coordinator)
    assert north.status(release) == "approved"
    assert len(reads) == 2


@pytest.mark.parametrize("change", ["changed", "gone"])
def test_rows_are_what_they_were_at_the_approval_whatever_becomes_of_the_source(world: World, change: str) -> None:
    release, hospitals = in_ranges(world), (world.north, world.south)
    before = [hospital.source.read_text() for hospital in hospitals]
    for hospital, text in zip(hospitals, before, strict=True):
        hospital.cycle()
        if change == "changed":
            hospital.source.write_text(text.replace(".7", ".9").replace(".8", ".2"))
        else:
            hospital.source.unlink()
    for _ in range(6):
        for hospital in hospitals:
            hospital.cycle()
    for hospital, text in zip(hospitals, before, strict=True):
        hospital.source.write_text(text)
    delivered_once(world, release)


def lost(path: Path) -> None:
    path.unlink()


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-101])  # within a row


def altered(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [lost, cut_short, altered, empty])
def test_rows_that_are_lost_are_read_again_and_are_the_same(
    world: World, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    release = world.approved()
    (name,) = on_disk(world.north)
    damage(world.north.folder / "state" / "frozen" / name)
    world.north.cycle()
    assert world.north.status(release) == "delivered"
    assert "its approved rows are not on disk; the source is read again" in caplog.text


def test_rows_of_a_checkpoint_count_only_beside_the_checkpoints_that_they_were_compared_with(world: World) -> None:
    release = world.approved()
    record, frozen = world.north.record(release), world.north.hospital_state().frozen(release)
    columns = world.north.hospital_state().check_declarations(record.spec)
    alone = CheckpointRows(number=2)
    bounded = frozen.read(columns, record.spec.grid_bits, None, record.codes)
    assert bounded is not None
    frozen.keep(bounded, alone)
    assert frozen.read(columns, record.spec.grid_bits, alone, record.codes) is not None
    later = CheckpointRows(number=2, released=((1, "5e" * 32),))
    assert frozen.read(columns, record.spec.grid_bits, later, record.codes) is None
    assert frozen.read(columns, record.spec.grid_bits, None, record.codes) is None


def test_only_the_owner_reads_them_and_nothing_lies_beside_them(world: World) -> None:
    release = world.approved()
    assert on_disk(world.north) == [f"{release}/codes"]
    path = world.north.folder / "state" / "frozen" / release / "codes"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [each for each in (world.north.folder / "state").iterdir() if each.suffix == ".tmp"] == []


@pytest.mark.parametrize("state", ["CANCELLED", "FAILED", "EXPIRED", "REJECTED"])
def test_they_go_with_a_release_that_ends(world: World, state: str) -> None:
    release = world.approved()
    assert on_disk(world.north) != []
    world.coordinator.move(release, state)
    world.north.cycle()
    assert on_disk(world.north) == []


def test_they_go_once_the_last_block_is_sealed(world: World) -> None:
    release = in_ranges(world)
    for _ in range(8):
        world.north.cycle()
        world.south.cycle()
        assert (on_disk(world.north) == []) == (world.north.status(release) in {"sealed", "delivered"})
        if world.north.status(release) == "delivered":
            return
    raise AssertionError("it was never delivered")


def test_they_go_when_a_person_declines(careful: World) -> None:
    release, north = careful.propose(), careful.north
    north.cycle()
    north.hospital_state().accept(north.record(release))
    hospital_state = north.hospital_state()
    record = north.record(release)
    hospital_state.frozen(release).keep(hospital_state.table(record.spec).bounded, None)
    hospital_state.decline(record, "no")
    assert on_disk(north) == []


def test_a_start_removes_those_of_releases_that_are_over(world: World) -> None:
    release = world.approved()
    hospital_state = world.north.hospital_state()
    bounded = hospital_state.approved(world.north.record(release))
    hospital_state.frozen("5e" * 32).keep(bounded, None)
    world.north.daemon().sweep(datetime.now(UTC))
    assert on_disk(world.north) == [f"{release}/codes"]


KILLED = """
import os, signal, stat, sys
from pathlib import Path
from dprelease.files.settings import read_settings
from party_node.hospital import HospitalState
from party_node.settings import PartySettings

def die(handle):
    if stat.S_ISREG(os.fstat(handle).st_mode):
        os.ftruncate(handle, os.fstat(handle).st_size // 2)
        os.kill(os.getpid(), signal.SIGKILL)

hospital_state = HospitalState(read_settings(Path(sys.argv[1]), PartySettings))
os.fsync = die
hospital_state.sign(hospital_state.journal.find(sys.argv[2]))
"""


def test_a_process_that_is_killed_while_it_writes_leaves_nothing_half(careful: World) -> None:
    release, north = careful.propose(), careful.north
    north.cycle()
    north.hospital_state().accept(north.record(release))
    died = subprocess.run([sys.executable, "-c", KILLED, str(north.config), release], capture_output=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    (left,) = on_disk(north)
    assert left.endswith(".tmp")
    assert (north.record(release).codes, north.ledger_kinds(release)) == (None, [])
    half = north.folder / "state" / "frozen" / left
    written = half.read_bytes()
    north.cycle()
    assert north.status(release) == "approved"
    assert on_disk(north) == [f"{release}/codes"]
    half.parent.mkdir(exist_ok=True)
    half.write_bytes(written)
    north.daemon().sweep(datetime.now(UTC))
    assert on_disk(north) == [f"{release}/codes"]
