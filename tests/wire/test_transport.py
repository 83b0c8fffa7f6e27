"""Real handshakes on the loopback: who may talk to whom, and what a refused caller is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from dprelease.errors import InvalidInput, PeerUnavailable, VersionMismatch
from dprelease.wire.boundary import VERSION, translated
from dprelease.wire.listener import Listener, listen
from dprelease.wire.transport import Credentials, check_address, connect
from dprelease.wire.v1 import coordination_pb2, coordination_pb2_grpc
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
        names=[NAME],
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


def test_a_caller_of_another_consortium_is_not_heard(running: Listener, authority: Authority, desk: Desk) -> None:
    heard: list[object] = []
    desk.answer = lambda request, context: heard.append(request)
    with pytest.raises(PeerUnavailable, match="refused our certificate"):
        decline(running.port, Authority().member("north", "party").credentials(authority.root))
    assert heard == []


def test_a_caller_without_a_certificate_is_not_heard(running: Listener, authority: Authority, desk: Desk) -> None:
    heard: list[object] = []
    desk.answer = lambda request, context: heard.append(request)
    with pytest.raises(PeerUnavailable, match="refused our certificate"):
        decline(running.port, Credentials(authority.root.encode()))
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
