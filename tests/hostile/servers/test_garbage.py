"""Garbage for every method of every door: whatever reaches our code is answered by the status table, with details."""

import asyncio
import gzip
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from dprelease.wire.boundary import TABLE
from dprelease.wire.v1 import coordination_pb2, enrolment_pb2, intake_pb2, public_pb2, relay_pb2
from tests.hostile.servers.attacks import row
from tests.hostile.servers.site import CHECK, DOORS, Door, Site
from tests.support.http2 import Connection, Stream, framed

MIB = 1 << 20
GZIP = ("grpc-encoding", "gzip")
SERVICES: Mapping[str, tuple[Any, ...]] = {
    "public": (public_pb2,),
    "hub": (intake_pb2, relay_pb2),
    "coordinator": (coordination_pb2,),
    "enrolment": (enrolment_pb2,),
}
ROWS = {row.error.__name__: row.code.value[0] for row in TABLE}


def methods(door: Door) -> list[str]:
    """Full names of everything that a door has, from the descriptors."""
    services = [service for module in SERVICES[door.name] for service in module.DESCRIPTOR.services_by_name.values()]
    return [CHECK, *(f"/{service.full_name}/{method.name}" for service in services for method in service.methods)]


@dataclass(frozen=True)
class Garbage:
    """Bytes of a call.

    Attributes:
        what: it is, in words.
        data: after the headers.
        headers: beyond the usual ones.
        grpc: status where gRPC itself answers, before us and without details.
    """

    what: str
    data: bytes
    headers: tuple[tuple[str, str], ...] = field(default=())
    grpc: int | None = None


def _each_field(kind: int, value: bytes) -> bytes:
    """The fields 1 to 9, all of one wire type."""
    return b"".join(bytes([number << 3 | kind]) + value for number in range(1, 10))


_random = random.Random(5)
GARBAGE = (
    Garbage("no message", b""),
    Garbage("an empty message", framed(b"")),
    *(Garbage(f"random bytes, {size}", framed(_random.randbytes(size))) for size in (1, 40, 5000)),
    Garbage("numbers for every field", framed(_each_field(0, b"\x7f"))),
    Garbage("words of eight bytes for every field", framed(_each_field(1, b"\xff" * 8))),
    Garbage("strings that are not UTF-8", framed(_each_field(2, b"\x02\xff\xfe"))),
    Garbage("a message that ends in the middle of a field", framed(b"\x0a\x7f\x01")),
    Garbage("ten thousand groups in one another", framed(b"\x0b" * 10_000)),
    Garbage("two messages", framed(b"") + framed(b"\x0a\x01x")),
    Garbage("compressed without saying how", framed(b"x", compressed=True), (), 13),
    Garbage("another protocol version", framed(b""), (("dprelease-protocol", "2"),)),
)


def large() -> Iterator[Garbage]:
    """For one method of each door: it is read before anybody knows which."""
    yield Garbage("4 MiB of zeros", framed(bytes(4 * MIB)), grpc=8)
    yield Garbage("5 MiB announced", (b"\0" + (5 * MIB).to_bytes(4, "big")), grpc=8)
    yield Garbage("64 kB of headers", framed(b""), (("x-filler", "x" * 65_536),), 8)
    yield Garbage("64 MiB of zeros as 64 kB of gzip", bomb(), (GZIP,), 8)


@cache
def bomb() -> bytes:
    return framed(gzip.compress(bytes(64 * MIB)), compressed=True)


async def throw(link: Connection, path: str, garbage: Garbage) -> Stream:
    """One call, to its end."""
    stream = link.begin(path, *garbage.headers)
    await stream.send(garbage.data, end=True)
    return await stream.over()


def check(path: str, garbage: Garbage, answer: Stream) -> None:
    """It has one of our rows, or gRPC's answer where gRPC was first."""
    seen = (path, garbage.what, answer.status, answer.reason, answer.headers.get("grpc-message"))
    if answer.reason:
        assert answer.status == ROWS[answer.reason], seen
        assert answer.reason not in {"InternalError", "TooManyRequests"}, seen
    elif answer.status != 0:
        assert answer.status == garbage.grpc, seen


@row(
    "random bytes, wrong wire types, cut and nested messages, 4 MiB of zeros, other versions, for every method",
    "all four",
    "a row of the status table with details; "
    "messages longer than any that the door takes (hub 2.1 MiB, coordinator 1.1 MiB, the others 64 KiB), gzip bombs, "
    "64 kB of headers (RESOURCE_EXHAUSTED) and compression without its name (INTERNAL) "
    "are refused by gRPC itself, without",
)
@pytest.mark.parametrize("name", [door.name for door in DOORS])
def test_garbage_for_every_method_is_answered_with_our_details(site: Site, name: str) -> None:
    door = next(door for door in DOORS if door.name == name)

    async def attack() -> None:
        for path in methods(door):
            async with site.open(door, site.caller(door, member=True)) as link:
                for garbage in (*GARBAGE, *(large() if path == door.path else ())):
                    check(path, garbage, await throw(link, path, garbage))
            await site.served(door)

    asyncio.run(attack())


@row("methods of other doors and of nobody", "all four", "UNIMPLEMENTED with details")
def test_a_method_that_is_not_here_is_answered_with_our_details(site: Site) -> None:
    async def attack() -> None:
        for door in DOORS:
            async with site.open(door, site.caller(door)) as link:
                others = [path for other in DOORS for path in methods(other) if other is not door and path != CHECK]
                for path in ("/", "//", "/a/b", "/a/" + "b" * 5000, "/\xff/\u2028", *others):
                    answer = await link.call(path)
                    assert (answer.status, answer.reason) == (12, "VersionMismatch"), (door.name, path[:80])

    asyncio.run(attack())
