"""SIGTERM while hundreds of calls of every kind are open: each role ends within its grace."""

import asyncio
import subprocess
from contextlib import AsyncExitStack

import pytest

from tests.hostile.servers.attacks import row
from tests.hostile.servers.site import CHECK, DOORS, DOWNLOAD, WATCH, Door, Site
from tests.support.http2 import HOST, framed

SEND_BLOCK = "/dprelease.wire.v1.IntakeService/SendBlock"
SEND_PARCEL = "/dprelease.wire.v1.RelayService/SendParcel"
GRACE_SECONDS = {"hub": 2.0, "coordinator": 10.0}
"""Of each of a role's two doors: the hub's as the site sets it, the coordinator's own."""


async def crowd(site: Site, door: Door, left: AsyncExitStack, peers: int) -> None:
    """Calls without a message, uploads that stand still, downloads that nobody takes, watches, and silence."""
    for _ in range(peers):
        caller = site.caller(door)
        link = await left.enter_async_context(site.open(door, caller, window=0, takes=False))
        for path in (door.path, CHECK, SEND_BLOCK, SEND_PARCEL):
            for _ in range(8):
                await link.begin(path).send(b"\0")
        for path, message in ((DOWNLOAD, site.download()), (WATCH, b""), (door.path, b"")):
            for _ in range(8):
                await link.begin(path).send(framed(message), end=True)
        _, writer = await asyncio.open_connection(HOST, site.port(door))
        left.push_async_callback(hang_up, writer)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def attack(site: Site, role: str, peers: int) -> int:
    async with AsyncExitStack() as left:
        for door in DOORS:
            await crowd(site, door, left, peers)
        await site.all_served()
        process = site.processes.processes[role]
        process.terminate()
        try:
            return int(await asyncio.to_thread(process.wait, 2 * GRACE_SECONDS[role] + 10))
        except subprocess.TimeoutExpired:
            process.kill()
            raise


@row(
    "SIGTERM with 40 peers who each hold 32 silent calls, 8 untaken downloads, 8 watches and a silent connection",
    "all four",
    "exit code 0 within the grace, which both listeners share",
)
@pytest.mark.parametrize(
    ("role", "peers"), [("hub", 5), *(pytest.param(role, 40, marks=pytest.mark.slow) for role in GRACE_SECONDS)]
)
def test_a_role_ends_within_its_grace_whatever_is_open(site: Site, role: str, peers: int) -> None:
    assert asyncio.run(attack(site, role, peers)) == 0
    site.processes.restart(role)
    asyncio.run(site.connected())
