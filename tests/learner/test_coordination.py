"""What the hub believes of the coordinator: nothing that it did not check. Over real mutual TLS."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import pytest

from dprelease.errors import (
    Conflict,
    IntegrityError,
    NotFound,
    PeerUnavailable,
    SpecRefused,
)
from dprelease.wire.transport import connect
from dprelease.wire.v1 import release_pb2
from learner.hub.coordination import Coordination
from tests.learner.world import CONSORTIUM, FakeCoordinator, Sealed, World
from tests.support.specs import with_terms


@pytest.fixture
def coordination(world: World, coordinator: FakeCoordinator) -> Iterator[Coordination]:
    with connect(coordinator.address, world.credentials(world.hub)) as channel:
        yield Coordination(channel, CONSORTIUM, world.root.certificate)


def test_an_approved_release_is_believed_after_checking(
    coordination: Coordination, coordinator: FakeCoordinator, world: World, sealed: Sealed
) -> None:
    coordinator.offer(sealed)
    assert coordination.approved_release(sealed.digest) == world.record(sealed)


def test_approvals_may_come_in_any_order(
    coordination: Coordination, coordinator: FakeCoordinator, world: World, sealed: Sealed
) -> None:
    coordinator.offer(sealed)
    record = coordinator.records[sealed.digest]
    swapped = [record.consents[1], record.consents[0]]
    del record.consents[:]
    record.consents.extend(swapped)
    assert coordination.approved_release(sealed.digest) == world.record(sealed)


@pytest.mark.parametrize(
    "state", ["PROPOSED", "PUBLISHED", "REJECTED", "FAILED", "CANCELLED", "EXPIRED", "UNSPECIFIED"]
)
def test_no_other_state_takes_blocks(
    coordination: Coordination, coordinator: FakeCoordinator, sealed: Sealed, state: str
) -> None:
    coordinator.offer(sealed, release_pb2.ReleaseState.Value(f"RELEASE_STATE_{state}"))
    with pytest.raises(Conflict):
        coordination.approved_release(sealed.digest)
    assert coordination.has_ended(sealed.digest) is (state in {"REJECTED", "FAILED", "CANCELLED", "EXPIRED"})


def lying(world: World, sealed: Sealed, lie: str) -> release_pb2.AgreementRecord:
    other = world.sealed("another release")
    spec, approvals = sealed.spec.to_bytes(), [signed.to_bytes() for signed in sealed.approvals]
    if lie == "another spec":
        spec, approvals = other.spec.to_bytes(), [signed.to_bytes() for signed in other.approvals]
    elif lie == "not a spec":
        spec = b"{}"
    elif lie == "an approval missing":
        approvals = approvals[:1]
    elif lie == "approvals of another spec":
        approvals = [signed.to_bytes() for signed in other.approvals]
    elif lie == "a forged approval":
        forged = sealed.approvals[0].model_copy(update={"signature": sealed.approvals[1].signature})
        approvals = [forged.to_bytes(), approvals[1]]
    elif lie == "one party twice":
        approvals = [approvals[0], approvals[0]]
    return release_pb2.AgreementRecord(proposal=spec, state=release_pb2.RELEASE_STATE_APPROVED, consents=approvals)


@pytest.mark.parametrize(
    "lie",
    [
        "another spec",
        "not a spec",
        "an approval missing",
        "approvals of another spec",
        "a forged approval",
        "one party twice",
    ],
)
def test_a_lie_is_not_believed(
    coordination: Coordination, coordinator: FakeCoordinator, world: World, sealed: Sealed, lie: str
) -> None:
    coordinator.records[sealed.digest] = lying(world, sealed, lie)
    with pytest.raises(IntegrityError):
        coordination.approved_release(sealed.digest)


def test_another_consortium_is_refused(coordinator: FakeCoordinator, world: World, sealed: Sealed) -> None:
    coordinator.offer(sealed)
    with connect(coordinator.address, world.credentials(world.hub)) as channel:
        elsewhere = Coordination(channel, "elsewhere", world.root.certificate)
        with pytest.raises(IntegrityError, match="elsewhere"):
            elsewhere.approved_release(sealed.digest)


def test_a_spec_with_too_little_noise_is_refused_although_everybody_signed(
    coordination: Coordination, coordinator: FakeCoordinator, world: World, sealed: Sealed
) -> None:
    spec = sealed.spec
    quieter = tuple(
        noise.model_copy(update={"scale": noise.scale / 2, "mu2": str(Fraction(noise.mu2) * 4)})
        for noise in spec.terms.noise
    )
    weak = with_terms(spec, noise=quieter)
    coordinator.records[weak.digest()] = release_pb2.AgreementRecord(
        proposal=weak.to_bytes(),
        state=release_pb2.RELEASE_STATE_APPROVED,
        consents=[world.approval(part.party, weak).to_bytes() for part in weak.parties],
    )
    with pytest.raises(SpecRefused):
        coordination.approved_release(weak.digest())


def test_errors_keep_their_class(coordination: Coordination, coordinator: FakeCoordinator, sealed: Sealed) -> None:
    with pytest.raises(NotFound):
        coordination.approved_release(sealed.digest)
    coordinator.away = {"AuthorizePublication"}
    coordinator.refused = {"ReportIntake"}
    with pytest.raises(PeerUnavailable):
        coordination.authorize(sealed.digest)
    with pytest.raises(Conflict):
        coordination.report_intake(sealed.digest, ["north"])
    coordination.report_publication(sealed.digest, "ab" * 32)
    assert coordinator.named("ReportPublication") == [(sealed.digest, "ab" * 32)]
