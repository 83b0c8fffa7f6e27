"""One hospital that sends the longest messages it can, full of what is long to read: others are served, memory stays small."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from itertools import cycle, islice
from pathlib import Path

import pytest

from dprelease.catalogue import Catalogue
from dprelease.wire.limits import LONG_BYTES, most_request_bytes
from tests.hostile.servers.attacks import row
from tests.hostile.servers.site import CHECK, DOORS, Door, Site, by_status
from tests.hostile.servers.test_garbage import methods
from tests.support.bombs import KINDS, bomb
from tests.support.http2 import Connection, Stream, framed
from tests.support.loop_steps import longest_step
from tests.support.measured import forget_peak, measured, processor_seconds

CONNECTIONS = 8
MESSAGES = 40
MOST_MIB = 300
V1 = "/dprelease.wire.v1."
DOOR = {door.name: door for door in DOORS}


def text(kind: str, size: int) -> bytes:
    """A message of so many bytes whose first field is JSON of a kind."""
    data, length = bomb(kind, size - 6), bytearray()
    size = len(data)
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return b"\x0a" + bytes([*length, size]) + data


ATTACKED: Mapping[str, Mapping[str, Callable[[str, int], bytes]]] = {
    "hub": {
        f"{V1}RelayService/OpenParcel": text,
        f"{V1}IntakeService/OpenBlock": text,
        f"{V1}RelayService/OpenParcels": lambda _, size: b"\x0a\x00" * (size // 2),
    },
    "coordinator": {
        f"{V1}CoordinationService/ReportCatalogue": text,
        f"{V1}CoordinationService/Approve": text,
        f"{V1}AlignmentService/AcceptRun": text,
        f"{V1}CoordinationService/RequestDeal": lambda _, size: b"\x0a\x00" * (size // 2),
        f"{V1}CoordinationService/ListReleases": lambda _, size: b"\x12\x00" * (size // 2),
    },
}
"""Methods, each with what makes a message of it: JSON, or nothing but empty items."""


def most_read(path: str) -> int:
    """Bytes of the longest message that is read to its end."""
    return min(most_request_bytes([path]), Catalogue.most_bytes)


def most_taken(door: Door) -> int:
    """Bytes of the longest message that gRPC lets through to us."""
    return most_request_bytes(methods(door))


LENGTHS: Mapping[str, tuple[Callable[[Door, str], int], tuple[int, str]]] = {
    "4 MiB": (lambda door, path: LONG_BYTES, (8, "")),
    "too long for the method": (lambda door, path: most_taken(door), (3, "InvalidInput")),
    "as long as is read": (lambda door, path: most_read(path), (3, "InvalidInput")),
}
"""How long messages are, and how they are answered."""


async def canary(site: Site, door: Door, over: asyncio.Event) -> None:
    """Calls of somebody else, none of which fails, until the attack is over."""
    calls = ((CHECK, 0),) if door.name == "enrolment" else ((CHECK, 0), (door.path, door.answer))
    async with site.open(door, site.caller(door, member=True)) as link:
        for path, status in cycle(calls):
            assert (await link.call(path)).status == status, (door.name, path)
            if over.is_set():
                return
            await asyncio.sleep(0.1)


async def send(link: Connection, path: str, message: bytes) -> Stream:
    """One message, to the end of its call."""
    stream = link.begin(path)
    await stream.send(framed(message), end=True)
    return await stream.over()


async def attack(site: Site, door: Door, calls: list[tuple[str, bytes]]) -> list[Stream]:
    """Send all of them from one hospital, while others are served at both doors of the role."""
    over, caller = asyncio.Event(), site.caller(door, member=True)
    async with AsyncExitStack() as opened:
        links = [await opened.enter_async_context(site.open(door, caller)) for _ in range(CONNECTIONS)]
        others = asyncio.gather(*(canary(site, each, over) for each in DOORS if each.role == door.role))
        sent = (send(link, path, data) for link, (path, data) in zip(cycle(links), calls, strict=False))
        answers = await asyncio.gather(*sent)
        over.set()
        await others
    return answers


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where roles note the longest step of their event loops."""
    return tmp_path_factory.mktemp("steps")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory, steps: Path) -> Iterator[Site]:
    """Roles that nobody else has attacked, so that their memory is theirs."""
    noted = ("-m", "tests.support.loop_steps", str(steps), "--")
    with Site(tmp_path_factory.mktemp("fresh"), rows=40, launcher=noted) as site:
        asyncio.run(site.connected())
        yield site


@row(
    f"{MESSAGES} messages of one hospital on {CONNECTIONS} connections, of 4 MiB, too long for their method, or as long as "
    "is read, full of objects, lists, numbers, keys that nobody knows, empty items",
    "hub, coordinator",
    "RESOURCE_EXHAUSTED by gRPC itself, INVALID_ARGUMENT before or after they are read; "
    f"at most {MOST_MIB} MiB in all, 50 ms of the processor's time for each, 20 ms in one step of the event loop",
)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", ATTACKED)
def test_long_messages_cost_little_memory_and_time(fresh: Site, steps: Path, name: str, length: str) -> None:
    door, (size, answer) = DOOR[name], LENGTHS[length]
    kinds = [(path, make(kind, size(door, path))) for path, make in ATTACKED[name].items() for kind in KINDS]
    process = fresh.pid(door.role)
    forget_peak(process)
    spent = processor_seconds(process)
    answers = asyncio.run(attack(fresh, door, list(islice(cycle(kinds), MESSAGES))))
    spent = processor_seconds(process) - spent
    assert by_status(answers) == {answer: MESSAGES}
    assert measured(process, "VmHWM") < MOST_MIB << 10
    assert spent / MESSAGES < 0.05
    assert 0 < longest_step(steps, process) < 0.02  # in which nobody else is served
    assert fresh.alive(door.role)
