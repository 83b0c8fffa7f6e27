"""Calls that begin and bring no message: they hold no thread, others are served, and each is told when its time is over."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from tests.hostile.servers.attacks import row
from tests.hostile.servers.site import CHECK, DOORS, Door, Site, by_status
from tests.support.http2 import Connection, Stream

UPLOADS = {"hub": "/dprelease.wire.v1.IntakeService/SendBlock"}
ANSWERS = {(14, "PeerUnavailable"), (8, "TooManyRequests")}
WORKERS = 2 * 16
"""Threads for work of a role's two listeners; they begin when they are first needed."""

SOONER = ("-m", "tests.support.faulty", "set@dprelease.wire.call:FIRST_MESSAGE_SECONDS=3", "--")
"""Starts the roles so that nobody has to wait ten seconds for the end of a silent call."""


@pytest.fixture(scope="module")
def sooner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("sooner"), launcher=SOONER, rows=40) as site:
        yield site


async def begin(links: list[Connection], path: str, number: int) -> list[Stream]:
    """So many calls on these connections, of which every second one brings two bytes of its message's five."""
    streams = [links[at % len(links)].begin(path) for at in range(number)]
    for stream in streams[::2]:
        await stream.send(b"\0\0")
    return streams


async def attack(site: Site, number: int) -> dict[str, list[Stream]]:
    """From one peer at each door, while others are served."""
    threads = {role: site.measured(role, "Threads") for role in ("hub", "coordinator")}
    async with AsyncExitStack() as opened:

        async def at(door: Door) -> list[Stream]:
            caller = site.caller(door)
            links = [await opened.enter_async_context(site.open(door, caller)) for _ in range(-(-number // 100))]
            streams = await begin(links, door.path, number)
            streams += await begin(links, CHECK, 40)
            return streams + await begin(links, UPLOADS.get(door.name, door.path), 8)

        begun = await asyncio.gather(*map(at, DOORS))
        await site.all_served(times=3)
        for role, before in threads.items():
            assert site.measured(role, "Threads") <= before + WORKERS
        streams = dict(zip((door.name for door in DOORS), begun, strict=True))
        await asyncio.gather(*(stream.over() for each in begun for stream in each))
        return streams


@row(
    "40, 500, 2,000 calls of one peer without a message, or with 2 of 5 bytes",
    "all four",
    "no thread is held; UNAVAILABLE after 10 s, beyond the rate RESOURCE_EXHAUSTED at once",
)
@pytest.mark.parametrize(
    "number", [pytest.param(40, marks=pytest.mark.slow), 500, pytest.param(2000, marks=pytest.mark.slow)]
)
def test_calls_without_a_message_keep_nobody_from_being_served(sooner: Site, number: int) -> None:
    for name, streams in asyncio.run(attack(sooner, number)).items():
        answers = by_status(streams)
        assert answers.keys() <= ANSWERS, (name, answers)
        assert answers[14, "PeerUnavailable"] >= 20, (name, answers)  # what the peer's rate let in
        if number == 2000:
            assert answers[8, "TooManyRequests"] > 1000, (name, answers)
    asyncio.run(sooner.all_served())
