"""A hub or a hospital that lies about the first round: named, and nothing of the second leaves."""

from collections.abc import Callable

import numpy as np
import pytest

from dprelease.mechanisms.ranges.terms import WIDTH
from dprelease.privatization import privatize
from dprelease.release.block import Block, SealedBlock, read_block
from dprelease.release.manifest import sealed_block
from tests.party_node.joint_release import approved, deliver, kinds
from tests.party_node.world import World
from tests.support.noise import SeededNoise


@pytest.fixture
def release(world: World) -> str:
    """A release of two rounds that everybody approved and whose first round is in."""
    found = approved(world, two_rounds=True, range_proofs=False)
    world.north.cycle()
    world.south.cycle()
    return found


@pytest.fixture
def fresh(world: World) -> str:
    """One whose first round is not in: the north has sent, and the south comes later."""
    found = approved(world, two_rounds=True, range_proofs=False)
    world.north.cycle()
    return found


def block_of_south(world: World, release: str, seed: int = 99) -> Block:
    """Another first block of the south, as it would be over other noise."""
    spec = world.south.record(release).spec
    (made,) = privatize(world.south.hospital_state().table(spec).bounded, spec, "south", SeededNoise(seed))
    return made


def show(world: World, to: str, block: Block, key: str = "south") -> None:
    """The hub lists and hands out another block of the south to one hospital."""
    sealed = sealed_block(world.members[key].key, block.header, block.to_bytes())

    def lists(party: str, listed: tuple[SealedBlock, ...]) -> tuple[SealedBlock, ...]:
        return tuple(sealed if party == to and each.party == "south" else each for each in listed)

    world.hub.lists = lists
    world.hub.serves = lambda party, each, data: block.to_bytes() if (party, each.party) == (to, "south") else data


def stopped(world: World, release: str, words: str) -> None:
    """The north says why, has sent nothing of the session and made no second block."""
    assert words in world.north.record(release).note
    assert kinds(world, release) == []
    assert len(world.north.hospital_state().vault.find(release)) == 1
    assert list((world.north.folder / "state" / "joint").glob("*")) == []


SCALE, REACH = WIDTH - 2, WIDTH - 1
"""Places of S and j in a row."""


def last(change: Callable[[np.ndarray], np.ndarray], place: int = SCALE) -> Callable[[Block], Block]:
    """A block whose published scale or reach is changed."""

    def changed(block: Block) -> Block:
        values = block.values.copy()
        values[:, place] = change(values[:, place])
        return Block(block.header, values, block.public)

    return changed


FORGED = {
    "a scale of the raw column": (last(lambda scale: scale // 2), "do not follow from the noisy numbers"),
    "no scale at all": (last(lambda scale: 0 * scale), "outside what its public bounds allow"),
    "garbage": (last(lambda scale: scale + (1 << 60)), "outside what its public bounds allow"),
    "another reach": (last(lambda reach: reach + 1, REACH), "its reach does not follow from the noisy numbers"),
    "a reach without sense": (last(lambda reach: reach - 17, REACH), "outside what its public bounds allow"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_block_that_does_not_follow_from_its_noisy_integers_stops_every_hospital(
    world: World, fresh: str, name: str
) -> None:
    forge, words = FORGED[name]
    show(world, "north", forge(block_of_south(world, fresh)))
    deliver(world)
    stopped(world, fresh, words)
    assert {sealed.sequence for sealed in world.hub.sealed} == {0}


def test_a_block_under_another_key_is_refused(world: World, fresh: str) -> None:
    show(world, "north", block_of_south(world, fresh), key="north")
    deliver(world)
    stopped(world, fresh, "signature")


def test_bytes_that_the_party_did_not_sign_are_the_hubs(world: World, fresh: str) -> None:
    lists = world.hub.lists
    world.hub.lists = lambda party, listed: tuple(each.model_copy(update={"size": 1 << 40}) for each in listed)
    deliver(world)
    stopped(world, fresh, "the hub lists another block where block 0 of north")
    world.hub.lists = lists
    world.hub.serves = lambda party, sealed, data: data[:-1] + bytes([data[-1] ^ 1])
    deliver(world)
    stopped(world, fresh, "the hub handed out a block 0 of south that its party did not sign")
    world.hub.serves = lambda party, sealed, data: data + b"x"
    world.north.cycle()
    stopped(world, fresh, "past the")
    world.hub.serves = lambda party, sealed, data: data
    deliver(world)
    assert world.north.status(fresh) == world.south.status(fresh) == "delivered"


def test_blocks_in_other_places_and_another_of_ours_are_refused(world: World, fresh: str) -> None:
    world.hub.lists = lambda party, listed: listed[::-1]
    deliver(world)
    stopped(world, fresh, "the hub lists another block where block 0 of north belongs")
    spec = world.north.record(fresh).spec
    (made,) = privatize(world.north.hospital_state().table(spec).bounded, spec, "north", SeededNoise(5))
    other = sealed_block(world.members["north"].key, made.header, made.to_bytes())
    world.hub.lists = lambda party, listed: (other, *listed[1:])
    world.north.cycle()
    stopped(world, fresh, "the hub holds another block 0 of north than we have sealed")


def test_two_first_blocks_shown_to_different_hospitals_end_in_no_session(world: World, fresh: str) -> None:
    """The south signs two sound blocks and the hub shows one to each: the north confirms no transcript, so that nobody computes."""
    show(world, "north", block_of_south(world, fresh))
    deliver(world)
    assert "has seen another session than we have; nothing is computed" in world.north.record(fresh).note
    assert world.south.record(fresh).note == "waits for north to confirm what it has seen"
    assert {sealed.sequence for sealed in world.hub.sealed} == {0}
    for hospital in (world.north, world.south):
        assert len(hospital.hospital_state().vault.find(fresh)) == 1
        assert hospital.status(fresh) == "approved"


def test_what_was_kept_stays_whatever_the_hub_says_later(world: World, release: str) -> None:
    world.north.cycle()
    shown = read_block(world.block(release, "south"), world.north.record(release).spec, "south")
    show(world, "north", block_of_south(world, release))
    deliver(world)
    assert world.north.status(release) == world.south.status(release) == "delivered"
    kept = world.north.hospital_state().earlier(release)
    own = next(sealed for sealed in kept.kept() if sealed.party == "south")
    assert kept.read(own) == shown.to_bytes()


def test_a_kept_block_that_was_altered_on_disk_is_noticed(world: World, release: str) -> None:
    world.north.cycle()
    path = next((world.north.folder / "state" / "rounds" / release).glob("south.0.block"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    world.north.cycle()
    assert "block 0 of south was altered in" in world.north.record(release).note
    assert len(world.north.hospital_state().vault.find(release)) == 1
