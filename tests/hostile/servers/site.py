"""A coordinator and a hub as processes, their four doors, and certificates for whoever comes to them."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from coordinator.authority.authority import Authority
from coordinator.store.store import Store
from demo.consortium import Consortium
from dprelease.identity.signing import load_private_key, new_private_key, private_key_pem
from dprelease.wire.v1 import public_pb2
from learner.hub.storage import Storage
from tests.coordinator.office import founded
from tests.learner.world import CONSORTIUM, Sealed, World, publish_to
from tests.support.certificates import Member, mint
from tests.support.forked import ForkedConsortium
from tests.support.http2 import PATIENCE_SECONDS, Connection, Stream, connection, tls
from tests.support.measured import measured
from tests.support.specs import TWO_PARTIES

ENROL = "/dprelease.wire.v1.EnrolmentService/Enrol"
DOWNLOAD = "/dprelease.wire.v1.PublicService/DownloadBlock"
CHECK = "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"
ROWS = 300_000
LARGE = "north"
"""Whose block has 9.6 MB."""


@dataclass(frozen=True)
class Door:
    """A listener.

    Attributes:
        name: also in the section of docs/faults.md.
        role: whose it is.
        path: of a call that everybody may try.
        answer: the status of that call when its message is empty.
    """

    name: str
    role: str
    path: str
    answer: int

    @property
    def mutual(self) -> bool:
        """Whether it is for certificates only."""
        return self.name in ("hub", "coordinator")


DOORS = (
    Door("public", "hub", "/dprelease.wire.v1.PublicService/ListPublished", 0),
    Door("hub", "hub", "/dprelease.wire.v1.IntakeService/OpenBlock", 3),
    Door("coordinator", "coordinator", "/dprelease.wire.v1.CoordinationService/ListReleases", 0),
    Door("enrolment", "coordinator", ENROL, 16),
)


@dataclass(frozen=True)
class Caller:
    """Where a call comes from.

    Attributes:
        context: TLS.
        source: address.
    """

    context: ssl.SSLContext
    source: str


class _Founded(World):
    """The founded consortium, with a release of two hospitals that nobody has to compute."""

    def __init__(self, office: Path) -> None:
        self.folder, self.columns = office, TWO_PARTIES
        self.root = Member(CONSORTIUM, load_private_key(office / "root.key"), (office / "root.pem").read_text())
        self.hub = Member("hub", load_private_key(office / "hub" / "hub.key"), (office / "hub" / "hub.pem").read_text())
        self.parties = {name: mint(name, "party", self.root) for name in self.columns}


class Site:
    """Two processes and what is needed to call them; use as a context manager.

    Args:
        folder: where everything is kept.
        limits: TOML lines for hub.toml.
        launcher: arguments of Python that run both roles in another way.
        rows: of what is published.
        consortium: runs the processes, as copies unless told otherwise.

    Attributes:
        processes: of both roles.
        world: the consortium's keys.
        sealed: what is published.
    """

    def __init__(
        self,
        folder: Path,
        limits: str = "",
        launcher: Sequence[str] = (),
        rows: int = ROWS,
        consortium: type[Consortium] = ForkedConsortium,
    ) -> None:
        self._launcher = launcher
        self.processes = consortium(folder)
        ports = self.processes.ports
        founded(
            self.processes.office,
            datetime.now(UTC),
            name=CONSORTIUM,
            port=ports["coordinator"],
            enrol_port=ports["enrolment"],
            hub_port=ports["hub"],
            hub_public_port=ports["public"],
        )
        with (self.processes.hub / "hub.toml").open("a") as settings:
            settings.write(f"\n[limits]\n{limits}\n")
        self.world = _Founded(self.processes.office)
        self.sealed = self._publish(rows)
        self._numbers = count(2)

    def __enter__(self) -> Self:
        start, how, hub = self.processes.start, self._launcher, ("serve", "--config", "hub.toml")
        start("coordinator", "coordinator", "serve", home=self.processes.office, launcher=how)
        start("hub", "learner", *hub, home=self.processes.hub, launcher=how)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.processes.__exit__(kind, error, trace)

    def _publish(self, rows: int) -> Sealed:
        sealed = self.world.sealed(mechanism="rows", rows=rows)
        storage = Storage(self.processes.hub / "storage", 1 << 30)
        publish_to(storage, self.world, sealed)
        storage.close()
        return sealed

    def port(self, door: Door) -> int:
        return self.processes.ports[door.name]

    def pid(self, role: str) -> int:
        return self.processes.processes[role].pid

    def caller(self, door: Door, *, member: bool = False) -> Caller:
        """Somebody who was never here before.

        Args:
            door: where to.
            member: a party that is enrolled, where parties come.
        """
        number = next(self._numbers)
        source = f"127.0.{number // 250}.{number % 250 + 1}"
        root = self.processes.office / "root.pem"
        return Caller(tls(root, self._identity(f"p{number}", member=member) if door.mutual else None), source)

    def _identity(self, name: str, *, member: bool) -> Path:
        office, now, key = self.processes.office, datetime.now(UTC), new_private_key()
        authority = Authority.load(office / "root.pem", office / "root.key")
        certificate = authority.issue(name, "party", key.public_key(), now, 90)
        if member:
            store = Store.open(f"sqlite:///{office / 'coordinator.sqlite'}")
            with store.writing() as tx:
                tx.members.enrol(certificate.decode(), store.consortium.mu2 * Fraction(1, 10_000), now)
            store.close()
        path = self.processes.folder / f"{name}.pem"
        path.write_bytes(certificate + private_key_pem(key))
        return path

    @asynccontextmanager
    async def open(
        self, door: Door, caller: Caller, *, window: int = 1 << 20, takes: bool = True
    ) -> AsyncIterator[Connection]:
        async with connection(self.port(door), caller.context, caller.source, window=window, takes=takes) as made:
            yield made

    async def served(self, door: Door, times: int = 1, seconds: float = 10.0) -> None:
        """Somebody else is served, with health and with an ordinary call, each within a bound of patience."""
        caller = self.caller(door, member=True)
        for _ in range(times):
            async with asyncio.timeout(seconds), self.open(door, caller) as link:
                health = await link.call(CHECK)
                assert (health.status, health.data[-1:]) == (0, b"\1"), (door.name, health.headers, health.reset)
                assert (await link.call(door.path)).status == door.answer, door.name

    async def all_served(self, times: int = 1, seconds: float = 10.0) -> None:
        """The same at all doors."""
        await asyncio.gather(*(self.served(door, times, seconds) for door in DOORS))

    async def connected(self) -> None:
        """Wait until the hub has found a coordinator that was started again."""
        door = DOORS[1]
        async with asyncio.timeout(PATIENCE_SECONDS), self.open(door, self.caller(door)) as link:
            while (await link.call(door.path)).status != door.answer:
                await asyncio.sleep(0.1)

    def download(self, party: str = LARGE) -> bytes:
        asked = public_pb2.DownloadBlockRequest(spec_digest=bytes.fromhex(self.sealed.digest), party=party)
        return bytes(asked.SerializeToString())

    def measured(self, role: str, name: str) -> int:
        """A line of what the kernel knows about a process: Threads, VmRSS in KiB, or FDs."""
        if name == "FDs":
            return len(os.listdir(f"/proc/{self.pid(role)}/fd"))  # noqa: PTH208
        return measured(self.pid(role), name)

    def log(self, role: str) -> bytes:
        return self.processes.log(role).read_bytes()

    def alive(self, role: str) -> bool:
        return self.processes.processes[role].poll() is None


def by_status(streams: list[Stream]) -> dict[tuple[int | None, str], int]:
    found: dict[tuple[int | None, str], int] = {}
    for stream in streams:
        key = (stream.status, stream.reason)
        found[key] = found.get(key, 0) + 1
    return found
