"""Calls to the relay over real TLS: everything listed, uploads that go on where they stopped, and nothing believed unchecked."""

from __future__ import annotations

import asyncio
import threading
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from dprelease.canonical import sha256
from dprelease.errors import Conflict, IntegrityError, NotFound, PeerUnavailable
from dprelease.mpc.messages import NOTHING, Message, MessageHeader, sign_message
from dprelease.wire import chunks
from dprelease.wire.transport import connect
from dprelease.wire.v1 import relay_pb2, release_pb2
from party_node.outgoing import relay as relay_module
from party_node.outgoing.relay import RelayCalls
from party_node.state.session import Outgoing
from tests.party_node.joint_release import joint_spec
from tests.party_node.world import World

BODY = bytes(range(256)) * 20


@pytest.fixture
def release(world: World) -> str:
    found = world.coordinator.propose(joint_spec(world))
    world.relay.post(found).strict = False
    return found


@pytest.fixture
def north(world: World, release: str) -> Iterator[RelayCalls]:
    hospital_state = world.north.hospital_state()
    with connect(hospital_state.enrolment.hub, hospital_state.identity.credentials()) as channel:
        yield RelayCalls(channel, release, 30.0)


@pytest.fixture
def south(world: World, release: str) -> Iterator[RelayCalls]:
    hospital_state = world.south.hospital_state()
    with connect(hospital_state.enrolment.hub, hospital_state.identity.credentials()) as channel:
        yield RelayCalls(channel, release, 0.3)


def message(world: World, release: str, number: int = 1, body: bytes = BODY) -> Message:
    """A message of the north's for the south; the relay's fake does not ask what the schedule says."""
    header = MessageHeader(
        task=release, round=number, session="", kind="deal" if body else "hello", sender="north",
        receivers=("south",) if body else (), dealer="", payload="", size=len(body),
        sha256=sha256(body) if body else NOTHING,
    )  # fmt: skip
    return sign_message(world.members["north"].key, header)


@pytest.fixture
def outgoing(world: World, release: str, folder: Path) -> Outgoing:
    path = folder / "deal.body"
    path.write_bytes(BODY)
    return Outgoing(message(world, release), path)


def test_a_message_goes_to_its_receiver_as_it_was(north: RelayCalls, south: RelayCalls, outgoing: Outgoing) -> None:
    assert north.messages() == ()
    assert north.put([outgoing], ())
    (listed,) = south.messages()
    assert listed == outgoing.message
    assert b"".join(south.fetch(listed.header)) == BODY
    assert not north.put([outgoing], south.messages())


def test_all_pages_are_read(world: World, release: str, north: RelayCalls) -> None:
    sent = [Outgoing(message(world, release, number, b""), None) for number in range(1, 11)]
    assert world.relay.page == 3
    north.put(sent, ())
    assert [each.message for each in sent] == list(north.messages())


@pytest.mark.parametrize("mark", [b"a list", b""], ids=["marked", "of a hub of before"])
def test_what_was_listed_is_asked_for_again_only_of_another_list(
    world: World, release: str, north: RelayCalls, mark: bytes
) -> None:
    relay = world.relay
    sent = [message(world, release, number, b"") for number in range(1, 6)]
    relay.mark = mark

    def look() -> tuple[list[Message], list[int]]:
        relay.listed.clear()
        return list(north.messages()), relay.listed

    north.put([Outgoing(each, None) for each in sent[:4]], ())
    assert look() == (sent[:4], [0, 3, 4])
    north.put([Outgoing(sent[4], None)], ())
    assert look() == (sent, [4, 5] if mark else [0, 3, 5])
    relay.post(release).messages.pop(sent[0].header.digest())  # as after a restart over an older copy
    relay.mark = mark and b"another list"
    assert look() == (sent[1:], [5, 3, 4] if mark else [0, 3, 4])


def test_short_bodies_come_with_their_messages_and_are_fetched_together(
    world: World, release: str, north: RelayCalls, south: RelayCalls, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "MOST_SHORT", 6000)
    bodies = {"": b"first", "east": b"2" * 3000, "west": b"3" * 2500, "south": b"4" * 3000}
    sent = []
    for dealer, body in bodies.items():
        path = folder / f"{dealer}.body"
        path.write_bytes(body)
        header = message(world, release, 1, body).header.model_copy(update={"dealer": dealer})
        sent.append(Outgoing(sign_message(world.members["north"].key, header), path))
    headers = [each.message.header for each in sent]
    world.relay.short = True
    assert north.put(sent, ())
    assert world.relay.offsets == []  # no upload began
    assert len(south.messages()) == 4
    found = south.fetch_short("south", headers[1], {headers[0]})
    assert found == {header: bodies[header.dealer] for header in headers[1:3]}  # a fourth does not fit
    assert south.fetch_short("north", headers[1], {}).keys() == {headers[1]}  # what is not for us is not asked for
    world.relay.alters = lambda body: body + b"."
    with pytest.raises(IntegrityError, match="did not sign"):
        south.fetch_short("south", headers[1], {})
    world.relay.short = False
    assert south.fetch_short("south", headers[1], {}) == {}


def test_an_upload_that_broke_goes_on_where_it_stopped(
    world: World, north: RelayCalls, south: RelayCalls, outgoing: Outgoing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1000)
    world.relay.breaks_at = 3000
    with pytest.raises(PeerUnavailable):
        north.send(outgoing)
    assert south.messages() == ()
    north.send(outgoing)
    north.send(outgoing)  # complete: nothing is sent
    assert world.relay.offsets == [0, 1500]
    assert b"".join(south.fetch(outgoing.message.header)) == BODY


def test_a_relay_that_took_other_bytes_is_not_believed(world: World, north: RelayCalls, outgoing: Outgoing) -> None:
    world.relay.wrong_digest = True
    with pytest.raises(IntegrityError, match="acknowledged other bytes"):
        north.send(outgoing)


def test_an_upload_that_stands_still_is_given_up(world: World, south: RelayCalls, outgoing: Outgoing) -> None:
    world.relay.stalls = threading.Event()
    try:
        with pytest.raises(PeerUnavailable, match=r"a message stood still for 0\.3 s"):
            south.send(outgoing)
    finally:
        world.relay.stalls.set()


def test_a_body_that_trickles_is_given_up(
    world: World, south: RelayCalls, north: RelayCalls, outgoing: Outgoing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte now and then would hold the daemon for as long as the hub likes."""
    served: list[int] = []

    async def trickle(request: Any, context: Any) -> AsyncIterator[Any]:
        for offset in range(request.offset, len(BODY)):
            served.append(offset)
            yield relay_pb2.FetchParcelResponse(
                chunk=release_pb2.Chunk(
                    offset=offset, data=BODY[offset : offset + 1], crc32=zlib.crc32(BODY[offset : offset + 1])
                )
            )
            await asyncio.sleep(0.05)

    north.send(outgoing)
    monkeypatch.setattr(world.relay, "FetchParcel", trickle)
    world.shelf.stop()
    world.shelf.start()
    with pytest.raises(PeerUnavailable):
        list(south.fetch(outgoing.message.header))
    assert 0 < len(served) < len(BODY)


@pytest.mark.parametrize("error", [PeerUnavailable("x"), NotFound("x"), Conflict("x")])
def test_what_the_relay_answers_is_told(
    world: World, release: str, north: RelayCalls, outgoing: Outgoing, error: Any
) -> None:
    north.send(outgoing)
    world.relay.raises = error
    for call in (north.messages, lambda: north.send(outgoing), lambda: list(north.fetch(outgoing.message.header))):
        with pytest.raises(type(error), match="the hub's relay"):
            call()
