"""Two hospitals whose patients overlap in part, and alignment runs of theirs."""

import hashlib
import hmac
from datetime import UTC, datetime, timedelta

from click.testing import Result

from dprelease.canonical import read_data
from dprelease.intersection.ring import Ring
from dprelease.intersection.task import Task
from dprelease.spec_base import instant
from tests.party_node.world import ALIGNMENT_KEY, ROWS, Hospital, World

SHARED = 32
"""Of each hospital's patients; the north has 40, the south 36."""


def overlap(world: World) -> World:
    """Leave the first 32 patients to both; the north has 8 of its own, the south 4."""
    lines = {name: getattr(world, name).source.read_text().splitlines() for name in ("north", "south")}
    kept = [line for line in lines["south"][1:] if _number(line) < SHARED + 4]
    renamed = [line.replace("subject-", "other-") if _number(line) >= SHARED else line for line in kept]
    world.south.source.write_text("\n".join([lines["south"][0], *renamed]) + "\n")
    world.south.hospital_state().make_catalogue()
    return world


def _number(line: str) -> int:
    return int(line.partition(",")[0].partition("-")[2])


def common(count: int = SHARED) -> bytes:
    """Pseudonyms of the patients that both have, rising."""
    texts = [f"subject-{number:04}" for number in range(count)]
    return b"".join(sorted(hmac.digest(ALIGNMENT_KEY, b"subject\0" + text.encode(), hashlib.sha256) for text in texts))


def task(world: World, **changes: object) -> Task:
    """An honest run over both tables; `changes` replace fields."""
    now = datetime.now(UTC)
    sizes = {"north": ROWS, "south": world.south.hospital_state().catalogue().patients}
    fields: dict[str, object] = {
        "consortium": world.authority.consortium,
        "roster": "cohort",
        "members": [
            {"party": name, "key": world.members[name].fingerprint, "patients": size} for name, size in sizes.items()
        ],
        "nonce": hashlib.sha256(str(len(world.alignments.records)).encode()).hexdigest(),
        "created": instant(now),
        "expires": instant(now + timedelta(hours=1)),
    }
    return read_data(Task, fields | changes, "the run")


def propose(world: World, **changes: object) -> str:
    """Offer `task` to the hospitals; its digest."""
    made = task(world, **changes)
    world.relay.rings[made.digest()] = Ring.of(made)
    return world.alignments.propose(made)


def accepted(world: World, **changes: object) -> str:
    """A run that a person at each hospital accepted, and that both signed."""
    run = propose(world, **changes)
    for hospital in (world.north, world.south):
        hospital.cycle()
        done = hospital.run("review", "approve", run[:12], "--yes")
        assert done.exit_code == 0, done.output
        hospital.cycle()
    return run


def go(world: World, run: str, cycles: int = 12) -> None:
    """Daemons, in turn, until the run is over at both."""
    with world.north.running() as north, world.south.running() as south:
        for _ in range(cycles):
            north()
            south()
            if {status(world.north, run), status(world.south, run)} <= {"in force", "declined", "ended"}:
                return
    raise AssertionError([hospital.hospital_state().journal.find(run).note for hospital in (world.north, world.south)])


def status(hospital: Hospital, run: str) -> str:
    """Where a run stands here; empty if it was never offered."""
    entry = hospital.books.journal.get(run)
    return "" if entry is None else entry.status.value


def noted(hospital: Hospital) -> list[tuple[str, str]]:
    """What the ledger says of alignment runs: run and price."""
    ledger = hospital.books.ledger
    assert ledger.verify()
    prices = [entry.mu2 for entry in ledger.entries() if entry.kind == "align"]
    return list(zip(ledger.alignments("cohort"), prices, strict=True))


def words_of(result: Result) -> str:
    """What a command said, without the breaks of lines."""
    return " ".join((result.output).split())
