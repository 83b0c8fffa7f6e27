"""Hundreds of TLS handshakes at the same moment, and certificates that are renewed meanwhile."""

import asyncio
import ssl
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509

from coordinator.authority.authority import SERVER_DAYS, Authority
from coordinator.store.store import Store
from dprelease.identity.signing import load_private_key, private_key_pem
from tests.hostile.servers.attacks import row
from tests.hostile.servers.site import DOORS, DOWNLOAD, Caller, Door, Site
from tests.learner.world import World
from tests.support.http2 import connection, framed, tls

AT_ONCE = 200
EACH = 10
"""Handshakes of one caller."""

CANCELLED: int = grpc.StatusCode.CANCELLED.value[0]

DUE_SECONDS, AHEAD_SECONDS = 120.0, 240.0
"""The certificates are due in two minutes; the clock is put forward by four, so that new ones are valid already."""


async def greet(site: Site, door: Door, caller: Caller, attempts: int) -> int:
    """Connect and call, again where the call was cut off; how many attempts it took.

    The server that is left drains. A call that reaches it in that moment loses its connection, or gRPC answers it with
    CANCELLED before any code of ours sees it; our clients call again after both (`PeerUnavailable`).
    """
    for attempt in range(1, attempts + 1):
        try:
            async with site.open(door, caller) as link:
                call = await link.call(door.path)
        except OSError:
            continue
        if call.status == door.answer:
            return attempt
        assert call.reset == -1 or call.status == CANCELLED, (door.name, call.headers)
    raise AssertionError(f"{door.name} did not serve within {attempts} attempts")


async def storm(site: Site, rounds: int, at_once: int = AT_ONCE, attempts: int = 1) -> int:
    """Everybody at all doors at the same moment, so many times over; how many attempts were in vain."""
    lost = 0
    for _ in range(rounds):
        callers = {door: [site.caller(door, member=True) for _ in range(at_once // EACH)] for door in DOORS}
        taken = await asyncio.gather(
            *(greet(site, door, callers[door][at // EACH], attempts) for at in range(at_once) for door in DOORS)
        )
        lost += sum(taken) - len(taken)
    return lost


@row("200 TLS handshakes at once, 30 times over", "all four", "every client is served at its first attempt")
@pytest.mark.parametrize(
    ("rounds", "at_once"), [(1, 80), pytest.param(30, AT_ONCE, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_two_hundred_handshakes_at_once_at_every_door(site: Site, rounds: int, at_once: int) -> None:
    assert asyncio.run(storm(site, rounds, at_once)) == 0


def shown(port: int) -> x509.Certificate:
    return x509.load_pem_x509_certificate(ssl.get_server_certificate(("127.0.0.1", port)).encode())


def make_due(site: Site, seconds: float) -> None:
    """Give coordinator and hub certificates that are due for renewal after some time."""
    office = site.processes.office
    authority = Authority.load(office / "root.pem", office / "root.key")
    began = datetime.now(UTC) + timedelta(seconds=seconds) - 2 * timedelta(days=SERVER_DAYS) / 3
    for role, folder in (("coordinator", office), ("hub", office / "hub")):
        key = load_private_key(folder / f"{role}.key").public_key()
        made = authority.issue(role, role, key, began, SERVER_DAYS, ("localhost", "127.0.0.1"))
        (folder / f"{role}.pem").write_bytes(made)
    store = Store.open(f"sqlite:///{office / 'coordinator.sqlite'}")
    with store.writing() as tx:
        tx.hub.set(made.decode())
    store.close()


@pytest.fixture
def due(tmp_path: Path) -> Iterator[Site]:
    """A site whose certificates are due as soon as the clock is put forward."""
    launcher = ("-m", "tests.hostile.servers.early", str(tmp_path / "ahead"))
    site = Site(tmp_path, "stop_seconds = 2\nrevocation_seconds = 0.2", launcher, rows=40_000)
    settings = site.processes.office / "coordinator.toml"
    settings.write_text("tick_seconds = 0.2\n" + settings.read_text())
    make_due(site, DUE_SECONDS)
    with site:
        yield site


async def renew_under_way(site: Site, rounds: int, at_once: int) -> None:
    """A download begins, both roles renew while handshakes are under way, and the download goes on to its end."""
    public = DOORS[0]
    before = {door: shown(site.port(door)).serial_number for door in DOORS}
    async with site.open(public, site.caller(public), window=1 << 16, takes=False) as link:
        download = link.begin(DOWNLOAD)
        await download.send(framed(site.download()), end=True)
        while not download.data:
            await asyncio.sleep(0.01)
        storming = asyncio.create_task(storm(site, rounds, at_once, attempts=5))
        (site.processes.folder / "ahead").write_text(f"{AHEAD_SECONDS}")
        async with asyncio.timeout(60):
            for door in DOORS:
                while (await asyncio.to_thread(shown, site.port(door))).serial_number == before[door]:
                    await asyncio.sleep(0.05)
        download.take(1 << 30)
        assert (await download.over()).status == 0
        assert len(download.data) > len(site.sealed.blocks["north"])
        await storming
    await storm(site, 1, at_once)


@row(
    "coordinator and hub renew their certificates under 200 handshakes at once",
    "all four",
    "new connections see the new certificate; a download goes on to its end; "
    "a client whose connection is cut is served when it connects again",
)
@pytest.mark.parametrize(
    ("rounds", "at_once"), [(2, 40), pytest.param(15, AT_ONCE, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_both_roles_renew_their_certificates_while_handshakes_are_under_way(
    due: Site, rounds: int, at_once: int
) -> None:
    asyncio.run(renew_under_way(due, rounds, at_once))
    assert due.alive("hub")
    assert due.alive("coordinator")


@row("150 renewals under 6,000 handshakes", "a listener", "the last certificate is shown, and the process ends with 0")
@pytest.mark.parametrize(
    ("rounds", "at_once"), [(2, 60), pytest.param(30, AT_ONCE, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_a_listener_renews_again_and_again_under_handshakes(tmp_path: Path, rounds: int, at_once: int) -> None:
    world = World(tmp_path)
    (tmp_path / "root.pem").write_text(world.root.certificate)
    for number, member in enumerate((world.hub, world.coordinator)):
        (tmp_path / f"{number}.pem").write_text(member.certificate)
        (tmp_path / f"{number}.key").write_bytes(private_key_pem(member.key))
    command = [sys.executable, "-m", "tests.hostile.servers.bare", str(tmp_path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process as listener:
        assert listener.stdin is not None
        assert listener.stdout is not None
        port, context = int(listener.stdout.readline()), tls(tmp_path / "root.pem")

        def present() -> None:
            listener.stdin.write("\n")
            listener.stdin.flush()
            assert listener.stdout.readline() == "presented\n"

        async def greeted() -> bool:
            for _ in range(20):
                try:
                    async with connection(port, context) as made:
                        if (await made.call("/nobody/knows")).status == 12:
                            return True
                except OSError:
                    continue
            return False

        async def attack() -> None:
            for _ in range(rounds):
                all_of_them = asyncio.gather(*(greeted() for _ in range(at_once)))
                for _ in range(5):
                    await asyncio.to_thread(present)
                assert all(await all_of_them)

        asyncio.run(attack())
        last = world.coordinator if rounds * 5 % 2 else world.hub
        assert shown(port) == x509.load_pem_x509_certificate(last.certificate.encode())
        listener.stdin.close()
        assert listener.wait(30) == 0
