"""Many hospitals in one release of joint moments, on one machine: what it takes from their invitations to the publication.

Every hospital is a process of its own that dials coordinator and hub over mutual TLS. Commands are processes that begin as copies
of one that has imported everything: people type them on machines of their own. Each hospital holds two columns of the same 300
patients, so what is measured is the work of m hospitals with one another, not of their tables.

Seconds are those of the clock, on the cores that all of them share. Processor seconds tell who works, also on a busy machine.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from benchmarks.common.hospitals import SERVERS, calls, consortium, processor, propose
from benchmarks.common.progress import wait_until_approved, wait_until_published
from benchmarks.common.report import Results, main
from demo.consortium import Consortium
from tests.support.forked import ForkedConsortium
from tests.support.measured import measured

ROWS, COLUMNS = 300, 2
HOSPITALS = (3, 12, 24, 36, 50, 100)
QUICK = (3, 6)
REACH_SECONDS = 600.0
"""Most seconds of the largest release."""
REACH_MIB = 150.0
"""Most resident memory of a hospital."""
POLL_SECONDS = 60.0
"""How often a hospital that hears nothing asks: it is woken by news."""
PATIENCE = 3600.0


@dataclass(frozen=True)
class Phase:
    """A part of the way to a publication.

    Attributes:
        what: its end.
        seconds: how long it took.
        processor: processor seconds of ``hospitals``, ``coordinator`` and ``hub``.
        calls: that both servers answered.
    """

    what: str
    seconds: float
    processor: dict[str, float]
    calls: int


@dataclass(frozen=True)
class Cost:
    """What one release took.

    Attributes:
        hospitals: m.
        phases: from the first invitation on.
        calls: server to method to how many calls it answered.
        resident_mib: memory of ``coordinator``, ``hub`` and the largest of the ``hospitals`` once all is done.
        peak_mib: the same, at most.
        own_mib: the same without pages of mapped files. The kernel maps more or fewer of these around a page that is used: the same
            software had 146 and 162 MiB in two folders of one machine.
        all_mib: memory of all processes, in which pages that some share count once.
    """

    hospitals: int
    phases: list[Phase]
    calls: dict[str, dict[str, int]]
    resident_mib: dict[str, float]
    peak_mib: dict[str, float]
    own_mib: dict[str, float]
    all_mib: float

    @property
    def seconds(self) -> float:
        """From the first invitation to the publication."""
        return sum(phase.seconds for phase in self.phases)

    def processor(self, role: str) -> float:
        """Processor seconds of a role."""
        return sum(phase.processor[role] for phase in self.phases)


def run(quick: bool) -> Results:
    """A release of m hospitals from their invitations to its publication: seconds, processor seconds, calls and memory."""
    results, costs = Results(), list[Cost]()
    sizes = QUICK if quick else HOSPITALS
    for hospitals in sizes:
        cost = measure(hospitals)
        costs.append(cost)
        name = f"{hospitals} hospitals"
        results.add(f"{name}: seconds", cost.seconds, REACH_SECONDS if hospitals == sizes[-1] else None)
        for role in ("hospitals", "hub", "coordinator"):
            results.add(f"{name}: processor seconds, {role}", cost.processor(role))
        results.add(f"{name}: calls", sum(phase.calls for phase in cost.phases))
        results.add(f"{name}: MiB of the largest hospital, once all is done", cost.resident_mib["hospitals"], REACH_MIB)
        results.add(f"{name}: MiB of the largest hospital, at most", cost.peak_mib["hospitals"])
        results.add(f"{name}: MiB of its own, without mapped files, once all is done", cost.own_mib["hospitals"])
        results.add(f"{name}: MiB of all processes", cost.all_mib)
    results.details["runs"] = [asdict(cost) for cost in costs]
    return results


def measure(hospitals: int) -> Cost:
    """One release of all columns."""
    columns = {f"h{place:03}": COLUMNS for place in range(hospitals)}
    meter = _Meter(hospitals)
    with consortium(
        ROWS, columns, POLL_SECONDS, told=meter.begin, patience=PATIENCE, counting=True, kind=_Consortium
    ) as made:
        meter.end("every catalogue is at the office", made)
        release = propose(made, "many hospitals", 'mechanism = "moments"', columns)
        wait_until_approved(made, release, PATIENCE)
        meter.end("every hospital has approved", made)
        wait_until_published(made, release, PATIENCE)
        meter.end("the release is published", made)
        resident, peak, own = (_largest(made, line) for line in ("VmRSS", "VmHWM", "RssAnon"))
        together = sum(_shared_out(process.pid) for process in made.processes.values())
        answered = {name: dict(calls(made, name)) for name in SERVERS}
    return Cost(hospitals, meter.phases, answered, resident, peak, own, together)


def _largest(made: Consortium, line: str) -> dict[str, float]:
    """MiB of each server, and of the largest hospital."""
    found = dict.fromkeys((*SERVERS, "hospitals"), 0.0)
    for name, process in made.processes.items():
        role = name if name in SERVERS else "hospitals"
        found[role] = max(found[role], measured(process.pid, line) / 2**10)
    return found


def _shared_out(process: int) -> float:
    """MiB of a process; of a page that several have, its share."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("Pss:"))) / 2**10


class _Consortium(ForkedConsortium):
    """Roles are no copies: memory that two processes share is no memory of two machines."""

    def launch(
        self, line: Sequence[str], home: Path, environment: Mapping[str, str], stdout: IO[bytes], stderr: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        if {"run", "serve"} & set(line):
            # Bytecode is there, as where the software is installed.
            kept = {**environment, "PYTHONDONTWRITEBYTECODE": ""}
            return Consortium.launch(self, line, home, kept, stdout, stderr)
        return super().launch(line, home, environment, stdout, stderr)


class _Meter:
    """Notes phases as they end."""

    def __init__(self, hospitals: int) -> None:
        self.phases: list[Phase] = []
        self._hospitals = hospitals
        self._time = 0.0
        self._spent = dict.fromkeys((*SERVERS, "hospitals"), 0.0)
        self._calls = 0

    def begin(self, what: str) -> None:
        """Begin once the tables are written, so that neither they nor the founding count."""
        self._time = self._time or time.monotonic()

    def end(self, what: str, made: Consortium) -> None:
        """Note and print a phase."""
        spent = processor(made)
        answered = sum(calls(made, name).total() for name in SERVERS)
        now = time.monotonic()
        more = {role: spent[role] - self._spent[role] for role in spent}
        phase = Phase(what, now - self._time, more, answered - self._calls)
        self.phases.append(phase)
        self._time, self._spent, self._calls = now, spent, answered
        words = ", ".join(f"{role} {seconds:.1f}" for role, seconds in more.items())
        print(
            f"m = {self._hospitals}: {what} after {phase.seconds:.1f} s; processor seconds: {words}; "
            f"{phase.calls:,} calls",
            flush=True,
        )


if __name__ == "__main__":
    main("hospitals", run)
