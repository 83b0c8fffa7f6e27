"""Two blocks of a release at a hospital: drawn and sealed together, charged once, sent as the same bytes whatever breaks."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprelease.canonical import sha256
from dprelease.errors import Conflict, IntegrityError
from dprelease.identity.signing import PrivateKey, new_private_key
from dprelease.release.block import Block, expected_header
from party_node.computation.once import require
from party_node.computation.releases import ReleaseWork
from party_node.outgoing import hub as delivery
from party_node.state.books import mismatches
from party_node.state.vault import Vault
from tests.party_node.test_restart import cut_short, delivered_once
from tests.party_node.world import World
from tests.support.several_blocks import ask_for_two, second_block
from tests.support.specs import build_spec

SPEC = build_spec()
DRAWS_OF_TWO_BLOCKS = 3


@pytest.fixture(autouse=True)
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every spec asks for two blocks, and the daemon draws them together."""
    ask_for_two(monkeypatch)
    one = ReleaseWork._blocks

    def both(self: ReleaseWork, coordinator: Any, record: Any, approvals: Any, sealed: Any) -> tuple[Block, ...]:
        found = one(self, coordinator, record, approvals, sealed)
        assert not isinstance(found, str)
        header = expected_header(record.spec, "north", 1)
        return *found, Block(header, self._noise.discrete_gaussian(1000.0, (header.rows, header.columns)))

    monkeypatch.setattr(ReleaseWork, "_blocks", both)


@pytest.fixture(scope="module")
def key() -> PrivateKey:
    return new_private_key()


def pair(value: int) -> tuple[Block, Block]:
    header = expected_header(SPEC, "north")
    first = Block(header, np.full((header.rows, header.columns), value, np.int64))
    return first, second_block(SPEC, "north", value)


def test_both_are_sealed_or_none(folder: Path, key: PrivateKey, monkeypatch: pytest.MonkeyPatch) -> None:
    vault, release = Vault(folder / "sealed"), SPEC.digest()
    sealed = vault.seal(pair(1), key)
    assert [(each.sequence, each.sha256) for each in sealed] == [
        (at, sha256(block.to_bytes())) for at, block in enumerate(pair(1))
    ]
    assert vault.find(release) == sealed == vault.seal(pair(2), key)
    vault.path(release, 1).write_bytes(pair(2)[1].to_bytes())
    with pytest.raises(IntegrityError, match=r"sealed block 1 of release .* was altered"):
        vault.find(release)
    vault.discard(release)
    assert vault.find(release) == ()
    assert list((folder / "sealed").iterdir()) == []


def test_the_ledger_knows_both_in_their_order(world: World) -> None:
    ledger = world.north.hospital_state().ledger
    ledger.reserve("cohort", "ab" * 32, Fraction(1, 100), {})
    both = ("11" * 32, "22" * 32)
    ledger.make("cohort", "ab" * 32, both)
    ledger.make("cohort", "ab" * 32, both)
    assert ledger.made("cohort") == {"ab" * 32: both}
    for others in (both[:1], both[::-1], (*both, both[0]), ("33" * 32, "22" * 32)):
        with pytest.raises(IntegrityError, match="another block"):
            ledger.make("cohort", "ab" * 32, others)


def test_two_blocks_are_charged_once_and_delivered(world: World) -> None:
    release = world.approved()
    world.north.cycle(2)
    assert [each.sequence for each in world.hub.sealed] == [0, 1]
    delivered_once(world, release, blocks=2)
    assert len(world.north.noise.draws) == DRAWS_OF_TWO_BLOCKS


@pytest.mark.parametrize(
    ("path", "when", "call"),
    [
        ("party_node.state.vault.write_secret", "after", 1),  # the first block is there
        ("party_node.state.vault.write_secret", "before", 3),  # both are, their seal is not
    ],
)
def test_a_cut_between_the_blocks_before_their_seal_leaves_nothing_that_was_seen(
    world: World, path: str, when: str, call: int
) -> None:
    release = world.approved()
    cut_short(world, path, when, call)
    assert world.north.ledger_kinds(release) == ["reserve"]
    assert (world.north.made(release), world.hub.sealed) == ([], [])
    assert world.north.hospital_state().vault.find(release) == ()
    world.north.cycle()
    delivered_once(world, release, blocks=2)


@pytest.mark.parametrize(
    ("path", "when", "call"),
    [
        ("party_node.state.vault.write_secret", "after", 3),
        ("party_node.state.ledger.Ledger.make", "after", 1),
        ("party_node.state.ledger.Ledger.charge", "after", 1),
        ("party_node.state.ledger.Ledger.send", "after", 1),
        ("party_node.outgoing.hub.upload", "after", 1),  # the hub holds block 0
        ("party_node.outgoing.hub.upload", "before", 2),
        ("party_node.outgoing.hub.upload", "after", 2),
    ],
)
def test_a_cut_between_the_blocks_resumes_with_the_same_bytes(world: World, path: str, when: str, call: int) -> None:
    release = world.approved()
    cut_short(world, path, when, call)
    vault = world.north.hospital_state().vault
    sealed = [vault.path(release, at).read_bytes() for at in range(2)]
    world.north.cycle()
    delivered_once(world, release, blocks=2)
    assert [world.block(release, "north", at) for at in range(2)] == sealed
    assert len(world.north.noise.draws) == DRAWS_OF_TWO_BLOCKS


def test_a_break_within_the_second_block_does_not_send_the_first_again(world: World) -> None:
    release = world.approved()
    uploads: list[int] = []
    original = delivery.upload

    def breaking(hub: Any, sealed: Any, *more: Any) -> None:
        uploads.append(sealed.sequence)
        world.hub.breaks_at = 1 if uploads == [0, 1] else None
        original(hub, sealed, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delivery, "upload", breaking)
        world.north.cycle()
        assert world.north.status(release) == "sealed"
        world.north.cycle()
    assert uploads == [0, 1, 0, 1]
    assert world.hub.offsets == [0, 0]  # one stream for each block
    delivered_once(world, release, blocks=2)


@pytest.mark.parametrize("lose", [0, 1])
def test_neither_is_made_again_once_lost(world: World, lose: int) -> None:
    world.shelf.serving = False
    release = world.approved()
    world.north.cycle()
    world.north.hospital_state().vault.path(release, lose).unlink()
    world.shelf.serving = True
    world.north.cycle(2)
    assert world.hub.sealed == []
    assert f"sealed block {lose}" in world.north.record(release).note
    assert len(world.north.noise.draws) == DRAWS_OF_TWO_BLOCKS
    assert [each.release for each in mismatches(world.north.hospital_state().books)] == [release]


def test_no_noise_is_drawn_where_blocks_were_made(world: World) -> None:
    world.shelf.serving = False
    release = world.approved()
    world.north.cycle()
    hospital_state = world.north.hospital_state()
    hospital_state.vault.discard(release)
    with pytest.raises(Conflict, match="no second one is ever made"):
        require(hospital_state, release, "charge")
