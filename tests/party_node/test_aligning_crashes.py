"""Power cuts and lost disks at every step of an alignment run: it ends with the same patients, and no place has two messages.

Steps are counted in a clean run: calls to the relay and the coordinator, files that are written or removed, entries of ledger and
record. Then the process ends before the first of them, before the second, and so on.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dprelease.intersection.ring import Ring
from dprelease.intersection.task import Task
from party_node.outgoing.office import Pending
from party_node.state import journal as journal_module
from party_node.state import session as folder_module
from party_node.state.journal import Journal
from party_node.state.ledger import Ledger
from tests.party_node.aligning import accepted, common, noted, overlap, status
from tests.party_node.joint_post import MemoryRelay, Post
from tests.party_node.world import Hospital, PowerCut, World

LOOKS = 12


@dataclass
class Office:
    task: Task
    acceptances: tuple[bytes, ...]
    state: str = "RUNNING"
    finished: set[str] = field(default_factory=set)
    declined: set[str] = field(default_factory=set)


@dataclass
class Site:
    """A hospital whose process may end before any step, counted from 1; 0 for never."""

    hospital: Hospital
    office: Office
    post: Post
    fault: int = 0
    steps: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.hospital.member.name

    def tick(self, what: str) -> None:
        self.steps.append(what)
        if len(self.steps) == self.fault:
            raise PowerCut

    def look(self) -> None:
        """One cycle of a fresh process."""
        daemon = self.hospital.daemon()
        daemon._hub = Line()  # type: ignore[assignment]
        work, undecided = daemon._works[0]
        relay = MemoryRelay(self.post, self.name, self.tick, lambda message, body: (message, body))
        work._relay = lambda record: relay  # type: ignore[method-assign,assignment,return-value]
        with self._steps_on_disk():
            daemon._round(self, work, undecided)  # type: ignore[arg-type]

    @property
    def about(self) -> dict[type, Site]:
        return {Task: self}

    def pending(self, unsettled: object) -> list[Pending]:
        self.tick("ask")
        return [
            Pending(
                self.office.task.digest(), self.office.task.to_bytes(), self.office.state, self.office.acceptances, ""
            )
        ]

    def finish(self, run: str) -> None:
        self.tick("say finished")
        self.office.finished.add(self.name)
        if len(self.office.finished) == 2:
            self.office.state = "DONE"

    def decline(self, run: str, reason: str) -> None:
        self.office.declined.add(self.name)

    @contextmanager
    def _steps_on_disk(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for module, name in (
                (folder_module, "write_secret"),
                (shutil, "rmtree"),
                (journal_module, "write_secret"),
                (Journal, "_update"),
                (Journal, "drop_roster"),
                (Ledger, "align"),
            ):
                patch.setattr(module, name, _ticking(getattr(module, name), partial(self.tick, name)))
            yield


def _ticking(function: Callable[..., Any], tick: Callable[[], None]) -> Callable[..., Any]:
    def called(*arguments: Any, **more: Any) -> Any:
        tick()
        return function(*arguments, **more)

    return called


class Line:
    """No connection."""

    away = False

    def close(self) -> None:
        """Nothing to close."""


@dataclass
class Stage:
    """Two hospitals that both signed a run, to begin from again and again."""

    world: World
    run: str
    folder: Path

    def begin(self) -> dict[str, Site]:
        record = self.world.alignments.records[self.run]
        office = Office(Task.from_bytes(record.proposal), tuple(record.consents))
        post = Post(Ring.of(office.task))
        for name in ("north", "south"):
            state = getattr(self.world, name).folder / "state"
            shutil.rmtree(state)
            shutil.copytree(self.folder / name, state)
        return {name: Site(getattr(self.world, name), office, post) for name in ("north", "south")}


@pytest.fixture
def stage(world: World, folder: Path) -> Stage:
    run = accepted(overlap(world))
    for name in ("north", "south"):
        shutil.copytree(getattr(world, name).folder / "state", folder / "signed" / name)
    return Stage(world, run, folder / "signed")


def play(sites: dict[str, Site]) -> None:
    for _ in range(LOOKS):
        for site in sites.values():
            site.look()
        if sites["north"].office.state == "DONE":
            break
    for site in sites.values():
        site.look()


def check(stage: Stage, sites: dict[str, Site]) -> None:
    for site in sites.values():
        assert status(site.hospital, stage.run) == "in force"
        assert site.hospital.hospital_state().journal.roster(stage.run) == common()
        assert noted(site.hospital) == [(stage.run, "0")]
        assert not list((site.hospital.folder / "state" / "aligning").glob("*"))
        assert len(list((site.hospital.folder / "state" / "rosters").glob("*"))) == 1
    given = [message.header for _, message, _ in sites["north"].post.given]
    assert {header.round for header in given} == {1}
    assert len(set(given)) == len({header.place for header in given})


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_cut_at_any_step_ends_with_the_same_patients(stage: Stage, every: bool) -> None:
    clean = stage.begin()
    play(clean)
    check(stage, clean)
    steps = clean["south"].steps
    wanted = {
        "ask",
        "list",
        "send hello",
        "align",
        "send points",
        "send table",
        "send transcript",
        "send key",
        "send result",
    }
    assert wanted | {"write_secret", "_update", "say finished", "rmtree"} <= set(steps)
    assert steps.index("align") < steps.index("send hello")
    for step in range(1, len(steps) + 1) if every else [steps.index(step) + 1 for step in dict.fromkeys(steps)]:
        sites = stage.begin()
        sites["south"].fault = step
        with suppress(PowerCut):
            play(sites)
        assert len(sites["south"].steps) == step
        play(sites)
        check(stage, sites)


def test_a_session_that_is_lost_begins_anew_until_tables_can_be_opened(stage: Stage) -> None:
    """Later the run can only be given up: a second round would test other patients against the same announced size."""
    clean = stage.begin()
    play(clean)
    steps = clean["south"].steps
    ends = []
    for kind in ("points", "key"):
        sites = stage.begin()
        sites["south"].fault = steps.index(f"send {kind}") + 2
        with suppress(PowerCut):
            play(sites)
        aligning = sites["south"].hospital.folder / "state" / "aligning" / stage.run
        patients = (aligning / "patients").read_bytes()
        shutil.rmtree(aligning)
        aligning.mkdir()
        (aligning / "patients").write_bytes(patients)
        sites["south"].fault = 0
        play(sites)
        ends.append(status(sites["south"].hospital, stage.run))
        assert noted(sites["south"].hospital) == [(stage.run, "0")]
    assert ends == ["in force", "approved"]
    assert "begin another run" in sites["south"].hospital.hospital_state().journal.find(stage.run).note


def test_patients_that_are_lost_end_the_run(stage: Stage) -> None:
    sites = stage.begin()
    sites["south"].look()
    shutil.rmtree(sites["south"].hospital.folder / "state" / "aligning")
    sites["south"].look()
    assert sites["south"].office.declined == {"south"}
    assert status(sites["south"].hospital, stage.run) == "declined"


def test_a_relay_that_lost_everything_is_given_the_same_again(stage: Stage) -> None:
    sites = stage.begin()
    sites["south"].office.finished.add("nobody yet")  # so that the run ends only when a test says so
    sites["south"].office.state = "RUNNING"
    for _ in range(3):
        for site in sites.values():
            site.look()
    sites["north"].post.messages.clear()
    sites["north"].post.bodies.clear()
    sites["south"].office.finished.clear()
    play(sites)
    check(stage, sites)
