"""Health checks beside watches whose callers hang up at any moment."""

import asyncio
import random
from itertools import chain

import pytest

from tests.hostile.servers.attacks import row
from tests.hostile.servers.site import CHECK, DOORS, WATCH, Site, by_status
from tests.support.http2 import Stream, framed

CHECKERS = 10
WATCHERS = 5
SERVING = b"\x08\x01"


async def attack(site: Site, door_name: str, number: int, seed: int) -> dict[str, list[Stream]]:
    """So many watches and checks; half of the watchers leave, at moments drawn beforehand."""
    door = next(door for door in DOORS if door.name == door_name)
    generator = random.Random(seed)

    async def watch(times: int) -> list[Stream]:
        streams = []
        async with site.open(door, site.caller(door)) as link:
            for _ in range(times):
                stream = link.begin(WATCH)
                await stream.send(framed(b""), end=True)
                streams.append(stream)
                if generator.random() < 0.5:
                    await asyncio.sleep(generator.random() / 100)
                    stream.cancel()
                elif len(streams) % 100 == 0:
                    await stream.over()
            await asyncio.gather(*(stream.over() for stream in streams))
        return streams

    async def check(times: int) -> list[Stream]:
        streams = []
        for _ in range(-(-times // 40)):  # fewer than a caller may make at once
            async with site.open(door, site.caller(door)) as link:
                streams += [await link.call(CHECK) for _ in range(40)]
        return streams

    watching = asyncio.gather(*(watch(number // WATCHERS) for _ in range(WATCHERS)))
    checking = asyncio.gather(*(check(number // CHECKERS) for _ in range(CHECKERS)))
    watched, checked = await asyncio.gather(watching, checking)
    return {"watches": list(chain(*watched)), "checks": list(chain(*checked))}


@row(
    "4,000 health checks beside 4,000 watches whose callers hang up",
    "all four",
    "every check is answered, every watch UNIMPLEMENTED with details",
)
@pytest.mark.parametrize(
    ("door", "number"),
    [("public", 400), ("coordinator", 400), *(pytest.param(door.name, 4000, marks=pytest.mark.slow) for door in DOORS)],
)
def test_checks_go_on_beside_watches(site: Site, door: str, number: int) -> None:
    told = asyncio.run(attack(site, door, number, seed=number))
    assert all((call.status, bytes(call.data[5:])) == (0, SERVING) for call in told["checks"])
    assert by_status(told["watches"]).keys() <= {(12, "VersionMismatch"), (None, "")}  # answered, or gone before
    assert by_status(told["watches"])[12, "VersionMismatch"] > number // 10
