"""What checkpoint after checkpoint of a stream costs: joint moments of three hospitals whose tables grow, through real processes.

Time of a checkpoint runs from the command that proposes it until the coordinator knows that it is published. Each
hospital has appended the new rows to its CSV file before, and has told the office of them: the catalogue, whose time is apart.
"""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import asdict, dataclass

from benchmarks.common.hospitals import PATIENCE, consortium, grow, propose
from benchmarks.common.plots import subplots
from benchmarks.common.progress import wait_until_approved, wait_until_published
from benchmarks.common.report import RESULTS, Results, main
from demo.consortium import Consortium, wait_for
from dprelease.catalogue import Catalogue

NAMES = ("north", "south", "west")
EACH = 10
"""Columns of each hospital."""

GRID_BITS = 13
"""Of cells: weighted sums over a million patients stay below 2^60."""

NEIGHBOURS = 5
"""Checkpoints of which a median is taken."""


@dataclass(frozen=True)
class Cost:
    """What one checkpoint cost.

    Attributes:
        number: t.
        seconds: from the command to publication.
        approval_seconds: of these, up to the last approval.
        catalogue_seconds: from the files' growth until every hospital has a catalogue of them; the first one's is not measured.
        block_bytes: of one hospital's block, which has those of all checkpoints before in it.
    """

    number: int
    seconds: float
    approval_seconds: float
    catalogue_seconds: float
    block_bytes: int


def run(quick: bool) -> Results:
    """Cost of the checkpoints of a stream of joint moments through real processes, and how it grows."""
    results = Results()
    rows, checkpoints = (1_000, 3) if quick else (10_000, 100)
    costs = measure(rows, checkpoints)
    results.details["checkpoints"] = [asdict(cost) for cost in costs]
    add_figures(results, f"{checkpoints} checkpoints of {rows:,} new rows", costs)
    if not quick:
        _plot(costs)
    return results


def add_figures(results: Results, name: str, costs: list[Cost]) -> None:
    """How the checkpoints' times grow. The reach is for the plain worst, one hiccup of the machine included."""
    seconds = [cost.seconds for cost in costs]
    some = min(10, len(costs) // 2)
    results.add(f"{name}: slowest over the first", max(seconds) / seconds[0], 3.0)
    results.add(f"{name}: slowest median of {NEIGHBOURS} neighbours over the first", max(_smooth(seconds)) / seconds[0])
    results.add(f"{name}: mean of the last {some} over the first {some}", sum(seconds[-some:]) / sum(seconds[:some]))
    results.add(f"{name}: seconds of the first", seconds[0])
    results.add(f"{name}: seconds, mean of the last {some}", statistics.mean(seconds[-some:]))
    later = [cost.catalogue_seconds for cost in costs[1:]]
    results.add(f"{name}: seconds of the catalogue before, mean of the first {some}", statistics.mean(later[:some]))
    results.add(f"{name}: seconds of the catalogue before, mean of the last {some}", statistics.mean(later[-some:]))
    results.add(f"{name}: kB of the last block of each hospital", costs[-1].block_bytes / 1e3)


def measure(rows: int, checkpoints: int) -> list[Cost]:
    """All checkpoints of one stream.

    Args:
        rows: new ones at each checkpoint.
        checkpoints: T.
    """
    held = dict.fromkeys(NAMES, EACH)
    terms = (
        f'mechanism = "stream"\nof = "moments"\ncheckpoints = {checkpoints}\nmost_rows = {rows * checkpoints}\n'
        f"grid_bits = {GRID_BITS}"
    )
    with consortium(rows, held, poll_seconds=0.25, growing=True) as made:
        costs: list[Cost] = []
        first = ""
        for number in range(1, checkpoints + 1):
            catalogue = _grow(made, rows, number) if first else 0.0
            started = time.monotonic()
            release = _next(made, first) if first else propose(made, "stream", terms, held)
            first = first or release
            wait_until_approved(made, release, PATIENCE)
            approved = time.monotonic() - started
            wait_until_published(made, release, PATIENCE)
            seconds = time.monotonic() - started
            blocks = [path.stat().st_size for path in (made.hub / "storage" / "published" / release).rglob("*.block")]
            costs.append(Cost(number, seconds, approved, catalogue, max(blocks)))
            print(f"{number}: {seconds:.2f} s ({approved:.2f} to approval), catalogue {catalogue:.2f} s", flush=True)
        return costs


def _grow(made: Consortium, rows: int, number: int) -> float:
    """Let all tables have one batch more, and the office know of it; seconds until every hospital has its catalogue."""
    for name in NAMES:
        grow(made.hospital(name), name, rows, EACH, number)
    started = time.monotonic()
    wait_for(lambda: all(_catalogue(made, name) == number for name in NAMES), PATIENCE, "every catalogue")
    ended = time.monotonic()

    def heard() -> bool:
        listed = json.loads(made.run("coordinator", "party", "list", "--json", home=made.office))
        return all(number in party["batches"] for party in listed)

    wait_for(heard, PATIENCE, "the office to hear of all new rows")
    return ended - started


def _catalogue(made: Consortium, name: str) -> int:
    """The last batch of a hospital's catalogue."""
    data = (made.hospital(name) / "state" / "catalogue.json").read_bytes()
    return Catalogue.from_bytes(data).batches[-1].number


def _next(made: Consortium, stream: str) -> str:
    return str(json.loads(made.run("coordinator", "release", "next", stream, "--json", home=made.office))["digest"])


def _smooth(seconds: list[float]) -> list[float]:
    width = min(NEIGHBOURS, len(seconds))
    return [statistics.median(seconds[start : start + width]) for start in range(len(seconds) - width + 1)]


def _plot(costs: list[Cost]) -> None:
    figure, axis = subplots(1, 1, (7, 3.6))
    numbers = [cost.number for cost in costs]
    axis.plot(numbers, [cost.seconds for cost in costs], label="from the command to publication")
    axis.plot(numbers, [cost.approval_seconds for cost in costs], label="of these, up to the last approval")
    axis.plot(numbers[1:], [cost.catalogue_seconds for cost in costs[1:]], label="catalogue, before")
    axis.set(xlabel="checkpoint", ylabel="seconds", ylim=(0, None))
    axis.grid(alpha=0.3)
    axis.legend()
    figure.savefig(RESULTS / "streams.png", dpi=110)


if __name__ == "__main__":
    main("streams", run)
