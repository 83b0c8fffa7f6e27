"""A coordinator on PostgreSQL over real TLS, and the way back from a copy that `pg_dump` made while it ran."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import make_url

from coordinator.cli.main import main
from coordinator.store.upkeep import migrate, pending
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1.release_pb2 import ReleaseState
from tests.coordinator.conftest import serving
from tests.coordinator.sessions import over_the_wire, world_offers
from tests.coordinator.world import World, ask, listed, report
from tests.support.postgres import PASSWORD, Cluster

pytest.importorskip("psycopg", reason="pip install 'dprelease[postgresql]'")


def run(world: World, *arguments: str) -> Result:
    config = world.settings.certificate.parent / "coordinator.toml"
    return CliRunner().invoke(main, [*arguments, "--config", str(config)])


def command(cluster: Cluster, program: str, url: str, *arguments: str) -> None:
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
        command(postgres, "pg_dump", url, "-Fc", "-f", str(copy))
        for party, stub in stubs.items():
            ask(stub.Approve, pb.ApproveRequest(signed_consent=world.signed(digest, party)))
        assert "pg_dump" in run(world, "backup", "make", str(tmp_path / "copy.sqlite")).output
        world.stop()
        world.opened.close()

        restored = postgres.database()
        command(postgres, "pg_restore", restored, str(copy))
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
    migrate(url, "0001")
    config.write_text(config.read_text().replace("sqlite:///coordinator.sqlite", url))
    asked = CliRunner().invoke(main, ["migrate", "--config", str(config)], input="n\n")
    assert (asked.exit_code, pending(url)) == (1, "0001")
    assert "pg_dump" in asked.output
    assert run(world, "migrate", "--yes").exit_code == 0
    assert pending(url) is None
