"""An idle connection stays up: the client's pings are ones that the server allows. Hours are scaled down to seconds."""

from __future__ import annotations

import threading

import grpc
import pytest

from dprelease.wire import listener as listener_module
from dprelease.wire import transport
from dprelease.wire.listener import Listener
from dprelease.wire.transport import connect
from tests.support.certificates import HOST, Authority, Member
from tests.wire.test_transport import decline, serving

SCALE = 300
"""How much faster pings go here: a minute becomes a fifth of a second."""


def _scaled(options: list[tuple[str, int]], scale: float) -> list[tuple[str, int]]:
    return [(key, int(value / scale) if key.endswith("_ms") else value) for key, value in options]


def test_the_two_sides_match() -> None:
    client, server = dict(transport._CLIENT_OPTIONS), dict(listener_module._SERVER_OPTIONS)
    assert client["grpc.keepalive_time_ms"] > server["grpc.http2.min_ping_interval_without_data_ms"]
    assert client["grpc.keepalive_permit_without_calls"] == server["grpc.keepalive_permit_without_calls"] == 1
    assert client["grpc.http2.max_pings_without_data"] == 0


def _states(listener: Listener, authority: Authority, party: Member, seconds: float) -> list[grpc.ChannelConnectivity]:
    """What a channel goes through while it is idle, from ready on."""
    seen: list[grpc.ChannelConnectivity] = []
    lost = threading.Event()
    with connect(f"{HOST}:{listener.port}", party.credentials(authority.root)) as channel:
        grpc.channel_ready_future(channel).result(timeout=20)

        def note(state: grpc.ChannelConnectivity) -> None:
            seen.append(state)
            if state is not grpc.ChannelConnectivity.READY:
                lost.set()

        channel.subscribe(note)
        lost.wait(seconds)
        channel.unsubscribe(note)
    return seen


@pytest.mark.slow
def test_an_idle_hour_leaves_the_connection_up(
    monkeypatch: pytest.MonkeyPatch, authority: Authority, party: Member, server: Member
) -> None:
    monkeypatch.setattr(transport, "_CLIENT_OPTIONS", _scaled(transport._CLIENT_OPTIONS, SCALE))
    monkeypatch.setattr(listener_module, "_SERVER_OPTIONS", _scaled(listener_module._SERVER_OPTIONS, SCALE))
    with serving(server, authority.root) as listener:
        assert _states(listener, authority, party, 3600 / SCALE) == [grpc.ChannelConnectivity.READY]
        decline(listener.port, party.credentials(authority.root))


@pytest.mark.slow
def test_a_server_that_allows_fewer_pings_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch, authority: Authority, party: Member, server: Member
) -> None:
    monkeypatch.setattr(transport, "_CLIENT_OPTIONS", _scaled(transport._CLIENT_OPTIONS, SCALE))
    with serving(server, authority.root) as listener:
        assert len(_states(listener, authority, party, 60.0)) > 1
