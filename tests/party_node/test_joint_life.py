"""How a joint computation ends at a hospital: one block for good, one charge, and nothing left of the session."""

import shutil
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from dprelease.errors import Conflict
from dprelease.files.durable import TEMPORARY
from dprelease.mpc.messages import sign_message
from dprelease.release.accounting import guarantee
from party_node.state.transactions import transaction
from tests.party_node.joint_release import approved, deliver, kinds, released_exactly, session_folder
from tests.party_node.test_restart import cut
from tests.party_node.world import DRAWS_OF_ONE_BLOCK, PowerCut, World


@pytest.mark.parametrize(("state", "left"), [("CANCELLED", False), ("FAILED", True), ("EXPIRED", True)])
def test_what_ends_is_erased_and_refunded_unless_columns_left(world: World, state: str, left: bool) -> None:
    release = approved(world, range_proofs=False)
    for name in ("north", "south", "north") if left else ("north", "south"):
        getattr(world, name).cycle()
    assert ("columns" in kinds(world, release)) == left
    assert session_folder(world.north, release)
    before = world.north.ledger_kinds(release)
    world.coordinator.move(release, state)
    world.north.cycle(2)
    assert session_folder(world.north, release) == []
    assert world.north.status(release) == "ended"
    balance = world.north.hospital_state().ledger.balance("cohort")
    if left:
        assert world.north.ledger_kinds(release) == before == ["reserve", "charge", "send"]
        spec = world.north.record(release).spec
        assert spec.terms is not None
        assert float(balance.charged) == pytest.approx(float(Fraction(spec.terms.mu2)) / 2)
        assert float(balance.exposed) == pytest.approx(float(Fraction(spec.terms.mu2)))
    else:
        assert world.north.ledger_kinds(release) == ["reserve", "refund"]
        assert (balance.charged, balance.reserved) == (0, 0)
    world.coordinator.move(release, "APPROVED")  # a coordinator that changes its mind gains nothing
    sent = len(kinds(world, release))
    deliver(world)
    assert len(kinds(world, release)) == sent
    assert world.north.noise.draws == []


@pytest.mark.parametrize("half", ["joint/{}/out/.columns+south+.body", "sealed/.{}.0.block", "streams/{}/.1.increment"])
def test_a_start_removes_half_a_file_that_a_kill_left_and_nothing_else(world: World, half: str) -> None:
    release = approved(world, range_proofs=False)
    world.north.cycle()
    kept = session_folder(world.north, release)
    left = world.north.folder / "state" / f"{half.format(release)}.7.140{TEMPORARY}"
    left.parent.mkdir(parents=True, exist_ok=True)
    left.write_bytes(b"half of it")
    world.north.daemon().sweep(datetime.now(UTC))
    assert not left.exists()
    assert session_folder(world.north, release) == kept


def test_a_start_with_a_clock_that_runs_ahead_removes_nothing(world: World) -> None:
    release = approved(world, range_proofs=False)
    world.north.cycle()
    kept = session_folder(world.north, release)
    world.north.daemon().sweep(datetime.now(UTC) + timedelta(days=400))
    assert session_folder(world.north, release) == kept


def test_a_published_release_keeps_its_block_and_list_of_seeds_alone(world: World) -> None:
    release = approved(world, range_proofs=False)
    deliver(world)
    assert "session.json" in session_folder(world.north, release)
    world.coordinator.move(release, "PUBLISHED")
    world.north.cycle()
    assert world.north.status(release) == "ended"
    assert session_folder(world.north, release) == []
    assert world.north.hospital_state().vault.find(release) != ()
    with transaction(world.north.folder / "state" / "seeds.sqlite") as db:
        assert db.execute("SELECT count(*) FROM seeds").fetchone()[0] >= 1


@pytest.mark.parametrize("left", [False, True])
def test_approved_rows_that_are_lost_and_changed_in_the_source_are_withdrawn(world: World, left: bool) -> None:
    release = approved(world, range_proofs=False)
    if left:
        for name in ("north", "south", "north"):
            getattr(world, name).cycle()
    lines = world.north.source.read_text().splitlines()
    lines[5] = lines[5].replace("male", "female") if ",male" in lines[5] else lines[5].replace("female", "male")
    lines[6] = ",".join([lines[6].split(",")[0], "99.5", lines[6].split(",")[2]])
    world.north.source.write_text("\n".join(lines) + "\n")
    sent = [kind for kind in kinds(world, release) if kind != "transcript"]
    world.north.hospital_state().frozen(release).erase()
    deliver(world)
    assert world.north.status(release) == "declined"
    assert [kind for kind in kinds(world, release) if kind != "transcript"] == sent
    assert world.north.ledger_kinds(release)[-1] == ("send" if left else "refund")
    assert session_folder(world.north, release) == []
    assert world.north.noise.draws == []
    assert world.hub.sealed == []


def test_a_block_is_made_once_whatever_peers_begin_afterwards(world: World) -> None:
    """The retry attack at its root: a peer that says it has lost its state, and would come back with another table."""
    release = approved(world)
    world.north.cycle()
    while world.north.status(release) != "delivered":
        world.south.cycle()
        world.north.cycle()
    assert world.south.status(release) == "approved"
    before, draws = world.block(release, "north"), len(world.north.noise.draws)
    post = world.relay.posts[release]
    header = post.find("hello", "south").header.model_copy(update={"round": 2, "payload": "09" + "00" * 31})
    post.take("south", sign_message(world.members["south"].key, header), b"")
    for _ in range(3):
        world.south.cycle()
        world.north.cycle()
    assert world.relay.posts[release].offers(2).keys() == {"south"}
    assert {message.header.round for party, message, _ in world.relay.posts[release].given if party == "north"} == {1}
    assert len(world.north.noise.draws) == draws
    assert world.block(release, "north") == before
    assert {sealed.sha256 for sealed in world.hub.sealed} == {world.hub.sealed[0].sha256}
    assert world.south.hospital_state().vault.find(release) == ()
    assert world.north.record(release).status == "delivered"


def test_a_relay_that_forgot_gets_our_messages_again_after_our_block(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    release = approved(world)
    world.north.cycle()
    while world.north.status(release) != "delivered":
        world.south.cycle()
        world.north.cycle()
    assert world.south.status(release) == "approved"
    world.relay.posts[release].messages.clear()
    world.relay.partial.clear()
    deliver(world)
    assert world.south.status(release) == "delivered"
    assert released_exactly(world, release)
    world.relay.raises = Conflict("published; its session is over")
    caplog.clear()
    world.north.cycle()
    assert "is held" not in caplog.text
    assert world.north.record(release).note == "the hub holds our block"


JOINT_CUTS = [
    ("party_node.state.ledger.Ledger.charge", "after", 1),
    ("party_node.state.ledger.Ledger.send", "after", 1),
    ("party_node.outgoing.relay.RelayCalls.send", "after", 2),
    ("party_node.computation.sessions.privatize", "before", 1),
    ("party_node.state.vault.Vault.seal", "after", 1),
    ("party_node.outgoing.hub.upload", "after", 1),
]
"""At the daemon's own steps and once in the session, whose every step `test_joint_crashes` cuts before."""


@pytest.mark.parametrize(("path", "when", "call"), JOINT_CUTS)
def test_a_power_cut_never_means_a_second_draw(world: World, path: str, when: str, call: int) -> None:
    release, cuts = approved(world, range_proofs=False), 0  # `test_joint_proof_crashes` cuts at every step of proofs
    with pytest.MonkeyPatch.context() as patch:
        cut(patch, path, when, call)
        for _ in range(8):
            try:
                world.north.cycle()
            except PowerCut:
                cuts += 1
                break
            patch.undo() if cuts else None
            south_alone(world, patch, path, when, call)
    assert cuts == 1
    deliver(world)
    assert world.north.status(release) == world.south.status(release) == "delivered"
    assert world.north.ledger_kinds(release) == ["reserve", "charge", "send"]
    assert len(world.north.noise.draws) == DRAWS_OF_ONE_BLOCK
    assert released_exactly(world, release)
    post = world.relay.posts[release]
    assert len({message.header for message in post.messages.values()}) == len(
        {message.header.place for _, message, _ in post.given}
    )


def south_alone(world: World, patch: pytest.MonkeyPatch, path: str, when: str, call: int) -> None:
    """The other hospital's turn, which nothing interrupts."""
    patch.undo()
    world.south.cycle()
    cut(patch, path, when, call)


@pytest.mark.parametrize("names", [("north",), ("north", "south")])
def test_budget_that_was_given_back_makes_no_noise_if_the_coordinator_turns(
    world: World, names: tuple[str, ...]
) -> None:
    release = approved(world, *names, range_proofs=False)
    world.coordinator.move(release, "CANCELLED")
    with pytest.MonkeyPatch.context() as patch:
        cut(patch, "party_node.state.ledger.Ledger.refund", "after")
        with pytest.raises(PowerCut):
            world.north.cycle()
    world.coordinator.move(release, "APPROVED")
    deliver(world)
    assert world.north.ledger_kinds(release) == ["reserve", "refund"]
    assert world.north.noise.draws == []
    assert "columns" not in kinds(world, release)
    assert world.hub.sealed == []


def test_no_noise_is_drawn_under_a_ledger_that_does_not_know_of_our_columns(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """As after somebody put back an older file: the chain is whole, but the charge is not in it."""
    release = approved(world, range_proofs=False)
    ledger, older = (world.north.folder / "state" / name for name in ("ledger.sqlite", "older.sqlite"))
    shutil.copy(ledger, older)
    for name in ("north", "south", "north"):
        getattr(world, name).cycle()
    assert "columns" in kinds(world, release)
    older.replace(ledger)
    deliver(world)
    assert world.north.noise.draws == []
    assert "the hub holds a message (columns) of ours, and our books do not know it" in caplog.text
    assert world.north.ledger_kinds(release) == ["reserve", "close"]
    price = guarantee(world.north.record(release).spec).party("north").mu2
    assert world.north.hospital_state().ledger.balance("cohort").charged == price
    assert (world.north.status(release), world.coordinator.state(release)) == ("declined", "FAILED")
