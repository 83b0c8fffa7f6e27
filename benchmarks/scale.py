"""Tables larger than memory through real processes: three hospitals with ten columns of n patients, from files to a publication.

Rows a second are n over the seconds that the hospitals take: from the start of their nodes to the last catalogue at the office,
and from the proposal to the publication. All three work at the same time, on the same cores. To write the tables is not measured.

Everything lies below TMPDIR, some 600 bytes for each patient at most, and is removed at the end. A size for which the disk has no
room is left out, and a line says so.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import asdict, dataclass
from itertools import pairwise

from benchmarks.common.hospitals import consortium, propose
from benchmarks.common.progress import wait_until_approved, wait_until_published
from benchmarks.common.report import Results, main
from tests.support.measured import measured

COLUMNS = {"north": 4, "south": 3, "west": 3}
BYTES_A_PATIENT = 600
"""Of all hospitals: their files, sorted runs, codes, pseudonyms and frozen rows."""
SECONDS_A_PATIENT = 1e-4
"""How long a hospital may take at most."""


@dataclass(frozen=True)
class Cost:
    """What one release cost.

    Attributes:
        rows: n.
        writing_seconds: to write the tables.
        reading_seconds: until the office has every hospital's catalogue.
        approval_seconds: until every hospital has frozen its rows.
        release_seconds: until the release is published, after that.
        peaks_gib: process to its peak of resident memory.
    """

    rows: int
    writing_seconds: float
    reading_seconds: float
    approval_seconds: float
    release_seconds: float
    peaks_gib: dict[str, float]

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows / (self.reading_seconds + self.approval_seconds + self.release_seconds)


def run(quick: bool) -> Results:
    """A release of n patients x 10 columns by three hospitals: rows a second, and memory of the largest process."""
    results, costs = Results(), list[Cost]()
    for rows in [100_000] if quick else [10**6, 10**7, 10**8]:
        name, free = f"n = {rows:,} x {sum(COLUMNS.values())}", shutil.disk_usage(tempfile.gettempdir()).free
        if free < rows * BYTES_A_PATIENT:
            print(
                f"{name}: left out, {tempfile.gettempdir()} has {free / 2**30:.0f} GiB free and this takes "
                f"{rows * BYTES_A_PATIENT / 2**30:.0f} GiB (set TMPDIR)",
                flush=True,
            )
            continue
        cost = measure(rows)
        costs.append(cost)
        results.add(f"{name}: rows a second", cost.rate)
        results.add(f"{name}: seconds until every catalogue is there", cost.reading_seconds)
        results.add(f"{name}: seconds from proposal to publication", cost.approval_seconds + cost.release_seconds)
        results.add(f"{name}: GiB of the largest process", max(cost.peaks_gib.values()), 2.0)
        if len(costs) > 1:
            results.add(
                f"{name}: rows a second over those of n = {costs[0].rows:,}", cost.rate / costs[0].rate, 0.8, ">="
            )
    results.details["runs"] = [asdict(cost) for cost in costs]
    return results


def measure(rows: int) -> Cost:
    """One release of all columns."""
    patience = 600 + rows * SECONDS_A_PATIENT
    times = [time.monotonic()]

    def told(what: str) -> None:
        times.append(time.monotonic())
        print(f"n = {rows:,}: {what} after {times[-1] - times[-2]:.0f} s", flush=True)

    with consortium(rows, COLUMNS, told=told, patience=patience) as made:
        told("every catalogue is at the office")
        release = propose(made, "scale", 'mechanism = "mixed"', COLUMNS)
        wait_until_approved(made, release, patience)
        told("every hospital has frozen its rows")
        wait_until_published(made, release, patience)
        told("the release is published")
        peaks = {name: measured(process.pid, "VmHWM") / 2**20 for name, process in made.processes.items()}
    writing, _, reading, approval, publication = (later - earlier for earlier, later in pairwise(times))
    return Cost(rows, writing, reading, approval, publication, peaks)


if __name__ == "__main__":
    main("scale", run)
