"""The log is nobody's to fill: refusals are counted, and what callers wrote is cut short."""

import asyncio
import json
import logging
import re
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from demo.consortium import Consortium
from dprelease.errors import InvalidInput, TooManyRequests
from dprelease.wire.dispatch import LONGEST_QUOTE, MOST_KINDS, PERIOD_SECONDS, Refusals
from dprelease.wire.v1 import coordination_pb2
from tests.hostile.servers.attacks import row
from tests.hostile.servers.site import CHECK, DOORS, Door, Site
from tests.support.http2 import HOST, framed

LONGEST_LINE = 600
MINUTE_BYTES = 2 * (MOST_KINDS + 1) * LONGEST_LINE
"""Of a role's two doors, if every kind is told."""
FORGED = "x\n2026-01-01 00:00:00,000 INFO coordinator: FORGED"


async def refused(site: Site, door: Door, times: int) -> None:
    """Calls of several kinds from several peers, so many in all, and none is served."""
    wanted = coordination_pb2.ReportCatalogueRequest(catalogue=json.dumps({FORGED: 1}).encode()).SerializeToString()
    for _ in range(4):
        caller = site.caller(door, member=True)
        async with site.open(door, caller) as link:
            for _ in range(times // 20):
                begun = [link.begin(path) for path in ("/a/FORGED", f"/{'FORGED' * 100}", CHECK, door.path)]
                begun.append(link.begin(door.path, ("dprelease-protocol", "5" * 1000)))
                for stream in begun:
                    await stream.send(framed(b"\x0a\x7f\x01"), end=True)
                await asyncio.gather(*(stream.over() for stream in begun))
            if door.name == "coordinator":
                report = "/dprelease.wire.v1.CoordinationService/ReportCatalogue"
                assert (await link.call(report, wanted)).reason in {"InvalidInput", "TooManyRequests"}


@row(
    "40,000 refused calls of five kinds and sixteen peers",
    "all four",
    "at most 51 short lines a minute and listener; no word of a method, a version or a key that the caller made up by the line",
)
@pytest.mark.parametrize("times", [600, pytest.param(10_000, marks=pytest.mark.slow)])
def test_thousands_of_refusals_leave_few_lines(site: Site, times: int) -> None:
    before = {role: len(site.log(role)) for role in ("hub", "coordinator")}
    started = asyncio.run(timed(site, times))
    for role, at in before.items():
        added = site.log(role)[at:]
        assert len(added) <= MINUTE_BYTES * (2 + started // PERIOD_SECONDS), role
        assert not any(len(line) > LONGEST_LINE for line in added.splitlines()), role
        assert b"/FORGED" not in added
        assert b"5" * (LONGEST_QUOTE + 1) not in added
        assert b"Traceback" not in added


async def timed(site: Site, times: int) -> float:
    """How many seconds the refusals took, which is how often the log may begin anew."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.gather(*(refused(site, door, times) for door in DOORS))
    return loop.time() - began


def _no_certificate(version: ssl.TLSVersion) -> ssl.SSLContext:
    context = _context("h2")
    context.minimum_version = context.maximum_version = version
    return context


def _context(*protocols: str) -> ssl.SSLContext:
    """TLS of a caller who has no certificate and believes every server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([*protocols])
    return context


FAILING: dict[str, ssl.SSLContext | None] = {
    "no TLS": None,
    "no certificate, TLS 1.2": _no_certificate(ssl.TLSVersion.TLSv1_2),
    "no certificate, TLS 1.3": _no_certificate(ssl.TLSVersion.TLSv1_3),
    "no protocol in common": _context("spdy/1"),
}
"""Handshakes that fail where a certificate is asked for; the first one fails at every door."""


def shake(port: int, context: ssl.SSLContext | None) -> None:
    """Connect, and read until the server hangs up."""
    with suppress(OSError), socket.create_connection((HOST, port)) as caller:
        if context is None:
            caller.sendall(b"GET / HTTP/1.1\r\n\r\n")
            _until_the_end(caller)
        else:
            with context.wrap_socket(caller) as secure:  # TLS 1.3 ends here for us before the server has refused
                _until_the_end(secure)


def _until_the_end(caller: socket.socket) -> None:
    while caller.recv(1 << 16):
        pass


@row(
    "20 handshakes that fail: no TLS, no certificate in TLS 1.2 and 1.3, no protocol in common",
    "all four",
    "nothing in the log",
)
def test_failed_handshakes_are_not_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # By their commands, for a copy of a process that has imported everything sets nothing up by itself, and without what
    # the imports of this process set.
    monkeypatch.delenv("GRPC_VERBOSITY", raising=False)
    with Site(tmp_path, rows=100, consortium=Consortium) as site:
        before = {role: site.log(role) for role in ("hub", "coordinator")}
        for door in DOORS:
            for context in [*FAILING.values()][: None if door.mutual else 1]:
                for _ in range(20):
                    shake(site.port(door), context)
        asyncio.run(site.all_served())
        site.processes.stop()
        expected = re.compile(
            rb"\S+Z INFO \S+: (/\S+ refused to .*|stopping|stopped)"
        )  # the calls of `all_served`, and the end
        for role, log in before.items():
            added = site.log(role).removeprefix(log).splitlines()
            assert [line for line in added if not expected.fullmatch(line)] == [], role


@row("80 downloads whose callers hang up", "public", "no traceback in the log")
def test_callers_who_hang_up_leave_no_traceback(site: Site) -> None:
    before = len(site.log("hub"))
    public = DOORS[0]

    async def attack() -> None:
        for _ in range(10):
            async with site.open(public, site.caller(public), window=1024) as link:
                streams = [link.begin("/dprelease.wire.v1.PublicService/DownloadBlock") for _ in range(8)]
                for stream in streams:
                    await stream.send(framed(site.download()), end=True)
                assert (await link.call(CHECK)).status == 0
        await site.all_served()

    asyncio.run(attack())
    assert b"Traceback" not in site.log("hub")[before:]


@row(
    "100,000 letters of a caller in an error, from 1,000 peers",
    "the log",
    "50 lines of at most 300 letters, and one that counts the others",
)
def test_a_caller_s_words_are_cut_short_and_kinds_are_limited(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    refusals = Refusals(lambda: now)
    with caplog.at_level(logging.INFO):
        for peer in range(1000):
            refusals.note("/method", f"192.0.2.{peer}", InvalidInput("w" * 100_000))
            refusals.note("/method", f"192.0.2.{peer}", TooManyRequests("calls too often"))
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == MOST_KINDS
    assert max(map(len, lines)) < 100 + LONGEST_QUOTE
    caplog.clear()
    now = PERIOD_SECONDS
    with caplog.at_level(logging.INFO):
        refusals.tell()
    (line,) = (record.getMessage() for record in caplog.records)
    assert f"{1000 - MOST_KINDS // 2} x /method InvalidInput" in line
