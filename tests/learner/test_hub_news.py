"""News at the hub: parcels are told to whom they concern, and the hub itself hears of the office."""

from collections.abc import Callable
from typing import Any

import pytest

from dprelease.errors import AccessDenied, TooManyRequests
from dprelease.mpc.messages import Message
from dprelease.wire.boundary import VERSION, translated
from dprelease.wire.news import MOST_HELD
from dprelease.wire.v1 import release_pb2
from tests.learner.parcels import Hospitals
from tests.learner.test_hub import Dial, Start
from tests.learner.test_relay_service import (
    QUICKLY,
    Caller,
    Callers,
    bring,
    enter,  # noqa: F401 - a fixture
    make,  # noqa: F401 - a fixture
    sealed,  # noqa: F401 - a fixture
    world,  # noqa: F401 - a fixture
)
from tests.learner.world import PATIENCE_SECONDS, FakeCoordinator, Sealed, World, eventually
from tests.support.certificates import mint

HOUR = 3600.0
SELDOM = {"limits": {"stop_seconds": 0.0, "revocation_seconds": HOUR, "sweep_seconds": HOUR}}

Enter = Callable[..., Callers]


def latest(caller: Caller) -> int:
    """The caller's present number."""
    with translated("the hub"):
        request = release_pb2.AwaitNewsRequest()
        return int(caller.stub.AwaitNews(request, timeout=PATIENCE_SECONDS, metadata=VERSION).latest)


def held(caller: Caller) -> Any:
    request = release_pb2.AwaitNewsRequest(seen=latest(caller))
    return caller.stub.AwaitNews.future(request, timeout=PATIENCE_SECONDS, metadata=VERSION)


def told(callers: Callers, make: Hospitals, *parcels: Message) -> set[str]:  # noqa: F811
    before = {name: latest(caller) for name, caller in callers.items()}
    bring(callers, make, *parcels)
    return {name for name, caller in callers.items() if latest(caller) != before[name]}


def test_the_last_parcel_is_told_to_those_who_go_on_with_it(enter: Enter, make: Hospitals, sealed: Sealed) -> None:  # noqa: F811
    """Nobody is woken for each of many parcels with which it cannot go on alone."""
    callers = enter(sealed)
    everybody = {"north", "south", "west"}
    assert told(callers, make, make.offer("north"), make.offer("south")) == set()
    assert told(callers, make, make.offer("west")) == {"north", "south"}
    assert told(callers, make, make.deal("west", "south")) == set()
    assert told(callers, make, make.deal("north", "south")) == {"south"}
    *columns, last = [make.columns(*place) for place in _places(everybody)]
    keys = [make.key(sender, dealer, (everybody - {sender, dealer}).pop()) for sender, dealer in _places(everybody)]
    assert told(callers, make, *columns, *keys) == set()
    before = latest(callers["south"])
    assert callers["west"].open(last.to_bytes()) == 0
    assert latest(callers["south"]) == before  # announced only
    assert told(callers, make, last) == {"north", "south"}
    waiting = held(callers["west"])
    assert told(callers, make, make.transcript("north"), make.transcript("west")) == set()
    assert not waiting.done()
    bring(callers, make, make.transcript("south"))
    assert waiting.result().latest


def test_a_round_that_begins_anew_is_told_to_all(enter: Enter, make: Hospitals, sealed: Sealed) -> None:  # noqa: F811
    callers = enter(sealed)
    bring(callers, make, make.offer("north"), make.offer("south"), make.offer("west"))
    assert told(callers, make, make.offer("south", 2)) == {"north", "west"}
    assert told(callers, make, make.offer("north", 2)) == set()
    assert told(callers, make, make.offer("west", 2)) == {"north", "south"}


def _places(everybody: set[str]) -> list[tuple[str, str]]:
    return [(sender, dealer) for sender in sorted(everybody) for dealer in sorted(everybody - {sender})]


def test_a_party_that_is_revoked_waits_no_longer(
    enter: Enter,  # noqa: F811
    make: Hospitals,  # noqa: F811
    sealed: Sealed,  # noqa: F811
    coordinator: FakeCoordinator,
    world: World,  # noqa: F811
) -> None:
    callers = enter(sealed, **QUICKLY)
    bring(callers, make, make.offer("north"), make.offer("south"))
    waiting, other = held(callers["north"]), held(callers["south"])
    coordinator.revoked.add(world.parties["north"].identity.fingerprint)
    with pytest.raises(AccessDenied):
        _raised(waiting)
    with pytest.raises(AccessDenied):
        latest(callers["north"])
    bring(callers, make, make.offer("west"))
    assert other.result().latest


def _raised(waiting: Any) -> None:
    with translated("the hub"):
        waiting.result()


def test_strangers_wait_for_nothing_and_nobody_too_often(
    start_hub: Start,
    dial: Dial,
    world: World,  # noqa: F811
    sealed: Sealed,  # noqa: F811
) -> None:
    hub = start_hub()
    for role in ("hub", "coordinator"):
        with pytest.raises(AccessDenied):
            latest(Caller(dial(hub.party_port, mint("north", role, world.root)), sealed.digest))
    north = Caller(dial(hub.party_port, world.parties["north"]), sealed.digest)
    waiting = [held(north) for _ in range(MOST_HELD + 1)]
    eventually(lambda: any(each.done() for each in waiting))
    with pytest.raises(TooManyRequests):
        _raised(next(each for each in waiting if each.done()))


def test_a_hub_that_stops_answers_those_who_wait(enter: Enter, start_hub: Start, sealed: Sealed) -> None:  # noqa: F811
    patient = {"limits": {**SELDOM["limits"], "stop_seconds": HOUR}}
    callers = enter(sealed, **patient)
    waiting = [held(caller) for caller in callers.values()]
    for caller in callers.values():
        latest(caller)  # comes after the call that is held
    start_hub(**SELDOM)  # stops the one before
    assert all(each.result().latest for each in waiting)


def test_what_ended_at_the_office_is_dropped_as_soon_as_it_is_told(
    enter: Enter,  # noqa: F811
    make: Hospitals,  # noqa: F811
    sealed: Sealed,  # noqa: F811
    coordinator: FakeCoordinator,
    tmp_path: Any,
) -> None:
    callers = enter(sealed, **SELDOM)
    bring(callers, make, make.offer("north"))
    staged = tmp_path / "storage" / "staging" / sealed.digest
    assert staged.exists()
    coordinator.offer(sealed, release_pb2.RELEASE_STATE_CANCELLED)
    coordinator.news.tell("hub")
    eventually(lambda: not staged.exists())
