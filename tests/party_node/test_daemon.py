"""The daemon's manners: one for each state folder, back after any trouble, no release in another's way."""

import errno
import logging
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import Mock, patch

import pytest

from dprelease.catalogue import Catalogue
from dprelease.errors import (
    AccessDenied,
    Conflict,
    DataRefused,
    DpReleaseError,
    IntegrityError,
    InternalError,
    NotFound,
    PeerUnavailable,
    Unauthenticated,
    VersionMismatch,
)
from dprelease.files import durable
from dprelease.spec_base import Target
from dprelease.wire.v1 import release_pb2
from party_node.computation import releases as releases_module
from party_node.state.journal import Status
from party_node.state.ledger import Ledger
from tests.party_node.world import Hospital, PowerCut, World

PATIENCE = 30.0
"""How long a test waits for what must happen before it gives up."""


@contextmanager
def running(hospital: Hospital) -> Iterator[threading.Event]:
    """A daemon in a thread of its own, until the context ends; what it raised is raised here."""
    stop, raised = threading.Event(), []

    def work() -> None:
        try:
            hospital.daemon().run(stop)
        except DpReleaseError as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join(PATIENCE)
        assert not thread.is_alive()
    if raised:
        raise raised[0]


def until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(PATIENCE / 0.005)):
        if condition():
            return
        pause.wait(0.005)
    raise AssertionError("it did not happen")


def test_a_coordinator_that_is_away_is_dialled_until_it_is_back(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="party_node")
    release = world.propose()
    world.office.stop()
    with running(world.north):
        until(lambda: caplog.text.count("next attempt in") >= 2)
        assert "nothing listens there" in caplog.text
        world.office.start()
        until(world.coordinator.asked.is_set)
        world.office.stop()
        before = caplog.text.count("next attempt in")
        until(lambda: caplog.text.count("next attempt in") > before)
        world.office.start()
        world.south_approves(release)
        until(lambda: world.north.status(release) == "delivered")
    assert caplog.messages.count("the coordinator answers again") == 2
    warned = [line.getMessage() for line in caplog.records if line.levelno == logging.WARNING]
    assert sum("next attempt in" in line for line in warned) == 2  # at the first attempt of each time


@pytest.mark.parametrize(
    "error", [InternalError("x"), Conflict("x"), AccessDenied("x"), Unauthenticated("x"), VersionMismatch("x")]
)
def test_no_answer_of_the_coordinator_ends_the_daemon(
    world: World, error: DpReleaseError, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="party_node")
    release = world.propose()
    world.coordinator.raises["ListReleases"] = error
    with running(world.north):
        until(lambda: "next attempt in" in caplog.text)
        del world.coordinator.raises["ListReleases"]
        until(lambda: len(world.coordinator.records[release].consents) == 1)


def test_a_second_daemon_on_the_same_state_is_refused(world: World) -> None:
    with running(world.north):
        until(world.coordinator.asked.is_set)
        with pytest.raises(Conflict, match="another party-node runs"):
            world.north.daemon().run(threading.Event())
    stopped = threading.Event()
    stopped.set()
    world.north.daemon().run(stopped)  # the first one is gone: its place is free


def start(hospital: Hospital) -> None:
    stopped = threading.Event()
    stopped.set()
    hospital.daemon().run(stopped)


def test_a_daemon_does_not_start_on_a_table_that_cannot_be_used(world: World) -> None:
    world.north.source.write_text("patient,age,sex\n")
    with pytest.raises(DataRefused, match="has no rows"):
        start(world.north)


def test_a_daemon_does_not_start_on_a_catalogue_that_the_office_would_not_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Catalogue, "most_bytes", 300)
    with pytest.raises(DataRefused, match=r"^not declared: .* at most 300 are read; declare fewer columns or levels$"):
        start(world.north)


@pytest.mark.parametrize("step", ["party_node.state.journal.Journal.move", "party_node.state.ledger.Ledger.refund"])
@pytest.mark.parametrize("listed", [True, False])
def test_a_release_that_is_declined_while_the_power_goes_gets_its_budget_back(
    world: World, step: str, listed: bool
) -> None:
    release = world.approved()
    record, state = world.north.record(release), world.north.hospital_state()
    with patch(step, side_effect=PowerCut), pytest.raises(PowerCut):
        state.give_up(record, Status.DECLINED, "no")
    declined = world.north.status(release) == "declined"
    if not listed:
        world.coordinator.records.clear()
    start(world.north)
    if listed:
        world.north.cycle()
    kinds = ["reserve", "refund"] if declined else ["reserve", *["charge", "send"] * listed]
    assert world.north.ledger_kinds(release) == kinds


def test_a_daemon_does_not_start_before_enrolment(world: World) -> None:
    (world.north.folder / "state" / "identity" / "enrolment.json").unlink()
    with pytest.raises(NotFound, match="not enrolled"):
        start(world.north)


def test_a_daemon_does_not_start_without_a_budget(world: World) -> None:
    (world.north.folder / "state" / "ledger.sqlite").unlink()
    with pytest.raises(NotFound, match="no roster"):
        start(world.north)


def test_a_daemon_does_not_start_on_a_broken_ledger(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Ledger) -> str:
        raise IntegrityError("the ledger's chain is broken")

    monkeypatch.setattr(Ledger, "verify", broken)
    with pytest.raises(IntegrityError):
        start(world.north)


@pytest.mark.parametrize("trouble", ["absent", "malformed", "refused"])
def test_a_table_that_is_not_reported_holds_up_no_release(
    world: World, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    release = world.approved()
    world.shelf.serving = False
    world.north.cycle()
    world.shelf.serving = True
    if trouble == "absent":
        world.north.source.unlink()
    elif trouble == "malformed":
        world.north.source.write_text("patient,age,sex\nsubject-0001,4711\n")
    else:
        world.coordinator.raises["ReportCatalogue"] = Conflict("x")
    world.north.cycle()
    assert world.north.status(release) == "delivered"
    assert "the table was not reported" in caplog.text
    assert "4711" not in caplog.text


def test_a_report_that_finds_nobody_is_for_the_loop_to_repeat(world: World) -> None:
    world.coordinator.raises["ReportCatalogue"] = PeerUnavailable("x")
    with pytest.raises(PeerUnavailable):
        world.north.cycle()


def of_a_later_version(world: World) -> None:
    world.coordinator.records["0"] = release_pb2.AgreementRecord(proposal=world.spec("x").to_bytes(), state=99)  # type: ignore[arg-type]


def with_an_impossible_date(world: World) -> None:
    world.propose("x", expires="2026-13-45T99:99:99Z")


def with_a_target_beyond_all_numbers(world: World) -> None:
    world.propose("x", target=Target(scope="joint", epsilon=5e-324, delta=5e-324))


def approved_by_nobody(world: World) -> None:
    release = world.propose("x")
    world.north.cycle()
    world.coordinator.move(release, "APPROVED")


def for_a_hub_that_refuses(world: World) -> None:
    release = world.approved("x")
    world.hub.raises = Conflict("not this one")
    world.north.cycle()
    world.hub.raises = None
    world.hub.blocks[release, "north", 0] = bytearray(1 << 20)


STUCK = [
    of_a_later_version,
    with_an_impossible_date,
    with_a_target_beyond_all_numbers,
    approved_by_nobody,
    for_a_hub_that_refuses,
]


@pytest.mark.parametrize("stick", STUCK, ids=lambda stick: stick.__name__)
def test_a_release_that_is_stuck_is_in_nobodys_way(world: World, stick: Callable[[World], None]) -> None:
    stick(world)
    release = world.propose("the one behind it", columns=("age",))
    world.north.cycle()
    assert world.north.status(release) == "approved"
    world.south_approves(release)
    world.north.cycle()
    assert world.north.status(release) == "delivered"


def test_an_unforeseen_error_is_told_without_its_words(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    release = world.approved()

    def bug(*arguments: object) -> None:
        raise ValueError("could not convert '41.70000' of subject-0000")

    with monkeypatch.context() as patch:
        patch.setattr(releases_module, "privatize", bug)
        world.north.cycle()
    note = world.north.record(release).note
    assert note == "unforeseen ValueError in bug"
    assert "subject-0000" not in caplog.text + note
    assert "41.70000" not in caplog.text + note
    world.north.cycle()
    assert world.north.status(release) == "delivered"


@pytest.mark.parametrize("full", ["databases", "files"])
def test_a_full_disk_is_told_and_the_release_goes_on_once_there_is_room(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    release, daemon = world.propose(), world.north.daemon()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with monkeypatch.context() as patch:
        if full == "files":
            patch.setattr(durable.os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
        try:
            with world.north.dialled() as coordinator:
                daemon.cycle(coordinator)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "unforeseen" not in caplog.text
    assert f"{world.north.folder}/state/{'frozen' if full == 'files' else 'journal.sqlite'}" in caplog.text
    world.north.cycle()
    assert world.north.status(release) == "approved"
