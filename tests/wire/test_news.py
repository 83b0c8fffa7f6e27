"""News: who is answered when, and that nobody who waits costs a thread."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import grpc
import pytest

from dprelease.errors import TooManyRequests, VersionMismatch
from dprelease.wire.boundary import VERSION
from dprelease.wire.call import run
from dprelease.wire.listener import Listener, listen
from dprelease.wire.news import MOST_HELD, Listening, News
from dprelease.wire.retry import Backoff
from dprelease.wire.transport import connect
from dprelease.wire.v1 import coordination_pb2, coordination_pb2_grpc, release_pb2
from tests.support.certificates import HOST, Authority, Member
from tests.wire.conftest import CoordinationStub

SECONDS = 30.0
QUICK = Backoff(first_seconds=0.01, longest_seconds=0.05)
WAITING = 200


async def _turns() -> None:
    """Let everything that is due on the loop happen."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_any_number_but_the_present_one_is_answered_at_once() -> None:
    async def look() -> None:
        news = News()
        present = await news.after("north", 0)
        assert present == await news.after("north", present + 1) == await news.after("north", present - 1)
        later = News()
        assert await later.after("north", present) != present  # as after a restart

    run(look())


def test_only_those_concerned_are_answered() -> None:
    async def look() -> None:
        news = News()
        numbers = {name: await news.after(name, 0) for name in ("north", "south")}
        north, south = (asyncio.create_task(news.after(name, number)) for name, number in numbers.items())
        await _turns()
        assert not north.done()
        news.tell("north", "somebody")
        assert await north != numbers["north"]
        await _turns()
        assert not south.done()
        assert await news.after("south", 0) == numbers["south"]
        news.stop()
        assert await south == numbers["south"]
        assert await news.after("south", numbers["south"]) == numbers["south"]  # nobody is held any more

    run(look())


def test_whoever_waits_in_vain_is_answered_after_a_while() -> None:
    async def look() -> None:
        news = News(held_seconds=0.01)
        present = await news.after("north", 0)
        assert await news.after("north", present) == present

    run(look())


def test_a_caller_is_held_only_so_often_at_once() -> None:
    async def look() -> None:
        news = News()
        present = await news.after("north", 0)
        held = [asyncio.create_task(news.after("north", present)) for _ in range(MOST_HELD)]
        await _turns()
        with pytest.raises(TooManyRequests):
            await news.after("north", present)
        held.pop().cancel()  # one that went away makes room
        await _turns()
        held.append(asyncio.create_task(news.after("north", present)))
        await _turns()
        news.tell("north")
        assert len({await each for each in held} | {present}) == 2

    run(look())


class Teller(coordination_pb2_grpc.CoordinationServiceServicer):
    """Holds everybody under another name, or does not know how."""

    def __init__(self, *, old: bool = False, names: Callable[[], str] = lambda: "all") -> None:
        self.news, self.old, self.names = News(), old, names
        self.asked: list[int] = []

    async def AwaitNews(self, request: Any, context: Any) -> Any:
        self.asked.append(request.seen)
        if self.old:
            raise VersionMismatch("this one is older")
        return release_pb2.AwaitNewsResponse(latest=await self.news.after(self.names(), request.seen))

    def Decline(self, request: Any, context: Any) -> Any:
        return coordination_pb2.DeclineResponse()


Serve = Callable[..., Listener]


@pytest.fixture
def serve(authority: Authority, server: Member) -> Iterator[Serve]:
    add = coordination_pb2_grpc.add_CoordinationServiceServicer_to_server
    with ExitStack() as running:

        def start(teller: Teller, port: int = 0, workers: int = 2) -> Listener:
            credentials = server.credentials(authority.root)
            listener = listen(f"{HOST}:{port}", credentials, [lambda to: add(teller, to)], mutual=True, workers=workers)
            running.callback(listener.stop)
            running.callback(teller.news.stop)
            return listener

        yield start


def stub_of(channel: grpc.Channel) -> Callable[[], CoordinationStub]:
    stub = CoordinationStub(channel)
    return lambda: stub


def test_two_hundred_who_wait_hold_no_thread(serve: Serve, authority: Authority, party: Member) -> None:
    number = count()
    teller = Teller(names=lambda: f"{next(number) // 2}")
    port = serve(teller).port
    with ExitStack() as opened:
        channels = [
            opened.enter_context(connect(f"{HOST}:{port}", party.credentials(authority.root))) for _ in range(4)
        ]
        present = run(teller.news.after("0", 0))
        stubs = [CoordinationStub(channel) for channel in channels]
        before = threading.active_count()
        request = release_pb2.AwaitNewsRequest(seen=present)
        waiting = [
            stubs[place % 4].AwaitNews.future(request, timeout=SECONDS, metadata=VERSION) for place in range(WAITING)
        ]
        while len(teller.asked) < WAITING:
            stubs[0].Decline(coordination_pb2.DeclineRequest(), timeout=SECONDS, metadata=VERSION)  # others are served
        assert threading.active_count() <= before + 2 + len(channels)  # workers, and one of gRPC for each channel
        assert not any(each.done() for each in waiting)
        teller.news.tell(*(f"{name}" for name in range(WAITING)))
        assert all(each.result().latest != present for each in waiting)


def test_a_listener_hears_and_hears_again_after_a_restart(serve: Serve, authority: Authority, party: Member) -> None:
    woken = threading.Semaphore(0)
    first = Teller()
    listener = serve(first)
    with (
        connect(f"{HOST}:{listener.port}", party.credentials(authority.root)) as channel,
        Listening(stub_of(channel), "the office", woken.release, QUICK) as listening,  # ends although a call is held
    ):
        assert woken.acquire(timeout=SECONDS)  # it may have missed something before
        assert listening.hears
        first.news.tell("all")
        assert woken.acquire(timeout=SECONDS)
        assert not listening.anew.is_set()
        first.news.stop()
        listener.stop()
        second = Teller()
        serve(second, listener.port)
        assert woken.acquire(timeout=SECONDS)
        assert listening.anew.is_set()
        second.news.tell("all")
        assert woken.acquire(timeout=SECONDS)


def test_a_server_of_before_is_asked_once(
    serve: Serve, authority: Authority, party: Member, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="dprelease.wire.news")
    teller = Teller(old=True)
    told = threading.Event()
    handler = logging.Handler()
    handler.emit = lambda record: told.set()  # type: ignore[method-assign]
    logging.getLogger("dprelease.wire.news").addHandler(handler)
    try:
        with (
            connect(f"{HOST}:{serve(teller).port}", party.credentials(authority.root)) as channel,
            Listening(stub_of(channel), "the office", told.set, QUICK) as listening,
        ):
            assert told.wait(SECONDS)
            assert not listening.hears
    finally:
        logging.getLogger("dprelease.wire.news").removeHandler(handler)
    assert teller.asked == [0]
    assert caplog.text.count("tells no news") == 1


def test_a_connection_that_was_closed_is_trouble_like_any_other(
    serve: Serve, authority: Authority, party: Member
) -> None:
    woken = threading.Semaphore(0)
    address, credentials = f"{HOST}:{serve(Teller()).port}", party.credentials(authority.root)
    with connect(address, credentials) as closed:
        before = CoordinationStub(closed)
    with connect(address, credentials) as channel:
        now = CoordinationStub(channel)
        stubs = iter([before, before])
        with Listening(lambda: next(stubs, now), "the office", woken.release, QUICK):
            assert woken.acquire(timeout=SECONDS)
