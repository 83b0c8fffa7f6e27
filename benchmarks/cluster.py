"""Mixing on a cluster of dask.distributed: two workers beside one, and beside this process alone.

Workers are processes of this machine, each with one thread, behind loopback. Time runs from the first piece that is sent to the
last product that is here, so it counts the way of codes and products. This process needs a part of the same cores.
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from distributed import LocalCluster

from benchmarks.common.report import Results, main
from dprelease.arrays import Codes, Integers, pieces
from dprelease.mechanisms.noisy_rows.mixing import BernoulliMixing
from dprelease.privacy.public_stream import PublicStream
from party_node.cluster.engine import Cluster
from party_node.settings import ClusterSettings

REPEATS = 3


def run(quick: bool) -> Results:
    """Seconds of mixing a million rows of 50 columns into 4,000 on one worker and on two; a fifth of the work when quick."""
    results = Results()
    rows, columns, outputs = (400_000, 50, 2000) if quick else (1_000_000, 50, 4000)
    name = f"n = {rows:,}, {columns} columns, k = {outputs:,}"
    codes = np.random.default_rng(1).integers(-(1 << 16), 1 << 16, (rows, columns)).astype(np.int32)
    mixing = BernoulliMixing(PublicStream(bytes(32)), outputs, rows)
    local, seconds = _timed(lambda: mixing.apply(pieces(codes)))
    results.add(f"{name}: seconds of this process alone", seconds)
    taken = []
    for workers in (1, 2):
        with LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
        ) as made:
            cluster = Cluster(ClusterSettings(address=made.scheduler_address))
            found, seconds = _timed(partial(_mixed, mixing, codes, cluster))
            cluster.close()
        taken.append(seconds)
        results.add(f"{name}: seconds, workers {workers}", seconds)
        results.add(f"{name}: numbers that differ, workers {workers}", float((found != local).sum()), 0.0)
    results.add(f"{name}: two workers: times as fast as one", taken[0] / taken[1], None if quick else 1.6, ">=")
    return results


def _mixed(mixing: BernoulliMixing, codes: Codes, cluster: Cluster) -> Integers:
    return mixing.apply(pieces(codes), cluster.map)


def _timed(step: Callable[[], Integers]) -> tuple[Integers, float]:
    """The result, and the median seconds after one turn in which workers compile."""
    found, spent = step(), []
    for _ in range(REPEATS):
        started = time.monotonic()
        step()
        spent.append(time.monotonic() - started)
    return found, statistics.median(spent)


if __name__ == "__main__":
    main("cluster", run)
