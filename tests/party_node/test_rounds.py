"""A release of two rounds at a hospital, over real TLS: ranges, then moments in them; every cycle is a fresh process."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from typing import Any

import pytest

from dprelease.canonical import sha256
from dprelease.release.accounting import guarantee
from dprelease.release.charges import charge
from party_node.state.books import mismatches
from tests.party_node.joint_release import approved, deliver, joint_spec, kinds, released_exactly
from tests.party_node.test_gate import secrets_of
from tests.party_node.world import DRAWS_OF_ONE_BLOCK, Hospital, PowerCut, World

DRAWS_OF_RANGES = 3  # counts, sums, sums of squares
DRAWS = DRAWS_OF_RANGES + DRAWS_OF_ONE_BLOCK


def two_rounds(world: World, *names: str, range_proofs: bool = False) -> str:
    """An approved release; what its rounds do to one another is the same with proofs, which take half the messages."""
    return approved(world, *names, two_rounds=True, range_proofs=range_proofs)


def sequences(world: World, party: str) -> list[int]:
    """Which blocks of a hospital the hub has seen, each once."""
    return sorted({sealed.sequence for sealed in world.hub.sealed if sealed.party == party})


def delivered_once(world: World, release: str) -> None:
    """Both blocks as they were sealed, one charge, no second draw, exact moments in the ranges of the first block."""
    for name in ("north", "south"):
        hospital = getattr(world, name)
        assert hospital.status(release) == "delivered"
        assert hospital.ledger_kinds(release) == ["reserve", "charge", "send"]
        hospital_state = hospital.hospital_state()
        digests = tuple(sha256(world.block(release, name, at)) for at in range(2))
        assert {each.sha256 for each in world.hub.sealed if each.party == name} == set(digests)
        assert hospital_state.ledger.made("cohort")[release] == digests
        assert [block.sha256 for block in hospital_state.vault.find(release)] == list(digests)
        assert mismatches(hospital_state.books) == []
    assert released_exactly(world, release)


def test_two_hospitals_go_both_rounds(world: World) -> None:
    release = two_rounds(world, range_proofs=True)
    spec = world.north.record(release).spec
    deliver(world)
    delivered_once(world, release)
    for hospital in (world.north, world.south):
        assert len(hospital.noise.draws) == DRAWS
        charged = hospital.hospital_state().ledger.balance("cohort").charged
        assert charged == guarantee(spec).party(hospital.member.name).mu2
    secrets = secrets_of(world, release)
    heard = [*world.relay.posts[release].record(), *(data for _, data in world.coordinator.received)]
    assert [name for name, secret in secrets.items() if any(secret in data for data in heard)] == []
    kept = world.north.folder / "state" / "rounds" / release
    assert kept.exists()
    world.coordinator.move(release, "PUBLISHED")
    world.north.cycle()
    assert not kept.exists()


def test_one_hospital_alone_goes_both_rounds(world: World) -> None:
    release = two_rounds(world, "north")
    world.north.cycle(2)
    assert world.north.status(release) == "delivered"
    assert world.north.ledger_kinds(release) == ["reserve", "charge", "send"]
    assert released_exactly(world, release, "north")
    assert world.relay.posts == {}


def test_nothing_of_the_first_round_leaves_before_every_approval(world: World) -> None:
    release = world.coordinator.propose(joint_spec(world, two_rounds=True))
    world.north.cycle(2)
    world.coordinator.move(release, "APPROVED")  # it is not
    world.north.cycle(2)
    assert "no approval by south" in world.north.record(release).note
    assert world.hub.sealed == []
    assert world.north.noise.draws == []


def test_nothing_of_the_session_leaves_before_the_whole_first_round_is_in(world: World) -> None:
    release = two_rounds(world)
    world.north.cycle(3)
    assert sequences(world, "north") == [0]
    assert kinds(world, release) == []
    assert "waits for every hospital's blocks of the round before" in world.north.record(release).note
    assert world.north.ledger_kinds(release) == ["reserve", "charge", "send"]
    deliver(world)
    delivered_once(world, release)


@pytest.mark.parametrize("state", ["CANCELLED", "FAILED"])
def test_what_ends_between_the_rounds_stays_charged_and_goes_no_further(world: World, state: str) -> None:
    release = two_rounds(world)
    world.north.cycle(2)
    world.coordinator.move(release, state)
    world.north.cycle(2)
    assert world.north.status(release) == "ended"
    assert world.north.hospital_state().ledger.balance("cohort").charged > 0
    world.coordinator.move(release, "APPROVED")
    deliver(world)
    assert kinds(world, release) == []
    assert len(world.north.noise.draws) == DRAWS_OF_RANGES


def test_approved_rows_that_are_lost_and_changed_between_the_rounds_end_the_release(world: World) -> None:
    release = two_rounds(world)
    world.north.cycle(2)
    source = world.north.source
    source.write_text(source.read_text().replace("41.70000", "42.70000"))
    world.north.hospital_state().frozen(release).erase()
    deliver(world)
    assert world.north.status(release) == "declined"
    assert world.coordinator.state(release) == "FAILED"
    assert sequences(world, "north") == [0]
    assert len(world.north.noise.draws) == DRAWS_OF_RANGES
    assert kinds(world, release) == []


def test_books_from_between_the_rounds_are_recognised_once_the_office_saw_a_publication(world: World) -> None:
    """Both were restored to where the first block was sent and the second not yet made."""
    release = two_rounds(world)
    world.north.cycle()
    hospital_state = world.north.hospital_state()
    for published, found in ((False, []), (True, ["the office saw it published, the ledger knows of 1 of 2 blocks"])):
        seen = charge(world.north.record(release).spec, "north", published=published)
        books = replace(hospital_state.books, seen=(seen,))
        assert [each.words.partition(": ")[2] for each in mismatches(books)] == found


def test_a_hub_that_forgot_the_first_round_is_sent_the_same_again(world: World) -> None:
    release = two_rounds(world)
    world.north.cycle()
    before = world.block(release, "north")
    world.hub.blocks.clear()
    world.hub.sealed.clear()
    deliver(world)
    assert world.block(release, "north") == before
    delivered_once(world, release)


def always(*_: Any) -> bool:
    return True


def of_the_second(*arguments: Any) -> bool:
    """Whether a block of the second round is what it is about."""
    return any(getattr(each, "sequence", 0) == 1 for each in arguments) or (
        isinstance(arguments[-1], tuple) and bool(arguments[-1])
    )


def with_both(_: Any, blocks: Any, __: Any) -> bool:
    return bool(blocks[0].header.sequence == 1)


Where = Callable[..., bool]
CUTS: list[tuple[str, str, int, Where]] = [
    ("party_node.computation.releases.privatize", "after", 1, always),
    ("party_node.state.vault.write_secret", "after", 1, always),
    ("party_node.state.vault.Vault.seal", "after", 1, always),
    ("party_node.state.ledger.Ledger.make", "before", 1, always),
    ("party_node.state.ledger.Ledger.make", "after", 1, always),
    ("party_node.state.ledger.Ledger.charge", "after", 1, always),
    ("party_node.state.ledger.Ledger.send", "after", 1, always),
    ("party_node.outgoing.hub.upload", "before", 1, always),
    ("party_node.outgoing.hub.upload", "after", 1, always),
    ("party_node.computation.rounds.held_blocks", "after", 1, always),
    ("party_node.computation.rounds.fetch_block", "after", 1, always),
    ("party_node.state.vault.write_secret", "after", 1, always),
    ("party_node.state.vault.write_secret", "after", 2, always),
    ("party_node.state.vault.RoundFolder.keep", "after", 1, always),
    ("party_node.state.session.SessionFolder.begin", "after", 1, always),
    ("dprelease.mpc.exchange.Exchange.mask", "after", 1, always),
    ("dprelease.mpc.exchange.Exchange.share", "after", 1, always),
    ("party_node.computation.sessions.privatize", "before", 1, always),
    ("party_node.state.vault.Vault.seal", "before", 1, with_both),
    ("party_node.state.vault.Vault.seal", "after", 1, with_both),
    ("party_node.state.ledger.Ledger.make", "after", 1, of_the_second),
    ("party_node.state.journal.Journal.move", "before", 1, always),
    ("party_node.outgoing.hub.upload", "before", 1, of_the_second),
    ("party_node.outgoing.hub.upload", "after", 1, of_the_second),
]
AGAIN = {CUTS[0]: DRAWS_OF_RANGES, CUTS[1]: DRAWS_OF_RANGES, CUTS[18]: DRAWS_OF_ONE_BLOCK}
"""Draws that a cut before the seal loses, of which nothing was seen."""


@dataclass
class Fault:
    """Ends a process at the n-th time that something is done in a place, over all its lives."""

    path: str
    when: str
    call: int
    where: Where
    calls: int = 0

    def cuts(self, hospital: Hospital) -> bool:
        """Whether it ends a cycle of a hospital, whose books agree after it."""
        cut = False
        with pytest.MonkeyPatch.context() as patch:
            self.set(patch)
            try:
                hospital.cycle()
            except PowerCut:
                cut = True
        assert mismatches(hospital.hospital_state().books) == []
        return cut

    def set(self, patch: pytest.MonkeyPatch) -> None:
        original = resolve_name(self.path)

        def interrupted(*arguments: Any, **named: Any) -> Any:
            here = self.where(*arguments)
            self.calls += here
            if here and (self.when, self.calls) == ("before", self.call):
                raise PowerCut
            result = original(*arguments, **named)
            if here and (self.when, self.calls) == ("after", self.call):
                raise PowerCut
            return result

        patch.setattr(self.path, interrupted)


@pytest.mark.parametrize(
    "cut",
    [pytest.param(cut, marks=() if place % 3 == 0 else pytest.mark.slow) for place, cut in enumerate(CUTS)],
    ids=lambda cut: f"{cut[1]} {cut[0].rpartition('.')[2]} {cut[2]} {cut[3].__name__}",
)
def test_a_power_cut_never_means_another_block(world: World, cut: tuple[str, str, int, Where]) -> None:
    release, fault, cuts = two_rounds(world), Fault(*cut), 0
    seen: list[list[str]] = []
    for _ in range(8):
        cuts += fault.cuts(world.north)
        seen.append([sealed.sha256 for sealed in world.north.hospital_state().vault.find(release)])
        world.south.cycle()
        if cuts and world.north.status(release) == world.south.status(release) == "delivered":
            break  # `deliver` sees that nothing happens in rounds after that
    assert cuts == 1
    deliver(world)
    delivered_once(world, release)
    assert all(each == seen[-1][: len(each)] for each in seen)
    assert len(world.north.noise.draws) == DRAWS + AGAIN.get(cut, 0)
