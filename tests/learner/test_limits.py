"""One client of the hub that wants everything, and another that is served all the same.

Mirrors that never end an answer and never stand still: a deadline ends them, in plain HTTP and TLS, and others are asked.
"""

import asyncio
import select
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import ExitStack, aclosing, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import grpc
import pytest

from dprelease.errors import DpReleaseError, InternalError, PeerUnavailable, TooManyRequests
from dprelease.identity.signing import private_key_pem
from dprelease.release.folder import ReleaseFolder
from dprelease.release.manifest import BlockEntry
from dprelease.release.spec import BlockKey
from dprelease.wire.boundary import VERSION, translated
from dprelease.wire.chunks import stream_chunks
from dprelease.wire.retry import PROGRESS_BYTES, ProgressDeadline
from dprelease.wire.transport import connect
from dprelease.wire.v1 import intake_pb2, intake_pb2_grpc, public_pb2, public_pb2_grpc, relay_pb2
from dprelease.wire.v1.intake_pb2_grpc import IntakeServiceStub
from dprelease.wire.v1.relay_pb2_grpc import RelayServiceStub
from learner.client import mirror as mirror_module
from learner.client.mirror import Mirror
from learner.client.sources import SourceAddress, answered
from learner.hub.coordination import QUESTIONS as QUESTIONS_OF_A_PARTY
from learner.hub.server import Hub
from learner.hub.storage import PartyShare, Storage
from tests.learner.test_hub import Dial, Party, Start
from tests.learner.world import PATIENCE_SECONDS, FakeCoordinator, Sealed, World, fill, pieces, requests, stored
from tests.support.certificates import HOST, Authority
from tests.support.web import serving

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
    stored(tmp_path / "storage", world, sealed)
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


def test_one_party_makes_the_hub_ask_so_often_about_what_it_does_not_know(
    start_hub: Start, dial: Dial, world: World, coordinator: FakeCoordinator, sealed: Sealed
) -> None:
    hub = start_hub(limits={"stop_seconds": 0.0, "calls_per_second": 1000.0})
    port, north = hub.party_port, world.parties["north"]
    blocks, parcels = IntakeServiceStub(dial(port, north)), RelayServiceStub(dial(port, north))
    outcomes = Counter[str]()
    begun = time.monotonic()
    for number in range(60):
        digest = sha256(str(number).encode()).digest()
        method, request = (
            (parcels.ListParcels, relay_pb2.ListParcelsRequest(spec_digest=digest))
            if number % 2
            else (blocks.ListEarlierBlocks, intake_pb2.ListEarlierBlocksRequest(spec_digest=digest))
        )
        try:
            with translated("the hub"):
                method(request, timeout=PATIENCE_SECONDS, metadata=VERSION)
        except DpReleaseError as error:
            outcomes[type(error).__name__] += 1
    asked = coordinator.attempts.count("GetRelease")
    assert asked <= QUESTIONS_OF_A_PARTY.burst + QUESTIONS_OF_A_PARTY.per_second * (time.monotonic() - begun)
    assert outcomes == {"NotFound": asked, "TooManyRequests": 60 - asked}
    # Another party is answered, and what is known already is taken from this one too.
    coordinator.offer(sealed)
    for name in ("south", "north"):
        Party(dial(port, world.parties[name]), sealed, name).upload()
    coordinator.wait(lambda: len(coordinator.named("ReportPublication")) == 1)


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


T = TypeVar("T")

SHORT = 0.3
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
DRIP_SECONDS = 0.02

TRICKLES: dict[str, tuple[bytes, bytes, float]] = {
    "nothing": (b"", b"", DRIP_SECONDS),
    "100 Continue without end": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100, 0),
    "a header that drips": (b"HTTP/1.1 200 OK\r\nX: ", b"x", DRIP_SECONDS),
    "a body that drips": (b"HTTP/1.1 200 OK\r\n\r\n", b"{", DRIP_SECONDS),
    "a chunk's size that drips": (CHUNKED, b"0", DRIP_SECONDS),
    "chunks that drip": (CHUNKED, b"1\r\n{\r\n", DRIP_SECONDS),
    "trailers that drip": (CHUNKED + b"1\r\n{\r\n0\r\n", b"X: x\r\n", DRIP_SECONDS),
    "trailers without end": (CHUNKED + b"1\r\n{\r\n0\r\n", b"X: x\r\n" * 100, 0),
}
"""What is sent once, what is sent again and again, and the pause in between."""

QUESTIONS: dict[str, Callable[[Mirror], object]] = {
    "a list": lambda mirror: list(mirror.releases()),
    "a manifest": lambda mirror: mirror.manifest("0f" * 32),
    "a block": lambda mirror: list(mirror.block(BlockKey("0f" * 32, "north"), 0, 1 << 30)),
}


class Raw:
    """A server that reads one request of each connection and then sends whatever it is told to.

    Attributes:
        port: on loopback.
        answer: writes to a connection; `over` is set at the end of the test.
    """

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.answer: Callable[[socket.socket], object] = lambda link: None
        self.over = threading.Event()
        self._context = context
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def trickle(self, first: bytes, again: bytes, pause: float) -> None:
        """Answer with this from now on."""

        def answer(link: socket.socket) -> None:
            link.sendall(first)
            while not self.over.wait(pause):
                link.sendall(again)

        self.answer = answer

    def close(self) -> None:
        self.over.set()
        self._listening.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                link, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        with suppress(OSError), link:
            if self._context is not None:
                link = self._context.wrap_socket(link, server_side=True)
            with link:
                link.recv(65536)
                self.answer(link)


@pytest.fixture
def scheme() -> str:
    return "http"


@pytest.fixture
def raw(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Raw]:
    context = None
    if scheme == "https":
        authority = Authority()
        member = authority.member("mirror", None)
        for name, text in (("root.pem", authority.root), ("mirror.pem", member.certificate)):
            (tmp_path / name).write_text(text)
        (tmp_path / "mirror.key").write_bytes(private_key_pem(member.key))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "root.pem"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "mirror.pem", tmp_path / "mirror.key")
    running = Raw(context)
    yield running
    running.close()


@pytest.fixture
def url(raw: Raw, scheme: str) -> str:
    return f"{scheme}://{HOST}:{raw.port}"


def outcome(question: Callable[[], T]) -> T | DpReleaseError:
    """What a question ends with; a test that it holds for ever fails."""
    ends: list[T | DpReleaseError] = []

    def ask() -> None:
        try:
            ends.append(question())
        except DpReleaseError as error:
            ends.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(PATIENCE_SECONDS)
    assert ends, "it is still waiting"
    return ends[0]


@pytest.mark.parametrize(
    ("trickle", "asked", "scheme"),
    [
        *((trickle, "a block", "http") for trickle in TRICKLES),
        *((trickle, "a manifest", "https") for trickle in TRICKLES),
        ("a body that drips", "a list", "http"),
    ],
)
def test_an_answer_that_trickles_is_ended(raw: Raw, url: str, trickle: str, asked: str) -> None:
    first, again, pause = TRICKLES[trickle]
    raw.trickle(first, again, pause)

    def ask() -> object:
        with Mirror.dial(url, SHORT) as mirror:
            return QUESTIONS[asked](mirror)

    error = outcome(ask)
    assert isinstance(error, PeerUnavailable), error
    assert error.message.endswith(f"too little came within {SHORT:g} s")


def test_the_next_mirror_is_asked(raw: Raw, url: str, folder: ReleaseFolder, sealed: Sealed) -> None:
    raw.trickle(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100, 0)
    told: list[str] = []
    with serving(folder.path.parent) as web:
        places = (
            SourceAddress("the first", partial(Mirror.dial, url, SHORT)),
            SourceAddress("the next", partial(Mirror.dial, web.url)),
        )
        answer = outcome(lambda: answered(places, lambda mirror: mirror.manifest(sealed.digest)[0], told.append))
    assert answer == folder.signed_manifest()[0]
    (line,) = told
    assert line.startswith("the first cannot serve this (")
    assert "too little came" in line


def test_redirects_share_the_deadline_of_one_head(raw: Raw, url: str) -> None:
    left = [True]

    def answer(link: socket.socket) -> None:
        if left:
            left.pop()
            link.sendall(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: /elsewhere\r\n\r\n")
        else:
            raw.over.wait()

    raw.answer = answer
    with Mirror.dial(url, SHORT) as mirror:
        error = outcome(lambda: mirror.manifest("0f" * 32))
    assert isinstance(error, PeerUnavailable), error


@pytest.mark.parametrize("scheme", ["https"])
def test_a_redirect_from_https_to_http_is_refused(raw: Raw, url: str, tmp_path: Path) -> None:
    with serving(tmp_path) as web:
        where = f"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: {web.url.replace('127.0.0.1', HOST)}/\r\n\r\n".encode()
        raw.answer = lambda link: link.sendall(where)
        with Mirror.dial(url) as mirror, pytest.raises(InternalError, match="everybody on the way"):
            mirror.manifest("0f" * 32)
        assert web.asked == []


def test_a_block_that_moves_is_not_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moves: list[float] = []

    class Counting(ProgressDeadline):
        def moved(self) -> None:
            super().moved()
            moves.append(self._last)

    monkeypatch.setattr(mirror_module, "ProgressDeadline", Counting)
    blocks = tmp_path / ("0f" * 32) / "blocks"
    blocks.mkdir(parents=True)
    (blocks / "north.0.block").write_bytes(bytes(20 * PROGRESS_BYTES))
    with serving(tmp_path) as web, Mirror.dial(web.url) as mirror:
        taken = [len(data) for data in mirror.block(BlockKey("0f" * 32, "north"), 0, 20 * PROGRESS_BYTES)]
    assert sum(taken) == 20 * PROGRESS_BYTES
    assert moves
