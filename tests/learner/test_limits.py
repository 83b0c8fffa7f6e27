"""One client of the hub that wants everything, and another that is served all the same."""

from __future__ import annotations

import asyncio
import select
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import ExitStack, aclosing, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from dprelease.errors import TooManyRequests
from dprelease.release.manifest import BlockEntry
from dprelease.wire.boundary import VERSION, translated
from dprelease.wire.chunks import stream_chunks
from dprelease.wire.transport import connect
from dprelease.wire.v1 import intake_pb2, intake_pb2_grpc, public_pb2, public_pb2_grpc
from learner.hub.server import Hub
from learner.hub.storage import PartyShare, Storage
from tests.learner.test_hub import Dial, Start
from tests.learner.world import PATIENCE_SECONDS, FakeCoordinator, Sealed, World, fill, pieces, publish_to, requests

ELSEWHERE = "127.0.0.2"
"""Another address of this machine, to come from."""


class Relay:
    """Passes connections on to a port from another address of this machine, as if from another machine."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._door.accept()
                far = socket.create_connection(("127.0.0.1", self._target), source_address=(ELSEWHERE, 0))
                threading.Thread(target=self._pass_on, args=(near, far), daemon=True).start()

    @staticmethod
    def _pass_on(near: socket.socket, far: socket.socket) -> None:
        with near, far, suppress(OSError):
            while True:
                for ready in select.select([near, far], [], [])[0]:
                    data = ready.recv(1 << 16)
                    if not data:
                        return
                    (far if ready is near else near).sendall(data)


@pytest.fixture
def relay() -> Iterator[Callable[[int], int]]:
    with ExitStack() as opened:

        def open_relay(port: int) -> int:
            made = Relay(port)
            opened.callback(made.close)
            return int(made.port)

        yield open_relay


class Public:
    """Somebody at an address."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.stub = public_pb2_grpc.PublicServiceStub(channel)

    def list(self) -> int:
        with translated("the hub"):
            answer = self.stub.ListPublished(
                public_pb2.ListPublishedRequest(), timeout=PATIENCE_SECONDS, metadata=VERSION
            )
        return len(answer.releases)

    def download(self, digest: str, party: str, offset: int = 0) -> Any:
        request = public_pb2.DownloadBlockRequest(spec_digest=bytes.fromhex(digest), party=party, offset=offset)
        return self.stub.DownloadBlock(request, timeout=PATIENCE_SECONDS, metadata=VERSION)


def test_one_client_with_every_stream_open_does_not_starve_another(
    start_hub: Start,
    world: World,
    sealed: Sealed,
    relay: Callable[[int], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = Storage(tmp_path / "storage", 1 << 30)
    publish_to(storage, world, sealed)
    storage.close()
    go_on = threading.Event()

    async def slowly(call: Any, find: Any, offset: int, *more: Any) -> AsyncGenerator[bytes, None]:
        async with aclosing(stream_chunks(call, find, offset, *more)) as chunks:
            async for chunk in chunks:
                yield chunk
        if offset == 0:  # the greedy client's; it takes no more than its first chunk, whatever buffers lie between
            await asyncio.to_thread(go_on.wait, PATIENCE_SECONDS)

    monkeypatch.setattr("learner.hub.service.stream_chunks", slowly)
    hub = start_hub(limits={"stop_seconds": 0.0, "public_workers": 8, "streams_per_peer": 3})
    with ExitStack() as opened:
        opened.callback(go_on.set)
        greedy = [
            Public(opened.enter_context(connect(f"127.0.0.1:{hub.public_port}", world.credentials(None))))
            for _ in range(8)
        ]
        outcomes: list[str] = []
        streams = [client.download(sealed.digest, "north") for client in greedy for _ in range(5)]
        for stream in streams:
            try:
                with translated("the hub"):
                    next(stream)
                outcomes.append("served")
            except TooManyRequests as error:
                outcomes.append(error.message)
        assert outcomes.count("served") == 3
        assert outcomes.count("the hub: Too many requests; try again later.") == 37
        other = Public(opened.enter_context(connect(f"127.0.0.1:{relay(hub.public_port)}", world.credentials(None))))
        assert other.list() == 1
        with translated("the hub"):
            rest = b"".join(answer.chunk.data for answer in other.download(sealed.digest, "north", offset=1))
        assert rest == sealed.blocks["north"][1:]
        assert not go_on.is_set()


def test_a_client_that_calls_too_often_is_told_and_another_is_not(
    start_hub: Start, world: World, relay: Callable[[int], int]
) -> None:
    hub = start_hub(limits={"stop_seconds": 0.0, "calls_per_second": 0.01})  # a burst of one, then none for a while
    with (
        connect(f"127.0.0.1:{hub.public_port}", world.credentials(None)) as near,
        connect(f"127.0.0.1:{hub.public_port}", world.credentials(None)) as same,
        connect(f"127.0.0.1:{relay(hub.public_port)}", world.credentials(None)) as far,
    ):
        assert Public(near).list() == 0
        for channel in (near, same, near):  # another connection is no way out
            with pytest.raises(TooManyRequests):
                Public(channel).list()
        assert Public(far).list() == 0


def test_one_party_has_so_many_uploads_at_once(
    start_hub: Start, dial: Dial, world: World, coordinator: FakeCoordinator, sealed: Sealed
) -> None:
    other = world.sealed("another release")
    for release in (sealed, other):
        coordinator.offer(release)
    hub: Hub = start_hub(limits={"stop_seconds": 0.0, "streams_per_peer": 1})
    stubs = {
        name: intake_pb2_grpc.IntakeServiceStub(dial(hub.party_port, world.parties[name])) for name in sealed.blocks
    }
    for release in (sealed, other):
        for name, stub in stubs.items():
            request = intake_pb2.OpenBlockRequest(sealed=release.identities[name].to_bytes())
            stub.OpenBlock(request, timeout=PATIENCE_SECONDS, metadata=VERSION)
    half, go_on = threading.Event(), threading.Event()

    def halting() -> Iterator[Any]:
        messages = list(requests(sealed.digest, pieces(sealed.blocks["north"])))
        yield from messages[:3]
        half.set()
        go_on.wait(PATIENCE_SECONDS)
        yield from messages[3:]

    def send(name: str, release: Sealed) -> bytes:
        with translated("the hub"):
            messages = requests(release.digest, pieces(release.blocks[name]))
            return bytes(stubs[name].SendBlock(messages, timeout=PATIENCE_SECONDS, metadata=VERSION).digest)

    first = stubs["north"].SendBlock.future(halting(), timeout=PATIENCE_SECONDS, metadata=VERSION)
    assert half.wait(PATIENCE_SECONDS)
    # A client may run ahead of the server; that the hub holds a byte shows that the first stream has its place.
    _until_held(stubs["north"], sealed)
    with pytest.raises(TooManyRequests):
        send("north", other)
    assert send("south", other).hex() == other.identities["south"].sha256
    go_on.set()
    assert first.result().digest.hex() == sealed.identities["north"].sha256
    assert send("north", other).hex() == other.identities["north"].sha256


def _until_held(stub: Any, sealed: Sealed) -> None:
    request = intake_pb2.OpenBlockRequest(sealed=sealed.identities["north"].to_bytes())
    while not stub.OpenBlock(request, timeout=PATIENCE_SECONDS, metadata=VERSION).offset:
        pass


def announce(storage: Storage, world: World, sealed: Sealed, party: str) -> None:
    entry = BlockEntry(sealed=sealed.identities[party], certificate=world.parties[party].certificate)
    storage.keep_entry(entry)


def test_one_party_has_so_many_unpublished_releases(world: World, tmp_path: Any) -> None:
    first, second, third = (world.sealed(f"release {number}") for number in range(3))
    storage = Storage(tmp_path / "small", 1 << 30, PartyShare(releases=2))
    for release in (first, second, second):  # announcing twice is one
        announce(storage, world, release, "north")
    with pytest.raises(TooManyRequests, match="north has 2 other unpublished releases"):
        announce(storage, world, third, "north")
    announce(storage, world, third, "south")
    assert storage.entry(third.key("north")) is None
    storage.drop(first.digest)
    announce(storage, world, third, "north")
    storage.close()


def test_one_party_has_so_many_unpublished_bytes(world: World, tmp_path: Any) -> None:
    first, second = (world.sealed(f"release {number}") for number in range(2))
    size = len(first.blocks["north"])
    storage = Storage(tmp_path / "small", 1 << 30, PartyShare(size=2 * size - 1))
    announce(storage, world, first, "north")
    with pytest.raises(TooManyRequests, match=f"{size} bytes in all"):
        announce(storage, world, second, "north")
    storage.close()
    storage = Storage(tmp_path / "large", 1 << 30, PartyShare(size=2 * size))
    fill(storage, world, first, "north")
    announce(storage, world, second, "north")
    storage.close()
