"""party.toml that changes while the node runs: policy and columns take effect, mistakes change nothing and are named."""

import logging

import pytest

from party_node.daemon import Daemon
from party_node.outgoing.office import Coordinator
from tests.party_node.world import Hospital, World


class Running:
    """A daemon that goes on, one cycle at a time."""

    def __init__(self, hospital: Hospital) -> None:
        hospital_state = hospital.hospital_state()
        self._address, self._credentials = hospital.world.office.address, hospital_state.identity.credentials()
        self._daemon = Daemon(hospital_state, hospital.noise, hospital.config)
        self.cycle()

    def cycle(self) -> None:
        with Coordinator.dial(self._address, self._credentials) as coordinator:
            self._daemon.cycle(coordinator)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="party_node.upkeep")
    return caplog


def reports_of(world: World) -> int:
    return len(world.coordinator.heard("ReportCatalogue"))


def said(log: pytest.LogCaptureFixture) -> list[str]:
    found = [
        record.getMessage()
        for record in log.records
        if record.name == "party_node.upkeep" and "the table was" not in record.getMessage()
    ]
    log.clear()
    return found


def test_a_policy_that_changes_decides_what_waits(careful: World, log: pytest.LogCaptureFixture) -> None:
    running = Running(careful.north)
    release = careful.propose()
    running.cycle()
    assert careful.north.status(release) == "waiting"
    assert said(log) == []
    careful.north.edit(r"\[daemon\]", "[policy.auto_approve]\nmax_epsilon = 1.0\nmax_delta = 1e-4\n[daemon]")
    running.cycle()
    assert said(log) == [f"{careful.north.config} was changed and is in force: policy"]
    assert careful.north.status(release) == "approved"
    running.cycle()
    assert said(log) == []


def test_columns_that_change_are_reported_and_used(world: World, log: pytest.LogCaptureFixture) -> None:
    running = Running(world.north)
    reports = reports_of(world)
    world.north.edit("upper = 120", "upper = 110")
    world.north.edit(r"\[columns.sex\]", '[columns.gender]\nfrom = "sex"')
    running.cycle()
    changes = "columns new: gender; columns changed: age; columns gone: sex"
    assert said(log) == [f"{world.north.config} was changed and is in force: {changes}"]
    assert reports_of(world) == reports + 1
    release = world.propose(columns=("age", "gender"))
    running.cycle()
    assert world.north.record(release).consent is not None


def test_a_file_that_is_written_anew_with_the_same_words_changes_nothing(
    world: World, log: pytest.LogCaptureFixture
) -> None:
    running = Running(world.north)
    reports = reports_of(world)
    world.north.config.write_text("# a comment\n" + world.north.config.read_text())
    running.cycle()
    assert said(log) == []
    assert reports_of(world) == reports


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("upper = 120", "uper = 110", "column age: upper: is missing; give the bound"),
        ("upper = 120", "upper = ", "is not valid TOML: line 11: upper of [columns.age] is left blank; fill it in"),
        (
            'roster = "cohort"',
            'roster = "cohort-2"',
            "roster cannot change while the node runs; stop it and start it again",
        ),
        ('name = "north"', 'name = "n"\nstate = "elsewhere"', "name, state cannot change while the node runs"),
    ],
)
def test_what_cannot_be_used_is_named_once_and_the_settings_of_before_stay(
    world: World, log: pytest.LogCaptureFixture, old: str, new: str, words: str
) -> None:
    running = Running(world.north)
    release, before = world.propose(), world.north.config.read_text()
    world.north.config.write_text(before.replace(old, new).replace("min_rows = 20", "min_rows = 41"))
    running.cycle()
    (message,) = said(log)
    assert message.startswith(f"the settings of before stay in force, all of them: {world.north.config}")
    assert words in message
    running.cycle()
    assert said(log) == []
    world.north.config.write_text(before.replace("min_rows = 20", "min_rows = 30"))
    running.cycle()
    assert said(log) == [f"{world.north.config} was changed and is in force: policy"]
    assert world.north.status(release) == "approved"  # by the policy of before, which asks for fewer rows


def test_a_file_that_is_away_for_a_while(world: World, log: pytest.LogCaptureFixture) -> None:
    running = Running(world.north)
    text = world.north.config.read_text()
    world.north.config.unlink()
    running.cycle()
    running.cycle()
    (message,) = said(log)
    assert "cannot be read: No such file" in message
    world.north.config.write_text(text)
    running.cycle()
    assert said(log) == []


def test_a_public_column_waits_for_its_new_act(world: World, log: pytest.LogCaptureFixture) -> None:
    world.north.run("public", "declare", "age", "--irrevocable")
    running = Running(world.north)
    world.north.edit("upper = 120", "upper = 110")
    running.cycle()
    (message,) = said(log)
    assert "column age was declared public with other bounds" in message
    world.north.run("public", "declare", "age", "--irrevocable")
    running.cycle()
    assert said(log) == [f"{world.north.config} was changed and is in force: columns changed: age"]
