"""Connections that say nothing, before and after TLS."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.hostile.servers.attacks import row
from tests.hostile.servers.site import DOORS, Door, Site
from tests.support.http2 import HOST

ROLES = ("hub", "coordinator")


async def open_silent(site: Site, door: Door, number: int) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """So many TCP connections, and as many that finish TLS and then say nothing."""
    caller = site.caller(door)
    port, local = site.port(door), (caller.source, 0)
    opened = []
    for _ in range(number // 50):
        plain = [asyncio.open_connection(HOST, port, local_addr=local) for _ in range(50)]
        secure = [
            asyncio.open_connection(HOST, port, local_addr=local, ssl=caller.context, server_hostname="localhost")
            for _ in range(50)
        ]
        opened += await asyncio.gather(*plain, *secure)
    return opened


async def attack(site: Site, number: int, *, stay: bool) -> None:
    """Silent connections at all doors; until the server ends them, or until we hang up."""
    before = {role: site.measured(role, "FDs") for role in ROLES}
    async with AsyncExitStack() as left:
        opened = await asyncio.gather(*(open_silent(site, door, number) for door in DOORS))
        everybody = [pair for each in opened for pair in each]

        async def leave() -> None:
            for _, writer in everybody:
                writer.transport.abort()
            await asyncio.gather(*(writer.wait_closed() for _, writer in everybody), return_exceptions=True)

        left.push_async_callback(leave)
        await site.all_served(times=3)
        if stay:

            async def ended(reader: asyncio.StreamReader) -> None:
                while await reader.read(1 << 16):
                    pass

            async with asyncio.timeout(90):
                await asyncio.gather(*(ended(reader) for reader, _ in everybody), return_exceptions=True)
            await site.all_served(times=3)
    async with asyncio.timeout(60):
        for role in ROLES:
            while site.measured(role, "FDs") > before[role] + 5:
                await asyncio.sleep(0.1)


@row("100 connections that say nothing, 100 more after TLS, which then hang up", "all four", "their files are closed")
def test_silent_connections_keep_nobody_from_being_served(site: Site) -> None:
    asyncio.run(attack(site, 100, stay=False))


@row(
    "500 connections that say nothing, 500 more after TLS",
    "all four",
    "the server ends them after 20 s; their files are closed",
)
@pytest.mark.slow
def test_a_thousand_silent_connections_at_every_door_until_the_server_ends_them(site: Site) -> None:
    asyncio.run(attack(site, 500, stay=True))
