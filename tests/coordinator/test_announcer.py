"""News of the office: who is told of what, whoever changed it, and what ends a wait."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import grpc
import pytest

from coordinator.lifecycle import Cancelled
from coordinator.service import coordination
from coordinator.service.coordination import Announcer
from coordinator.store.store import Store
from dprelease.errors import AccessDenied, PeerUnavailable, TooManyRequests
from dprelease.identity.certificates import Role
from dprelease.identity.signing import new_private_key, private_key_pem
from dprelease.wire.boundary import VERSION, translated
from dprelease.wire.news import MOST_HELD
from dprelease.wire.transport import Credentials
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1.release_pb2 import AwaitNewsRequest
from tests.coordinator.office import NOW, two_hospitals
from tests.coordinator.world import SECONDS, Stub, World, ask, report, until

HOUR = 3600.0


def latest(stub: Stub) -> int:
    """The caller's present number."""
    return int(ask(stub.AwaitNews, AwaitNewsRequest()).latest)


def quiet(world: World) -> None:
    """Wait until all that has happened was told."""
    assert world.server is not None
    told = world.server._announcer
    told.look()
    with world.store().reading() as tx:
        newest = tx.history.latest()
    until(lambda: told._seen >= newest)


class Waiting:
    """A caller who waits for what comes after the present."""

    def __init__(self, world: World, stub: Stub) -> None:
        quiet(world)
        self.seen = latest(stub)
        self._call: Any = stub.AwaitNews.future(AwaitNewsRequest(seen=self.seen), timeout=SECONDS, metadata=VERSION)

    def hears(self) -> bool:
        """Wait for the answer; whether it is news."""
        with translated("the coordinator"):
            return int(self._call.result().latest) != self.seen


def all_held(world: World, *names: str) -> None:
    """Wait until a call of each of them is held."""
    assert world.server is not None
    news = world.server._announcer
    for name in names:
        until(lambda name=name: news._held[name] == 1)


@pytest.fixture
def alone(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose announcer looks by itself once an hour, and whose clock ticks as seldom."""
    world.stop()
    monkeypatch.setattr(coordination, "LOOK_SECONDS", HOUR)
    world.settings = world.settings.model_copy(update={"tick_seconds": HOUR})
    world.start()
    return world


def test_a_command_of_the_office_is_told_to_the_parties_of_the_release_and_to_the_hub(
    world: World, two: tuple[Stub, Stub]
) -> None:
    west = world.join("west")
    stubs = (*two, world.as_hub())
    waiting = [Waiting(world, stub) for stub in stubs]
    digest = world.propose()
    assert all(each.hears() for each in waiting)
    before = latest(west)
    waiting = [Waiting(world, stub) for stub in stubs]
    with world.store().writing() as tx:
        tx.releases.advance(digest.hex(), Cancelled("no"), world.clock())
    assert all(each.hears() for each in waiting)
    assert latest(west) == before


def test_calls_are_told_at_once_where_others_can_go_on(alone: World) -> None:
    """With m parties each is not woken m times by the approvals of the others, and m times by their blocks."""
    north, south = alone.join("north"), alone.join("south")
    report(north, "north")
    report(south, "south")
    digest = alone.propose()
    hub = alone.as_hub()
    approval = {name: pb.ApproveRequest(signed_consent=alone.signed(digest, name)) for name in ("north", "south")}
    for told, method, message in (
        (False, north.Approve, approval["north"]),
        (True, south.Approve, approval["south"]),
        (True, hub.ReportIntake, pb.ReportIntakeRequest(spec_digest=digest, received=["north"])),
        (False, hub.ReportIntake, pb.ReportIntakeRequest(spec_digest=digest, received=["north", "south"])),
        (False, hub.AuthorizePublication, pb.AuthorizePublicationRequest(spec_digest=digest)),
        (True, hub.ReportPublication, pb.ReportPublicationRequest(spec_digest=digest, manifest_digest=b"m" * 32)),
    ):
        quiet(alone)
        before = [latest(each) for each in (north, south, hub)]
        waiting = [Waiting(alone, each) for each in (north, south, hub) if told]
        ask(method, message)
        assert all(each.hears() for each in waiting)
        quiet(alone)
        assert all((latest(each) != seen) == told for each, seen in zip((north, south, hub), before, strict=True))
    late = alone.propose(epsilon=0.5)
    waiting = [Waiting(alone, each) for each in (south, hub)]
    ask(north.Decline, pb.DeclineRequest(digest=late))
    assert all(each.hears() for each in waiting)


def test_a_deadline_is_told(world: World, two: tuple[Stub, Stub]) -> None:
    world.stop()
    world.settings = world.settings.model_copy(update={"tick_seconds": 0.02})
    world.start()
    north = world.as_party("north")
    proposed = Waiting(world, north)
    world.propose(expires_hours=1)
    assert proposed.hears()
    waiting = Waiting(world, north)
    world.clock.now += timedelta(hours=1)
    assert waiting.hears()


def test_a_party_that_is_revoked_waits_no_longer(world: World, two: tuple[Stub, Stub]) -> None:
    waiting = Waiting(world, two[0])
    all_held(world, "party north")
    world.store().revoke("north", world.clock())
    with suppress(AccessDenied):  # a call that comes in after the revocation is refused instead
        assert waiting.hears()
    with pytest.raises(AccessDenied):
        latest(two[0])
    assert latest(two[1])


def test_a_restart_is_news_and_a_stop_waits_for_nobody(world: World, two: tuple[Stub, Stub]) -> None:
    waiting = Waiting(world, two[0])
    hub = Waiting(world, world.as_hub())
    all_held(world, "party north", "hub")
    world.stop()
    assert not waiting.hears()
    assert not hub.hears()
    world.start()
    assert latest(world.as_party("north")) != waiting.seen


def test_a_caller_waits_only_so_often_at_once(world: World, two: tuple[Stub, Stub]) -> None:
    north, south = two
    held = [Waiting(world, north) for _ in range(MOST_HELD + 1)]
    with pytest.raises(TooManyRequests):  # whichever of them came last
        next(_done(held)).hears()
    waiting = Waiting(world, south)
    world.propose()
    assert waiting.hears()


def _done(held: list[Waiting]) -> Iterator[Waiting]:
    until(lambda: any(each._call.done() for each in held))
    yield from (each for each in held if each._call.done())


@pytest.mark.parametrize("role", ["coordinator", "party", "hub"])
def test_strangers_wait_for_nothing(world: World, role: Role) -> None:
    key = new_private_key()
    certificate = world.authority.issue("stranger", role, key.public_key(), world.clock(), 1)
    stub = Stub(world.channel(Credentials(world.root, certificate, private_key_pem(key))))
    with pytest.raises((AccessDenied, PeerUnavailable)):  # TLS itself may refuse a server's certificate
        latest(stub)
    with pytest.raises(grpc.RpcError):
        stub.AwaitNews(AwaitNewsRequest(), timeout=SECONDS)  # no version


def test_either_database_knows_what_is_new(any_store: Store) -> None:
    with any_store.reading() as tx:
        assert tx.history.latest() == 0
    office = two_hospitals(any_store)
    with any_store.reading() as tx:
        before = tx.history.latest()
    release = office.propose(NOW)
    with any_store.reading() as tx:
        assert tx.history.latest() > before
        assert tx.history.concerned(before) == {(release.digest, None)}
        assert tx.releases.parties(release.digest) == ("north", "south")
        assert tx.releases.parties("0" * 64) == ()


def test_a_database_that_is_away_ends_no_announcer(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordination, "LOOK_SECONDS", 0.01)
    office = two_hospitals(store)
    made = Announcer(store)
    told: list[tuple[str, ...]] = []
    monkeypatch.setattr(made, "tell", lambda *names: told.append(names))

    def away() -> Any:
        raise PeerUnavailable("the database is away")

    with monkeypatch.context() as patch:
        patch.setattr(store, "reading", away)
        made.start()
        made.look()
    office.propose(NOW)
    until(lambda: bool(told))
    made.stop()
    assert sorted(told[0]) == ["hub", "party north", "party south"]
