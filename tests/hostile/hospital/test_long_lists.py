"""A coordinator that lists releases which are short to send and long to read: the daemon goes on, and needs little memory."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product

from dprelease.wire.limits import LONG_BYTES
from dprelease.wire.v1 import release_pb2
from tests.party_node.test_daemon import until
from tests.party_node.world import Hospital, World
from tests.support.bombs import KINDS, bomb
from tests.support.measured import forget_peak, measured

MOST_MORE_MIB = 100
ROUNDS = 2
"""Lists that the daemon reads with the same release in them."""


@contextmanager
def running(hospital: Hospital) -> Iterator[int]:
    """The hospital's daemon as a process of its own; its number."""
    line = [sys.executable, "-m", "party_node", "run", "--config", str(hospital.config)]
    process = subprocess.Popen(line, stderr=subprocess.DEVNULL)
    try:
        yield process.pid
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def listed(world: World) -> None:
    """Wait until the daemon has looked at the list a few times."""
    before = len(world.coordinator.heard("ListReleases"))
    until(lambda: len(world.coordinator.heard("ListReleases")) > before + ROUNDS)


def test_a_listed_release_that_is_long_to_read_costs_little_memory(world: World) -> None:
    world.coordinator.news = None  # so that the daemon asks again and again
    with running(world.north) as process:
        listed(world)
        before = measured(process, "VmRSS")
        forget_peak(process)
        for kind, size in product(KINDS, (LONG_BYTES - 4096, 1 << 20)):
            world.coordinator.records["bomb"] = release_pb2.AgreementRecord(
                proposal=bomb(kind, size), state=release_pb2.RELEASE_STATE_PROPOSED
            )
            listed(world)
        assert measured(process, "VmHWM") - before < MOST_MORE_MIB << 10
        del world.coordinator.records["bomb"]
        release = world.propose()
        until(lambda: world.coordinator.heard("Approve") != [])
        world.south_approves(release)
        until(lambda: world.north.status(release) == "delivered")
