"""A coordinator that lies about approvals and states: no noise without everybody's approval, no refund after bytes."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dprelease.errors import (
    BudgetExceeded,
    Conflict,
    DataRefused,
    DpReleaseError,
    IntegrityError,
    InvalidInput,
    PolicyRefused,
    SpecRefused,
)
from dprelease.release.spec import ReleaseSpec
from dprelease.wire.boundary import LOCAL, row_for
from tests.hostile.faults import Fault, Kind, each
from tests.hostile.hospital.honest import check_delivered, check_untouched, honest_release, steps
from tests.party_node.joint_release import approved, deliver
from tests.party_node.world import World
from tests.support.certificates import Authority

Approvals = Callable[[World, ReleaseSpec], list[bytes]]


def missing(world: World, spec: ReleaseSpec) -> list[bytes]:
    return []


def forged(world: World, spec: ReleaseSpec) -> list[bytes]:
    honest = world.members["south"]
    world.members["south"] = world.authority.member("south", "party")  # the office is the authority, too
    try:
        return [world.approval_of("south", spec).to_bytes()]
    finally:
        world.members["south"] = honest


def under_another_root(world: World, spec: ReleaseSpec) -> list[bytes]:
    other = Authority("trial").issue("south", "party", world.members["south"].key.public_key())
    return changed(certificate=other)(world, spec)


def changed(**fields: str) -> Approvals:
    """The south's approval with other fields."""
    return lambda world, spec: [world.approval_of("south", spec).model_copy(update=fields).to_bytes()]


def certified(role: str = "party", **how: Any) -> Approvals:
    """... under another certificate of the same root over the same key."""

    def approvals(world: World, spec: ReleaseSpec) -> list[bytes]:
        key = world.members["south"].key.public_key()
        return changed(certificate=world.authority.issue("south", role, key, **how))(world, spec)

    return approvals


def saying(**fields: str) -> Approvals:
    """... that says something else than was signed."""

    def approvals(world: World, spec: ReleaseSpec) -> list[bytes]:
        signed = world.approval_of("south", spec)
        return [signed.model_copy(update={"approval": signed.approval.model_copy(update=fields)}).to_bytes()]

    return approvals


def with_a_damaged_signature(world: World, spec: ReleaseSpec) -> list[bytes]:
    signed = world.approval_of("south", spec)
    damaged = signed.signature[:-1] + ("0" if signed.signature[-1] != "0" else "1")
    return [signed.model_copy(update={"signature": damaged}).to_bytes()]


def for_another_spec(world: World, spec: ReleaseSpec) -> list[bytes]:
    return [world.approval_of("south", world.spec("shown to the south only")).to_bytes()]


def replayed(world: World, spec: ReleaseSpec) -> list[bytes]:
    earlier = honest_release(world)
    return [data for data in world.coordinator.records[earlier].consents if b'"south"' in data]


def ours_twice(world: World, spec: ReleaseSpec) -> list[bytes]:
    return [world.approval_of("north", spec).to_bytes()]


def malformed(world: World, spec: ReleaseSpec) -> list[bytes]:
    return [b'{"approval":']


def twice(world: World, spec: ReleaseSpec) -> list[bytes]:
    return [world.approval_of("south", spec).to_bytes(), world.approval_of("south", spec).to_bytes()]


HELD = "no noise, the budget stays reserved; honest approvals let the release go on"
GIVEN: dict[str, tuple[Approvals, str]] = {
    "the coordinator says APPROVED without another's approval": (missing, "no approval by south"),
    "... with an approval by a key that it certified itself": (forged, "not made with the key"),
    "... with an approval under another root": (under_another_root, "not issued by the pinned consortium root"),
    "... with an approval under an expired certificate": (certified(lasting=timedelta(days=-1)), "not valid at"),
    "... with an approval under a hub's certificate": (certified("hub"), "holds a hub certificate"),
    "... with an approval that was not signed": (changed(signature="00"), "signature"),
    "... with an approval whose signature is damaged": (with_a_damaged_signature, "signature"),
    "... with an approval over other data than was signed": (saying(commitment="00" * 32), "signature"),
    "... with an approval at an impossible time": (saying(approved="2026-13-45T99:99:99Z"), ""),
    "... with an approval for another spec": (for_another_spec, "for another release"),
    "... with an approval replayed from an earlier release": (replayed, "for another release"),
    "... with another's approval twice": (twice, "approved twice"),
    "... with our own approval twice": (ours_twice, "approved twice"),
    "... with an approval that cannot be read": (malformed, "not a valid SignedApproval"),
}
APPROVALS = [
    Fault(
        what,
        "hospital",
        Kind.HELD,
        InvalidInput if what.endswith(("be read", "impossible time")) else IntegrityError,
        HELD,
        act,
    )
    for what, (act, _) in GIVEN.items()
]


def test_no_noise_without_everybodys_approval(world: World) -> None:
    """Every fault for one release, which an honest office may complete in the end."""
    spec, north = world.spec(), world.north
    given = [(fault, fault.act(world, spec)) for fault in APPROVALS]
    release = world.coordinator.propose(spec)
    north.cycle()
    if north.status(release) == "waiting":  # it repeats what the earlier release holds
        north.hospital_state().accept(north.record(release))
        north.cycle()
    record, draws = world.coordinator.records[release], len(north.noise.draws)
    for place, (fault, approvals) in enumerate(given):
        record.consents.extend(approvals)
        world.coordinator.move(
            release, ("APPROVED", "RUNNING")[place % 2]
        )  # approvals are read in the same way in both
        assert steps(north) == [fault.error], fault.what
        north.cycle()
        assert north.status(release) == "approved"
        assert north.record(release).note != "approved here"
        assert GIVEN[fault.what][1] in north.record(release).note, fault.what
        check_untouched(north, release, ["reserve"], draws)
        del record.consents[1:]
    world.south_approves(release)
    north.cycle()
    check_delivered(world, release)


def equivocate(world: World) -> tuple[str, str]:
    """One spec for each hospital; each is told that the other approved."""
    one, other = world.propose("for the north"), world.propose("for the south")
    to_north = world.coordinator.records.pop(one), world.coordinator.records.pop(other)
    for hospital, record, release in ((world.north, to_north[0], one), (world.south, to_north[1], other)):
        world.coordinator.records = {release: record}
        hospital.cycle()
    approvals = [data for record in to_north for data in record.consents]
    for hospital, record, release in ((world.north, to_north[0], one), (world.south, to_north[1], other)):
        del record.consents[:]
        record.consents.extend(approvals)
        world.coordinator.records = {release: record}
        world.coordinator.move(release, "APPROVED")
        assert steps(hospital) == [IntegrityError]
    return one, other


EQUIVOCATION = Fault(
    "the coordinator shows each hospital another spec", "hospital", Kind.HELD, IntegrityError,
    "no hospital draws noise; the budget comes back when the release ends", equivocate,
)  # fmt: skip


@each([EQUIVOCATION])
def test_nobody_draws_noise_for_two_specs(world: World, fault: Fault) -> None:
    one, other = fault.act(world)
    check_untouched(world.north, one, ["reserve"])
    check_untouched(world.south, other, ["reserve"])
    assert world.hub.sealed == []
    for hospital, release in ((world.north, one), (world.south, other)):
        spec = hospital.record(release).spec
        world.coordinator.records = {}
        world.coordinator.propose(spec)
        world.coordinator.move(release, "CANCELLED")
        hospital.cycle()
        check_untouched(hospital, release, ["reserve", "refund"])
    honest_release(world)


def says(state: str) -> Callable[[World, str], None]:
    return lambda world, release: world.coordinator.move(release, state, "it says")


BEFORE = [
    Fault(
        f"the coordinator says {state} before our block was sealed", "hospital", Kind.HARMLESS, None,
        "no noise, the budget comes back; the release is over here, whatever is said later", says(state),
    )
    for state in ("PUBLISHED", "CANCELLED", "FAILED", "EXPIRED")
]  # fmt: skip


@each(BEFORE)
def test_an_end_before_the_first_byte_gives_the_budget_back(world: World, fault: Fault) -> None:
    release, north = world.propose(), world.north
    north.cycle()
    fault.act(world, release)
    north.cycle()
    check_untouched(north, release, ["reserve", "refund"])
    world.south_approves(release)  # everybody approved, and the coordinator thinks better of it
    world.coordinator.move(release, "APPROVED")
    north.cycle(2)
    assert north.status(release) == "ended"
    check_untouched(north, release, ["reserve", "refund"])
    honest_release(world)


SEALED = [
    Fault(
        f"the coordinator says {state} while our sealed block waits for a hub that is away",
        "hospital",
        Kind.HARMLESS,
        None,
        "the charge comes back and the block is destroyed, because no byte of it left",
        says(state),
    )
    for state in ("PUBLISHED", "CANCELLED")
]


@each(SEALED)
def test_an_end_between_seal_and_first_byte_gives_the_charge_back(world: World, fault: Fault) -> None:
    release, north = world.approved(), world.north
    world.shelf.serving = False
    north.cycle()
    assert north.ledger_kinds(release) == ["reserve", "charge"]
    draws = len(north.noise.draws)
    fault.act(world, release)
    north.cycle()
    check_untouched(north, release, ["reserve", "charge", "refund"], draws)
    world.shelf.serving = True
    world.coordinator.move(release, "RUNNING")
    north.cycle(2)
    check_untouched(north, release, ["reserve", "charge", "refund"], draws)
    honest_release(world)


AFTER = [
    Fault(
        f"the coordinator says {state} after our first byte left", "hospital", Kind.HARMLESS, None,
        "the charge stands, the block is kept and never made again", says(state),
    )
    for state in ("PUBLISHED", "CANCELLED", "FAILED", "PROPOSED")
]  # fmt: skip


@each(AFTER)
def test_an_end_after_the_first_byte_gives_nothing_back(
    world: World, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dprelease.wire.chunks.CHUNK_BYTES", 100)
    release, north = world.approved(), world.north
    world.hub.breaks_at = 200
    north.cycle()
    draws, block = len(north.noise.draws), north.hospital_state().vault.path(release).read_bytes()
    fault.act(world, release)
    north.cycle(2)
    assert north.ledger_kinds(release) == ["reserve", "charge", "send"]
    assert north.hospital_state().vault.path(release).read_bytes() == block
    assert len(north.noise.draws) == draws
    assert north.status(release) == ("sealed" if "PROPOSED" in fault.what else "ended")
    honest_release(world)


def under_two_names(world: World) -> tuple[str, str]:
    first, second = world.propose("one name"), world.propose("another name")
    return first, second


TWICE = Fault(
    "the same release is proposed twice under two names", "hospital", Kind.HELD, None,
    "no policy approves the second; a person is told which release it would pay for again", under_two_names,
)  # fmt: skip


@each([TWICE])
def test_nothing_is_paid_twice_without_a_person(world: World, fault: Fault) -> None:
    north = world.north
    releases = fault.act(world)
    north.cycle(2)
    first, second = sorted(releases, key=north.status)  # approved, waiting
    assert [north.status(release) for release in (first, second)] == ["approved", "waiting"]
    check_untouched(north, second, [])
    for stage, words in (("reserve", "was promised budget for"), ("send", "published")):
        if stage == "send":
            world.south_approves(first)
            north.cycle()
            check_delivered(world, first)
            world.coordinator.move(first, "PUBLISHED")
        north.cycle()
        sentence = f"you would pay again for what release {first[:12]} {words} already"
        assert json.loads(north.run("review", "show", second, "--json").output)["pays_again"] == [sentence]
        listed = json.loads(north.run("review", "list", "--json").output)
        assert sentence in next(line["note"] for line in listed if line["release"] == second)
    assert north.status(second) == "waiting"
    assert north.run("review", "approve", second, "--yes").exit_code == 0  # a person may want it
    world.south_approves(second)
    north.cycle(2)
    check_delivered(world, second)
    honest_release(world)


def relay_answers(error: DpReleaseError) -> Callable[[World, str], Callable[[], None]]:
    def act(world: World, release: str) -> Callable[[], None]:
        world.relay.raises = error
        return lambda: setattr(world.relay, "raises", None)

    return act


def dealer_answers(error: DpReleaseError) -> Callable[[World, str], Callable[[], None]]:
    def act(world: World, release: str) -> Callable[[], None]:
        for hospital in (world.north, world.south):
            hospital.cycle()  # all offers are there: what is asked for next is a deal
        world.coordinator.raises["RequestDeal"] = error
        return world.coordinator.raises.clear

    return act


OURS = "nothing is declined, given back or drawn; once the peer is honest the computation goes on"
SPOKEN = [
    Fault(f"{who} answers that {words}", "hospital", Kind.HELD, Conflict, OURS, answers(error))
    for who, answers, words, error in (
        ("the hub's relay", relay_answers, "our table cannot be used", DataRefused("x")),
        ("the hub's relay", relay_answers, "our spec does not check out", SpecRefused("x")),
        ("the dealing coordinator", dealer_answers, "our policy does not allow it", PolicyRefused("x")),
        ("the dealing coordinator", dealer_answers, "our budget does not allow it", BudgetExceeded("x")),
    )
]


@each(SPOKEN)
def test_no_peer_withdraws_in_our_name(world: World, fault: Fault) -> None:
    release, north = approved(world, range_proofs=False), world.north  # what comes before proofs is asked here
    mend = fault.act(world, release)
    assert steps(north) == [Conflict]
    north.cycle()
    assert north.status(release) == "approved"
    assert north.record(release).note.split(": ")[1] in {row_for(error("")).sentence for error in LOCAL}
    assert world.coordinator.heard("Decline") == []
    check_untouched(north, release, ["reserve"])
    mend()
    deliver(world)
    check_delivered(world, release)


FAULTS = [*APPROVALS, EQUIVOCATION, *BEFORE, *SEALED, *AFTER, TWICE, *SPOKEN]
