"""A daemon that looks once an hour by itself: it hears what there is to do; and one whose servers are older goes by the clock."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from dprelease.wire.transport import connect
from party_node.outgoing.hub import HubConnection, Notifications
from tests.party_node.joint_release import approved, joint_spec, released_exactly
from tests.party_node.test_daemon import running, until
from tests.party_node.world import Hospital, World
from tests.support.certificates import HOST
from tests.support.proxy import Proxy


def look_seldom(world: World) -> None:
    for hospital in (world.north, world.south):
        hospital.edit("poll_seconds = .*", "poll_seconds = 3600.0")


def settle(world: World, *hospitals: Hospital) -> None:
    """Wait until these hospitals' daemons wait for news of both servers, and for nothing that was before."""
    news, relay = world.coordinator.news, world.relay.news
    assert news is not None
    assert relay is not None
    for hospital in hospitals:
        for each in (news, relay):
            until(lambda each=each, name=hospital.member.name: each._held[name] == 1)


@pytest.fixture
def seldom(world: World) -> World:
    """Hospitals that approve by policy."""
    look_seldom(world)
    return world


def test_a_release_never_waits_for_a_look(seldom: World) -> None:
    with running(seldom.north), running(seldom.south):
        settle(seldom, seldom.north, seldom.south)
        release = seldom.coordinator.propose(joint_spec(seldom))
        until(lambda: seldom.north.status(release) == seldom.south.status(release) == "delivered")
        seldom.coordinator.move(release, "PUBLISHED")
        until(lambda: seldom.north.status(release) == seldom.south.status(release) == "ended")
    assert released_exactly(seldom, release)


@pytest.mark.parametrize("away", ["office", "shelf"])
def test_a_server_that_was_away_is_heard_again(seldom: World, away: str) -> None:
    with running(seldom.north), running(seldom.south):
        settle(seldom, seldom.north, seldom.south)
        server = getattr(seldom, away)
        server.stop()
        release = ""
        if away == "shelf":
            release = seldom.coordinator.propose(joint_spec(seldom))
            until(lambda: seldom.coordinator.state(release) == "APPROVED")
        server.start()
        release = release or seldom.coordinator.propose(joint_spec(seldom))
        until(lambda: seldom.north.status(release) == seldom.south.status(release) == "delivered")


@pytest.fixture
def proxies(seldom: World) -> Iterator[tuple[Proxy, Proxy]]:
    """North reaches both servers through something that forgets connections."""
    path = seldom.north.folder / "state" / "identity" / "enrolment.json"
    with Proxy(seldom.office.port) as office, Proxy(seldom.shelf.port) as shelf:
        addresses = {"coordinator": f"{HOST}:{office.port}", "hub": f"{HOST}:{shelf.port}"}
        changed = {**json.loads(path.read_bytes()), **addresses}
        path.write_text(json.dumps(changed, sort_keys=True, separators=(",", ":")))
        yield office, shelf


def test_connections_that_are_cut_while_nobody_speaks_are_made_again(
    seldom: World, proxies: tuple[Proxy, Proxy]
) -> None:
    with running(seldom.north), running(seldom.south):
        for _ in range(2):
            settle(seldom, seldom.north, seldom.south)
            for proxy in proxies:
                proxy.cut()
        release = seldom.coordinator.propose(joint_spec(seldom))
        until(lambda: seldom.north.status(release) == seldom.south.status(release) == "delivered")


def test_many_news_while_a_cycle_runs_are_one_more_cycle(seldom: World) -> None:
    hospital_state, news = seldom.north.hospital_state(), seldom.coordinator.news
    assert news is not None
    line = HubConnection(lambda: connect(hospital_state.enrolment.hub, hospital_state.identity.credentials()))
    notifications = Notifications(hospital_state.settings.daemon, hospital_state.journal)
    with seldom.north.dialled() as coordinator, closing(line), notifications.open(coordinator, line):
        notifications.wait(threading.Event(), unreached=False)  # an hour, but for the first answers
        until(lambda: all(each._seen for each in notifications._listening))
        for each in notifications._listening:
            each.ask()
        settle(seldom, seldom.north)
        for _ in range(3):
            news.tell("north")
        until(notifications._news.is_set)
        assert not notifications.wait(threading.Event(), unreached=False)
        assert not notifications._news.is_set()


def test_a_session_that_waits_is_looked_at_for_news_and_not_for_the_clock(world: World) -> None:
    """A look reads all that the relay lists: a hundred hospitals that look every five seconds would keep it busy."""
    release, looks = approved(world), list[str]()
    world.relay.post(release).lists = lambda party, messages: (looks.append(party), messages)[1]

    def cycles() -> int:
        return [called for called, _ in world.coordinator.received].count("ListReleases")

    with running(world.north):
        until(lambda: "waits for south" in world.north.record(release).note)
        settle(world, world.north)
        before, begun = len(looks), cycles()
        until(lambda: cycles() >= begun + 30)
        assert len(looks) - before <= 6  # some three for a call that ended just then
        with running(world.south):
            until(lambda: world.north.status(release) == world.south.status(release) == "delivered")
    assert released_exactly(world, release)
