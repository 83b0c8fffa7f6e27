"""A release from proposal to delivery, by policy and by a person."""

import json
from fractions import Fraction

import numpy as np
import pytest

from dprelease.canonical import sha256
from dprelease.mechanisms.noisy_rows.privatize import integer_query
from dprelease.release.accounting import guarantee
from dprelease.release.block import read_block
from dprelease.release.manifest import verify_block
from tests.party_node.world import CAP, World


def test_two_hospitals_deliver_what_they_approved(world: World) -> None:
    spec = world.spec()
    release = world.coordinator.propose(spec)
    for hospital in (world.north, world.south):  # approve; the second one finds all approvals only next time
        hospital.cycle()
    assert world.coordinator.state(release) == "APPROVED"
    for hospital in (world.north, world.south):
        assert hospital.noise.draws == []
        hospital.cycle()
        assert hospital.status(release) == "delivered"
        name = hospital.member.name
        data = world.block(release, name)
        sealed = next(sealed for sealed in world.hub.sealed if sealed.party == name)
        assert sealed.sha256 == sha256(data)
        verify_block(hospital.member.key.public_key(), sealed)
        codes = hospital.hospital_state().table(spec).bounded.codes
        drawn = np.vstack([draw.values for draw in reversed(hospital.noise.draws)])  # the anchor is drawn last
        assert np.array_equal(read_block(data, spec, name).values, integer_query([codes], spec, spec.terms) + drawn)


def test_the_scales_drawn_are_those_of_the_spec(world: World) -> None:
    spec = world.spec()
    release = world.coordinator.propose(spec)
    world.north.cycle()
    world.south_approves(release)
    world.north.cycle()
    scales = spec.terms.noise_of("north")
    assert [draw.scale for draw in world.north.noise.draws] == [scales.scale, scales.anchor_scale]
    assert [draw.values.shape for draw in world.north.noise.draws] == [(8, 4), (1, 4)]


def test_the_ledger_charges_what_the_spec_costs_once(world: World) -> None:
    spec = world.spec()
    release = world.coordinator.propose(spec)
    world.north.cycle()
    cost = guarantee(spec).party("north").mu2
    balance = world.north.hospital_state().ledger.balance("cohort")
    assert (balance.charged, balance.reserved) == (0, cost)
    world.south_approves(release)
    world.north.cycle(3)
    balance = world.north.hospital_state().ledger.balance("cohort")
    assert (balance.charged, balance.reserved, balance.remaining) == (cost, Fraction(0), CAP - cost)
    assert world.north.ledger_kinds(release) == ["reserve", "charge", "send"]


def test_an_approval_that_the_coordinator_lost_is_sent_again_as_it_was(world: World) -> None:
    release = world.propose()
    world.north.cycle(2)
    (first,) = world.coordinator.heard("Approve")  # one that it holds is not sent again
    del world.coordinator.records[release].consents[:]
    world.north.cycle(2)
    assert world.coordinator.heard("Approve") == [first, first]
    assert list(world.coordinator.records[release].consents) == [world.north.record(release).consent]


def test_an_approval_is_signed_once(world: World) -> None:
    release = world.propose()
    world.north.cycle()
    record = world.north.record(release)
    assert world.north.hospital_state().sign(record) == record.consent
    assert world.north.ledger_kinds(release) == ["reserve"]


def test_a_person_approves_while_the_daemon_works(careful: World) -> None:
    release, north = careful.propose(), careful.north
    north.cycle()
    assert north.status(release) == "waiting"
    assert "a person" in north.record(release).note
    assert careful.coordinator.heard("Approve") == []
    shown = json.loads(north.run("review", "show", release[:8], "--json").output)
    assert (shown["release"], shown["to_do_here_first"], shown["status"]) == (release, [], "waiting")
    assert north.run("review", "approve", release[:8], stdin="y\n").exit_code == 0
    assert north.status(release) == "accepted"
    assert north.ledger_kinds(release) == []  # the daemon alone reserves and signs
    north.cycle()
    assert north.status(release) == "approved"
    careful.south_approves(release)
    north.cycle()
    assert north.status(release) == "delivered"


def test_no_person_no_approval(careful: World) -> None:
    release, north = careful.propose(), careful.north
    north.cycle(3)
    assert north.run("review", "approve", release[:8], stdin="n\n").exit_code == 1
    north.cycle(3)
    assert north.status(release) == "waiting"
    assert careful.coordinator.heard("Approve") == []
    assert north.ledger_kinds(release) == []


@pytest.mark.parametrize("accepted", [False, True])
def test_a_person_declines(careful: World, accepted: bool) -> None:
    release, north = careful.propose(), careful.north
    north.cycle()
    if accepted:
        assert north.run("review", "approve", release[:8], "--yes").exit_code == 0
    assert north.run("review", "decline", release[:8], "--reason", "the ethics board first").exit_code == 0
    north.cycle(2)
    (told,) = careful.coordinator.heard("Decline")
    assert b"the ethics board first" in told
    assert careful.coordinator.state(release) == "REJECTED"
    assert north.status(release) == "declined"
    assert north.noise.draws == []


def test_beyond_the_limits_of_the_policy_a_person_is_asked(make_world) -> None:  # type: ignore[no-untyped-def]
    world = make_world("[policy.auto_approve]\nmax_epsilon = 0.5\n")
    release = world.propose()
    world.north.cycle()
    assert world.north.status(release) == "waiting"
    assert "joint epsilon = 1 exceeds 0.5" in world.north.record(release).note
