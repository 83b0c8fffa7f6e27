"""Power cuts at every step: a fresh process goes on from what is on disk, and never draws noise for bytes that exist."""

from pkgutil import resolve_name
from typing import Any

import pytest

from dprelease.canonical import sha256
from dprelease.release.approval import SignedApproval
from party_node.state.books import mismatches
from tests.party_node.world import DRAWS_OF_ONE_BLOCK, PowerCut, World


def cut(monkeypatch: pytest.MonkeyPatch, path: str, when: str, call: int = 1) -> None:
    """End the process before or after the `call`-th time that something is done; later calls go through."""
    original, calls = resolve_name(path), []

    def interrupted(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if when == "before" and len(calls) == call:
            raise PowerCut
        result = original(*arguments, **named)
        if when == "after" and len(calls) == call:
            raise PowerCut
        return result

    monkeypatch.setattr(path, interrupted)


Cut = tuple[str, str, int]
DECIDING: list[Cut] = [
    ("party_node.state.journal.Journal.offer", "after", 1),
    ("party_node.state.journal.Journal.move", "before", 1),
    ("party_node.state.journal.Journal.move", "after", 1),
    ("party_node.state.journal.Journal.commit", "before", 1),
    ("party_node.state.journal.Journal.commit", "after", 1),
    ("party_node.state.ledger.Ledger.reserve", "before", 1),
    ("party_node.state.ledger.Ledger.reserve", "after", 1),
    ("party_node.hospital.approve", "after", 1),
    ("party_node.state.journal.Journal.sign", "before", 1),
    ("party_node.state.journal.Journal.sign", "after", 1),
    ("party_node.outgoing.office.AgreementCalls.approve", "before", 1),
    ("party_node.outgoing.office.AgreementCalls.approve", "after", 1),
]
MAKING: list[Cut] = [
    ("party_node.computation.releases.check_all", "before", 1),
    ("party_node.computation.releases.check_all", "after", 1),
    ("party_node.computation.releases.privatize", "before", 1),
    ("party_node.computation.releases.privatize", "after", 1),
    ("party_node.state.vault.write_secret", "before", 1),
    ("party_node.state.vault.write_secret", "after", 1),  # the block is there, its seal is not
]
SEALED: list[Cut] = [
    ("party_node.state.vault.write_secret", "after", 2),
    ("party_node.state.vault.Vault.seal", "after", 1),
    ("party_node.state.ledger.Ledger.make", "before", 1),
    ("party_node.state.ledger.Ledger.make", "after", 1),
    ("party_node.state.ledger.Ledger.charge", "before", 1),
    ("party_node.state.ledger.Ledger.charge", "after", 1),
    ("party_node.state.journal.Journal.move", "before", 1),
    ("party_node.state.journal.Journal.move", "after", 1),
    ("party_node.outgoing.hub.check_reachable", "after", 1),
    ("party_node.state.ledger.Ledger.send", "before", 1),
    ("party_node.state.ledger.Ledger.send", "after", 1),
    ("party_node.outgoing.hub.upload", "before", 1),
    ("party_node.outgoing.hub.upload", "after", 1),
    ("party_node.state.journal.Journal.move", "before", 2),
    ("party_node.state.journal.Journal.move", "after", 2),
]


def cut_short(world: World, path: str, when: str, call: int = 1) -> None:
    """A round of the north's daemon that a power cut ends."""
    with pytest.MonkeyPatch.context() as patch:
        cut(patch, path, when, call)
        with pytest.raises(PowerCut):
            world.north.cycle()
    assert mismatches(world.north.hospital_state().books) == []  # a daemon starts after any power cut


def delivered_once(world: World, release: str, blocks: int = 1) -> None:
    """The hub holds each block as it was sealed, the ledger one charge, and a later round changes neither."""
    assert world.north.status(release) == "delivered"
    state = world.north.hospital_state()
    held = [world.block(release, "north", at) for at in range(blocks)]
    assert held == [state.vault.path(release, at).read_bytes() for at in range(blocks)]
    assert {each.sha256 for each in world.hub.sealed} == {sha256(data) for data in held}
    assert world.north.made(release) == [sha256(data) for data in held]
    assert world.north.ledger_kinds(release) == ["reserve", "charge", "send"]
    assert [entry.kind for entry in state.ledger.entries()].count("made") == 1
    assert mismatches(state.books) == []
    draws = len(world.north.noise.draws)
    world.north.cycle(2)
    assert len(world.north.noise.draws) == draws


@pytest.mark.parametrize(("path", "when", "call"), DECIDING)
def test_a_cut_while_deciding(world: World, path: str, when: str, call: int) -> None:
    release = world.propose()
    cut_short(world, path, when, call)
    world.north.cycle()
    assert world.north.status(release) == "approved"
    assert world.north.ledger_kinds(release) == ["reserve"]
    held = world.coordinator.records[release].consents
    assert len(held) == 1
    assert SignedApproval.from_bytes(held[0]).approval.party == "north"
    world.south_approves(release)
    world.north.cycle()
    delivered_once(world, release)
    assert len(world.north.noise.draws) == DRAWS_OF_ONE_BLOCK


@pytest.mark.parametrize(("path", "when", "call"), MAKING)
def test_a_cut_before_the_seal_leaves_nothing_that_was_seen(world: World, path: str, when: str, call: int) -> None:
    release = world.approved()
    cut_short(world, path, when, call)
    assert world.north.ledger_kinds(release) == ["reserve"]
    assert world.hub.sealed == []
    assert world.north.hospital_state().vault.find(release) == ()
    world.north.cycle()
    delivered_once(world, release)


@pytest.mark.parametrize(("path", "when", "call"), SEALED)
def test_a_cut_after_the_seal_never_draws_again(world: World, path: str, when: str, call: int) -> None:
    release = world.approved()
    cut_short(world, path, when, call)
    sealed = world.north.hospital_state().vault.path(release).read_bytes()
    sent = bool(world.hub.sealed)
    assert not sent or world.north.ledger_kinds(release) == ["reserve", "charge", "send"]  # no charge, no bytes
    world.north.cycle()
    delivered_once(world, release)
    assert world.block(release, "north") == sealed
    assert len(world.north.noise.draws) == DRAWS_OF_ONE_BLOCK


@pytest.mark.parametrize(("path", "when", "call"), SEALED)
def test_a_release_that_is_over_after_a_cut_gives_back_what_did_not_leave(
    world: World, path: str, when: str, call: int
) -> None:
    release = world.approved()
    cut_short(world, path, when, call)
    kinds = world.north.ledger_kinds(release)
    world.coordinator.move(release, "CANCELLED")
    world.north.cycle(2)
    vault, balance = world.north.hospital_state().vault, world.north.hospital_state().ledger.balance("cohort")
    if kinds[-1] == "send":
        assert world.north.ledger_kinds(release) == kinds
        assert balance.charged > 0
        assert vault.find(release) != ()
    else:
        assert world.north.ledger_kinds(release) == [*kinds, "refund"]
        assert (balance.charged, balance.reserved) == (0, 0)
        assert not vault.path(release).exists()
        assert world.hub.sealed == []
    world.coordinator.move(release, "APPROVED")  # a coordinator that changes its mind gains nothing
    world.north.cycle(2)
    assert len(world.north.noise.draws) == DRAWS_OF_ONE_BLOCK
    assert world.north.status(release) == "ended"


@pytest.mark.parametrize("path", ["party_node.state.ledger.Ledger.refund", "party_node.state.vault.Vault.discard"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_cut_while_giving_up(world: World, path: str, when: str) -> None:
    release = world.approved()
    cut_short(world, "party_node.state.ledger.Ledger.charge", "after")
    world.coordinator.move(release, "CANCELLED")
    cut_short(world, path, when)
    world.north.cycle()
    assert world.north.ledger_kinds(release) == ["reserve", "charge", "refund"]
    assert not world.north.hospital_state().vault.path(release).exists()
    assert world.north.status(release) == "ended"


def test_a_cut_between_freeing_and_ending_lets_no_block_out_if_the_coordinator_turns(world: World) -> None:
    release = world.approved()
    cut_short(world, "party_node.state.ledger.Ledger.charge", "after")
    world.coordinator.move(release, "CANCELLED")
    cut_short(world, "party_node.state.ledger.Ledger.refund", "after")
    world.coordinator.move(release, "APPROVED")
    world.north.cycle(2)
    assert world.hub.sealed == []
    assert world.north.ledger_kinds(release) == ["reserve", "charge", "refund"]
    assert len(world.north.noise.draws) == DRAWS_OF_ONE_BLOCK
