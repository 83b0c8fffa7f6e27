"""Real handshakes on the loopback: who may talk to whom, and what a refused caller is told.

A call on real listeners: what it waits for, how long, and what it holds meanwhile.

Waits between attempts: growing, jittered, never longer than the longest.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from itertools import islice
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from hypothesis import given
from hypothesis import strategies as st

from dprelease.errors import AccessDenied, InvalidInput, PeerUnavailable, VersionMismatch
from dprelease.wire import call as call_module
from dprelease.wire.boundary import VERSION, translated
from dprelease.wire.call import Call, Pace
from dprelease.wire.limits import Limiter, OpenStreams, Rate
from dprelease.wire.listener import Listener, listen
from dprelease.wire.retry import Backoff
from dprelease.wire.transport import Credentials, check_address, check_cluster, connect
from dprelease.wire.v1 import (
    coordination_pb2,
    coordination_pb2_grpc,
    intake_pb2,
    intake_pb2_grpc,
    public_pb2,
    public_pb2_grpc,
)
from tests.support.certificates import HOST, Authority, Member
from tests.wire.conftest import CoordinationStub, Desk

SECONDS = 10.0
NAME = coordination_pb2.DESCRIPTOR.services_by_name["CoordinationService"].full_name


def decline(port: int, credentials: Credentials, host: str = HOST) -> None:
    with connect(f"{host}:{port}", credentials) as channel, translated("the coordinator"):
        CoordinationStub(channel).Decline(coordination_pb2.DeclineRequest(), timeout=SECONDS, metadata=VERSION)


@contextmanager
def serving(
    member: Member, root: str, *, mutual: bool = True, probe: Callable[[], bool] = lambda: True, reflect: bool = False
) -> Iterator[Listener]:
    add = coordination_pb2_grpc.add_CoordinationServiceServicer_to_server
    listener = listen(
        f"{HOST}:0",
        member.credentials(root),
        [lambda server: add(Desk(), server)],
        mutual=mutual,
        probe=probe,
        reflect=reflect,
    )
    try:
        yield listener
    finally:
        listener.stop()


def test_both_sides_of_one_consortium_talk(running: Listener, authority: Authority, party: Member) -> None:
    decline(running.port, party.credentials(authority.root))


@pytest.mark.parametrize("consortium", ["trial", "another"])  # another root under the same name, or under its own
def test_a_server_of_another_consortium_is_not_talked_to(running: Listener, party: Member, consortium: str) -> None:
    with pytest.raises(PeerUnavailable, match="not from the expected consortium"):
        decline(running.port, party.credentials(Authority(consortium).root))


def test_a_server_whose_certificate_has_expired_is_not_talked_to(authority: Authority, party: Member) -> None:
    late = authority.member("office", "coordinator", lasting=timedelta(seconds=-1))
    with serving(late, authority.root) as listener, pytest.raises(PeerUnavailable, match="has expired"):
        decline(listener.port, party.credentials(authority.root))


@pytest.mark.parametrize("certified", [False, True], ids=["without a certificate", "of another consortium"])
def test_a_stranger_is_not_heard(
    running: Listener, authority: Authority, hospital_state: Desk, *, certified: bool
) -> None:
    heard: list[object] = []
    hospital_state.answer = lambda request, context: heard.append(request)
    stranger = Authority().member("north", "party").credentials(authority.root)
    with pytest.raises(PeerUnavailable, match="refused our certificate"):
        decline(running.port, stranger if certified else Credentials(authority.root.encode()))
    assert heard == []


def test_a_caller_whose_certificate_has_expired_is_not_heard(running: Listener, authority: Authority) -> None:
    late = authority.member("north", "party", lasting=timedelta(seconds=-1))
    with pytest.raises(PeerUnavailable, match="it may have expired"):
        decline(running.port, late.credentials(authority.root))


def test_a_server_under_another_host_name_is_not_talked_to(
    running: Listener, authority: Authority, party: Member
) -> None:
    with pytest.raises(PeerUnavailable, match="does not name this host"):
        decline(running.port, party.credentials(authority.root), host="127.0.0.1")


def test_a_server_that_speaks_no_tls_reads_so(authority: Authority, party: Member) -> None:
    plain = grpc.server(ThreadPoolExecutor(1))
    port = plain.add_insecure_port(f"{HOST}:0")
    plain.start()
    try:
        with pytest.raises(PeerUnavailable, match="does not speak TLS"):
            decline(port, party.credentials(authority.root))
    finally:
        plain.stop(None).wait()


def test_a_public_listener_takes_callers_without_certificates(server: Member, authority: Authority) -> None:
    with serving(server, authority.root, mutual=False) as listener:
        decline(listener.port, Credentials(authority.root.encode()))


def test_plain_text_is_not_heard(running: Listener) -> None:
    with grpc.insecure_channel(f"{HOST}:{running.port}") as channel, pytest.raises(grpc.RpcError):
        CoordinationStub(channel).Decline(coordination_pb2.DeclineRequest(), timeout=SECONDS, metadata=VERSION)


def test_nobody_at_the_address_reads_so(authority: Authority, party: Member, server: Member) -> None:
    with serving(server, authority.root) as listener:
        port = listener.port
    with pytest.raises(PeerUnavailable, match="nothing listens there"):
        decline(port, party.credentials(authority.root))


@pytest.mark.parametrize("serves", [True, False])
def test_health_asks_the_role_each_time(serves: bool, authority: Authority, party: Member, server: Member) -> None:
    state = {"serves": not serves}
    statuses = health_pb2.HealthCheckResponse
    with (
        serving(server, authority.root, probe=lambda: state["serves"]) as listener,
        connect(f"{HOST}:{listener.port}", party.credentials(authority.root)) as channel,
    ):
        stub = health_pb2_grpc.HealthStub(channel)
        for now in (not serves, serves):
            state["serves"] = now
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)
            assert answer.status == (statuses.SERVING if now else statuses.NOT_SERVING)


def services(channel: grpc.Channel) -> set[str]:
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    with translated("the coordinator"):
        answers = list(stub.ServerReflectionInfo(iter([request]), timeout=SECONDS))
    return {service.name for answer in answers for service in answer.list_services_response.service}


def test_reflection_is_off_unless_asked_for(authority: Authority, party: Member, server: Member) -> None:
    with (
        serving(server, authority.root) as listener,
        connect(f"{HOST}:{listener.port}", party.credentials(authority.root)) as channel,
        pytest.raises(VersionMismatch),
    ):
        services(channel)


def test_reflection_names_the_services_when_asked_for(authority: Authority, party: Member, server: Member) -> None:
    with (
        serving(server, authority.root, reflect=True) as listener,
        connect(f"{HOST}:{listener.port}", party.credentials(authority.root)) as channel,
    ):
        assert {NAME, "grpc.health.v1.Health"} <= services(channel)


def test_a_taken_port_is_refused_at_once(running: Listener, authority: Authority, server: Member) -> None:
    with pytest.raises(InvalidInput, match="is the port taken"):
        listen(f"{HOST}:{running.port}", server.credentials(authority.root), [], mutual=True)


@pytest.mark.parametrize("missing", ["certificate", "key"])
def test_a_server_needs_certificate_and_key(authority: Authority, server: Member, missing: str) -> None:
    whole = server.credentials(authority.root)
    halves = {"certificate": whole.certificate, "key": whole.key} | {missing: None}
    with pytest.raises(InvalidInput, match="needs a certificate and its key"):
        listen(f"{HOST}:0", Credentials(whole.root, **halves), [], mutual=True)


@pytest.mark.parametrize("address", ["hub.example.org:7443", "127.0.0.1:0", "[::1]:65535"])
def test_host_and_port_make_an_address(address: str) -> None:
    check_address(address)


@pytest.mark.parametrize("address", ["", "hub.example.org", ":7443", "hub:", "hub:https", "hub:65536", "hub:-1"])
@pytest.mark.parametrize("use", [check_address, lambda address: connect(address, Credentials(b""))])
def test_anything_else_is_refused_with_an_example(address: str, use: Callable[[str], object]) -> None:
    with pytest.raises(InvalidInput, match=r"hub\.example\.org:7443"):
        use(address)


CALL_TAKES = 20.0
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
    async def SendBlock(self, requests: AsyncIterator[Any], context: Any) -> intake_pb2.SendBlockResponse:
        return intake_pb2.SendBlockResponse(digest=bytes([len([each async for each in requests])]))


class Slow(Drain):
    """Keeps the first message until a longer one has come."""

    async def SendBlock(self, requests: AsyncIterator[Any], context: Any) -> intake_pb2.SendBlockResponse:
        first = await anext(requests)
        async with asyncio.timeout(CALL_TAKES):
            while context.message_bytes == first.ByteSize():
                await asyncio.sleep(0.001)
        return await super().SendBlock(requests, context)


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def streams() -> OpenStreams:
    return OpenStreams(100, 100)


@pytest.fixture
def start(
    authority: Authority, server: Member, source: Source, hospital_state: Desk, streams: OpenStreams
) -> Iterator[Start]:
    with ExitStack() as running:

        def make(pace: Pace, workers: int = 4, intake: Drain | None = None) -> Listener:
            register = [
                lambda to: public_pb2_grpc.add_PublicServiceServicer_to_server(source, to),
                lambda to: intake_pb2_grpc.add_IntakeServiceServicer_to_server(intake or Drain(), to),
                lambda to: coordination_pb2_grpc.add_CoordinationServiceServicer_to_server(hospital_state, to),
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
    over.wait(CALL_TAKES)
    yield from ()


def test_calls_without_their_message_hold_no_thread_and_end(
    start: Start, dial: Callable[[Listener], grpc.Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_module, "FIRST_MESSAGE_SECONDS", 3.0)
    channel, over = dial(start(Pace(), workers=1)), threading.Event()
    headers_only = channel.stream_unary(DECLINE, None, None)  # the same on the wire as a call that never sends
    waiting = [headers_only.future(silent(over), metadata=VERSION, timeout=CALL_TAKES) for _ in range(40)]
    stub = coordination_pb2_grpc.CoordinationServiceStub(channel)
    with translated("the coordinator"):
        stub.Decline(coordination_pb2.DeclineRequest(), timeout=CALL_TAKES, metadata=VERSION)
    assert not any(call.done() for call in waiting)
    for call in waiting:
        with pytest.raises(PeerUnavailable), translated("the coordinator"):
            call.result(CALL_TAKES)
    over.set()


@pytest.mark.parametrize("garbage", [b"\xff", b"\x0a\xff", b"\x00"])
def test_garbage_for_a_message_gets_our_own_answer(
    start: Start, dial: Callable[[Listener], grpc.Channel], garbage: bytes
) -> None:
    raw = dial(start(Pace())).unary_unary(DECLINE, None, None)
    with pytest.raises(InvalidInput), translated("the coordinator"):
        raw(garbage, timeout=CALL_TAKES, metadata=VERSION)


def test_a_call_that_ends_before_its_message_is_refused(start: Start, dial: Callable[[Listener], grpc.Channel]) -> None:
    raw = dial(start(Pace())).stream_unary(DECLINE, None, None)
    with pytest.raises(InvalidInput), translated("the coordinator"):
        raw(iter(()), timeout=CALL_TAKES, metadata=VERSION)


def test_an_upload_that_stands_still_is_cut_and_one_that_moves_is_not(
    start: Start, dial: Callable[[Listener], grpc.Channel]
) -> None:
    stub = intake_pb2_grpc.IntakeServiceStub(dial(start(Pace(stall_seconds=0.3))))
    over = threading.Event()

    def stuck() -> Iterator[Any]:
        yield intake_pb2.SendBlockRequest()
        over.wait(CALL_TAKES)

    with pytest.raises(PeerUnavailable), translated("the hub"):
        stub.SendBlock(stuck(), timeout=CALL_TAKES, metadata=VERSION)
    over.set()
    three = iter([intake_pb2.SendBlockRequest()] * 3)
    assert stub.SendBlock(three, timeout=CALL_TAKES, metadata=VERSION).digest == b"\x03"


def test_the_next_message_of_an_upload_comes_while_one_is_worked_on(
    start: Start, dial: Callable[[Listener], grpc.Channel]
) -> None:
    stub = intake_pb2_grpc.IntakeServiceStub(dial(start(Pace(), intake=Slow())))
    two = iter([intake_pb2.SendBlockRequest(sequence=1), intake_pb2.SendBlockRequest(sequence=1 << 20)])
    assert stub.SendBlock(two, timeout=CALL_TAKES, metadata=VERSION).digest == b"\x01"


def test_a_download_below_the_least_rate_is_cut(
    start: Start,
    dial: Callable[[Listener], grpc.Channel],
    source: Source,
    streams: OpenStreams,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_module, "SENT_GRACE_SECONDS", 0.2)
    stub = public_pb2_grpc.PublicServiceStub(dial(start(Pace(least_bytes_per_second=1e9))))
    download = stub.DownloadBlock(public_pb2.DownloadBlockRequest(), timeout=CALL_TAKES, metadata=VERSION)
    next(download)
    assert source.ended.wait(CALL_TAKES)  # nobody takes what follows
    with pytest.raises(PeerUnavailable), translated("the hub"):
        list(download)


def test_a_call_may_be_ended_with_a_reason_from_any_thread(
    start: Start, dial: Callable[[Listener], grpc.Channel], source: Source
) -> None:
    stub = public_pb2_grpc.PublicServiceStub(dial(start(Pace())))
    download = stub.DownloadBlock(public_pb2.DownloadBlockRequest(), timeout=CALL_TAKES, metadata=VERSION)
    next(download)
    source.calls[0].end(AccessDenied("revoked"))
    source.calls[0].end(InvalidInput("too late"))
    with pytest.raises(AccessDenied), translated("the hub"):
        list(download)
    assert source.ended.wait(CALL_TAKES)


def test_a_caller_that_goes_away_frees_its_stream(
    start: Start, dial: Callable[[Listener], grpc.Channel], source: Source, streams: OpenStreams
) -> None:
    stub = public_pb2_grpc.PublicServiceStub(dial(start(Pace())))
    download = stub.DownloadBlock(public_pb2.DownloadBlockRequest(), timeout=CALL_TAKES, metadata=VERSION)
    next(download)
    assert len(streams) == 1
    download.cancel()
    end = time.monotonic() + CALL_TAKES
    while len(streams):
        assert time.monotonic() < end
        time.sleep(0.01)


def highest(low: float, high: float) -> float:
    return high


def test_waits_double_up_to_the_longest() -> None:
    waits = islice(Backoff(1.0, 60.0, 2.0).waits(highest), 9)
    assert list(waits) == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_longest_below_the_first_wait_counts_from_the_start() -> None:
    assert list(islice(Backoff(1.0, 0.25).waits(highest), 2)) == [0.25, 0.25]


@given(first=st.floats(0.001, 10), longest=st.floats(0.001, 100), factor=st.floats(1, 10), fraction=st.floats(0, 1))
def test_jitter_takes_at_most_half(first: float, longest: float, factor: float, fraction: float) -> None:
    backoff = Backoff(first, longest, factor)
    upper = list(islice(backoff.waits(highest), 12))
    waits = list(islice(backoff.waits(lambda low, high: low + fraction * (high - low)), 12))
    for wait, high in zip(waits, upper, strict=True):
        assert high / 2 * (1 - 1e-12) <= wait <= high * (1 + 1e-12)
        assert wait <= longest * (1 + 1e-12)
    assert upper == sorted(upper)


def test_the_default_spreads_reconnects() -> None:
    first = {next(Backoff().waits()) for _ in range(20)}
    assert len(first) > 1
    assert all(0.5 <= wait <= 1.0 for wait in first)


def test_every_series_starts_anew() -> None:
    backoff = Backoff()
    list(islice(backoff.waits(highest), 5))
    assert next(backoff.waits(highest)) == 1.0


def test_a_backoff_is_a_value() -> None:
    with pytest.raises(AttributeError):
        Backoff().factor = 3.0  # type: ignore[misc]


@pytest.mark.parametrize("address", ["tls://scheduler:8786", "tcp://127.0.0.1:8786", "tcp://[::1]:8786"])
def test_tls_and_this_machine_are_taken(address: str) -> None:
    assert check_cluster(address) == address


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("tcp://10.0.0.5:8786", "over TLS alone"),
        ("tcp://127.0.0.1.example.org:8786", "over TLS alone"),
        ("scheduler:8786", "address is that of the scheduler"),
        ("tls://", "address is that of the scheduler"),
        ("ucx://127.0.0.1:8786", "address is that of the scheduler"),
    ],
)
def test_others_are_refused(address: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        check_cluster(address)
