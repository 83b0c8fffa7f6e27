"""What one caller may ask of the coordinator: how often, how often to enrol, and how long."""

from __future__ import annotations

import pytest

from coordinator.settings import Limits
from dprelease.errors import InvalidInput, TooManyRequests, Unauthenticated
from dprelease.identity.certificates import signing_request
from dprelease.identity.signing import new_private_key
from dprelease.wire.v1 import coordination_pb2 as pb
from tests.coordinator.office import catalogue
from tests.coordinator.world import Stub, World, ask, listed, report


def limit(world: World, **limits: float) -> None:
    world.stop()
    world.settings = world.settings.model_copy(update={"limits": Limits.model_validate(limits)})
    world.start()


def test_a_party_that_calls_too_often_is_told_and_another_is_not(world: World) -> None:
    limit(world, calls_per_second=0.001)  # a burst of one, then none for a while
    north, south = world.join("north"), world.join("south")
    assert listed(north) == []
    with pytest.raises(TooManyRequests):
        listed(north)
    with pytest.raises(TooManyRequests):
        listed(world.as_party("north"))  # on another connection
    assert listed(south) == []


def test_secrets_are_not_guessed_at_leisure(world: World) -> None:
    limit(world, enrolments_per_minute=3)
    request = signing_request("north", new_private_key())
    invite = world.invite("north")
    for secret in ("one", "two", "three"):
        with pytest.raises(Unauthenticated):
            world.enrol(secret, request)
    with pytest.raises(TooManyRequests):  # whether the secret is right is not looked at
        world.enrol(invite.secret, request)


@pytest.mark.parametrize("room", [0, -1])
def test_a_catalogue_has_a_longest_size(world: World, room: int) -> None:
    size = len(catalogue("north").to_bytes())
    limit(world, longest_catalogue_bytes=size + room)
    north = world.join("north")
    if room < 0:
        with pytest.raises(InvalidInput):
            report(north, "north")
    else:
        report(north, "north")
    with world.store().reading() as tx:
        assert set(tx.members.catalogues()) == (set() if room < 0 else {"north"})


def test_an_approval_has_a_longest_size(world: World, two: tuple[Stub, Stub]) -> None:
    digest = world.propose()
    signed = world.signed(digest, "north")
    for room, outcome in ((-1, ()), (0, (signed,))):
        limit(world, longest_approval_bytes=len(signed) + room)
        north = world.as_party("north")
        if room < 0:
            with pytest.raises(InvalidInput):
                ask(north.Approve, pb.ApproveRequest(signed_approval=signed))
        else:
            ask(north.Approve, pb.ApproveRequest(signed_approval=signed))
        with world.store().reading() as tx:
            assert tx.releases.get(digest.hex()).approvals == outcome


def test_of_a_reason_only_so_much_is_kept(world: World, two: tuple[Stub, Stub]) -> None:
    limit(world, longest_reason=40)
    digest = world.propose()
    ask(
        world.as_party("north").Decline,
        pb.DeclineRequest(spec_digest=digest, reason="not now, " + "and " * 999 + "not ever"),
    )
    with world.store().reading() as tx:
        assert (
            tx.history.of_release(digest.hex())[-1].what == "north declined: not no [... 4,013 characters ...] t ever"
        )
