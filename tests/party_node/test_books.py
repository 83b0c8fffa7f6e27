"""Stores that were restored from backups of different moments are recognised, and never lead to a second block."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.canonical import sha256
from dprelease.errors import Conflict, IntegrityError, PeerUnavailable
from dprelease.identity.invite import Invite
from dprelease.release.accounting import guarantee
from dprelease.release.charges import SignedStatement, charge
from dprelease.spec_base import instant
from party_node.outgoing.joining import enrol, hear_witness, open_roster
from party_node.state.books import Books, check, mismatches, reconcile
from party_node.state.journal import Status
from party_node.state.vault import Seal
from tests.party_node.joint_release import approved as approved_moments
from tests.party_node.joint_release import deliver
from tests.party_node.test_restored import copied
from tests.party_node.world import CAP, World

STORES = ("ledger.sqlite", "journal.sqlite", "sealed")


def back_up(world: World) -> Path:
    state, copy = world.north.folder / "state", world.north.folder / "backup"
    copy.mkdir()
    for name in STORES:
        copied(state / name, copy / name)
    return copy


def restore(world: World, copy: Path, *names: str) -> None:
    """Bring stores back as they were; what was not there then is gone."""
    for name in names:
        copied(copy / name, world.north.folder / "state" / name)


def north(world: World) -> Books:
    return world.north.hospital_state().books


def mixed(world: World) -> tuple[str, Path]:
    """A delivered release, and a backup from before its block was made."""
    release = world.approved()
    copy = back_up(world)
    world.north.cycle(2)
    assert world.north.status(release) == "delivered"
    return release, copy


def moments(world: World) -> tuple[str, Path]:
    release = approved_moments(world)
    copy = back_up(world)
    deliver(world)
    assert world.north.status(release) == "delivered"
    return release, copy


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (mixed, ("journal.sqlite", "sealed")),
        (mixed, ("sealed",)),
        (mixed, ("ledger.sqlite",)),
        (mixed, ("ledger.sqlite", "sealed")),
        (moments, ("ledger.sqlite", "sealed")),  # others of these at random, in `test_restored`
    ],
)
def test_no_second_block_after_any_partial_restore(
    world: World, make: Callable[[World], tuple[str, Path]], names: tuple[str, ...]
) -> None:
    release, copy = make(world)
    before, draws = world.block(release, "north"), len(world.north.noise.draws)
    restore(world, copy, *names)
    with pytest.raises(
        IntegrityError,
        match=r"the books disagree.*restore ledger.sqlite, journal.sqlite and sealed/.*alignments.sqlite",
    ) as told:
        check(north(world))
    assert release[:12] in told.value.message
    with pytest.raises(IntegrityError, match="the books disagree"):
        world.north.daemon().run(threading.Event())
    world.hub.blocks.clear()
    world.hub.sealed.clear()
    deliver(world)  # even where nothing looked at the books first
    assert len(world.north.noise.draws) == draws
    assert world.hub.blocks.get((release, "north", 0), before) == before


@pytest.mark.parametrize("make", [mixed, moments])
def test_with_an_older_journal_alone_the_same_block_is_sent_again(
    world: World, make: Callable[[World], tuple[str, Path]]
) -> None:
    release, copy = make(world)
    before, draws = world.block(release, "north"), len(world.north.noise.draws)
    restore(world, copy, "journal.sqlite")
    check(north(world))
    world.hub.blocks.clear()
    world.hub.sealed.clear()
    deliver(world)
    assert len(world.north.noise.draws) == draws
    assert world.block(release, "north") == before
    assert world.north.status(release) == "delivered"


def test_masked_columns_in_a_session_that_was_left_alone_show_that_the_ledger_is_older(world: World) -> None:
    release = approved_moments(world)
    copy = back_up(world)
    for name in ("north", "south", "north"):
        getattr(world, name).cycle()
    assert mismatches(north(world)) == []
    restore(world, copy, *STORES)
    (found,) = mismatches(north(world))
    assert found.words == f"release {release[:12]}: joint/ holds masked columns, the ledger says reserve"
    reconcile(north(world))
    assert (
        world.north.hospital_state().ledger.balance("cohort").charged
        == guarantee(world.north.record(release).spec).party("north").mu2
    )
    assert mismatches(north(world)) == []


def test_books_of_one_moment_agree_also_when_they_are_old(world: World) -> None:
    """That is what the office is a witness against."""
    _, copy = mixed(world)
    assert mismatches(north(world)) == []
    restore(world, copy, *STORES)
    assert mismatches(north(world)) == []


def seen(world: World, release: str, *, published: bool) -> bytes:
    return world.authority.statement("north", charge(world.north.record(release).spec, "north", published=published))


@pytest.mark.parametrize("published", [True, False])
def test_the_office_recognises_books_that_are_old_together(world: World, published: bool) -> None:
    """Restored to before the approval: nothing here remembers, the office does; the node stops and says what to do."""
    copy = back_up(world)
    release = world.approved()
    statement = seen(world, release, published=published)
    world.coordinator.charges = lambda party: statement
    restore(world, copy, *STORES)
    check(north(world))
    with pytest.raises(IntegrityError, match=r"the office saw it .*, the ledger says nothing.*ledger reconcile"):
        world.north.daemon().run(threading.Event())
    with pytest.raises(IntegrityError, match="the office saw it"):
        check(north(world))  # kept: not even its connection is opened again
    assert world.north.run("ledger", "reconcile", "--yes").exit_code == 0
    assert world.north.hospital_state().ledger.balance("cohort").charged == guarantee(world.spec()).party("north").mu2
    check(north(world))


def test_a_public_release_that_the_ledger_has_not_sent_is_recognised(world: World) -> None:
    release, copy = mixed(world)
    world.north.hospital_state().identity.keep_charges(SignedStatement.from_bytes(seen(world, release, published=True)))
    check(north(world))
    restore(world, copy, *STORES)  # reserved, and no more
    with pytest.raises(IntegrityError, match="the office saw it published, the ledger says reserve"):
        check(north(world))


def test_releases_that_were_given_up_here_are_known(world: World) -> None:
    release = world.approved()
    hospital_state = world.north.hospital_state()
    hospital_state.give_up(world.north.record(release), Status.ENDED, "failed")
    hospital_state.identity.keep_charges(SignedStatement.from_bytes(seen(world, release, published=False)))
    check(north(world))


def test_a_lost_ledger_is_not_opened_anew_in_silence(world: World) -> None:
    release, _ = mixed(world)
    (world.north.folder / "state" / "ledger.sqlite").unlink()
    hospital_state = world.north.hospital_state()
    with pytest.raises(Conflict, match=r"there was a ledger: restore .*--ledger-lost"):
        open_roster(hospital_state, "cohort", "again")
    with pytest.raises(Conflict, match="--ledger-lost"):
        enrol(hospital_state, invite(world))
    open_roster(hospital_state, "cohort", "again", ledger_lost=True)
    assert (
        hospital_state.ledger.balance("cohort").charged
        == guarantee(world.north.record(release).spec).party("north").mu2
    )
    assert world.north.status(release) == "ended"
    check(north(world))


def invite(world: World) -> Invite:
    return Invite(
        consortium=world.authority.consortium,
        party="north",
        address="localhost:1",
        root=world.authority.root,
        secret="unused",
        cap_mu2=str(CAP),
        expires=instant(datetime.now(UTC) + timedelta(hours=1)),
    )


def test_what_disagrees_can_be_closed_at_its_full_price(world: World) -> None:
    release, copy = mixed(world)
    price = guarantee(world.north.record(release).spec).party("north").mu2
    restore(world, copy, "ledger.sqlite", "sealed")
    shown = world.north.run("ledger", "reconcile", stdin="n\n")
    assert shown.exit_code == 1
    assert release[:12] in shown.output
    assert world.north.hospital_state().ledger.balance("cohort").charged == 0
    assert world.north.run("ledger", "reconcile", "--yes").exit_code == 0
    assert world.north.hospital_state().ledger.balance("cohort").charged == price
    assert world.north.status(release) == "ended"
    assert "agree; nothing to close" in world.north.run("ledger", "reconcile").output
    check(north(world))
    draws = len(world.north.noise.draws)
    world.north.cycle(2)
    assert len(world.north.noise.draws) == draws
    assert reconcile(north(world)) == []


def test_a_release_that_was_closed_before_the_office_had_our_consent_is_declined(world: World) -> None:
    copy, release = back_up(world), world.propose()
    world.coordinator.raises["Approve"] = PeerUnavailable("x")
    world.north.cycle()
    assert world.north.status(release) == "approved"
    restore(world, copy, "ledger.sqlite")
    assert world.north.run("ledger", "reconcile", "--yes").exit_code == 0
    world.coordinator.raises.clear()
    statement = world.authority.statement("north")
    world.coordinator.charges = lambda party: statement
    before = len(world.coordinator.received)
    with world.north.dialled() as coordinator:
        assert hear_witness(world.north.hospital_state(), coordinator) is None
    world.north.cycle(2)
    called = [method for method, _ in world.coordinator.received[before:]]
    assert (called.count("Approve"), called.count("Decline")) == (0, 1)


def test_a_release_that_only_the_ledger_knows_is_closed_at_what_was_reserved(world: World) -> None:
    ledger = north(world).ledger
    ledger.reserve("cohort", "ab" * 32, Fraction(1, 100), {"title": "lost"})
    (found,) = mismatches(north(world))
    assert "the journal says nothing, the ledger reserve" in found.words
    reconcile(north(world))
    assert world.north.hospital_state().ledger.balance("cohort").charged == Fraction(1, 100)
    with pytest.raises(Conflict, match="was given up here"):
        ledger.reserve("cohort", "ab" * 32, Fraction(1, 100), {})


def test_a_closed_release_may_exceed_the_cap_and_then_nothing_is_left(world: World) -> None:
    ledger = north(world).ledger
    for _ in range(2):  # again changes nothing
        ledger.close("cohort", "ab" * 32, 2 * CAP, 3 * CAP, "found at the office")
    assert [entry.kind for entry in ledger.entries()] == ["open", "close"]
    assert ledger.balance("cohort").remaining == -CAP
    assert ledger.balance("cohort").exposed == 3 * CAP


def test_a_block_that_was_altered_stops_the_node(world: World) -> None:
    release, _ = mixed(world)
    path = world.north.hospital_state().vault.path(release)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(IntegrityError, match="altered on disk"):
        check(north(world))
    seal = path.with_name(f"{release}.seal")
    (sealed,) = Seal.from_bytes(seal.read_bytes()).blocks
    seal.write_bytes(Seal(blocks=(sealed.model_copy(update={"sha256": sha256(path.read_bytes())}),)).to_bytes())
    with pytest.raises(IntegrityError, match="another block than the ledger knows"):
        check(north(world))


def test_the_ledger_takes_one_block_for_a_release(world: World) -> None:
    ledger = north(world).ledger
    with pytest.raises(Conflict, match="holds no budget for a block"):
        ledger.make("cohort", "ab" * 32, ("11" * 32,))
    ledger.reserve("cohort", "ab" * 32, Fraction(1, 100), {})
    ledger.make("cohort", "ab" * 32, ("11" * 32,))
    ledger.make("cohort", "ab" * 32, ("11" * 32,))
    with pytest.raises(IntegrityError, match="another block"):
        ledger.make("cohort", "ab" * 32, ("22" * 32,))
    assert ledger.made("cohort") == {"ab" * 32: ("11" * 32,)}
    assert ledger.stage("cohort", "ab" * 32) == "reserve"


def test_check_says_whether_the_books_agree(world: World) -> None:
    assert "books: ledger, journal and sealed blocks agree" in world.north.run("check", "--offline").output
    _, copy = mixed(world)
    restore(world, copy, "sealed")
    assert "PROBLEM books: the books disagree" in world.north.run("check", "--offline").output
