"""One peer with all that one connection can carry, and one whose every call is slow: others are served meanwhile."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hpack import Encoder
from hyperframe.frame import HeadersFrame, PingFrame, RstStreamFrame, SettingsFrame

from tests.hostile.servers.attacks import row
from tests.hostile.servers.site import CHECK, DOORS, DOWNLOAD, Door, Site
from tests.support.http2 import framed, headers

PUBLIC, HUB = DOORS[:2]


async def flood(site: Site, door: Door, frames: list[bytes]) -> None:
    """Send bytes as fast as the network takes them, whatever is answered; the server may hang up."""
    async with site.open(door, site.caller(door)) as link:
        link.ignore()
        try:
            for at in range(0, len(frames), 500):
                link.writer.write(b"".join(frames[at : at + 500]))
                await link.writer.drain()
                if at % 5000 == 0:
                    await site.served(door)
        except OSError:
            pass
        await site.all_served()


def reset(path: str, number: int) -> list[bytes]:
    """So many calls, each taken back at once."""
    encoder, head = Encoder(), list(headers(path))
    frames = []
    for at in range(1, 2 * number, 2):
        frames += [HeadersFrame(at, encoder.encode(head), flags=["END_HEADERS"]), RstStreamFrame(at, 8)]
    return [frame.serialize() for frame in frames]


FLOODS = {
    "calls that are taken back at once": lambda door, number: reset(door.path, number),
    "pings": lambda _, number: [PingFrame(opaque_data=at.to_bytes(8, "big")).serialize() for at in range(number // 4)],
    "settings": lambda _, number: [SettingsFrame(settings={3: 100 + at}).serialize() for at in range(number // 4)],
}


@row(
    "20,000 calls that are taken back at once; 5,000 pings; 5,000 settings",
    "all four",
    "memory grows by less than 100 MiB",
)
@pytest.mark.parametrize("number", [2000, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_of_frames_keeps_nobody_from_being_served(site: Site, kind: str, number: int) -> None:
    async def attack() -> None:
        await asyncio.gather(*(flood(site, door, FLOODS[kind](door, number)) for door in DOORS))

    before = site.measured("hub", "VmRSS")
    asyncio.run(attack())
    assert site.measured("hub", "VmRSS") - before < 100 << 10


@row(
    "2,000 downloads on a connection that reads nothing", "public", "8 are begun; their places are free once it is gone"
)
def test_two_thousand_downloads_on_a_connection_that_reads_nothing(site: Site) -> None:
    async def attack() -> None:
        caller = site.caller(PUBLIC)
        async with site.open(PUBLIC, caller, takes=False) as link:
            for _ in range(2000):
                await link.begin(DOWNLOAD).send(framed(site.download()), end=True)
            link.deaf()
            await site.all_served(times=3)
            async with site.open(PUBLIC, site.caller(PUBLIC)) as other:
                assert (await other.call(DOWNLOAD, site.download())).status == 0
        async with asyncio.timeout(60), site.open(PUBLIC, caller) as again:  # its places are free when it is gone
            while (await again.call(DOWNLOAD, site.download())).status != 0:
                await asyncio.sleep(0.1)

    before = site.measured("hub", "VmRSS")
    asyncio.run(attack())
    assert site.measured("hub", "VmRSS") - before < 150 << 10


@contextmanager
def stopped(site: Site, role: str) -> Iterator[None]:
    """A role stands still, so that whoever asks it waits."""
    os.kill(site.pid(role), signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(site.pid(role), signal.SIGCONT)


@row(
    "90 calls of one party that all wait for a coordinator which stands still",
    "hub",
    "they hold a quarter of the threads; each is answered in the end",
)
def test_one_peer_whose_calls_are_all_slow_leaves_threads_for_others(site: Site) -> None:
    async def attack() -> None:
        async with site.open(HUB, site.caller(HUB)) as link:
            with stopped(site, "coordinator"):  # the hub asks it before it takes note of a block
                slow = [link.begin(HUB.path) for _ in range(90)]
                for stream in slow:
                    await stream.send(framed(b""), end=True)
                async with site.open(HUB, site.caller(HUB)) as other:
                    for _ in range(5):
                        assert (await other.call(CHECK)).status == 0
                assert not any(stream.ended.is_set() for stream in slow)
            await asyncio.gather(*(stream.over() for stream in slow))
            assert {stream.status for stream in slow} <= {3, 14}

    asyncio.run(attack())
