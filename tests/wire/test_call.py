"""A call on real listeners: what it waits for, how long, and what it holds meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import grpc
import pytest

from dprelease.errors import AccessDenied, InvalidInput, PeerUnavailable
from dprelease.wire import call as call_module
from dprelease.wire.boundary import VERSION, translated
from dprelease.wire.call import Call, Pace
from dprelease.wire.limits import Limiter, OpenStreams, Rate
from dprelease.wire.listener import Listener, listen
from dprelease.wire.transport import connect
from dprelease.wire.v1 import (
    coordination_pb2,
    coordination_pb2_grpc,
    intake_pb2,
    intake_pb2_grpc,
    public_pb2,
    public_pb2_grpc,
)
from tests.support.certificates import HOST, Authority, Member
from tests.wire.conftest import Desk

SECONDS = 20.0
DECLINE = "/dprelease.wire.v1.CoordinationService/Decline"
Start = Callable[..., Listener]


class Source(public_pb2_grpc.PublicServiceServicer):
    """Streams chunks without end, and keeps its calls."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.ended = threading.Event()

    async def DownloadBlock(self, request: Any, context: Any) -> AsyncIterator[public_pb2.DownloadBlockResponse]:
        self.calls.append(context)
        answer = public_pb2.DownloadBlockResponse()
        answer.chunk.data = bytes(1 << 18)
        try:
            while True:
                yield answer
        finally:
            self.ended.set()


class Drain(intake_pb2_grpc.IntakeServiceServicer):
    """Counts the messages of an upload."""

    async def SendBlock(self, requests: AsyncIterator[Any], context: Any) -> intake_pb2.SendBlockResponse:
        return intake_pb2.SendBlockResponse(digest=bytes([len([each async for each in requests])]))


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def streams() -> OpenStreams:
    return OpenStreams(100, 100)


@pytest.fixture
def start(authority: Authority, server: Member, source: Source, desk: Desk, streams: OpenStreams) -> Iterator[Start]:
    with ExitStack() as running:

        def make(pace: Pace, workers: int = 4) -> Listener:
            register = [
                lambda to: public_pb2_grpc.add_PublicServiceServicer_to_server(source, to),
                lambda to: intake_pb2_grpc.add_IntakeServiceServicer_to_server(Drain(), to),
                lambda to: coordination_pb2_grpc.add_CoordinationServiceServicer_to_server(desk, to),
            ]
            listener = listen(
                f"{HOST}:0",
                server.credentials(authority.root),
                register,
                mutual=True,
                pace=pace,
                workers=workers,
                limiter=Limiter(Rate.of(1e6), streams),
            )
            running.callback(listener.stop)
            return listener

        yield make


@pytest.fixture
def dial(authority: Authority, party: Member) -> Iterator[Callable[[Listener], grpc.Channel]]:
    with ExitStack() as opened:
        yield lambda listener: opened.enter_context(
            connect(f"{HOST}:{listener.port}", party.credentials(authority.root))
        )


def silent(over: threading.Event) -> Iterator[Any]:
    over.wait(SECONDS)
    yield from ()


def test_calls_without_their_message_hold_no_thread_and_end(
    start: Start, dial: Callable[[Listener], grpc.Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_module, "FIRST_MESSAGE_SECONDS", 3.0)
    channel, over = dial(start(Pace(), workers=1)), threading.Event()
    headers_only = channel.stream_unary(DECLINE, None, None)  # the same on the wire as a call that never sends
    waiting = [headers_only.future(silent(over), metadata=VERSION, timeout=SECONDS) for _ in range(40)]
    stub = coordination_pb2_grpc.CoordinationServiceStub(channel)
    with translated("the coordinator"):
        stub.Decline(coordination_pb2.DeclineRequest(), timeout=SECONDS, metadata=VERSION)
    assert not any(call.done() for call in waiting)
    for call in waiting:
        with pytest.raises(PeerUnavailable), translated("the coordinator"):
            call.result(SECONDS)
    over.set()


@pytest.mark.parametrize("garbage", [b"\xff", b"\x0a\xff", b"\x00"])
def test_garbage_for_a_message_gets_our_own_answer(
    start: Start, dial: Callable[[Listener], grpc.Channel], garbage: bytes
) -> None:
    raw = dial(start(Pace())).unary_unary(DECLINE, None, None)
    with pytest.raises(InvalidInput), translated("the coordinator"):
        raw(garbage, timeout=SECONDS, metadata=VERSION)


def test_a_call_that_ends_before_its_message_is_refused(start: Start, dial: Callable[[Listener], grpc.Channel]) -> None:
    raw = dial(start(Pace())).stream_unary(DECLINE, None, None)
    with pytest.raises(InvalidInput), translated("the coordinator"):
        raw(iter(()), timeout=SECONDS, metadata=VERSION)


def test_an_upload_that_stands_still_is_cut_and_one_that_moves_is_not(
    start: Start, dial: Callable[[Listener], grpc.Channel]
) -> None:
    stub = intake_pb2_grpc.IntakeServiceStub(dial(start(Pace(stall_seconds=0.3))))
    over = threading.Event()

    def stuck() -> Iterator[Any]:
        yield intake_pb2.SendBlockRequest()
        over.wait(SECONDS)

    with pytest.raises(PeerUnavailable), translated("the hub"):
        stub.SendBlock(stuck(), timeout=SECONDS, metadata=VERSION)
    over.set()
    three = iter([intake_pb2.SendBlockRequest()] * 3)
    assert stub.SendBlock(three, timeout=SECONDS, metadata=VERSION).digest == b"\x03"


def test_a_download_below_the_least_rate_is_cut(
    start: Start,
    dial: Callable[[Listener], grpc.Channel],
    source: Source,
    streams: OpenStreams,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_module, "SENT_GRACE_SECONDS", 0.2)
    stub = public_pb2_grpc.PublicServiceStub(dial(start(Pace(least_bytes_per_second=1e9))))
    download = stub.DownloadBlock(public_pb2.DownloadBlockRequest(), timeout=SECONDS, metadata=VERSION)
    next(download)
    assert source.ended.wait(SECONDS)  # nobody takes what follows
    with pytest.raises(PeerUnavailable), translated("the hub"):
        list(download)


def test_a_call_may_be_ended_with_a_reason_from_any_thread(
    start: Start, dial: Callable[[Listener], grpc.Channel], source: Source
) -> None:
    stub = public_pb2_grpc.PublicServiceStub(dial(start(Pace())))
    download = stub.DownloadBlock(public_pb2.DownloadBlockRequest(), timeout=SECONDS, metadata=VERSION)
    next(download)
    source.calls[0].end(AccessDenied("revoked"))
    source.calls[0].end(InvalidInput("too late"))
    with pytest.raises(AccessDenied), translated("the hub"):
        list(download)
    assert source.ended.wait(SECONDS)


def test_a_caller_that_goes_away_frees_its_stream(
    start: Start, dial: Callable[[Listener], grpc.Channel], source: Source, streams: OpenStreams
) -> None:
    stub = public_pb2_grpc.PublicServiceStub(dial(start(Pace())))
    download = stub.DownloadBlock(public_pb2.DownloadBlockRequest(), timeout=SECONDS, metadata=VERSION)
    next(download)
    assert len(streams) == 1
    download.cancel()
    end = time.monotonic() + SECONDS
    while len(streams):
        assert time.monotonic() < end
        time.sleep(0.01)
