"""Two hospitals that hold different columns about the same forty patients, and what joins them."""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner, Result

from dprelease.canonical import sha256
from dprelease.files.durable import write_durably
from dprelease.files.settings import read_settings
from dprelease.identity.signing import private_key_pem, write_private
from dprelease.privacy.noise import NoiseSource
from dprelease.release.approval import SignedApproval, approve
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import instant
from dprelease.wire.v1 import coordination_pb2_grpc, intake_pb2_grpc, relay_pb2_grpc
from party_node.cli.main import main
from party_node.daemon import Daemon
from party_node.hospital import HospitalState
from party_node.identity import Enrolment
from party_node.outgoing.office import Coordinator
from party_node.settings import PartySettings
from party_node.state.journal import Record
from tests.party_node.fake_alignments import FakeAlignments
from tests.party_node.fake_relay import FakeRelay
from tests.party_node.fakes import FakeCoordinator, FakeHub, Server
from tests.support.certificates import Authority, Member
from tests.support.noise import RecordingNoise
from tests.support.specs import build_spec

ROWS = 40
CAP = Fraction(1, 2)
DRAWS_OF_ONE_BLOCK = 2
"""Of mixed rows: the mixing rows and the anchor; of joint moments: squares of numbers, and everything else."""
ALIGNMENT_KEY = hashlib.sha256(b"the hospitals' own").digest()

DECLARED = {
    "north": """
[columns.age]
kind = "numeric"
lower = 0
upper = 120
unit = "years"
[columns.sex]
kind = "categorical"
levels = ["female", "male"]
""",
    "south": """
[columns.glucose]
kind = "numeric"
lower = 2
upper = 30
unit = "mmol/l"
""",
}

WITHIN_LIMITS = """
[policy.auto_approve]
mechanisms = ["ranges", "moments", "mixed", "rows"]
max_epsilon = 1.0
max_delta = 1e-4
min_rows = 20
"""

MANNERS = """
[daemon]
poll_seconds = 0.01
stall_seconds = 30.0
longest_wait_seconds = 0.02
"""


class PowerCut(BaseException):
    """The process ends here: nothing catches it."""


_BEGUN: dict[str, dict[str, bytes]] = {}
"""Certificate of a hospital to the files that its first state in this process began with: others begin with copies of them."""


@lru_cache(maxsize=8)
def _settings(config: Path, content: bytes) -> PartySettings:
    """Settings of a file that has this content."""
    return read_settings(config, PartySettings)


def full_for(name: str) -> Callable[..., int]:
    """`os.open` on a disk that has no room for a file of this name."""
    open_file = os.open

    def opened(path: Path, *rest: int) -> int:
        if name in Path(path).name:
            raise OSError(errno.ENOSPC, "No space left on device")
        return open_file(path, *rest)

    return opened


def rows_of(party: str, rows: int = ROWS) -> list[str]:
    """The lines of a hospital's file, header first, in an order of its own; cells are easy to recognise."""
    generator = np.random.default_rng(7)
    ages = [f"{41 + i % 37}.{70000 + 13 * i}" for i in range(rows)]
    sexes = ["female" if generator.random() < 0.5 else "male" for _ in range(rows)]
    glucose = [f"{4 + i % 11}.{80000 + 17 * i}" for i in range(rows)]
    cells = {
        "north": ("patient,age,sex", [f"subject-{i:04},{ages[i]},{sexes[i]}" for i in range(rows)]),
        "south": ("patient,glucose", [f"subject-{i:04},{glucose[i]}" for i in range(rows)]),
    }
    header, lines = cells[party]
    order = np.random.default_rng(len(party) + ord(party[0])).permutation(rows)
    return [header, *(lines[i] for i in order)]


@dataclass
class Hospital:
    """One hospital: a folder with party.toml, rows and state, and the noise that its daemons draw."""

    folder: Path
    member: Member
    world: World
    noise: RecordingNoise

    @property
    def config(self) -> Path:
        return self.folder / "party.toml"

    @property
    def source(self) -> Path:
        return self.folder / "rows.csv"

    def hospital_state(self) -> HospitalState:
        """A hospital_state as a fresh process would open it."""
        return HospitalState(_settings(self.config, self.config.read_bytes()))

    @cached_property
    def books(self) -> HospitalState:
        """A state to read journal and ledger with, which open their files anew for each question."""
        return self.hospital_state()

    def daemon(self, noise: NoiseSource | None = None) -> Daemon:
        """A daemon as a fresh process would make it."""
        return Daemon(self.hospital_state(), noise or self.noise)

    @contextmanager
    def dialled(self) -> Iterator[Coordinator]:
        with Coordinator.dial(self.world.office.address, self.hospital_state().identity.credentials()) as coordinator:
            yield coordinator

    @contextmanager
    def running(self) -> Iterator[Callable[[], None]]:
        """A daemon that lasts; each call is one of its rounds."""
        state = self.hospital_state()
        daemon = Daemon(state, self.noise)
        with Coordinator.dial(self.world.office.address, state.identity.credentials()) as coordinator:
            yield lambda: daemon.cycle(coordinator)

    def cycle(self, times: int = 1) -> None:
        """Rounds of a fresh daemon: what it knows is on disk."""
        with self.running() as cycle:
            for _ in range(times):
                cycle()

    def run(self, *arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(main, [*arguments, "--config", str(self.config)], input=stdin)

    def record(self, release: str) -> Record:
        return self.books.journal.find(release)

    def status(self, release: str) -> str:
        """Where a release stands here; empty if it was never offered."""
        record = self.books.journal.get(release)
        return record.status.value if record is not None else ""

    def ledger_kinds(self, release: str) -> list[str]:
        """What the ledger says of a release, in order; of its blocks see `made`."""
        return [entry.kind for entry in self.books.ledger.entries() if entry.release == release and not entry.blocks]

    def made(self, release: str) -> list[str]:
        return [each for entry in self.books.ledger.entries() if entry.release == release for each in entry.blocks]

    def edit(self, pattern: str, text: str) -> None:
        before = self.config.read_text()
        after = re.sub(pattern, text, before, flags=re.MULTILINE)
        assert after != before
        self.config.write_text(after)


class World:
    """A consortium: an authority, two hospitals, a coordinator and a hub."""

    def __init__(self, folder: Path, authority: Authority, members: dict[str, Member], policy: str) -> None:
        self.authority, self.members = authority, members
        self.coordinator = FakeCoordinator()
        self.hub = FakeHub(self.coordinator)
        self.relay = FakeRelay(self.coordinator)
        self.alignments = FakeAlignments()
        self.office = Server(members["office"], authority, self._add_coordinator)
        self.shelf = Server(members["shelf"], authority, self._add_hub)
        for server in (self.office, self.shelf):
            server.start()
        self.north = self._hospital(folder / "north", members["north"], policy)
        self.south = self._hospital(folder / "south", members["south"], policy)

    def _add_coordinator(self, server: object) -> None:
        coordination_pb2_grpc.add_CoordinationServiceServicer_to_server(self.coordinator, server)  # type: ignore[arg-type]
        coordination_pb2_grpc.add_AlignmentServiceServicer_to_server(self.alignments, server)  # type: ignore[arg-type]

    def _add_hub(self, server: object) -> None:
        intake_pb2_grpc.add_IntakeServiceServicer_to_server(self.hub, server)  # type: ignore[arg-type]
        relay_pb2_grpc.add_RelayServiceServicer_to_server(self.relay, server)  # type: ignore[arg-type]

    def stop(self) -> None:
        for server in (self.office, self.shelf):
            server.stop()

    def _hospital(self, folder: Path, member: Member, policy: str) -> Hospital:
        identity = folder / "state" / "identity"
        identity.mkdir(parents=True)
        head = f'name = "{member.name}"\nroster = "cohort"\nsame_patients = true\n'
        head += '[source]\npath = "rows.csv"\nsubject = "patient"\n'
        (folder / "party.toml").write_text(head + DECLARED[member.name] + policy + MANNERS)
        (folder / "rows.csv").write_text("\n".join(rows_of(member.name)) + "\n")
        hospital = Hospital(folder, member, self, RecordingNoise())
        enrolment = Enrolment(
            party=member.name,
            consortium=self.authority.consortium,
            coordinator=self.office.address,
            hub=self.shelf.address,
            certificate=member.certificate,
            root=self.authority.root,
            cap_mu2=str(CAP),
        )
        begun = _BEGUN.get(member.certificate, {})
        for name, content in begun.items():
            write_private(folder / "state" / name, content)
        write_durably(identity / "enrolment.json", enrolment.to_bytes())
        if not begun:
            write_private(identity / "key.pem", private_key_pem(member.key))
            write_private(identity / "alignment.key", ALIGNMENT_KEY)
            state = hospital.hospital_state()
            state.ledger.open("cohort", CAP)
            state.make_catalogue()
            for name in {"north", "south"} - {member.name}:
                state.identity.pin(name, self.members[name].fingerprint)
            files = [path for path in (folder / "state").rglob("*") if path.is_file()]
            _BEGUN[member.certificate] = {str(path.relative_to(folder / "state")): path.read_bytes() for path in files}
        return hospital

    def spec(
        self,
        title: str = "age and glucose",
        outputs: int = 8,
        columns: tuple[str, ...] = (),
        grid_bits: int = 10,
        **changes: object,
    ) -> ReleaseSpec:
        """An honest proposal over both hospitals' tables; `changes` replace fields afterwards.

        Two proposals of the same content need a person; other `columns` of the north, all if none are named, are other content.
        """
        own = {hospital.member.name: hospital.hospital_state().catalogue() for hospital in (self.north, self.south)}
        now = datetime.now(UTC)
        keys = {name: self.members[name].fingerprint for name in own}
        honest = build_spec(
            {
                name: tuple(c for c in catalogue.columns if name == "south" or not columns or c.name in columns)
                for name, catalogue in own.items()
            },
            rows=ROWS,
            outputs=outputs,
            grid_bits=grid_bits,
            keys=keys,
            title=title,
        )
        facts = {
            "roster": "cohort",
            "alignment": own["north"].alignment,
            "created": instant(now),
            "expires": instant(now + timedelta(hours=1)),
        }
        return honest.model_copy(update=facts | changes)

    def propose(
        self, title: str = "age and glucose", outputs: int = 8, columns: tuple[str, ...] = (), **changes: Any
    ) -> str:
        """Offer `spec` to the hospitals; its digest."""
        return self.coordinator.propose(self.spec(title, outputs, columns, **changes))

    def approval_of(self, party: str, spec: ReleaseSpec) -> SignedApproval:
        """A hospital's honest approval, without a daemon."""
        member = self.members[party]
        return approve(spec, party, sha256(b"commitment"), member.key, member.certificate, datetime.now(UTC))

    def south_approves(self, release: str) -> None:
        """The other hospital says yes."""
        spec = ReleaseSpec.from_bytes(self.coordinator.records[release].proposal)
        self.coordinator.take(self.approval_of("south", spec).to_bytes())

    def approved(self, *given: Any, **changes: object) -> str:
        """A release that every party approved, and that the north has made nothing for; `propose` says what is given."""
        release = self.propose(*given, **changes)
        self.north.cycle()
        self.south_approves(release)
        return release

    def block(self, release: str, party: str, sequence: int = 0) -> bytes:
        """What the hub holds."""
        return bytes(self.hub.blocks[release, party, sequence])
