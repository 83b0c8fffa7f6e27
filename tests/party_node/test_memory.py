"""A daemon is small again after each release, whatever pieces its memory was freed in."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

from dprelease.release.spec import ReleaseSpec
from party_node.hospital import HospitalState
from tests.party_node.world import World

C = ctypes.CDLL(None)
KIB, MIB = 1 << 10, 1 << 20
RELEASES, FREED = 4, 32 * MIB

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
