"""How long a release takes from the last approval to publication, and how much of that is work.

The same release is made twice, by the same consortium of real processes on loopback. First as it is in life: the
hospitals' daemons decide by policy and find out by themselves what there is to do. Then without any waiting: the daemons
are stopped, and this process takes their steps one after another, round by round, as `Daemon.cycle` takes them. Work is the
sum over those rounds of what a round takes at least where it runs: as long as its slowest hospital, and no less than
everybody's seconds shared out over the processors. What the hub needs from the last block to publication is work too.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from benchmarks._hospitals import PATIENCE, propose
from demo.consortium import Consortium, wait_for
from dprelease.files.settings import read_settings
from dprelease.privacy.noise import SecureNoise
from party_node.daemon import Daemon
from party_node.hospital import HospitalState
from party_node.outgoing.calls import Coordinator
from party_node.settings import PartySettings
from party_node.state.journal import Status

NAMES = ("north", "south", "west")
EACH = 10
"""Columns of each hospital."""


@dataclass(frozen=True)
class ReleaseTime:
    """What one release took.

    Attributes:
        seconds: from the last approval to publication, as the coordinator's log dates both.
        work: seconds of the same release without any waiting.
    """

    seconds: float
    work: float

    @property
    def ratio(self) -> float:
        """Seconds over work."""
        return self.seconds / self.work


def measure(consortium: Consortium, releases: int) -> list[ReleaseTime]:
    """Releases of joint moments of three hospitals, one after another, each beside its work.

    Args:
        consortium: its hospitals run.
        releases: how many.
    """
    found = []
    for number in range(releases):
        seconds = _in_life(consortium, 2 * number)
        for name in NAMES:
            consortium.halt(name)
        found.append(ReleaseTime(seconds, _driven(consortium, 2 * number + 1)))
        for name in NAMES:
            consortium.restart(name)
    return found


def _in_life(consortium: Consortium, number: int) -> float:
    """Seconds of one release that nobody drives."""
    release = _propose(consortium, number)
    published = _publication(consortium, release)
    return (published - max(_dated(consortium, release, "approved"))).total_seconds()


def _driven(consortium: Consortium, number: int) -> float:
    """Seconds of work of one release."""
    with ExitStack() as opened:
        hospitals = [opened.enter_context(_hospital(consortium, name)) for name in NAMES]
        release = _propose(consortium, number)
        _round(hospitals)  # decides; what follows the last approval counts
        work = 0.0
        while any(desk.journal.find(release).status != Status.DELIVERED for desk, _, _ in hospitals):
            spent = _round(hospitals)
            work += max(max(spent), sum(spent) / min(len(spent), os.cpu_count() or 1))
        delivered = datetime.now(UTC)
        return work + max(0.0, (_publication(consortium, release) - delivered).total_seconds())


@contextmanager
def _hospital(consortium: Consortium, name: str) -> Iterator[tuple[HospitalState, Daemon, Coordinator]]:
    desk = HospitalState(read_settings(consortium.hospital(name) / "party.toml", PartySettings))
    with Coordinator.dial(desk.enrolment.coordinator, desk.identity.credentials()) as coordinator:
        yield desk, Daemon(desk, SecureNoise()), coordinator


def _round(hospitals: Sequence[tuple[HospitalState, Daemon, Coordinator]]) -> list[float]:
    spent = []
    for _, daemon, coordinator in hospitals:
        started = time.monotonic()
        daemon.cycle(coordinator)
        spent.append(time.monotonic() - started)
    return spent


def _propose(consortium: Consortium, number: int) -> str:
    return propose(consortium, f"time {number}", 'mechanism = "moments"', dict.fromkeys(NAMES, EACH), first=number)


def _publication(consortium: Consortium, release: str) -> datetime:
    """When a release was published, as soon as it is."""
    wait_for(lambda: bool(_dated(consortium, release, "published")), PATIENCE, "publication")
    return _dated(consortium, release, "published")[0]


def _dated(consortium: Consortium, release: str, word: str) -> list[datetime]:
    """When lines with a word were written about a release into the coordinator's log."""
    lines = re.findall(
        rf"^(\S+) .*release {release[:12]}: .*\b{word}\b", consortium.log("coordinator").read_text(), re.M
    )
    return [datetime.fromisoformat(line) for line in lines]
