"""The same bytes to the hub, however often it takes; and the line after which a charge stands."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from dprelease.wire import chunks
from dprelease.wire.retry import ProgressDeadline
from dprelease.wire.transport import connect
from party_node.outgoing import hub as outbound
from party_node.outgoing.hub import upload
from party_node.state.journal import Status
from tests.party_node.world import DRAWS_OF_ONE_BLOCK, World


def sealed_bytes(world: World, release: str) -> bytes:
    return world.north.hospital_state().vault.path(release).read_bytes()


def test_a_broken_stream_goes_on_where_it_stopped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 64)
    world.hub.breaks_at = 128
    release = world.approved()
    world.north.cycle()
    assert world.north.status(release) == "sealed"
    held = world.block(release, "north")
    assert len(held) == 128
    world.north.cycle()
    assert world.north.status(release) == "delivered"
    assert world.hub.offsets == [0, 128]
    assert world.block(release, "north") == sealed_bytes(world, release)
    assert world.block(release, "north").startswith(held)
    assert len(world.north.noise.draws) == DRAWS_OF_ONE_BLOCK


def test_a_lost_acknowledgement_is_made_good_without_sending_again(world: World) -> None:
    release = world.approved()
    world.hub.breaks_at = 1  # it takes the one chunk of the block, and breaks before it answers
    world.north.cycle()
    assert world.north.status(release) == "sealed"
    assert world.block(release, "north") == sealed_bytes(world, release)
    world.north.cycle()
    assert world.north.status(release) == "delivered"
    assert world.hub.offsets == [0]


def test_a_stream_that_stands_still_is_given_up_and_tried_again(world: World) -> None:
    world.north.edit("stall_seconds = .*", "stall_seconds = 0.05")
    world.hub.stalls = threading.Event()
    release = world.approved()
    try:
        world.north.cycle()
        assert "stood still for 0.05 s" in world.north.record(release).note
        assert world.north.status(release) == "sealed"
    finally:
        stalls, world.hub.stalls = world.hub.stalls, None
        stalls.set()
    world.north.edit("stall_seconds = .*", "stall_seconds = 30.0")
    world.north.cycle()
    assert world.north.status(release) == "delivered"
    assert len(world.north.noise.draws) == DRAWS_OF_ONE_BLOCK


def test_every_chunk_counts_as_progress(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    moves: list[float] = []

    class Counting(ProgressDeadline):
        def moved(self) -> None:
            moves.append(1)
            super().moved()

    monkeypatch.setattr(outbound, "ProgressDeadline", Counting)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 64)
    release = world.approved()
    world.north.cycle()
    assert world.north.status(release) == "delivered"
    assert len(moves) == -(-len(world.block(release, "north")) // 64)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("harm", [flip, Path.unlink, lambda path: path.write_bytes(b"")])
def test_a_block_that_changed_on_disk_is_never_sent(world: World, harm: Callable[[Path], None]) -> None:
    world.shelf.serving = False
    release = world.approved()
    world.north.cycle()
    harm(world.north.hospital_state().vault.path(release))
    world.shelf.serving = True
    world.north.cycle(2)
    assert world.hub.sealed == []
    assert "altered on disk" in world.north.record(release).note
    assert len(world.north.noise.draws) == DRAWS_OF_ONE_BLOCK


@pytest.mark.parametrize("status", [Status.APPROVED, Status.SEALED])
def test_a_block_that_is_lost_is_not_made_again(world: World, status: Status) -> None:
    world.shelf.serving = False
    release = world.approved()
    world.north.cycle()
    world.north.hospital_state().vault.discard(release)
    world.north.hospital_state().journal.move(
        release, {Status.SEALED}, status
    )  # APPROVED as after a cut between charge and note
    world.shelf.serving = True
    world.north.cycle(2)
    assert len(world.north.noise.draws) == DRAWS_OF_ONE_BLOCK
    assert world.hub.sealed == []
    assert world.north.hospital_state().ledger.stage("cohort", release) == "charge"


def test_what_the_hub_holds_is_not_sent_again(world: World) -> None:
    release = world.approved()
    world.north.cycle()
    hospital_state = world.north.hospital_state()
    (sealed,) = hospital_state.vault.find(release)
    with connect(world.shelf.address, hospital_state.identity.credentials()) as hub:
        upload(hub, sealed, hospital_state.vault.path(release), 30.0)
    assert world.hub.offsets == [0]
