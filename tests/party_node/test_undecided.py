"""A hospital that thousands of releases were offered to works as one that knows ten, and a person's list stays short."""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from dprelease.canonical import sha256
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import instant
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1 import release_pb2
from party_node import daemon, hospital
from party_node.decision import decision
from party_node.outgoing.office import MOST_PAGES
from party_node.state import transactions
from party_node.state.journal import MOST_UNDECIDED, Status
from tests.hostile.faults import Fault, Kind, each
from tests.party_node.aligning import task
from tests.party_node.conftest import MakeWorld
from tests.party_node.streams import POLICY, first, following, grow, publish
from tests.party_node.test_changed_settings import Running
from tests.party_node.world import CAP, World

STEPS = 10
"""Steps of SQLite's machine that are counted as one."""


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Specs that are parsed, proposals that are assessed, and steps that SQLite takes; not how long any of it takes."""
    counts: Counter[str] = Counter()

    def of(what: str) -> None:
        counts[what] += 1

    class Counting(sqlite3.Connection):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.set_progress_handler(lambda: of("steps"), STEPS)

    def parse(cls: type[ReleaseSpec], data: bytes) -> ReleaseSpec:
        of("parsed")
        of(sha256(data))
        return super(ReleaseSpec, cls).from_bytes(data)

    def look(*arguments: Any, **options: Any) -> decision.Assessment:
        of("looked")
        return assess(*arguments, **options)

    connect, assess = sqlite3.connect, decision.assess
    with monkeypatch.context() as patch:
        patch.setattr(ReleaseSpec, "from_bytes", classmethod(parse))  # without what it remembers
        patch.setattr(
            transactions.sqlite3, "connect", lambda *args, **options: connect(*args, factory=Counting, **options)
        )
        patch.setattr("party_node.hospital.assess", look)
        yield counts


def known(world: World, number: int) -> None:
    """So many releases that were offered and are over, in the north's journal."""
    spec = world.spec(title=f"TITLE of {number}").to_bytes()
    now = instant(datetime.now(UTC))
    rows = []
    for at in range(number):
        data = spec.replace(b"TITLE", str(at).encode())
        rows.append((sha256(data), "release", data, ("declined", "ended")[at % 2], "note", now, now))
    path = world.north.folder / "state" / "journal.sqlite"
    with closing(sqlite3.connect(path)) as db, db:
        columns = "digest, kind, proposal, status, note, seen, changed"
        db.executemany(f"INSERT INTO offers ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)  # noqa: S608


def test_a_proposal_costs_the_same_whatever_was_offered_before(careful: World, monkeypatch: pytest.MonkeyPatch) -> None:
    work = []
    for number, title in ((10, "among ten"), (9_990, "among ten thousand")):
        known(careful, number)
        daemon = careful.north.daemon()
        with careful.north.dialled() as coordinator, counted(monkeypatch) as counts:
            release = careful.propose(title)
            daemon.cycle(coordinator)
            assert careful.north.status(release) == "waiting"
            assert careful.north.run("review", "decline", release).exit_code == 0
            daemon.cycle(coordinator)
            assert careful.coordinator.state(release) == "REJECTED"
        work.append(counts)
    few, many = work
    assert many["parsed"] == few["parsed"] > 0
    assert many["steps"] < 1.2 * few["steps"]


def test_what_the_ledger_knows_is_parsed_once(careful: World, monkeypatch: pytest.MonkeyPatch) -> None:
    paid = [careful.propose(f"paid {at}", columns=(column,)) for at, column in enumerate(("age", "sex"))]
    careful.north.cycle()
    for release in paid:
        assert careful.north.run("review", "approve", release, "--yes").exit_code == 0
    careful.north.cycle()
    for release in paid:
        careful.coordinator.move(release, "FAILED")
        assert careful.north.ledger_kinds(release) == ["reserve"]
    running = Running(careful.north)
    with counted(monkeypatch) as counts:
        waiting = [careful.propose(f"waits {at}") for at in range(5)]
        running.cycle()
    assert {careful.north.status(release) for release in waiting} == {"waiting"}
    assert [counts[release] for release in paid] == [1, 1]


def test_a_proposal_is_looked_at_again_only_where_something_changed(
    careful: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = Running(careful.north)
    waiting = [careful.propose(f"waits {at}") for at in range(5)]

    def looked() -> int:
        with counted(monkeypatch) as counts:
            running.cycle()
        return counts["looked"]

    assert [looked(), looked(), looked()] == [5, 0, 0]
    assert careful.north.run("peers", "forget", "south").exit_code == 0
    assert [looked(), looked()] == [5, 0]
    assert "fingerprint" in careful.north.record(waiting[0]).note
    careful.north.edit("longest_wait_seconds = 0.02", "longest_wait_seconds = 0.03")
    assert [looked(), looked()] == [5, 0]
    hospital_state = careful.north.hospital_state()
    hospital_state.ledger.reserve("cohort", "0" * 64, CAP, {})
    assert looked() == 5
    assert {careful.north.status(release) for release in waiting} == {"declined"}
    assert looked() == 0


def test_an_expired_proposal_is_looked_at_again(careful: World, monkeypatch: pytest.MonkeyPatch) -> None:
    running = Running(careful.north)
    release = careful.propose()
    running.cycle()
    late = datetime.now(UTC) + timedelta(hours=2)
    for module in (daemon, hospital):
        monkeypatch.setattr(module, "datetime", SimpleNamespace(now=lambda zone: late, min=datetime.min))
    running.cycle()
    assert careful.north.status(release) == "declined"


def harmless(what: str, outcome: str, act: Callable[[World], Any]) -> Fault:
    """A list that was made to stop a hospital, and does not."""
    return Fault(f"a coordinator {what}", "hospital", Kind.HARMLESS, None, outcome, act)


def offer(world: World) -> list[str]:
    return [world.propose(f"offer {at}") for at in range(MOST_UNDECIDED + 3)]


def garble(world: World) -> None:
    for at in range(1000):
        world.coordinator.records[f"bad {at}"] = release_pb2.AgreementRecord(
            proposal=b"" if at % 2 else b"[%d]" % at, state=release_pb2.RELEASE_STATE_PROPOSED
        )
    world.coordinator.records["later"] = release_pb2.AgreementRecord(proposal=b"x", state=99)


def go_on(world: World) -> None:
    world.coordinator.further = "further"


MANY = harmless(
    "offers more proposals than a person decides on",
    f"{MOST_UNDECIDED} wait here, the others at the office; a proposal costs the same whatever was offered before",
    offer,
)
UNREAD = harmless("lists 1,001 releases that cannot be read", "one line in the log; others are looked at", garble)
ENDLESS = harmless(
    "lists releases without end", f"{MOST_PAGES} pages are read, and what is on them is looked at", go_on
)
FAULTS = [MANY, UNREAD, ENDLESS]


@each([MANY])
def test_no_more_proposals_are_taken_in_than_a_person_decides_on(
    careful: World, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    running, offered = Running(careful.north), fault.act(careful)
    for _ in range(2):
        running.cycle()
    held = [release for release in offered if careful.north.status(release) == "waiting"]
    assert held == offered[:MOST_UNDECIDED]
    told = [record.getMessage() for record in caplog.records if record.name == "party_node.daemon"]
    assert told == ["3 proposals are left at the office: 50 wait for a decision here; see: party-node review list"]
    assert careful.north.run("review", "decline", held[0]).exit_code == 0
    running.cycle()
    running.cycle()
    assert careful.north.status(offered[MOST_UNDECIDED]) == "waiting"
    assert careful.north.status(offered[-1]) == ""


def test_a_checkpoint_of_an_approved_stream_waits_for_no_room(make_world: MakeWorld) -> None:
    world = make_world(POLICY)
    grow(world, 1)
    spec = first(world)
    publish(world, spec)
    again = [spec.model_copy(update={"title": f"again {at}"}) for at in range(MOST_UNDECIDED + 3)]
    offered = [world.coordinator.propose(each) for each in again]  # the same content again waits for a person
    grow(world, 2)
    running = Running(world.north)
    running.cycle()
    assert [world.north.status(release) for release in offered[-4:]] == ["waiting", "", "", ""]
    later = world.coordinator.propose(following(world, spec, 2))
    running.cycle()
    assert world.north.status(later) == "approved"


def test_what_the_office_no_longer_lists_makes_room_for_what_it_does(careful: World) -> None:
    """An office that was not itself for a while leaves nothing behind that would be in the way of honest releases."""
    running = Running(careful.north)
    made_up = [careful.propose(f"made up {at}") for at in range(MOST_UNDECIDED + 3)]
    running.cycle()
    for release in made_up:
        del careful.coordinator.records[release]
    running.cycle()
    assert careful.north.status(made_up[0]) == "waiting"  # nothing is forgotten while there is room
    honest = [careful.propose(f"honest {at}") for at in range(2)]
    running.cycle()
    assert {careful.north.status(release) for release in honest} == {"waiting"}
    assert [careful.north.status(release) for release in made_up[:3]] == ["", "", "waiting"]


@each([UNREAD])
def test_what_cannot_be_read_is_told_in_one_line(
    careful: World, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    good = careful.propose()
    fault.act(careful)
    Running(careful.north).cycle()
    assert careful.north.status(good) == "waiting"
    lines = [record.getMessage() for record in caplog.records if "cannot be read" in record.getMessage()]
    assert len(lines) == 2  # one for each round
    assert lines[0].startswith("1001 releases cannot be read and are left alone")


@each([ENDLESS])
def test_a_list_without_end_is_read_no_further_than_honest_ones_go(careful: World, fault: Fault) -> None:
    release = careful.propose()
    fault.act(careful)
    Running(careful.north).cycle()
    assert careful.north.status(release) == "waiting"
    asked = [pb.ListAgreementsRequest.FromString(data) for data in careful.coordinator.heard("ListReleases")]
    assert [each.page_token for each in asked] == ["", *["further"] * (MOST_PAGES - 1)] * 2


def test_what_waits_is_on_page_1_however_many_runs_there_were(careful: World) -> None:
    waits = careful.propose("waits for a person")
    careful.north.cycle()
    journal = careful.north.hospital_state().journal
    for number in range(MOST_UNDECIDED):
        journal.offer(task(careful, nonce=f"{number:064x}"), Status.ENDED)
    assert waits in {record.digest for record in journal.page(1)[0]}


def test_review_list_shows_a_page_and_those_that_wait_first(careful: World) -> None:
    waits = careful.propose("waits for a person")
    careful.north.cycle()
    known(careful, 2 * MOST_UNDECIDED)

    def page(*options: str) -> list[str]:
        done = careful.north.run("review", "list", "--json", *options)
        assert done.exit_code == 0
        return [line["release"] for line in json.loads(done.stdout)]

    first, second, third = page(), page("--page", "2"), page("--page", "3")
    assert [len(first), len(second), len(third)] == [MOST_UNDECIDED, MOST_UNDECIDED, 1]
    assert len({*first, *second, *third}) == 101
    assert first[-1] == waits
    none = careful.north.run("review", "list", "--page", "4")
    assert (none.exit_code, "there is no page 4; the last one is 3" in none.stderr) == (2, True)
    assert (
        "101 in all; older ones: party-node review list --page 3"
        in careful.north.run("review", "list", "--page", "2").stderr
    )
    assert careful.north.run("review", "list", "--page", "3").stderr == ""
