"""Layouts of the database: an older one is refused until it is migrated, and the office goes on with all that was in it.

A coordinator on PostgreSQL over real TLS, and the way back from a copy that `pg_dump` made while it ran.
"""

import subprocess
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from alembic import command, op
from alembic.config import Config
from alembic.script import ScriptDirectory
from click.testing import CliRunner, Result
from sqlalchemy import MetaData, inspect, make_url, select

from coordinator.cli.main import main
from coordinator.lifecycle import Finished, Stage, Standing, Topic
from coordinator.service.coordination import approve
from coordinator.service.recovery import left
from coordinator.store.database import Database
from coordinator.store.store import Store
from coordinator.store.tables import REVISION, meta, version
from coordinator.store.upkeep import migrate, pending
from dprelease.canonical import instant, sha256
from dprelease.errors import AccessDenied, Conflict, InvalidInput
from dprelease.identity.certificates import read_identity
from dprelease.intersection.task import Task
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1.release_pb2 import ReleaseState
from tests.coordinator.conftest import serving
from tests.coordinator.layouts import first
from tests.coordinator.office import NOW, Clock, founded
from tests.coordinator.sessions import Desk, over_the_wire, world_offers
from tests.coordinator.world import World, ask, listed, report
from tests.support.postgres import PASSWORD, Cluster

LATER = NOW + timedelta(hours=2)


@pytest.fixture
def older_url(database_url: str, tmp_path: Path) -> str:
    """The first layout with an office in it, on either database; alembic has never seen it."""
    if database_url.startswith("sqlite"):
        first.load(Path(database_url.removeprefix("sqlite:///")))
    else:
        with closing(Database(database_url)) as database, database.altering() as connection:
            first.copy(tmp_path / "dump.sqlite", connection)
    return database_url


def test_an_office_goes_on_with_its_migrated_database(older_url: str) -> None:
    with pytest.raises(InvalidInput, match=rf"layout 0001 .* layout {REVISION}: .*coordinator migrate"):
        Store.open(older_url)
    assert pending(older_url) == "0001"
    migrate(older_url)
    assert pending(older_url) is None
    with closing(Store.open(older_url)) as store:
        office = first.office(store)
        with store.reading() as tx:
            found = {release.title: release for release in tx.releases.all()}
            assert read_identity(tx.hub.certificate() or "").name == "hub"
            assert [invitation.party for invitation in tx.members.invitations(LATER)] == ["west"]
            assert tx.members.revoked_keys() == (read_identity(office.certificates["east"]).fingerprint,)
            assert {name: one.rows for name, one in tx.members.catalogues().items()} == dict.fromkeys(office.keys, 300)
            assert [line.what for line in tx.history.of_agreement(found[first.CANCELLED].digest)][-1].endswith(
                "columns"
            )
            spent = store.consortium.mu2 / 4 - left(tx, "north", "cohort")
        assert {title: release.record.state for title, release in found.items()} == {
            first.PROPOSED: Stage.PROPOSED,
            first.DEALT: Stage.APPROVED,
            first.PUBLISHED: Stage.PUBLISHED,
            first.CANCELLED: Stage.CANCELLED,
        }
        offers, desk = first.offers_of(found[first.DEALT].read_spec()), Desk(office, Clock(LATER))
        offers.check_correlations(desk.get(offers))  # what was dealt then: these session keys open nothing else
        half = found[first.PROPOSED]
        for party, refused in (("east", True), ("south", False)):
            with store.writing() as tx:
                if refused:
                    with pytest.raises(AccessDenied, match="revoked"):
                        tx.members.admit(read_identity(office.certificates[party]), LATER)
                else:
                    tx.members.admit(read_identity(office.certificates[party]), LATER, protocol=2)
        signed = office.approval(half.read_spec(), "south", LATER)
        approve(signed, b"", store, "south", office.authority.root_pem, LATER)
        assert office.release(half.digest).record.state is Stage.APPROVED
        with store.writing() as tx:
            assert tx.members.redeem(first.WEST, LATER).party == "west"
            assert [(one.name, one.protocol) for one in tx.members.all()] == [
                ("east", None),
                ("north", None),
                ("south", 2),
            ]
            assert store.consortium.mu2 / 4 - left(tx, "north", "cohort") > spent > 0
        office.enrol("west", now=LATER)
        assert office.propose(LATER, title="after the update").record.state is Stage.PROPOSED


STATES_OF_RUNS = {
    "PROPOSED": Stage.PROPOSED,
    "RUNNING": Stage.RUNNING,
    "DONE": Stage.DONE,
    "DECLINED": Stage.REJECTED,
    "FAILED": Stage.FAILED,
    "CANCELLED": Stage.CANCELLED,
    "EXPIRED": Stage.EXPIRED,
}
"""Of layout 0004, and what became of them."""


def _task(at: int) -> Task:
    members = [{"party": name, "key": sha256(name.encode()), "patients": 9} for name in ("south", "north")]
    facts = {"consortium": "Trio", "roster": "cohort", "nonce": f"{at:064x}"}
    return Task.model_validate(facts | {"members": members, "created": instant(NOW), "expires": instant(LATER)})


def test_agreements_of_every_kind_and_state_are_carried_over(older_url: str) -> None:
    """Layout 0004 kept releases and alignment runs apart."""
    migrate(older_url, "0004")
    now, later = instant(NOW), instant(LATER)
    tasks = {state: _task(at) for at, state in enumerate(STATES_OF_RUNS)}
    with closing(Database(older_url)) as database, database.writing() as connection:
        old = MetaData()
        old.reflect(connection)
        releases, participants = old.tables["releases"], old.tables["participants"]
        (model,) = connection.execute(releases.select().where(releases.c.title == first.DEALT)).mappings()
        for state in ("RUNNING", "REJECTED", "FAILED", "EXPIRED"):
            row = {**model, "digest": sha256(state.encode()), "title": state, "state": state, "publishing": later}
            connection.execute(releases.insert().values(row))
            row = {"release": row["digest"], "party": "north", "position": 0, "approval": b"signed", "received": now}
            connection.execute(participants.insert().values(row))
        for state, task in tasks.items():
            over = state not in {"PROPOSED", "RUNNING"}
            row = {"run": task.digest(), "task": task.to_bytes(), "created": now, "state": state, "since": now}
            row |= {"run_seconds": 60, "reason": "why", "deadline": None if over else later}
            row |= {"carried": later if state in {"RUNNING", "DONE"} else None}
            connection.execute(old.tables["alignments"].insert().values(row))
            for position, party in enumerate(("south", "north")):
                row = {"run": task.digest(), "party": party, "position": position, "acceptance": party.encode()}
                row |= {"accepted": now, "finished": later if (state, party) == ("RUNNING", "north") else None}
                connection.execute(old.tables["alignment_parties"].insert().values(row))
    migrate(older_url)
    with closing(Store.open(older_url)) as store:
        with store.reading() as tx:
            runs = {run.digest: run for run in tx.alignments.all()}
            found = {release.title: release for release in tx.releases.all()}
            assert len(tx.agreements.all()) == len(runs) + len(found)
        assert {runs[task.digest()].read_task(): runs[task.digest()].record.state for task in tasks.values()} == {
            tasks[before]: after for before, after in STATES_OF_RUNS.items()
        }
        running = runs[tasks["RUNNING"].digest()]
        assert (running.title, running.consents, running.created) == ("cohort", (b"south", b"north"), NOW)
        assert running.record == Standing(
            Topic.RUN,
            ("south", "north"),
            Stage.RUNNING,
            NOW,
            LATER,
            timedelta(seconds=60),
            approved=frozenset({"south", "north"}),
            received=frozenset({"south", "north"}),
            finished=frozenset({"north"}),
            reason="why",
        )
        for state in ("RUNNING", "REJECTED", "FAILED", "EXPIRED"):
            assert (found[state].record.state, found[state].record.publishing) == (state, LATER)
            assert (found[state].consents, found[state].record.received) == ((b"signed",), frozenset({"north"}))
        with store.writing() as tx:
            done = tx.alignments.advance(running.digest, Finished("south"), NOW)
        assert done.record.state is Stage.DONE


def test_a_new_database_is_what_the_revisions_lead_to(older_url: str) -> None:
    """Tables, columns, types, keys and indices, as alembic compares them; there is one last revision."""
    config = Config()
    config.set_main_option("script_location", "coordinator.store:migrations")
    assert ScriptDirectory.from_config(config).get_heads() == [REVISION]
    migrate(older_url)
    with closing(Database(older_url)) as database, database.altering() as connection:
        config.attributes["connection"] = connection
        command.check(config)


def test_a_migration_that_fails_changes_nothing(older_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise Conflict("after the first change of the tables")

    with monkeypatch.context() as patch:
        patch.setattr(op, "execute", fails)
        with pytest.raises(Conflict):
            migrate(older_url)
    assert pending(older_url) == "0001"
    with closing(Database(older_url)) as database, database.reading() as connection:
        assert "protocol" not in {column["name"] for column in inspect(connection).get_columns("parties")}
        assert connection.execute(select(meta.c.value).where(meta.c.key == "schema")).scalar_one() == "3"
    migrate(older_url)


def test_a_database_that_is_in_use_is_not_migrated(older_url: str) -> None:
    with closing(Database(older_url)) as served:
        with served.reading() as connection:
            connection.execute(select(meta)).all()
        with pytest.raises(InvalidInput, match="stop `coordinator serve`"):
            migrate(older_url)
    migrate(older_url)


@pytest.mark.parametrize(
    ("found", "words"), [("9999", "newer than layout .* update the coordinator"), ("", "too old to go on from")]
)
def test_other_layouts_are_refused_by_every_command(database_url: str, found: str, words: str) -> None:
    Store.create(database_url, "Trio", epsilon=3.0, delta=1e-6).close()
    with closing(Database(database_url)) as database, database.writing() as connection:
        connection.execute(version.update().values(version_num=found))
    for look in (Store.open, pending):
        with pytest.raises(InvalidInput, match=words):
            look(database_url)


def test_the_command_copies_sqlite_before(tmp_path: Path) -> None:
    settings = founded(tmp_path / "office", NOW).settings
    database, here = settings.with_name("coordinator.sqlite"), f"sqlite:///{settings.with_name('coordinator.sqlite')}"

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(main, [*arguments, "--config", str(settings)])

    assert "nothing is done" in run("migrate").output
    database.unlink()
    first.load(database)
    assert "coordinator migrate" in run("release", "list").output
    done = run("migrate")
    assert done.exit_code == 0, done.output
    assert first.PROPOSED in run("release", "list").output
    (copy,) = settings.parent.glob("coordinator-layout-0001-*.sqlite")
    assert str(copy) in done.output
    Store.open(here).close()
    for ending in ("", "-wal", "-shm"):
        database.with_name(database.name + ending).unlink(missing_ok=True)
    copy.rename(database)  # a restore of it, with this software
    assert run("migrate").exit_code == 0
    assert "is a copy of" in run("release", "list").output
    assert run("backup", "restored", "--latest").exit_code == 0
    assert first.PROPOSED in run("release", "list").output


pytest.importorskip("psycopg", reason="pip install 'dprelease[postgresql]'")


def run(world: World, *arguments: str) -> Result:
    config = world.settings.certificate.parent / "coordinator.toml"
    return CliRunner().invoke(main, [*arguments, "--config", str(config)])


def typed(cluster: Cluster, program: str, url: str, *arguments: str) -> None:
    """One of PostgreSQL's programs, with a database."""
    line = [cluster.binaries / program, "-d", url, *arguments]
    subprocess.run(line, check=True, env={"PGPASSWORD": PASSWORD})


def test_an_office_is_served_dumped_and_restored(tmp_path: Path, postgres: Cluster) -> None:
    """What was dealt survives a restart; what is under way in a restored copy ends."""
    url, copy = postgres.database(), tmp_path / "consortium.dump"
    with serving(tmp_path / "office", database=url) as world:
        stubs = {party: world.join(party) for party in ("north", "south")}
        for party, stub in stubs.items():
            report(stub, party, rows=300)
        offers = world_offers(world, stubs)
        dealt = over_the_wire(stubs, offers)
        world.stop()
        world.start()
        stubs = {party: world.as_party(party) for party in stubs}
        assert over_the_wire(stubs, offers) == dealt
        digest = world.propose()
        typed(postgres, "pg_dump", url, "-Fc", "-f", str(copy))
        for party, stub in stubs.items():
            ask(stub.Approve, pb.ApproveRequest(signed_consent=world.signed(digest, party)))
        assert "pg_dump" in run(world, "backup", "make", str(tmp_path / "copy.sqlite")).output
        world.stop()
        world.opened.close()

        restored = postgres.database()
        typed(postgres, "pg_restore", restored, str(copy))
        config = world.settings.certificate.parent / "coordinator.toml"
        names = [make_url(each).database or "" for each in (url, restored)]
        config.write_text(config.read_text().replace(*(f"/{name}?" for name in names)))
        said = run(world, "backup", "restored", "--yes")
        assert said.exit_code == 0, said.output
        assert f"release {digest.hex()[:12]} is over" in said.output
        assert PASSWORD not in said.output
        world.settings = world.settings.model_copy(update={"database": restored})
        world.start()
        assert dict(listed(world.as_party("south")))[digest] == ReleaseState.RELEASE_STATE_CANCELLED


def test_migrate_asks_for_a_copy_that_it_cannot_make_itself(tmp_path: Path, postgres: Cluster) -> None:
    url = postgres.database()
    with serving(tmp_path / "office") as world:
        config = world.settings.certificate.parent / "coordinator.toml"
    with closing(Database(url)) as database, database.altering() as connection:
        first.copy(tmp_path / "dump.sqlite", connection)
    config.write_text(config.read_text().replace("sqlite:///coordinator.sqlite", url))
    asked = CliRunner().invoke(main, ["migrate", "--config", str(config)], input="n\n")
    assert (asked.exit_code, pending(url)) == (1, "0001")
    assert "pg_dump" in asked.output
    assert run(world, "migrate", "--yes").exit_code == 0
    assert pending(url) is None
