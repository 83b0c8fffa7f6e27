"""Before every party's signed approval is seen no noise exists, nothing is charged and nothing data-dependent leaves."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta

import pytest

from dprelease.catalogue import Catalogue
from dprelease.release.approval import SignedApproval
from dprelease.release.spec import ReleaseSpec
from dprelease.wire.v1 import coordination_pb2
from party_node.source.alignment import pseudonym
from tests.party_node.world import ALIGNMENT_KEY, World, rows_of
from tests.wire.pki import Authority


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
    assert read == world.north.desk().catalogue()
    text = caplog.text.encode()
    assert [name for name, secret in secrets.items() if secret in text] == []


def test_the_hub_hears_the_sealed_block_alone(world: World) -> None:
    release = world.propose()
    world.north.cycle()
    world.south_approves(release)
    world.north.cycle()
    heard = world.block(release, "north") + b"".join(sealed.to_bytes() for sealed in world.hub.sealed)
    assert [name for name, secret in secrets_of(world, release).items() if secret in heard] == []


def test_two_approvals_of_the_same_table_commit_to_it_unlike(world: World) -> None:
    first, second = world.propose("one"), world.propose("two", outputs=9)
    world.north.cycle()
    world.north.desk().accept(world.north.record(second))  # the same columns again: a person has to say so
    world.north.cycle()
    commitments = {
        SignedApproval.from_bytes(world.coordinator.records[release].approvals[0]).approval.commitment
        for release in (first, second)
    }
    assert len(commitments) == 2
    assert world.north.record(first).codes == world.north.record(second).codes


def missing(world: World, spec: ReleaseSpec) -> list[bytes]:
    return []


def own_twice(world: World, spec: ReleaseSpec) -> list[bytes]:
    return [world.approval_of("north", spec).to_bytes()]


def for_another_spec(world: World, spec: ReleaseSpec) -> list[bytes]:
    return [world.approval_of("south", world.spec("shown to the south only")).to_bytes()]


def by_a_key_that_the_office_made(world: World, spec: ReleaseSpec) -> list[bytes]:
    impostor = world.authority.member("south", "party")
    honest = world.members["south"]
    world.members["south"] = impostor
    try:
        return [world.approval_of("south", spec).to_bytes()]
    finally:
        world.members["south"] = honest


def under_another_root(world: World, spec: ReleaseSpec) -> list[bytes]:
    signed = world.approval_of("south", spec)
    other = Authority("trial").issue("south", "party", world.members["south"].key.public_key())
    return [signed.model_copy(update={"certificate": other}).to_bytes()]


def with_an_expired_certificate(world: World, spec: ReleaseSpec) -> list[bytes]:
    signed = world.approval_of("south", spec)
    key = world.members["south"].key.public_key()
    expired = world.authority.issue("south", "party", key, lasting=timedelta(days=-1))
    return [signed.model_copy(update={"certificate": expired}).to_bytes()]


def as_a_hub(world: World, spec: ReleaseSpec) -> list[bytes]:
    signed = world.approval_of("south", spec)
    other = world.authority.issue("south", "hub", world.members["south"].key.public_key())
    return [signed.model_copy(update={"certificate": other}).to_bytes()]


def with_a_damaged_signature(world: World, spec: ReleaseSpec) -> list[bytes]:
    signed = world.approval_of("south", spec)
    damaged = signed.signature[:-1] + ("0" if signed.signature[-1] != "0" else "1")
    return [signed.model_copy(update={"signature": damaged}).to_bytes()]


def over_another_commitment(world: World, spec: ReleaseSpec) -> list[bytes]:
    signed = world.approval_of("south", spec)
    other = signed.approval.model_copy(update={"commitment": "00" * 32})
    return [signed.model_copy(update={"approval": other}).to_bytes()]


def malformed(world: World, spec: ReleaseSpec) -> list[bytes]:
    return [b'{"approval":']


def twice(world: World, spec: ReleaseSpec) -> list[bytes]:
    return [world.approval_of("south", spec).to_bytes(), world.approval_of("south", spec).to_bytes()]


def at_an_impossible_time(world: World, spec: ReleaseSpec) -> list[bytes]:
    signed = world.approval_of("south", spec)
    never = signed.approval.model_copy(update={"approved": "2026-13-45T99:99:99Z"})
    return [signed.model_copy(update={"approval": never}).to_bytes()]


FORGERIES: dict[Callable[[World, ReleaseSpec], list[bytes]], str] = {
    missing: "no approval by south",
    own_twice: "approved twice",
    for_another_spec: "for another release",
    by_a_key_that_the_office_made: "not made with the key",
    under_another_root: "not issued by the pinned consortium root",
    with_an_expired_certificate: "not valid at",
    as_a_hub: "holds a hub certificate",
    with_a_damaged_signature: "signature",
    over_another_commitment: "signature",
    malformed: "not a valid SignedApproval",
    twice: "approved twice",
    at_an_impossible_time: "",
}


@pytest.mark.parametrize(("forgery", "words"), FORGERIES.items(), ids=[forgery.__name__ for forgery in FORGERIES])
@pytest.mark.parametrize("state", ["APPROVED", "RUNNING"])
def test_without_honest_approvals_nothing_happens(
    world: World, forgery: Callable[[World, ReleaseSpec], list[bytes]], words: str, state: str
) -> None:
    spec = world.spec()
    release = world.coordinator.propose(spec)
    world.north.cycle()
    record = world.coordinator.records[release]
    record.approvals.extend(forgery(world, spec))
    world.coordinator.move(release, state)
    world.north.cycle(2)
    assert world.north.noise.draws == []
    assert world.north.ledger_kinds(release) == ["reserve"]
    assert world.north.status(release) == "approved"
    assert words in world.north.record(release).note
    assert world.hub.sealed == []
    del record.approvals[1:]
    record.approvals.append(world.approval_of("south", spec).to_bytes())
    world.north.cycle()  # the honest approval arrives: all is well
    assert world.north.status(release) == "delivered"


def test_our_own_approval_must_come_back_too(world: World) -> None:
    spec = world.spec()
    release = world.coordinator.propose(spec)
    world.north.cycle()
    del world.coordinator.records[release].approvals[:]
    world.coordinator.records[release].approvals.append(world.approval_of("south", spec).to_bytes())
    world.coordinator.move(release, "APPROVED")
    world.north.cycle()
    assert world.north.noise.draws == []
    assert "no approval by north" in world.north.record(release).note


def test_a_pin_that_was_taken_back_stops_the_release(world: World) -> None:
    release = world.propose()
    world.north.cycle()
    world.south_approves(release)
    world.north.desk().identity.forget("south")
    world.north.cycle()
    assert world.north.noise.draws == []
    assert "not the one pinned here" in world.north.record(release).note


@pytest.mark.parametrize("state", ["APPROVED", "RUNNING", "PUBLISHED", "CANCELLED", "UNSPECIFIED"])
def test_a_release_that_was_never_proposed_here_is_left_alone(world: World, state: str) -> None:
    release = world.propose()
    world.south_approves(release)
    world.coordinator.move(release, state)
    world.north.cycle(2)
    assert world.north.desk().journal.records() == []
    assert world.north.desk().ledger.entries("cohort")[1:] == []
    assert world.coordinator.heard("Approve") == []


def test_a_coordinator_that_skips_the_proposal_gains_nothing(careful: World) -> None:
    release = careful.propose()
    careful.north.cycle()
    careful.coordinator.move(release, "APPROVED")  # nobody here approved
    careful.north.cycle(2)
    assert careful.north.status(release) == "waiting"
    assert careful.north.noise.draws == []
    assert careful.north.ledger_kinds(release) == []
