"""Mirrors that never end an answer and never stand still: a deadline ends them, in plain HTTP and TLS, and others are asked."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from dprelease.errors import DpReleaseError, InternalError, PeerUnavailable
from dprelease.identity.signing import private_key_pem
from dprelease.release.folder import ReleaseFolder
from dprelease.sequence import BlockKey
from dprelease.wire.retry import PROGRESS_BYTES, ProgressDeadline
from learner.client import mirror as mirror_module
from learner.client.mirror import Deadlines, Mirror
from learner.client.sources import Place, answered
from tests.learner.world import PATIENCE_SECONDS, Sealed
from tests.support.certificates import HOST, Authority
from tests.support.web import serving

T = TypeVar("T")

SHORT = 0.3
HEAD = Deadlines(head=SHORT)
BODY = Deadlines(document=SHORT, stall=SHORT)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
DRIP_SECONDS = 0.02

TRICKLES: dict[str, tuple[Deadlines, bytes, bytes, float]] = {
    "nothing": (HEAD, b"", b"", DRIP_SECONDS),
    "100 Continue without end": (HEAD, b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100, 0),
    "a header that drips": (HEAD, b"HTTP/1.1 200 OK\r\nX: ", b"x", DRIP_SECONDS),
    "a body that drips": (BODY, b"HTTP/1.1 200 OK\r\n\r\n", b"{", DRIP_SECONDS),
    "a chunk's size that drips": (BODY, CHUNKED, b"0", DRIP_SECONDS),
    "chunks that drip": (BODY, CHUNKED, b"1\r\n{\r\n", DRIP_SECONDS),
    "trailers that drip": (BODY, CHUNKED + b"1\r\n{\r\n0\r\n", b"X: x\r\n", DRIP_SECONDS),
    "trailers without end": (BODY, CHUNKED + b"1\r\n{\r\n0\r\n", b"X: x\r\n" * 100, 0),
}
"""Deadline that ends it, what is sent once, what is sent again and again, and the pause in between."""

QUESTIONS: dict[str, Callable[[Mirror], object]] = {
    "a list": lambda mirror: list(mirror.releases()),
    "a manifest": lambda mirror: mirror.manifest("0f" * 32),
    "a block": lambda mirror: list(mirror.chunks(BlockKey("0f" * 32, "north"), 0)),
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
        """Let go of everything."""
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


@pytest.fixture(params=["http", "https"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


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


@pytest.mark.parametrize("asked", QUESTIONS)
@pytest.mark.parametrize("trickle", TRICKLES)
def test_an_answer_that_trickles_is_ended(raw: Raw, url: str, trickle: str, asked: str) -> None:
    deadlines, first, again, pause = TRICKLES[trickle]
    raw.trickle(first, again, pause)

    def ask() -> object:
        with Mirror.dial(url, deadlines) as mirror:
            return QUESTIONS[asked](mirror)

    error = outcome(ask)
    assert isinstance(error, PeerUnavailable), error
    assert error.message.endswith(f"too little came within {SHORT:g} s")


def test_the_next_mirror_is_asked(raw: Raw, url: str, folder: ReleaseFolder, sealed: Sealed) -> None:
    raw.trickle(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100, 0)
    told: list[str] = []
    with serving(folder.path.parent) as web:
        places = (Place("the first", partial(Mirror.dial, url, HEAD)), Place("the next", partial(Mirror.dial, web.url)))
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
    with Mirror.dial(url, HEAD) as mirror:
        error = outcome(lambda: mirror.manifest("0f" * 32))
    assert isinstance(error, PeerUnavailable), error


@pytest.mark.parametrize("scheme", ["https"], indirect=True)
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
        taken = [len(chunk.data) for chunk in mirror.chunks(BlockKey("0f" * 32, "north"), 0)]
    assert sum(taken) == 20 * PROGRESS_BYTES
    assert moves
