"""Every fault that a test tries, as one table: `python -m tests.hostile.table` writes docs/faults.md."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

from tests.coordinator import test_alignment
from tests.dprelease.intersection import test_ring_pass
from tests.dprelease.mpc import test_groups, test_proofs
from tests.end_to_end.test_crashes import COORDINATOR, HUB, PARTY
from tests.hostile.faults import Fault
from tests.hostile.hospital import (
    test_hostile_data,
    test_hostile_database,
    test_hostile_hub,
    test_hostile_relay,
    test_joining,
    test_lying_specs,
    test_lying_states,
)
from tests.hostile.hub import test_block_stream, test_callers, test_lying_publishers, test_parcels
from tests.hostile.office import test_callers as test_office_callers
from tests.hostile.office import test_forgotten, test_requests
from tests.hostile.servers import (
    test_floods,
    test_garbage,
    test_handshakes,
    test_health,
    test_large,
    test_log,
    test_silence,
    test_silent_calls,
    test_slow_readers,
    test_start,
    test_stopping,
)
from tests.hostile.servers.attacks import attacks_of
from tests.hostile.servers.limits import EXHAUSTION
from tests.learner import test_relay_aligning
from tests.party_node import test_aligning, test_undecided

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"

PROOFS = "Range proofs"

SECTIONS: tuple[tuple[str, tuple[Fault, ...]], ...] = (
    ("Joining, and who calls", (*test_joining.FAULTS, *test_office_callers.FAULTS, *test_callers.FAULTS)),
    ("Proposals", (*test_requests.FAULTS, *test_lying_specs.FAULTS, *test_undecided.FAULTS)),
    ("Approvals and states", (*test_lying_states.FAULTS, *test_forgotten.FAULTS)),
    ("Data at a hospital", (*test_hostile_data.FAULTS, *test_hostile_database.FAULTS)),
    ("Blocks on their way", (*test_block_stream.FAULTS, *test_hostile_hub.FAULTS)),
    ("Parcels between hospitals", (*test_parcels.FAULTS, *test_hostile_relay.FAULTS)),
    (PROOFS, (*test_proofs.FAULTS, *test_groups.FAULTS)),
    ("Publication", tuple(test_lying_publishers.FAULTS)),
    ("Aligning", (*test_alignment.FAULTS, *test_aligning.FAULTS, *test_relay_aligning.FAULTS, *test_ring_pass.FAULTS)),
)
CRASHES: Mapping[str, Mapping[str, str]] = {"hospital": PARTY, "hub": HUB, "coordinator": COORDINATOR}

SERVERS = (
    test_handshakes,
    test_health,
    test_silence,
    test_silent_calls,
    test_slow_readers,
    test_floods,
    test_garbage,
    test_large,
    test_log,
    test_start,
    test_stopping,
)

_HEAD = """# Faults

The page lists attacks, faults and crashes. Every row has a test (`tests/hostile`, those of aligning, of waiting proposals and of
range proofs, `tests/end_to_end/test_crashes.py`). The test also checks the last column: what stays, or that honest work
goes on afterwards. The command `python -m tests.hostile.table` writes this page from those tests' own data.

*Error* is the class, and the exit code of the command that ends with it. *The other side is told* what crosses the
boundary: a status with its constant sentence, or nothing. In every row, nothing is published that was not sealed and
approved by all, and no block and no masked column is sent that was not charged first.
"""
_REFUSED = """**A hospital declined because proofs failed in three rounds.** No block was made, and nothing is published.
The release is over, and what it charged stays charged. An altered hospital, an altered dealer, and a fault of memory or
disk look alike. The hospital that declined may itself be at fault. So a refusal accuses nobody, and people do this:

1. Each hospital compares its version, `party-node --version`, with the others and with the package that it installed.
2. Each hospital looks in its system's log for faults of memory and disks, and in its node's log for other refusals.
3. The office proposes the release again. A fault that came once does not come again. Each new proposal is a new charge.
4. If it fails again, the office proposes it with `dealer = "coordinator"`, and then with fewer hospitals. One without which it
   succeeds is looked at first. That is a reason to look, and no evidence.
5. An auditor on site compares that hospital's table with the commitment in its approval.

**A hospital waits for a round that others do not join.** One of these has made its block, and makes no second one. A hospital
and the hub can bring this about together: they show others two versions of `checked`, one of which is refused. That costs the
release and its charge, as silence would. It shows nobody a cell. An altered hospital has no part in the sum about its own
columns, and honest ones sign each part once. So all see the same result about its columns, and its two versions are about
columns of the others. A further message of agreement could have two versions as well. The office cancels the release and
proposes it again.

Without proofs, by `range_proofs = false`, a release is for hospitals that rely on the software of one another: an altered
one then reads cells of the others.
"""
_SERVERS = """## Servers

Attacks on the four listeners (hub: public and for hospitals; coordinator: for hospitals and the hub, and enrolment) of
processes that run, from other addresses of the same machine. In every row everybody else is served meanwhile and afterwards.
"""
_EXHAUSTION = """
The table says what it takes to use something up, with the usual limits. A peer is a certificate or, without one, a network address
(IPv6: a /64 network). The limits of calls and streams are `[limits]` in `hub.toml` and `coordinator.toml`.
"""
_CRASHED = """## Killed with SIGKILL

Each role is killed at each point, and started again.
"""


def page() -> str:
    """The whole of docs/faults.md."""
    return "\n".join([_HEAD, *_sections(), *_servers(), _CRASHED, *_crashes()]) + "\n"


def _sections() -> Iterator[str]:
    for title, faults in SECTIONS:
        yield f"## {title}\n"
        rows = ((f.what, f.attacked, _error(f), f.told, f.unchanged) for f in _named_whole(faults))
        yield _table(("fault", "who is attacked", "error", "the other side is told", "what stays"), rows) + "\n"
        if title == PROOFS:
            yield _REFUSED


def _servers() -> Iterator[str]:
    tried = [attack for module in SERVERS for attack in attacks_of(module)]
    yield _SERVERS
    yield _table(("attack", "listeners", "what comes of it"), ((each.what, each.doors, each.outcome) for each in tried))
    yield _EXHAUSTION
    yield _table(("what", "one peer", "all is used up by", "for how long"), EXHAUSTION) + "\n"


def _named_whole(faults: Iterable[Fault]) -> list[Fault]:
    listed = list(faults)
    names = [fault.what for fault in listed]
    doubled = [name for name, same in groupby(sorted(names)) if len(list(same)) > 1]
    assert doubled == [], doubled
    return listed


def _error(fault: Fault) -> str:
    return "-" if fault.error is None else f"`{fault.error.__name__}` ({fault.exit_code})"


def _crashes() -> Iterator[str]:
    rows = ((point, role, "exactly one release, the bytes sealed first") for role in CRASHES for point in CRASHES[role])
    yield _table(("killed", "who", "afterwards"), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
