"""Limits on one peer: the bucket by an injected clock, the streams by hand, and both behind a real server."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dprelease.errors import PeerUnavailable, TooManyRequests, VersionMismatch
from dprelease.wire import limits
from dprelease.wire.boundary import VERSION, translated
from dprelease.wire.limits import HEALTH, Buckets, Limiter, OpenStreams, Rate, source_of
from dprelease.wire.listener import Listener, listen
from dprelease.wire.transport import connect
from dprelease.wire.v1 import coordination_pb2, coordination_pb2_grpc, public_pb2, public_pb2_grpc
from tests.support.certificates import HOST, Authority, Member
from tests.wire.conftest import CoordinationStub, Desk, Shelf

SECONDS = 30.0


@dataclass
class Time:
    """Seconds that a test lets pass."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_then_the_rate() -> None:
    time = Time()
    buckets = Buckets(Rate(per_second=2.0, burst=3.0), time)
    assert [buckets.take("a") for _ in range(4)] == [True, True, True, False]
    time.now += 0.25
    assert not buckets.take("a")  # half a token; being refused costs nothing
    time.now += 0.25
    assert [buckets.take("a") for _ in range(2)] == [True, False]
    time.now += 3600
    assert [buckets.take("a") for _ in range(4)] == [True, True, True, False]  # never more than the burst


def test_each_peer_has_its_own_bucket() -> None:
    buckets = Buckets(Rate(per_second=1.0, burst=1.0), Time())
    assert buckets.take("a")
    assert not buckets.take("a")
    assert buckets.take("b")


def test_over_a_long_time_a_peer_gets_its_rate_and_its_burst_exactly() -> None:
    time = Time()
    buckets = Buckets(Rate.of(8.0), time)
    taken = 0
    for _ in range(8 * 125):  # asks 64 times a second for 125/8 seconds
        taken += buckets.take("a")
        time.now += 1 / 64
    assert taken == 8 * 5 + int(8 * 999 / 64)


def test_peers_that_were_quiet_for_longest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_PEERS", 3)
    buckets = Buckets(Rate(per_second=1.0, burst=1.0), Time())
    for peer in "abc":
        assert buckets.take(peer)
    assert not buckets.take("a")
    assert buckets.take("d")
    assert len(buckets._held) == 3
    assert not buckets.take("a")  # it was not quiet: "b" was forgotten
    assert buckets.take("b")


def test_streams_of_one_peer_and_of_all_together() -> None:
    streams = OpenStreams(per_peer=2, total=3)
    first, second = streams.begin("a"), streams.begin("a")
    with pytest.raises(TooManyRequests, match="a has 2 streams"):
        streams.begin("a")
    third = streams.begin("b")
    with pytest.raises(TooManyRequests, match="3 streams are open"):
        streams.begin("c")
    second()
    fourth = streams.begin("c")
    assert len(streams) == 3
    for over in (first, third, fourth):
        over()
    assert len(streams) == 0
    assert not streams._open  # nobody is remembered for nothing


@pytest.mark.parametrize(
    ("peer", "source"),
    [
        ("ipv4:192.0.2.7:50514", "192.0.2.7"),
        ("ipv6:[2001:db8:1:2:3:4:5:6]:50514", "2001:db8:1:2::/64"),
        ("ipv6:%5B2001:db8:1:2:ffff::1%5D:1", "2001:db8:1:2::/64"),
        ("ipv6:[::1]:50514", "::/64"),
        ("ipv6:%5B::ffff:192.0.2.7%5D:50514", "192.0.2.7"),
        ("ipv6:[fe80::1%25eth0]:1", "fe80::/64"),
        ("unix:/run/socket", "unix"),
        ("", ""),
    ],
)
def test_a_source_is_an_address_without_its_port(peer: str, source: str) -> None:
    assert source_of(peer) == source


Serve = Callable[..., Listener]


@pytest.fixture
def serve(authority: Authority, server: Member, hospital_state: Desk, shelf: Shelf) -> Iterator[Serve]:
    with ExitStack() as running:

        def start(limiter: Limiter, *, mutual: bool = True, workers: int = 8) -> Listener:
            listener = listen(
                f"{HOST}:0",
                server.credentials(authority.root),
                [
                    lambda to: coordination_pb2_grpc.add_CoordinationServiceServicer_to_server(hospital_state, to),
                    lambda to: public_pb2_grpc.add_PublicServiceServicer_to_server(shelf, to),
                ],
                mutual=mutual,
                workers=workers,
                limiter=limiter,
            )
            running.callback(listener.stop)
            return listener

        yield start


@pytest.fixture
def dial(authority: Authority) -> Iterator[Callable[[Listener, Member], grpc.Channel]]:
    with ExitStack() as channels:

        def make(listener: Listener, member: Member) -> grpc.Channel:
            return channels.enter_context(connect(f"{HOST}:{listener.port}", member.credentials(authority.root)))

        yield make


def decline(channel: grpc.Channel) -> None:
    with translated("the coordinator"):
        CoordinationStub(channel).Decline(coordination_pb2.DeclineRequest(), timeout=SECONDS, metadata=VERSION)


def test_calls_are_counted_by_certificate_whatever_the_connection(
    serve: Serve,
    dial: Callable[[Listener, Member], grpc.Channel],
    authority: Authority,
    party: Member,
    hospital_state: Desk,
) -> None:
    time = Time()
    heard: list[object] = []
    hospital_state.answer = lambda request, context: heard.append(request)
    listener = serve(Limiter(Rate(per_second=1.0, burst=2.0), OpenStreams(1, 1), time))
    for _ in range(2):
        decline(dial(listener, party))
    with pytest.raises(TooManyRequests, match="try again later"):
        decline(dial(listener, party))
    assert len(heard) == 2  # the third never reached the handler
    decline(dial(listener, authority.member("south", "party")))
    time.now += 1.0
    decline(dial(listener, party))
    assert issubclass(TooManyRequests, PeerUnavailable)  # so whoever waits and tries again does so here


def download(channel: grpc.Channel) -> Any:
    return public_pb2_grpc.PublicServiceStub(channel).DownloadBlock(
        public_pb2.DownloadBlockRequest(), timeout=SECONDS, metadata=VERSION
    )


def test_streams_are_counted_while_they_last(
    serve: Serve, dial: Callable[[Listener, Member], grpc.Channel], party: Member, shelf: Shelf
) -> None:
    go_on = threading.Event()

    def slowly() -> Iterator[public_pb2.DownloadBlockResponse]:
        yield public_pb2.DownloadBlockResponse()
        go_on.wait(SECONDS)

    shelf.chunks = slowly
    channel = dial(serve(Limiter(Rate.of(1000.0), OpenStreams(2, 4))), party)
    under_way = [download(channel) for _ in range(2)]
    for stream in under_way:
        next(stream)
    with pytest.raises(TooManyRequests), translated("the hub"):
        next(download(channel))
    go_on.set()
    for stream in under_way:
        assert list(stream) == []
    assert len(list(download(channel))) == 1


def test_health_checks_have_a_bucket_of_their_own(
    serve: Serve, dial: Callable[[Listener, Member], grpc.Channel], party: Member
) -> None:
    channel = dial(serve(Limiter(Rate(per_second=1e-9, burst=1.0), OpenStreams(1, 1), Time())), party)
    decline(channel)
    stub = health_pb2_grpc.HealthStub(channel)
    for _ in range(int(HEALTH.burst)):
        assert stub.Check(health_pb2.HealthCheckRequest(), timeout=SECONDS).status == 1
    with pytest.raises(TooManyRequests), translated("the coordinator"):
        stub.Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)
    with pytest.raises(VersionMismatch), translated("the coordinator"):  # a watch would be told of every check
        next(stub.Watch(health_pb2.HealthCheckRequest(), timeout=SECONDS))
