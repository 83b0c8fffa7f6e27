"""How long a release takes from the last approval to publication, and how much of that is work.

The same release is made twice, by the same consortium of real processes on loopback. First as it is in life: the
hospitals' daemons decide by policy and find out by themselves what there is to do. Then without any waiting: the daemons
are stopped, and this process takes their steps one after another, round by round, as `Daemon.cycle` takes them. Work is the
sum over those rounds of what a round takes at least where it runs: as long as its slowest hospital, and no less than
everybody's seconds shared out over the processors. What the hub needs from the last block to publication is work too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from benchmarks.common.hospitals import PATIENCE, propose
from benchmarks.common.progress import wait_until_approved, wait_until_published
from demo.consortium import Consortium
from dprelease.files.settings import read_settings
from dprelease.privacy.noise import SecureNoise
from party_node.daemon import Daemon
from party_node.hospital import HospitalState
from party_node.outgoing.office import Coordinator
from party_node.settings import PartySettings
from party_node.state.journal import Status

NAMES = ("north", "south", "west")
EACH = 10
"""Columns of each hospital."""


@dataclass(frozen=True)
class ReleaseTime:
    """What one release took.

    Attributes:
        seconds: from the last approval to publication, as the office knows of both.
        work: seconds of the same release without any waiting.
    """

    seconds: float
    work: float

    @property
    def ratio(self) -> float:
        """Seconds over work."""
        return self.seconds / self.work


def measure(consortium: Consortium, terms: str, releases: int, first: int = 0) -> list[ReleaseTime]:
    """Releases of three hospitals, one after another, each beside its work.

    Args:
        consortium: its hospitals run.
        terms: lines of the request that name the mechanism.
        releases: how many.
        first: number of the first of the twice as many releases that are made.
    """
    found = []
    for number in range(first, first + 2 * releases, 2):
        seconds = _in_life(consortium, terms, number)
        for name in NAMES:
            consortium.halt(name)
        found.append(ReleaseTime(seconds, _driven(consortium, terms, number + 1)))
        for name in NAMES:
            consortium.restart(name)
    return found


def _in_life(consortium: Consortium, terms: str, number: int) -> float:
    """Seconds of one release that nobody drives."""
    release = _propose(consortium, terms, number)
    wait_until_approved(consortium, release, PATIENCE)
    approved = time.monotonic()
    wait_until_published(consortium, release, PATIENCE)
    return time.monotonic() - approved


def _driven(consortium: Consortium, terms: str, number: int) -> float:
    """Seconds of work of one release."""
    with ExitStack() as opened:
        hospitals = [opened.enter_context(_hospital(consortium, name)) for name in NAMES]
        release = _propose(consortium, terms, number)
        _round(hospitals)  # decides; what follows the last approval counts
        work = 0.0
        while any(
            hospital_state.journal.find(release).status != Status.DELIVERED for hospital_state, _, _ in hospitals
        ):
            spent = _round(hospitals)
            work += max(max(spent), sum(spent) / min(len(spent), os.cpu_count() or 1))
        delivered = time.monotonic()
        wait_until_published(consortium, release, PATIENCE)
        return work + time.monotonic() - delivered


@contextmanager
def _hospital(consortium: Consortium, name: str) -> Iterator[tuple[HospitalState, Daemon, Coordinator]]:
    hospital_state = HospitalState(read_settings(consortium.hospital(name) / "party.toml", PartySettings))
    with Coordinator.dial(hospital_state.enrolment.coordinator, hospital_state.identity.credentials()) as coordinator:
        yield hospital_state, Daemon(hospital_state, SecureNoise()), coordinator


def _round(hospitals: Sequence[tuple[HospitalState, Daemon, Coordinator]]) -> list[float]:
    spent = []
    for _, daemon, coordinator in hospitals:
        started = time.monotonic()
        daemon.cycle(coordinator)
        spent.append(time.monotonic() - started)
    return spent


def _propose(consortium: Consortium, terms: str, number: int) -> str:
    return propose(consortium, f"time {number}", terms, dict.fromkeys(NAMES, EACH), first=number)
