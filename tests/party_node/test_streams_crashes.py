"""A power cut at any step of a later checkpoint: the same increments, one block, one entry in the books for each step."""

from typing import Any

import pytest

from tests.party_node.conftest import MakeWorld
from tests.party_node.joint_release import JOINT
from tests.party_node.streams import POLICY, first, following, grow, publish
from tests.party_node.test_rounds import Fault, always
from tests.party_node.test_streams import exact, kinds
from tests.party_node.world import DRAWS_OF_ONE_BLOCK, World
from tests.support.noise import RecordingNoise, ZeroNoise

STREAMS = "party_node.state.streams"
CUTS: list[tuple[str, str, int, Any]] = [
    ("party_node.state.journal.Journal.commit", "after", 1, always),
    ("party_node.state.ledger.Ledger.reserve", "after", 1, always),
    ("party_node.state.ledger.Ledger.send", "after", 1, always),
    ("dprelease.mpc.exchange.Exchange.share", "after", 1, always),
    (f"{STREAMS}.Streams.keep", "before", 1, always),
    (f"{STREAMS}.write_secret", "after", 1, always),
    ("party_node.computation.sessions.privatize", "after", 1, always),
    ("party_node.state.vault.write_secret", "after", 1, always),
    ("party_node.state.vault.Vault.seal", "after", 1, always),
    ("party_node.state.ledger.Ledger.make", "after", 1, always),
    ("party_node.outgoing.hub.upload", "before", 1, always),
    ("party_node.outgoing.hub.upload", "after", 1, always),
    (f"{STREAMS}.Streams.erase", "before", 1, always),
    ("dprelease.files.durable.shutil.rmtree", "after", 1, always),
]
AGAIN = {CUTS[6]: DRAWS_OF_ONE_BLOCK, CUTS[7]: DRAWS_OF_ONE_BLOCK}
"""Draws that a cut before the seal loses, of which nothing was seen."""


@pytest.mark.parametrize(
    "cut",
    [pytest.param(cut, marks=() if place % 4 == 1 else pytest.mark.slow) for place, cut in enumerate(CUTS)],
    ids=lambda cut: f"{cut[1]} {cut[0].rpartition('.')[2]}",
)
def test_a_power_cut_never_means_another_block(make_world: MakeWorld, cut: tuple[str, str, int, Any]) -> None:
    world: World = make_world(POLICY)
    world.north.noise, world.south.noise = RecordingNoise(ZeroNoise()), RecordingNoise(ZeroNoise())
    grow(world, 1)
    spec = first(world, checkpoints=2)
    publish(world, spec)
    grow(world, 2)
    drawn = len(world.north.noise.draws)
    release = world.coordinator.propose(following(world, spec, 2))
    fault, cuts, seen = Fault(*cut), 0, []
    for _ in range(12):
        cuts += fault.cuts(world.north)
        seen.append([sealed.sha256 for sealed in world.north.hospital_state().vault.find(release)])
        world.south.cycle()
        states = {getattr(world, name).status(release) for name in JOINT}
        if states == {"delivered"}:
            world.coordinator.move(release, "PUBLISHED")
        if cuts and states == {"ended"}:
            break
    assert cuts == 1
    assert kinds(world, release) == {name: ["charge", "reserve", "send"] for name in JOINT}
    assert all(each in ([], seen[-1]) for each in seen)
    assert len(world.north.noise.draws) == drawn + DRAWS_OF_ONE_BLOCK + AGAIN.get(cut, 0)
    exact(world, release, 2)
    world.north.hospital_state().streams.sweep()  # as the daemon does when it starts
    assert world.north.hospital_state().streams.folder.kept() == []
