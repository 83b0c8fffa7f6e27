"""Before every party's signed approval is seen no noise exists, nothing is charged and nothing data-dependent leaves."""

import logging

import pytest

from dprelease.catalogue import Catalogue
from dprelease.release.approval import SignedApproval
from dprelease.wire.v1 import coordination_pb2
from party_node.source.alignment import pseudonym
from tests.party_node.world import ALIGNMENT_KEY, World, rows_of


def secrets_of(world: World, release: str) -> dict[str, bytes]:
    """Everything that must stay at the north: cells, identifiers, pseudonyms, keys, the codes' digest and its salt."""
    found = {"alignment key": ALIGNMENT_KEY}
    for line in rows_of("north")[1:]:
        subject, age, _ = line.split(",")
        keyed = pseudonym(ALIGNMENT_KEY, subject)
        found |= {f"identifier {subject}": subject.encode(), f"cell {age}": age.encode()}
        found |= {f"pseudonym {subject}": keyed, f"pseudonym in hexadecimal {subject}": keyed.hex().encode()}
    record = world.north.record(release)
    if record.codes is not None and record.salt is not None:
        found |= {"codes": record.codes.encode(), "codes in bytes": bytes.fromhex(record.codes)}
        found |= {"salt": record.salt, "salt in hexadecimal": record.salt.hex().encode()}
    return found


def test_what_the_coordinator_hears_is_catalogue_and_commitment(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    release = world.propose()
    world.north.cycle(2)
    world.south_approves(release)
    world.north.cycle(2)
    assert world.north.status(release) == "delivered"
    secrets = secrets_of(world, release)
    assert len(secrets) == 1 + 4 * 40 + 4
    for method, data in world.coordinator.received:
        leaked = [name for name, secret in secrets.items() if secret in data]
        assert leaked == [], method
    assert {method for method, _ in world.coordinator.received} == {"ReportCatalogue", "ListReleases", "Approve"}
    (catalogue,) = set(world.coordinator.heard("ReportCatalogue"))
    read = Catalogue.from_bytes(coordination_pb2.ReportCatalogueRequest.FromString(catalogue).catalogue)
    assert read == world.north.hospital_state().catalogue()
    text = caplog.text.encode()
    assert [name for name, secret in secrets.items() if secret in text] == []


def test_the_hub_hears_the_sealed_block_alone(world: World) -> None:
    release = world.approved()
    world.north.cycle()
    heard = world.block(release, "north") + b"".join(sealed.to_bytes() for sealed in world.hub.sealed)
    assert [name for name, secret in secrets_of(world, release).items() if secret in heard] == []


def test_two_approvals_of_the_same_table_commit_to_it_unlike(world: World) -> None:
    first, second = world.propose("one"), world.propose("two", outputs=9)
    world.north.cycle()
    world.north.hospital_state().accept(world.north.record(second))  # the same columns again: a person has to say so
    world.north.cycle()
    commitments = {
        SignedApproval.from_bytes(world.coordinator.records[release].consents[0]).approval.commitment
        for release in (first, second)
    }
    assert len(commitments) == 2
    assert world.north.record(first).codes == world.north.record(second).codes


def test_our_own_approval_must_come_back_too(world: World) -> None:
    spec = world.spec()
    release = world.coordinator.propose(spec)
    world.north.cycle()
    del world.coordinator.records[release].consents[:]
    world.coordinator.records[release].consents.append(world.approval_of("south", spec).to_bytes())
    world.coordinator.move(release, "APPROVED")
    world.north.cycle()
    assert world.north.noise.draws == []
    assert "no approval by north" in world.north.record(release).note


def test_a_pin_that_was_taken_back_stops_the_release(world: World) -> None:
    release = world.approved()
    world.north.hospital_state().identity.forget("south")
    world.north.cycle()
    assert world.north.noise.draws == []
    assert "not the one pinned here" in world.north.record(release).note


@pytest.mark.parametrize("state", ["APPROVED", "RUNNING", "PUBLISHED", "CANCELLED", "UNSPECIFIED"])
def test_a_release_that_was_never_proposed_here_is_left_alone(world: World, state: str) -> None:
    release = world.propose()
    world.south_approves(release)
    world.coordinator.move(release, state)
    world.north.cycle(2)
    assert world.north.hospital_state().journal.releases() == []
    assert world.north.hospital_state().ledger.entries("cohort")[1:] == []
    assert world.coordinator.heard("Approve") == []


def test_a_coordinator_that_skips_the_proposal_gains_nothing(careful: World) -> None:
    release = careful.propose()
    careful.north.cycle()
    careful.coordinator.move(release, "APPROVED")  # nobody here approved
    careful.north.cycle(2)
    assert careful.north.status(release) == "waiting"
    assert careful.north.noise.draws == []
    assert careful.north.ledger_kinds(release) == []
