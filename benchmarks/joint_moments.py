"""What a joint computation costs, with and without range proofs: whole releases through real processes, over loopback TLS.

Time runs from the moment at which every hospital has read its rows and joined, to the moment at which the release is
visible at the hub: dealing, masking, sending, proving, multiplying, noise, sealing, upload, verification, publication. Reading
the tables is reported apart. Bytes are those of the loopback interface, which every byte passes once for each hop.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks import kernels
from benchmarks.common.hospitals import consortium, propose
from benchmarks.common.plots import subplots
from benchmarks.common.progress import wait_until_approved, wait_until_joined
from benchmarks.common.report import RESULTS, Results, main
from demo.consortium import Consortium, wait_for
from tests.support.measured import measured

WORD_BYTES = 8
PATIENCE = 1800.0


@dataclass(frozen=True)
class Cost:
    """What one computation cost.

    Attributes:
        proofs: whether hospitals proved their bounds to one another.
        rows: n.
        columns: of all hospitals together.
        parties: m.
        seconds: from the last hospital's joining to publication.
        reading_seconds: the slowest hospital's reading of its table before it joins.
        hop_bytes: bytes up to or down from the hub, the mean of both.
        largest_gib: peak resident memory of the largest process.
        numpy_seconds: X^T X of the same shape in float64, the least of seven.
    """

    proofs: bool
    rows: int
    columns: int
    parties: int
    seconds: float
    reading_seconds: float
    hop_bytes: float
    largest_gib: float
    numpy_seconds: float

    @property
    def needed_bytes(self) -> int:
        """What masked columns need on each hop: n columns (m - 1) words."""
        return self.rows * self.columns * (self.parties - 1) * WORD_BYTES


def run(quick: bool) -> Results:
    """Cost of joint moments through real processes: seconds, bytes, memory, and growth in n, columns and m."""
    results = Results()
    cases = [(100_000, 30, 3)] if quick else [(1_000_000, 30, 3), (1_000_000, 100, 3)]
    reaches = {30: 15.0, 100: 60.0}
    costs = []
    for rows, columns, parties in cases:
        runs = measure(rows, columns, parties, 1 if quick else 3)
        costs += runs
        name = f"{parties} parties, n = {rows:,}, {columns} columns"
        proved, runs = ([each for each in runs if each.proofs is proofs] for proofs in (True, False))
        cost, with_proofs = _median(runs), _median(proved)
        seconds = cost.seconds
        results.add(f"{name}: seconds, median of {len(runs)}", seconds, None if quick else reaches[columns])
        results.add(f"{name}: bytes on a hop over those masked columns need", cost.hop_bytes / cost.needed_bytes, 1.1)
        results.add(f"{name}: MB up from each hospital, and as much down", cost.hop_bytes / parties / 1e6)
        results.add(f"{name}: GiB of the largest process", max(each.largest_gib for each in runs), 2.0)
        results.add(f"{name}: seconds over plain numpy X^T X", seconds / cost.numpy_seconds)
        results.add(f"{name}: seconds to read the tables first", cost.reading_seconds)
        results.add(f"{name}: with range proofs: seconds, median of {len(proved)}", with_proofs.seconds)
        results.add(
            f"{name}: with range proofs: times the seconds", with_proofs.seconds / seconds, None if quick else 2.5
        )
        results.add(
            f"{name}: with range proofs: times the bytes",
            with_proofs.hop_bytes / cost.hop_bytes,
            None if quick else 1.25,
        )
        results.add(
            f"{name}: with range proofs: GiB of the largest process", max(each.largest_gib for each in proved), 2.0
        )
    profile = kernels.profile(*cases[-1])
    for step, spent in profile.items():
        results.add(f"processor seconds of the largest case: {step}", spent)
    results.details["profile"] = profile
    results.details["runs"] = [asdict(cost) for cost in costs]
    if not quick:
        results.details["growth"] = _growth(next(cost for cost in costs if not cost.proofs))
        _plot(results.details["growth"])
    return results


def _median(costs: list[Cost]) -> Cost:
    seconds = statistics.median(cost.seconds for cost in costs)
    return min(costs, key=lambda each: abs(each.seconds - seconds))


def measure(
    rows: int, columns: int, parties: int, releases: int = 1, proofs: tuple[bool, ...] = (False, True)
) -> list[Cost]:
    """Releases of random columns, one after another, by one consortium: so many without proofs, and as many with them."""
    held = {f"hospital{number}": columns // parties + (number < columns % parties) for number in range(parties)}
    kinds = [kind for kind in proofs for _ in range(releases)]  # without first, for peaks are those of a process's life
    spare = {name: count + len(kinds) - 1 for name, count in held.items()}  # every release is of other columns
    with consortium(rows, spare, poll_seconds=0.1) as made:
        return [_compute(made, rows, held, *each) for each in enumerate(kinds)]


def _compute(made: Consortium, rows: int, held: dict[str, int], number: int, proofs: bool) -> Cost:
    terms = f'mechanism = "moments"\nrange_proofs = {str(proofs).lower()}'
    release = propose(made, f"cost {number}", terms, held, first=number)
    for name in () if proofs else held:  # no policy approves what leaves proofs out
        made.approve(release, name, PATIENCE)
    wait_until_approved(made, release, PATIENCE)
    approved = time.monotonic()
    wait_until_joined(made, release, held, PATIENCE)
    started, bytes_before = time.monotonic(), _loopback_bytes()
    published = made.hub / "storage" / "published" / release
    wait_for(published.exists, PATIENCE, "the release to be published")
    ended, bytes_after = time.monotonic(), _loopback_bytes()
    peaks = [measured(process.pid, "VmHWM") / 2**20 for process in made.processes.values()]
    hop = (bytes_after - bytes_before) / 2
    seconds, columns = ended - started, sum(held.values())
    return Cost(
        proofs, rows, columns, len(held), seconds, started - approved, hop, max(peaks), _numpy_seconds(rows, columns)
    )


def _loopback_bytes() -> int:
    """Bytes sent over the loopback interface since the machine started."""
    line = next(line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[8])


def _numpy_seconds(rows: int, columns: int) -> float:
    data = np.random.default_rng(0).uniform(-1, 1, (rows, columns))
    spent = []
    for _ in range(7):  # the least: what the machine can do, whatever else it is busy with
        started = time.monotonic()
        data.T @ data
        spent.append(time.monotonic() - started)
    return min(spent)


def _growth(largest: Cost) -> dict[str, list[tuple[int, float]]]:
    """Seconds against n, columns and m without proofs, one run each; `largest` has 30 columns and three hospitals."""

    def seconds(rows: int, columns: int, parties: int) -> float:
        return measure(rows, columns, parties, proofs=(False,))[0].seconds

    middle = seconds(300_000, 30, 3)
    small = [(rows, seconds(rows, 30, 3)) for rows in (30_000, 100_000)]
    wide = {columns: seconds(300_000, columns, 3) for columns in (12, 60, 120)}
    many = {parties: seconds(300_000, 30, parties) for parties in (2, 4, 6)}
    return {
        "patients": [*small, (300_000, middle), (largest.rows, largest.seconds)],
        "columns": sorted({**wide, 30: middle}.items()),
        "hospitals": sorted({**many, 3: middle}.items()),
    }


def _plot(growth: dict[str, list[tuple[int, float]]]) -> None:
    fixed = {
        "patients": "30 columns, 3 hospitals",
        "columns": "n = 300,000, 3 hospitals",
        "hospitals": "n = 300,000, 30 columns",
    }
    figure, axes = subplots(1, 3, (12, 3.6))
    for axis, (what, points) in zip(axes, growth.items(), strict=True):
        axis.plot(*zip(*points, strict=True), marker="o")
        axis.set(xlabel=what, title=fixed[what], ylim=(0, None))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("seconds to publication")
    figure.savefig(RESULTS / "joint_moments.png", dpi=110)


if __name__ == "__main__":
    main("joint_moments", run)
