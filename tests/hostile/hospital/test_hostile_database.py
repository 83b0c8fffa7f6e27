"""A database that is away or ends while a release is under way: it waits here, nobody hears of it, and goes on afterwards."""

import logging
from collections.abc import Callable

import pytest

from dprelease.errors import PeerUnavailable
from tests.hostile.faults import Fault, Kind, each
from tests.hostile.hospital.honest import check_delivered, check_untouched
from tests.party_node.world import Hospital, World, rows_of
from tests.support.databases import postgres_table
from tests.support.postgres import Cluster

ENDING = """SELECT patient, age, CASE row_number() OVER () WHEN 30 THEN pg_terminate_backend(pg_backend_pid())::text
    ELSE sex END AS sex FROM patients"""


def away(north: Hospital) -> None:
    north.edit("^url = .*$", 'url = "postgresql://node@127.0.0.1:1/clinic"')


def ending(north: Hospital) -> None:
    north.edit("^table = .*$", f"query = '''{ENDING}'''")


WAITING = "no noise, the budget stays held; once the database answers the release goes on"
ACTS: dict[str, Callable[[Hospital], None]] = {"does not answer": away, "ends before the last row": ending}
FAULTS = [
    Fault(f"the table: its database {what}", "hospital", Kind.HELD, PeerUnavailable, WAITING, act)
    for what, act in ACTS.items()
]


@each(FAULTS)
def test_a_database_that_is_away_is_waited_for(
    world: World, postgres: Cluster, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    north, url = world.north, postgres.database()
    rows = [line.split(",") for line in rows_of("north")[1:]]
    postgres_table(url, "patients", "patient text, age numeric, sex text", rows)
    lines = [f'{key} = "{text}"' for key, text in postgres.source(url).items()]
    north.edit('^path = "rows.csv"$', "\n".join([*lines, 'table = "patients"']))
    release = world.propose()
    north.cycle()
    world.south_approves(release)
    before, sound = len(world.coordinator.received), north.config.read_text()
    north.hospital_state().frozen(release).erase()  # or the database would not be asked any more
    fault.act(north)
    north.cycle(2)
    assert {method for method, _ in world.coordinator.received[before:]} == {"ListReleases"}
    check_untouched(north, release, ["reserve"])
    assert north.status(release) == "approved"
    assert "subject-" not in caplog.text
    checked = north.run("check", "--offline")
    assert "PROBLEM" in checked.output
    assert north.run("run").exit_code == fault.exit_code
    north.config.write_text(sound)
    north.cycle()
    check_delivered(world, release)
