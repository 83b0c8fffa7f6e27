"""A daemon is small, and small again after each release, whatever pieces its memory was freed in."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dprelease.release.spec import ReleaseSpec
from party_node.hospital import HospitalState
from tests.party_node.test_daemon import until
from tests.party_node.world import World
from tests.support.measured import measured

C = ctypes.CDLL(None)
KIB, MIB = 1 << 10, 1 << 20
RELEASES, FREED = 4, 32 * MIB
MOST_IDLE_MIB = 150
"""Resident memory of a daemon that has read its table and sent a release: 142 MiB, and 171 with pandas, 14 more with scipy."""

pytestmark = pytest.mark.skipif(not hasattr(C, "malloc_trim"), reason="the C library is not glibc")


def held() -> int:
    """Bytes of this process's own memory that the machine has to provide."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon")]
    return int(line.split()[1]) * KIB


def freed_in_pieces(size: int) -> None:
    """Write to `FREED` bytes and free them but for what lies between pieces, none of which a larger one fits into."""
    C.malloc.restype = C.realloc.restype = ctypes.c_void_p
    places = [C.malloc(ctypes.c_size_t(size)) for _ in range(FREED // size)]
    for place in places:
        ctypes.memset(place, 1, size)
    for place in places:
        C.realloc(ctypes.c_void_p(place), ctypes.c_size_t(32))


def test_what_releases_free_does_not_add_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assess, seen = HospitalState.assess, []

    def assessed(self: HospitalState, spec: ReleaseSpec) -> Any:
        seen.append(spec)
        freed_in_pieces((16 + 8 * len(seen)) * KIB)
        return assess(self, spec)

    world.north.cycle()
    monkeypatch.setattr(HospitalState, "assess", assessed)
    before = held()
    for number in range(RELEASES):
        world.propose(title=f"release {number}")
        world.north.cycle()
    assert len(seen) >= RELEASES
    assert held() - before < len(seen) * FREED / 4


def test_a_daemon_that_waits_after_a_release_is_small(world: World) -> None:
    compiled = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-m", "party_node", "run", "--help"], env=compiled, check=True, capture_output=True)
    line = [sys.executable, "-m", "party_node", "run", "--config", str(world.north.config)]
    with subprocess.Popen(line, env=compiled, stderr=subprocess.DEVNULL) as daemon:
        try:
            release = world.propose()
            until(lambda: world.coordinator.heard("Approve") != [])
            world.south_approves(release)
            until(lambda: world.north.status(release) == "delivered")
            assert measured(daemon.pid, "VmRSS") < MOST_IDLE_MIB * KIB
        finally:
            daemon.kill()


STREAMS = """
import ctypes, threading
from pathlib import Path
from dprelease.threads import give_back, share_arena

C, MIB = ctypes.CDLL(None), 1 << 20
C.malloc.restype, C.free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
{}

def held():
    return 1024 * int(Path("/proc/self/status").read_text().partition("RssAnon:")[2].split()[0])

def stream():
    places = [C.malloc(ctypes.c_size_t(MIB)) for _ in range(3)]
    for place in places:
        ctypes.memset(place, 1, MIB)
    together.wait()
    for place in places:
        C.free(place)
    together.wait()

C.free(C.malloc(ctypes.c_size_t(8 * MIB)))  # from now on 1 MiB comes from an arena
together = threading.Barrier(9)
before = held()
threads = [threading.Thread(target=stream) for _ in range(8)]
for thread in threads:
    thread.start()
together.wait()
together.wait()
for thread in threads:
    thread.join()
give_back()
print(held() - before)
"""


def test_what_threads_free_at_the_end_of_their_arenas_is_given_back_too() -> None:
    """glibc has at least eight arenas and trims the end of the first one only: without sharing it, 20 MiB are kept as a rule."""
    script = STREAMS.format("share_arena()")
    kept = int(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout)
    assert kept < 4 * MIB
