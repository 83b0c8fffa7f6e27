"""Downloads that are hardly taken, or not at all: others download meanwhile, and each is cut below the least rate."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from dprelease.canonical import sha256
from dprelease.wire.chunks import chunk_bytes
from dprelease.wire.v1 import public_pb2
from tests.hostile.servers.attacks import row
from tests.hostile.servers.site import DOORS, DOWNLOAD, LARGE, Caller, Site
from tests.support.http2 import Stream, framed

PUBLIC = DOORS[0]
PER_PEER = 8
CUT = b"takes what it asked for too slowly"


@pytest.fixture
def usual(tmp_path: Path) -> Iterator[Site]:
    """A site with the limits that a hub has by itself."""
    with Site(tmp_path) as site:
        yield site


def most_mib(peers: int) -> int:
    """What their downloads may cost: some copies of a chunk on its way through us and gRPC, shorter with every download."""
    return 60 + 5 * sum(map(chunk_bytes, range(1, PER_PEER * peers + 1))) // 2**20


def messages(data: bytes) -> Iterator[bytes]:
    """The messages in the bytes of a call."""
    while data:
        size = int.from_bytes(data[1:5], "big")
        yield data[5 : 5 + size]
        data = data[5 + size :]


async def begin(site: Site, caller: Caller, left: AsyncExitStack, window: int) -> list[Stream]:
    """As many downloads as a peer may have, none of which is taken."""
    link = await left.enter_async_context(site.open(PUBLIC, caller, window=window, takes=False))
    streams = [link.begin(DOWNLOAD) for _ in range(PER_PEER)]
    for stream in streams:
        await stream.send(framed(site.download()), end=True)
    return streams


async def drip(streams: list[Stream]) -> None:
    """Take one byte a second of each."""
    while True:
        await asyncio.sleep(1)
        for stream in streams:
            stream.take(1)


async def honest(site: Site) -> None:
    """A learner elsewhere gets the whole block."""
    async with site.open(PUBLIC, site.caller(PUBLIC)) as link:
        call = await link.call(DOWNLOAD, site.download())
    assert call.status == 0
    chunks = [public_pb2.DownloadBlockResponse.FromString(message).chunk.data for message in messages(bytes(call.data))]
    assert sha256(b"".join(chunks)) == site.sealed.identities[LARGE].sha256


async def attack(site: Site, peers: int, seconds: float) -> int:
    """Slow readers from so many addresses, until the hub has cut them; by how many MiB it grew."""
    since, before = len(site.log("hub")), site.measured("hub", "VmRSS")
    callers = [site.caller(PUBLIC) for _ in range(peers)]
    async with AsyncExitStack() as left:
        slow = [await begin(site, caller, left, window=at % 2) for at, caller in enumerate(callers)]
        dripping = asyncio.create_task(drip([stream for each in slow[1::2] for stream in each]))
        for _ in range(3):
            await honest(site)
        grown = site.measured("hub", "VmRSS") - before
        async with asyncio.timeout(seconds):
            while site.log("hub")[since:].count(CUT) < min(peers, 40):  # each peer is told once; the log has an end
                await asyncio.sleep(0.1)
        dripping.cancel()
        async with site.open(PUBLIC, callers[0]) as link:  # what is not taken keeps its place among the peer's few
            assert (await link.call(DOWNLOAD, site.download())).reason == "TooManyRequests"
        await honest(site)
        for stream in (stream for each in slow for stream in each):
            stream.take(1 << 24)
            await stream.over()
            assert (stream.status, stream.reason) == (14, "PeerUnavailable")
            assert len(stream.data) < 3 << 20  # what was under way, and no more
        async with site.open(PUBLIC, callers[0]) as link:
            assert (await link.call(DOWNLOAD, site.download())).status == 0
    return grown >> 10


@row(
    "24 downloads from 3 addresses at 1 byte a second, or with a window of 0",
    "public",
    "a learner elsewhere gets whole blocks; each is cut with UNAVAILABLE, and keeps its place until it takes the rest or hangs up",
)
def test_slow_readers_are_cut_and_keep_nobody_from_downloading(site: Site) -> None:
    assert asyncio.run(attack(site, peers=3, seconds=60)) < most_mib(3)


@row(
    "320 such downloads from 40 addresses, usual limits",
    "public",
    "the same after 69 s; the hub grows by at most 5 copies of a chunk for each",
)
@pytest.mark.slow
@pytest.mark.parametrize("peers", [3, 40])
def test_slow_readers_are_cut_with_the_limits_that_a_hub_has_by_itself(usual: Site, peers: int) -> None:
    assert asyncio.run(attack(usual, peers, seconds=180)) < most_mib(peers)
