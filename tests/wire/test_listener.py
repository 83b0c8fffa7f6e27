"""Listeners themselves: how many connections they take, how a certificate changes, how they stop."""

import asyncio
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import InvalidInput
from dprelease.wire import listener as listener_module
from dprelease.wire.boundary import VERSION
from dprelease.wire.call import event_loop
from dprelease.wire.listener import Listener, listen
from dprelease.wire.transport import Credentials, connect
from dprelease.wire.v1 import coordination_pb2, coordination_pb2_grpc
from tests.support.certificates import HOST, Authority, Member
from tests.support.http2 import connection, tls
from tests.wire.conftest import Desk
from tests.wire.test_transport import SECONDS, decline

CHECK = "/grpc.health.v1.Health/Check"
add = coordination_pb2_grpc.add_CoordinationServiceServicer_to_server


@pytest.fixture
def running_stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def start(stack: ExitStack, member: Member, root: str, hospital_state: Desk, address: str = f"{HOST}:0") -> Listener:
    made = listen(address, member.credentials(root), [lambda server: add(hospital_state, server)], mutual=False)
    stack.callback(made.stop)
    return made


def handshake(port: int, root: str) -> ssl.SSLSocket:
    context = ssl.create_default_context(cadata=root)
    context.set_alpn_protocols(["h2"])
    return context.wrap_socket(socket.create_connection((HOST, port), SECONDS), server_hostname=HOST)


@contextmanager
def held_call(listener: Listener, hospital_state: Desk, root: str) -> Iterator[tuple[Any, threading.Event]]:
    """A call that is under way until its event is set."""
    entered, go_on = threading.Event(), threading.Event()

    def answer(request: Any, call: Any) -> None:
        entered.set()
        assert go_on.wait(SECONDS)

    hospital_state.answer = answer
    with connect(f"{HOST}:{listener.port}", Credentials(root.encode())) as channel:
        stub = coordination_pb2_grpc.CoordinationServiceStub(channel)
        under_way = stub.Decline.future(coordination_pb2.DeclineRequest(), timeout=SECONDS, metadata=VERSION)
        assert entered.wait(SECONDS)
        yield under_way, go_on
    go_on.set()


def test_connections_are_limited_and_come_back(
    monkeypatch: pytest.MonkeyPatch,
    running_stack: ExitStack,
    server: Member,
    authority: Authority,
    hospital_state: Desk,
) -> None:
    monkeypatch.setattr(listener_module, "MOST_CONNECTIONS", 5)
    port = start(running_stack, server, authority.root, hospital_state).port
    with ExitStack() as opened:
        for _ in range(5):
            opened.enter_context(handshake(port, authority.root))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            handshake(port, authority.root)
    end = time.monotonic() + SECONDS
    while True:  # until the server has seen that they are closed
        try:
            handshake(port, authority.root).close()
            break
        except (ssl.SSLError, ConnectionError):
            assert time.monotonic() < end
            time.sleep(0.05)


def test_calls_that_come_while_the_loop_is_busy_are_answered_when_it_is_not(
    running_stack: ExitStack, server: Member, authority: Authority, hospital_state: Desk, tmp_path: Path
) -> None:
    port, go_on = start(running_stack, server, authority.root, hospital_state).port, threading.Event()
    (tmp_path / "root.pem").write_text(authority.root)

    async def crowd() -> Counter[int | None]:
        async with AsyncExitStack() as stack:
            opened = [connection(port, tls(tmp_path / "root.pem")) for _ in range(25)]
            links = [await stack.enter_async_context(each) for each in opened]
            event_loop().call_soon_threadsafe(go_on.wait, SECONDS)
            calls = [asyncio.create_task(link.call(CHECK)) for link in links for _ in range(100)]
            await asyncio.sleep(0)  # they are sent
            await asyncio.gather(*(link.heard() for link in links))
            go_on.set()
            return Counter([call.status for call in await asyncio.gather(*calls)])

    assert asyncio.run(crowd()) == {0: 2500}


def test_a_call_goes_on_under_the_certificate_that_it_began_with(
    running_stack: ExitStack, server: Member, authority: Authority, hospital_state: Desk
) -> None:
    listener = start(running_stack, server, authority.root, hospital_state)
    with held_call(listener, hospital_state, authority.root) as (under_way, go_on):
        renewed = authority.member("office", "coordinator")
        port = listener.port
        listener.present(renewed.credentials(authority.root))
        assert listener.port == port
        assert not under_way.done()
        go_on.set()
        assert under_way.result(SECONDS) == coordination_pb2.DeclineResponse()
    hospital_state.answer = lambda request, call: None
    decline(port, Credentials(authority.root.encode()))
    with handshake(port, authority.root) as shown:
        assert shown.getpeercert(binary_form=True) == ssl.PEM_cert_to_DER_cert(renewed.certificate)


@pytest.mark.parametrize("spoilt", [b"", b"-----BEGIN CERTIFICATE-----\n", b"\x00"])
@pytest.mark.parametrize("field", ["root", "certificate", "key"])
def test_a_certificate_that_cannot_be_read_changes_nothing(
    running_stack: ExitStack, server: Member, authority: Authority, hospital_state: Desk, field: str, spoilt: bytes
) -> None:
    listener = start(running_stack, server, authority.root, hospital_state)
    whole = server.credentials(authority.root)
    with pytest.raises(InvalidInput):
        listener.present(Credentials(**(vars(whole) | {field: spoilt})))
    decline(listener.port, Credentials(authority.root.encode()))


def test_a_listener_that_was_stopped_presents_nothing(
    running_stack: ExitStack, server: Member, authority: Authority, hospital_state: Desk
) -> None:
    listener = start(running_stack, server, authority.root, hospital_state)
    listener.stop()
    listener.present(server.credentials(authority.root))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, listener.port), SECONDS)


def test_several_stop_within_one_grace(server: Member, authority: Authority, hospital_state: Desk) -> None:
    with ExitStack() as stack:
        listeners = [start(stack, server, authority.root, hospital_state) for _ in range(3)]
        Listener.stop_all(listeners, 0.0)
        for listener in listeners:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((HOST, listener.port), SECONDS)


def test_a_stop_ends_what_goes_on_under_an_older_certificate_too(
    running_stack: ExitStack, server: Member, authority: Authority, hospital_state: Desk
) -> None:
    listener = start(running_stack, server, authority.root, hospital_state)
    with held_call(listener, hospital_state, authority.root) as (under_way, _):
        for _ in range(3):
            listener.present(server.credentials(authority.root))
        listener.stop(0.0)
        assert under_way.exception(SECONDS) is not None


@pytest.mark.parametrize("place", ["127.0.0.1", "::1"])
def test_a_port_that_is_taken_in_one_family_is_taken(
    running_stack: ExitStack, server: Member, authority: Authority, hospital_state: Desk, place: str
) -> None:
    family = socket.AF_INET6 if ":" in place else socket.AF_INET
    try:
        taken = running_stack.enter_context(socket.create_server((place, 0), family=family, reuse_port=True))
    except OSError:
        pytest.skip(f"{place} is not to be had here")
    if place not in {found[4][0] for found in socket.getaddrinfo(HOST, 1)}:
        pytest.skip(f"{HOST} is not {place} here")
    with pytest.raises(InvalidInput, match="is the port taken"):
        start(running_stack, server, authority.root, hospital_state, f"{HOST}:{taken.getsockname()[1]}")
