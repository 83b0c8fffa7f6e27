"""What an alignment run costs one hospital: seconds with two cores to itself, processor seconds, bytes; beside openmined-psi.

Hospitals take turns in one process, each with all cores while it works, and bodies stay in memory. So the time of one hospital is
the time of a run between hospitals that work at once, without what the network takes.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import numpy as np

from benchmarks.common.report import Results, main
from benchmarks.intersection.in_memory import intersect
from dprelease.identity.signing import new_private_key
from dprelease.intersection.curve import cores
from dprelease.intersection.key_value_store import decode, encode, rows_of
from dprelease.intersection.ring import Ring

SHARE = 0.8
"""Of each hospital's patients so many are everywhere."""


def cost(patients: int, parties: int) -> tuple[float, float]:
    """Seconds, and processor seconds with those of its worker processes, of the slowest hospital in a run.

    Args:
        patients: of each hospital.
        parties: m.
    """
    generator = np.random.default_rng(1)
    common = generator.integers(0, 256, (int(SHARE * patients), 32), np.uint8)
    names = [f"hospital{number}" for number in range(parties)]
    elements = {
        name: np.concatenate([common, generator.integers(0, 256, (patients - len(common), 32), np.uint8)])
        for name in names
    }
    seconds, processor = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)

    @contextmanager
    def step(party: str) -> Iterator[None]:
        started, used = time.perf_counter(), _processor_seconds()
        yield
        seconds[party] += time.perf_counter() - started
        processor[party] += _processor_seconds() - used

    ring = Ring("5e" * 32, dict.fromkeys(names, patients))
    found = intersect(ring, elements, {name: new_private_key() for name in names}, step=step)
    assert all(len(each.positions) == len(common) for each in found.values())  # noqa: S101 - else there is nothing to time
    return max(seconds.values()), max(processor.values())


def run(quick: bool) -> Results:
    """One hospital's seconds in runs of two, three and five; the table alone; the same of openmined-psi."""
    results, large, small = Results(), 20_000 if quick else 1_000_000, 2_000 if quick else 20_000
    results.add("cores", cores())
    seconds, processor = cost(large, 2)
    results.add(f"two hospitals, n = {large:,} each: seconds of one of them", seconds, None if quick else 100.0)
    results.add(f"two hospitals, n = {large:,} each: processor seconds of one of them", processor)
    results.add(f"two hospitals, n = {large:,} each: processor microseconds a patient", processor / large * 1e6)
    ring = Ring("5e" * 32, {"a": large, "b": large})
    results.add(f"two hospitals, n = {large:,} each: MB sent by one of them", ring.most_bytes("a") / 1e6)
    for parties in (3, 5):
        seconds, processor = cost(small, parties)
        results.add(f"{parties} hospitals, n = {small:,} each: seconds of one of them", seconds)
        results.add(
            f"{parties} hospitals, n = {small:,} each: processor microseconds a patient", processor / small * 1e6
        )
    _table(results, large)
    if find_spec("private_set_intersection"):
        _openmined(results, small)
    return results


def _table(results: Results, count: int) -> None:
    generator = np.random.default_rng(2)
    rows = rows_of(generator.integers(0, 256, (count, 64), np.uint8), Ring("5e" * 32, {"a": count, "b": 1}).segment)
    values, filler = (generator.integers(0, 2**64, size, np.uint64) for size in (count, 3 * rows.segment + 128))
    made = []
    encoding = _seconds(lambda: made.append(encode(rows, values, filler)))
    results.add(f"table of {count:,}: processor seconds to encode", encoding)
    results.add(f"table of {count:,}: processor seconds to decode", _seconds(lambda: decode(made[0], rows)))


def _openmined(results: Results, count: int) -> None:
    """Client and server of one run, of which only the client learns the intersection; P-256, exact, both on one core."""
    import private_set_intersection.python as psi

    names = [f"patient {number}" for number in range(2 * count)]
    ours, theirs = names[:count], names[int((1 - SHARE) * count) : int((2 - SHARE) * count)]
    client, server = psi.client.CreateWithNewKey(True), psi.server.CreateWithNewKey(True)
    made: list[object] = []
    serving = _seconds(lambda: made.append(server.CreateSetupMessage(0.0, count, theirs, psi.DataStructure.RAW)))
    asking = _seconds(lambda: made.append(client.CreateRequest(ours)))
    serving += _seconds(lambda: made.append(server.ProcessRequest(made[1])))
    asking += _seconds(lambda: made.append(client.GetIntersection(made[0], made[2])))
    assert len(made[3]) == len(set(ours) & set(theirs))  # type: ignore[arg-type]  # noqa: S101
    each = f"openmined-psi, n = {count:,} each: processor microseconds a patient of the"
    results.add(f"{each} client, who learns the result", asking / count * 1e6)
    results.add(f"{each} server, who does not", serving / count * 1e6)


def _seconds(step: Callable[[], object]) -> float:
    """Processor seconds of a step in this process."""
    started = time.process_time()
    step()
    return time.process_time() - started


def _processor_seconds() -> float:
    """Of this process and of those that it has waited for."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    main("intersection", run)
