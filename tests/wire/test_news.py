"""News: who is answered when, and that nobody who waits costs a thread."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any
from unittest.mock import Mock

import grpc
import pytest

from dprelease.errors import TooManyRequests, VersionMismatch
from dprelease.wire import news as news_module
from dprelease.wire.boundary import VERSION
from dprelease.wire.call import run
from dprelease.wire.limits import Buckets, Rate
from dprelease.wire.listener import Listener, listen
from dprelease.wire.news import MOST_HELD, Listening, News, wait_for_news
from dprelease.wire.transport import connect
from dprelease.wire.v1 import coordination_pb2, coordination_pb2_grpc, release_pb2
from tests.support.certificates import HOST, Authority, Member
from tests.wire.conftest import CoordinationStub

SECONDS = 30.0
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


def heard(woken: threading.Event, listening: Listening) -> bool:
    """Wait for news; whether there was any."""
    wait_for_news(woken, SECONDS, [listening])
    told = woken.is_set()
    woken.clear()
    return told


def test_a_listener_hears_and_hears_again_after_a_restart(
    serve: Serve, authority: Authority, party: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(news_module, "RETRY_SECONDS", 0.01)
    woken, first = threading.Event(), Teller()
    listener = serve(first)
    with connect(f"{HOST}:{listener.port}", party.credentials(authority.root)) as channel:
        listening = Listening(stub_of(channel), woken.set)
        assert heard(woken, listening)  # it may have missed something before
        first.news.tell("all")
        assert heard(woken, listening)
        assert not listening.anew
        first.news.stop()
        listener.stop()
        second = Teller()
        serve(second, listener.port)
        assert heard(woken, listening)
        assert listening.anew
        second.news.tell("all")
        assert heard(woken, listening)
        listening.ask()
        listening.close()  # ends although a call is held


def test_a_wait_ends_when_something_else_is_noticed(serve: Serve, authority: Authority, party: Member) -> None:
    woken, looks = threading.Event(), count()
    with connect(f"{HOST}:{serve(Teller()).port}", party.credentials(authority.root)) as channel:
        listening = Listening(stub_of(channel), lambda: None)
        wait_for_news(woken, SECONDS, [listening], lambda: next(looks) == 1)
        assert next(looks) == 2
        listening.close()


def settled(listening: Listening) -> None:
    """Wait until the last call is over and was taken note of."""
    over = threading.Event()
    listening._call.add_done_callback(lambda call: over.set())  # after the listener's own
    assert over.wait(SECONDS)


def test_a_server_that_does_not_know_the_call_is_left_in_peace_for_a_while(
    serve: Serve, authority: Authority, party: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    teller = Teller(old=True)
    monkeypatch.setattr(news_module, "RETRY_SECONDS", 3600.0)
    with connect(f"{HOST}:{serve(teller).port}", party.credentials(authority.root)) as channel:
        listening = Listening(stub_of(channel), pytest.fail)
        listening.ask()
        settled(listening)
        listening.ask()
    assert teller.asked == [0]


def test_the_end_of_an_earlier_call_that_is_told_late_changes_nothing() -> None:
    listening = Listening(pytest.fail, pytest.fail)
    listening._call = object()
    listening._answered(Mock(**{"result.return_value.latest": 5}))
    assert listening._seen == 0


def test_a_server_that_answers_at_once_is_asked_so_often_and_no_more(
    serve: Serve, authority: Authority, party: Member
) -> None:
    number = count(1)
    teller = Teller(names=lambda: f"{next(number)}")  # every caller is another one
    teller.news.stop()
    with connect(f"{HOST}:{serve(teller).port}", party.credentials(authority.root)) as channel:
        listening = Listening(stub_of(channel), lambda: None)
        listening._pace = Buckets(Rate(per_second=0.0, burst=3.0))
        for _ in range(5):
            listening.ask()
            settled(listening)
    assert len(teller.asked) == 3


def test_a_connection_that_was_closed_is_trouble_like_any_other(
    serve: Serve, authority: Authority, party: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(news_module, "RETRY_SECONDS", 0.01)
    woken = threading.Event()
    address, credentials = f"{HOST}:{serve(Teller()).port}", party.credentials(authority.root)
    with connect(address, credentials) as closed:
        before = CoordinationStub(closed)
    with connect(address, credentials) as channel:
        now = CoordinationStub(channel)
        stubs = iter([before, before])
        listening = Listening(lambda: next(stubs, now), woken.set)
        assert heard(woken, listening)
        listening.close()
