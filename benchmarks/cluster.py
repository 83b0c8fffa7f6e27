"""Mixing, a session's products and a learner's sums on a cluster of dask.distributed: two workers beside one, and beside none.

Workers are processes of this machine, each with one thread, behind loopback. Time runs from the first piece that is sent to the
last product that is here, so it counts the way of rows and products. This process needs a part of the same cores.
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
from distributed import Client, LocalCluster

from benchmarks.common.report import Results, main
from dprelease.arrays import FileRows, Floats, Integers, PieceMap, one_by_one, pieces
from dprelease.estimators.normal_equations import RegressionRows
from dprelease.mechanisms.noisy_rows.mixing import BernoulliMixing
from dprelease.mechanisms.noisy_rows.released import BlockRows
from dprelease.mpc.exchange import masked, share
from dprelease.mpc.modulus import FIELD
from dprelease.mpc.ring import Words
from dprelease.mpc.schedule import CorrelatedRandomness, Schedule
from dprelease.privacy.public_stream import PublicStream
from party_node.cluster.engine import Cluster
from party_node.settings import ClusterSettings

REPEATS = 3
WIDTHS = (30, 100, 300)
ROWS_BY_COLUMNS = 12_000_000
"""Cells of a hospital in a session: chunks are as many for any width, and their products are not."""


def run(quick: bool) -> Results:
    """Seconds of mixing, multiplying and summing here, on one worker and on two; a fifth of the work when quick."""
    results = Results()
    with TemporaryDirectory() as folder:
        measure([_mixing(quick), *(session(width, quick) for width in WIDTHS), learner(quick, Path(folder))], results)
    return results


def measure(tasks: list[Task], results: Results) -> None:
    """Add the figures of tasks; a cluster serves all of them."""
    here, there = [_timed(partial(task.step, None)) for task in tasks], []
    for task, (_, spent) in zip(tasks, here, strict=True):
        results.add(f"{task.name}: seconds of this process alone", spent.seconds)
        results.add(f"{task.name}: its processor seconds", spent.processor)
    for workers in (1, 2):
        with LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
        ) as made:
            there.append([_timed(partial(task.step, made.scheduler_address)) for task in tasks])
        for task, (local, _), (found, spent) in zip(tasks, here, there[-1], strict=True):
            results.add(f"{task.name}: seconds, workers {workers}", spent.seconds)
            differ = (found != local) if task.exact else ~np.isclose(found, local, rtol=1e-9)
            results.add(f"{task.name}: numbers that differ, workers {workers}", float(differ.sum()), 0.0)
    for task, (_, one), (_, two) in zip(tasks, *there, strict=True):
        results.add(f"{task.name}: processor seconds of client and scheduler, workers 2", two.processor)
        results.add(f"{task.name}: two workers: times as fast as one", one.seconds / two.seconds, task.reach, ">=")


@dataclass(frozen=True)
class Task:
    """Something to do here, or on the cluster of a scheduler.

    Attributes:
        name: of its figures.
        step: given the scheduler's address, or None for this process alone.
        exact: whether results are equal to the bit, rather than but for rounding.
        reach: how many times as fast two workers are to be as one.
    """

    name: str
    step: Callable[[str | None], npt.NDArray[Any]]
    exact: bool = True
    reach: float | None = None


def _mixing(quick: bool) -> Task:
    rows, columns, outputs = (400_000, 50, 2000) if quick else (1_000_000, 50, 4000)
    codes = np.random.default_rng(1).integers(-(1 << 16), 1 << 16, (rows, columns)).astype(np.int32)
    mixing = BernoulliMixing(PublicStream(bytes(32)), outputs, rows)

    def step(address: str | None) -> Integers:
        with _engine(address) as map_pieces:
            return mixing.apply(pieces(codes), map_pieces)

    return Task(f"n = {rows:,}, {columns} columns, k = {outputs:,}", step, reach=None if quick else 1.6)


def session(columns: int, quick: bool) -> Task:
    """Both halves of a pair's product, of masked columns that are here."""
    rows = ROWS_BY_COLUMNS // columns // (5 if quick else 1)
    schedule = Schedule("5e" * 32, {"a": columns, "b": columns}, rows, 16, 0, False, FIELD)
    codes = np.random.default_rng(1).integers(-(1 << 16), 1 << 16, (rows, columns)).astype(np.int32)
    shown, (pair,) = list(masked(codes, bytes(32), schedule)), schedule.pairs
    dealt = CorrelatedRandomness("", bytes(32), b"", {pair: np.zeros((columns, columns), np.uint64)}, ())

    def step(address: str | None) -> Words:
        with _engine(address) as run:
            return np.vstack([share(pair, party, codes, dealt, shown, schedule, run) for party in ("a", "b")])

    return Task(f"session, n = {rows:,}, two hospitals of {columns} columns", step)


def learner(quick: bool, folder: Path) -> Task:
    """Sums over rows whose integers lie in a file."""
    rows, columns = (20_000, 500) if quick else (40_000, 1200)
    path, random = folder / "rows.block", np.random.default_rng(1)
    with path.open("wb") as written:
        for start in range(0, rows, 10_000):
            random.integers(-(1 << 20), 1 << 20, (min(10_000, rows - start), columns)).tofile(written)
    block = FileRows(path, 0, (rows, columns), "<i8")
    table = BlockRows((block,), np.ones(rows), np.ones(columns), 2.0**-16, np.arange(columns))

    def step(address: str | None) -> Floats:
        x, y = table.some(range(columns - 1)), table.some([columns - 1])
        sums = RegressionRows(np.ones(rows), x, y, np.ones(columns - 1), np.ones(1), rows, False, False)
        if address is None:
            return sums.products(intercept=True).xx
        with Client(address):
            return replace(sums, engine="dask").products(intercept=True).xx

    return Task(f"learner, {rows:,} rows of {columns:,} columns into one Gram matrix", step, exact=False)


@contextmanager
def _engine(address: str | None) -> Iterator[PieceMap]:
    if address is None:
        yield one_by_one
        return
    cluster = Cluster(ClusterSettings(address=address))
    yield cluster.map
    cluster.close()


@dataclass(frozen=True)
class _Spent:
    """Time of a step: on the clock, and of the processors in this process, where the scheduler is too."""

    seconds: float
    processor: float


def _timed(step: Callable[[], npt.NDArray[Any]]) -> tuple[npt.NDArray[Any], _Spent]:
    """The result, and medians after one turn in which workers compile."""
    found, seconds, processor = step(), [], []
    for _ in range(REPEATS):
        started, used = time.monotonic(), time.process_time()
        step()
        seconds.append(time.monotonic() - started)
        processor.append(time.process_time() - used)
    return found, _Spent(statistics.median(seconds), statistics.median(processor))


if __name__ == "__main__":
    main("cluster", run)
