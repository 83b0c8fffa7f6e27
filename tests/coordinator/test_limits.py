"""What one caller may ask of the coordinator: how often, how often to enrol, and how long."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from coordinator.service import server
from coordinator.settings import CallLimits
from dprelease.catalogue import Catalogue
from dprelease.errors import InvalidInput, TooManyRequests, Unauthenticated
from dprelease.identity.certificates import signing_request
from dprelease.identity.signing import new_private_key
from dprelease.release.spec import ReleaseSpec
from dprelease.wire.limits import Limiter
from dprelease.wire.v1 import coordination_pb2 as pb
from party_node.identity import Enrolment, KeyFolder
from party_node.outgoing import joining
from tests.coordinator.office import catalogue
from tests.coordinator.world import Stub, World, ask, listed, report


def limit(world: World, **limits: float) -> None:
    world.stop()
    world.settings = world.settings.model_copy(update={"limits": CallLimits.model_validate(limits)})
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


@dataclass
class Waited:
    """A clock that goes on only while somebody waits by it."""

    now: float = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> Waited:
    clock = Waited()
    monkeypatch.setattr(server, "Limiter", partial(Limiter, clock=lambda: clock.now))
    monkeypatch.setattr(joining, "sleep", clock.sleep)
    return clock


def trade(world: World, name: str, folder: Path) -> Enrolment:
    """A hospital enrols, as `party-node enrol` does."""
    assert world.server is not None
    invite = world.invite(name).model_copy(update={"address": f"localhost:{world.server.enrolment_port}"})
    return joining.trade(invite, KeyFolder(folder / name), name)


def test_whoever_enrols_from_a_busy_address_waits_for_its_turn(world: World, waited: Waited, tmp_path: Path) -> None:
    limit(world, enrolments_per_minute=2)
    for name in ("one", "two", "three"):
        enrolled = trade(world, name, tmp_path)
        assert enrolled.party == name
    assert 30 < waited.now < 60  # a third attempt is due after half a minute


@pytest.mark.usefixtures("waited")
def test_an_address_that_stays_busy_is_told(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit(world, enrolments_per_minute=1)
    with pytest.raises(Unauthenticated):
        world.enrol("a wrong secret", signing_request("north", new_private_key()))
    monkeypatch.setattr(joining, "sleep", lambda seconds: None)  # others are always first
    with pytest.raises(TooManyRequests):
        trade(world, "north", tmp_path)


@pytest.mark.parametrize("room", [0, -1])
def test_a_catalogue_has_a_longest_size(world: World, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    monkeypatch.setattr(Catalogue, "most_bytes", len(catalogue("north").to_bytes()) + room)
    north = world.join("north")
    if room < 0:
        with pytest.raises(InvalidInput):
            report(north, "north")
    else:
        report(north, "north")
    with world.store().reading() as tx:
        assert set(tx.members.catalogues()) == (set() if room < 0 else {"north"})


def test_a_spec_that_nobody_would_read_is_not_offered(
    world: World, two: tuple[Stub, Stub], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReleaseSpec, "most_bytes", 1000)
    with pytest.raises(InvalidInput, match=r"at most 1,000 are read; release fewer columns or levels$"):
        world.propose()
    with world.store().reading() as tx:
        assert list(tx.releases.open()) == []


def test_of_a_reason_only_so_much_is_kept(world: World, two: tuple[Stub, Stub]) -> None:
    limit(world, longest_reason=40)
    digest = world.propose()
    ask(
        world.as_party("north").Decline,
        pb.DeclineRequest(digest=digest, reason="not now, " + "and " * 999 + "not ever"),
    )
    with world.store().reading() as tx:
        assert (
            tx.history.of_agreement(digest.hex())[-1].what == "north declined: not no [... 4,013 characters ...] t ever"
        )
