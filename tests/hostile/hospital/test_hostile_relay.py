"""A hub whose relay and lists are hostile: a hospital says once what is wrong, draws and charges nothing more, and lives on."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from dprelease.errors import IntegrityError, InternalError
from dprelease.mpc.messages import Message, MessageHeader, sign_message
from dprelease.wire.v1 import intake_pb2, relay_pb2, release_pb2
from party_node.outgoing import relay as relay_module
from tests.hostile.faults import Fault, Kind, each
from tests.hostile.hospital.honest import check_delivered, honest_release, steps
from tests.party_node.joint_release import approved, deliver, released_exactly
from tests.party_node.world import DRAWS_OF_ONE_BLOCK, World

Act = Callable[[World, str, pytest.MonkeyPatch], None]

GOES_ON = "no noise is drawn, nothing is given back or declined; with an honest relay the release goes on"


def hello(world: World, release: str, sender: str = "south", **changes: Any) -> Message:
    """A session key that a hospital signed."""
    fields: dict[str, Any] = {"task": release, "round": 1, "kind": "hello", "sender": sender, "payload": "ab" * 32}
    signer = changes.pop("signer", sender)
    return sign_message(world.members[signer].key, MessageHeader(**fields | changes))


def lists(*make: Callable[[World, str], Message]) -> Act:

    def act(world: World, release: str, patch: pytest.MonkeyPatch) -> None:
        made = tuple(each(world, release) for each in make)
        patch.setattr(world.relay.post(release), "lists", lambda party, messages: (*messages, *made))

    return act


def answers_lists(answer: Callable[[Any], Any]) -> Act:
    """Answers every list in another way."""

    def act(world: World, release: str, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(world.relay, "ListParcels", lambda request, context: answer(request))

    return act


def garbage(request: Any) -> Any:
    return relay_pb2.ListParcelsResponse(parcels=[b'{"header":'], last=request.after + 1)


def oversized(request: Any) -> Any:
    return relay_pb2.ListParcelsResponse(parcels=[bytes(5 << 20)], last=request.after + 1)


def again(request: Any) -> Any:
    return relay_pb2.ListParcelsResponse(parcels=[b"{}"], last=0)


def endless(world: World, release: str, patch: pytest.MonkeyPatch) -> None:
    """Lists a sound message in every answer, for ever."""
    patch.setattr(relay_module, "MOST_MESSAGES", 50)
    data = hello(world, release).to_bytes()
    answer = lambda request: relay_pb2.ListParcelsResponse(parcels=[data] * 20, last=request.after + 1)  # noqa: E731
    answers_lists(answer)(world, release, patch)


LISTS = [
    ("lists a message that cannot be read", IntegrityError, "holds a message that cannot be read", answers_lists(garbage)),
    ("answers with a list of 5 MiB", InternalError, "sent an answer longer than any", answers_lists(oversized)),
    ("lists the same messages again and again", IntegrityError, "again and again", answers_lists(again)),
    ("lists messages without an end", IntegrityError, "lists more messages than a session has", endless),
    (
        "lists a message of another release", IntegrityError, "belongs to another release",
        lists(lambda world, release: hello(world, "77" * 32)),
    ),
    (
        "lists a message of another hospital that we signed", IntegrityError, "that its key did not sign",
        lists(lambda world, release: hello(world, release, signer="north")),
    ),
    (
        "lists a message of a hospital that takes no part", IntegrityError, "that its key did not sign",
        lists(lambda world, release: hello(world, release, sender="west", signer="south")),
    ),
]  # fmt: skip


def held(size: int) -> Act:
    """Says of an upload that it has so many bytes."""
    return lambda world, release, patch: patch.setattr(world.relay, "held", size)


def fetches(chunks: Callable[[bytes], list[tuple[int, bytes]]], damage: int = 0) -> Act:
    """Hands bodies out in other chunks: offset and bytes of each, with a checksum that is right unless it is damaged."""

    def act(world: World, release: str, patch: pytest.MonkeyPatch) -> None:
        async def fetch(request: Any, context: Any) -> AsyncIterator[Any]:
            body = world.relay.post(release).bodies[request.header_digest.hex()]
            for offset, data in chunks(body):
                chunk = release_pb2.Chunk(offset=offset, data=data, crc32=zlib.crc32(data) ^ damage)
                yield relay_pb2.FetchParcelResponse(chunk=chunk)

        patch.setattr(world.relay, "FetchParcel", fetch)

    return act


BODIES = [
    ("has more bytes of our message than there are", IntegrityError, "claims to hold more bytes", held(1 << 40)),
    (
        "hands a message out from its middle",
        IntegrityError,
        "where 0 comes next",
        fetches(lambda body: [(8, body[8:])]),
    ),
    ("hands out a piece twice", IntegrityError, "where 8 comes next", fetches(lambda body: [(0, body[:8])] * 2)),
    ("hands out a damaged piece", IntegrityError, "damaged on the way", fetches(lambda body: [(0, body)], damage=1)),
    ("hands out an empty piece", IntegrityError, "a chunk of 0 bytes", fetches(lambda body: [(0, b"")])),
    ("hands out more than was signed", IntegrityError, "reaches past", fetches(lambda body: [(0, body + b"x")])),
    ("hands out less than was signed", IntegrityError, "did not sign", fetches(lambda body: [(0, body[:-1])])),
    ("hands out other bytes", IntegrityError, "did not sign", fetches(lambda body: [(0, bytes(len(body)))])),
    ("hands out a piece of 3 MiB", InternalError, "longer than any", fetches(lambda body: [(0, bytes(3 << 20))])),
]

RELAYS = [
    Fault(f"the hub's relay {what}", "hospital", Kind.HELD, error, GOES_ON, lambda act=act, words=words: (act, words))
    for what, error, words, act in (*LISTS, *BODIES)
]


def restart(world: World) -> None:
    """Serve what the hub's methods are now."""
    world.shelf.stop()
    world.shelf.start()


@pytest.mark.parametrize("faults", [RELAYS[: len(LISTS)], RELAYS[len(LISTS) :]], ids=["lists", "bodies"])
def test_a_hostile_relay_holds_one_release_up_and_nothing_else(world: World, faults: list[Fault]) -> None:
    """One fault after the other, so that each meets what those before it left behind; an honest release goes through meanwhile."""
    release, north = approved(world, range_proofs=False), world.north  # the doors are those of any message
    for fault in faults:
        act, words = fault.act()
        with pytest.MonkeyPatch.context() as patch:
            act(world, release, patch)
            restart(world)
            for _ in range(6):
                if raised := steps(north):
                    break
                steps(world.south)
            assert raised == [fault.error], fault.what
            north.cycle(2)
            assert words in north.record(release).note, fault.what
            assert north.status(release) == "approved"
            assert north.ledger_kinds(release) in (["reserve"], ["reserve", "charge", "send"])
            assert north.noise.draws == []
            if fault is faults[-1]:
                honest_release(world)
    draws = len(north.noise.draws)
    restart(world)
    assert world.coordinator.heard("Decline") == []
    deliver(world)
    assert north.status(release) == world.south.status(release) == "delivered"
    assert len(north.noise.draws) == draws + DRAWS_OF_ONE_BLOCK
    assert north.ledger_kinds(release) == ["reserve", "charge", "send"]
    assert released_exactly(world, release)


def owns(*listed: bytes) -> Act:
    """Lists as ours what is in these bytes."""

    def act(world: World, release: str, patch: pytest.MonkeyPatch) -> None:
        answer = intake_pb2.ListEarlierBlocksResponse(own=listed)
        patch.setattr(world.hub, "ListEarlierBlocks", lambda request, context: answer)

    return act


HELD_BLOCKS = [
    Fault(f"the hub {what}", "hospital", Kind.HELD, error, "no noise is drawn; with an honest hub the release goes on", act)
    for what, error, act in (
        ("lists a block of ours that cannot be read", IntegrityError, owns(b"{")),
        ("answers with 5 MiB of blocks", InternalError, owns(bytes(5 << 20))),
        ("lists 100,000 blocks of ours that are empty", IntegrityError, owns(*[b""] * 100_000)),
    )
]  # fmt: skip


@each(HELD_BLOCKS)
def test_a_hostile_list_of_blocks_is_told_and_nothing_is_drawn(
    world: World, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, north = world.approved(), world.north
    with monkeypatch.context() as patch:
        fault.act(world, release, patch)
        restart(world)
        assert steps(north) == [fault.error]
        north.cycle()
        assert north.record(release).note.startswith("the hub")
        assert (north.noise.draws, north.ledger_kinds(release)) == ([], ["reserve"])
    restart(world)
    north.cycle()
    check_delivered(world, release)
    honest_release(world)


FAULTS = [*RELAYS, *HELD_BLOCKS]
