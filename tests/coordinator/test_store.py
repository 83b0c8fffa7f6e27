"""One suite for every kind of database: what is kept, what survives, and what two writers cannot do to each other."""

import logging
import os
import sqlite3
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import OperationalError

from coordinator.lifecycle import (
    Approved,
    Cancelled,
    IntakeReported,
    PublicationAuthorized,
    PublicationReported,
    Stage,
    Tick,
)
from coordinator.store.database import Database
from coordinator.store.members import Invitation
from coordinator.store.store import Store
from coordinator.store.tables import agreements
from dprelease.errors import AccessDenied, Conflict, InvalidInput, NotFound, PeerUnavailable, Unauthenticated
from dprelease.identity.certificates import read_identity
from tests.coordinator.office import NOW, Office, catalogue, two_hospitals
from tests.support.together import together

LATER = NOW + timedelta(hours=1)
CAP = Fraction(1, 7)


@pytest.fixture
def both(any_store: Store) -> Office:
    return two_hospitals(any_store)


def test_a_store_is_never_made_over_another(database_url: str) -> None:
    Store.create(database_url, "Trio", epsilon=3.0, delta=1e-6).close()
    with pytest.raises(InvalidInput, match="already"):
        Store.create(database_url, "Quartet", epsilon=1.0, delta=1e-6)
    store = Store.open(database_url)
    assert store.consortium.name == "Trio"
    store.close()


def test_opening_what_is_not_there_creates_nothing(tmp_path: Path) -> None:
    path = tmp_path / "missing.sqlite"
    with pytest.raises(InvalidInput, match="coordinator init"):
        Store.open(f"sqlite:///{path}")
    assert not path.exists()


@pytest.mark.parametrize("url", ["mysql://host/db", "nonsense", "sqlite"])
def test_other_databases_are_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"SQLite or PostgreSQL|not a database URL"):
        Database(url)


def test_a_file_that_is_no_database_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "coordinator.sqlite"
    path.mkdir()
    with pytest.raises(PeerUnavailable, match="the database cannot be used"):
        Store.open(f"sqlite:///{path}")


def test_a_file_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "coordinator.sqlite"
    path.write_text("minutes of the last meeting, more than a hundred bytes of them" * 20)
    with pytest.raises(InvalidInput, match="cannot be read"):
        Store.open(f"sqlite:///{path}")
    assert path.read_text().startswith("minutes")


def test_sqlite_commits_are_durable(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'coordinator.sqlite'}")
    with database.reading() as connection:
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    database.close()
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_a_transaction_that_fails_leaves_nothing(both: Office) -> None:
    with pytest.raises(Conflict), both.store.writing() as tx:  # noqa: PT012 - the second line undoes the first
        tx.members.report_catalogue(catalogue("north", rows=5), LATER)
        raise Conflict("something later in the same transaction")
    with both.store.reading() as tx:
        assert tx.members.catalogues()["north"].rows == 1000


def test_the_log_tells_what_is_kept_and_nothing_that_a_full_disk_refuses(
    both: Office, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="coordinator")

    def write(what: str) -> None:
        with both.store.writing() as tx:
            tx.history.note(what, NOW, party="north")
            assert what not in caplog.text

    def full(_connection: Connection) -> None:
        raise OperationalError("COMMIT", None, sqlite3.OperationalError("database or disk is full"))

    engine = both.store._database._engine
    event.listen(engine, "commit", full)
    with pytest.raises(PeerUnavailable, match="disk is full"):
        write("north approved")
    event.remove(engine, "commit", full)
    write("north declined")
    assert [line.message for line in caplog.records] == ["north declined"]
    with both.store.reading() as tx:
        assert tx.history.of_party("north")[-1].what == "north declined"


def test_an_invite_is_good_once_and_until_it_lapses(any_store: Store) -> None:
    with any_store.writing() as tx:
        tx.members.invite(Invitation("north", CAP, LATER), "s3cret", NOW)
    with any_store.writing() as tx:
        assert [one.party for one in tx.members.invitations(NOW)] == ["north"]
        with pytest.raises(Unauthenticated):
            tx.members.redeem("another", NOW)
        with pytest.raises(Unauthenticated):
            tx.members.redeem("s3cret", LATER)
        assert tx.members.redeem("s3cret", NOW) == Invitation("north", CAP, LATER)
    with any_store.writing() as tx:
        assert tx.members.invitations(NOW) == ()
        with pytest.raises(Unauthenticated):
            tx.members.redeem("s3cret", NOW)


def test_the_secret_itself_is_not_kept(any_store: Store, tmp_path: Path) -> None:
    with any_store.writing() as tx:
        tx.members.invite(Invitation("north", CAP, LATER), "very-s3cret-indeed", NOW)
    any_store.close()
    for path in tmp_path.iterdir():
        assert b"very-s3cret-indeed" not in path.read_bytes()


def test_of_many_who_hold_one_invite_only_one_gets_in(any_store: Store) -> None:
    with any_store.writing() as tx:
        tx.members.invite(Invitation("north", CAP, LATER), "s3cret", NOW)

    def redeemed(secret: str) -> bool:
        try:
            with any_store.writing() as tx:
                tx.members.redeem(secret, NOW)
        except Unauthenticated:
            return False
        return True

    assert sorted(together(redeemed, ["s3cret"] * 6)) == [False] * 5 + [True]


def test_a_party_is_admitted_with_its_present_certificate_only(both: Office) -> None:
    first = read_identity(both.certificates["north"])
    with both.store.writing() as tx:
        assert tx.members.admit(first, LATER).name == "north"
    with both.store.reading() as tx:
        known = tx.members.find("north")
        assert known is not None
        assert known.last_seen == LATER
    both.enrol("north")
    with both.store.writing() as tx:
        with pytest.raises(AccessDenied, match="not the one enrolled last"):
            tx.members.admit(first, LATER)
        tx.members.admit(read_identity(both.certificates["north"]), LATER)
        with pytest.raises(AccessDenied, match="expired"):
            tx.members.admit(read_identity(both.certificates["north"]), NOW + timedelta(days=91))


def test_a_revoked_party_is_not_admitted_until_it_enrols_anew(both: Office) -> None:
    assert both.store.revoke("north", NOW) == ()
    with both.store.writing() as tx, pytest.raises(AccessDenied, match="revoked"):
        tx.members.admit(read_identity(both.certificates["north"]), LATER)
    both.enrol("north")
    with both.store.writing() as tx:
        tx.members.admit(read_identity(both.certificates["north"]), LATER)


def test_a_key_belongs_to_one_party(both: Office) -> None:
    stolen = both.authority.issue("east", "party", both.keys["north"].public_key(), NOW, 90).decode()
    with both.store.writing() as tx, pytest.raises(Conflict, match="north"):
        tx.members.enrol(stolen, CAP, NOW)
    renewed = both.authority.issue("north", "party", both.keys["north"].public_key(), NOW, 90).decode()
    with both.store.writing() as tx:
        tx.members.enrol(renewed, CAP, NOW)


def test_revoking_nobody_is_an_error_and_revoking_twice_is_not(both: Office) -> None:
    with pytest.raises(NotFound, match="stranger"):
        both.store.revoke("stranger", NOW)
    both.store.revoke("north", NOW)
    both.store.revoke("north", LATER)
    with both.store.reading() as tx:
        known = tx.members.find("north")
        assert known is not None
        assert known.revoked == NOW


def test_a_release_is_read_as_it_was_written_at_every_step(both: Office) -> None:
    fresh = both.propose()
    assert both.release(fresh.digest) == fresh
    assert fresh.record.parties == ("north", "south")
    signed = {party: both.approval(fresh.read_spec(), party) for party in fresh.record.parties}
    with both.store.writing() as tx:
        tx.releases.advance(fresh.digest, Approved("south"), NOW, signed["south"].to_bytes())
        tx.releases.advance(fresh.digest, Approved("north"), LATER, signed["north"].to_bytes())
        tx.releases.advance(fresh.digest, IntakeReported(frozenset({"north"})), LATER)
        tx.releases.advance(fresh.digest, PublicationAuthorized(), LATER)
        public = tx.releases.advance(fresh.digest, PublicationReported("cd" * 32), LATER)
    assert both.release(fresh.digest) == public
    assert public.consents == (signed["north"].to_bytes(), signed["south"].to_bytes())
    assert public.record.received == frozenset({"north", "south"})
    assert public.record.manifest == "cd" * 32
    with both.store.reading() as tx:
        lines = [line.what for line in tx.history.of_agreement(fresh.digest)]
    assert lines == [
        "proposed",
        "south approved",
        "north approved",
        "the hub holds all that north sent",
        "the hub may publish",
        f"published, manifest {'cd' * 32}",
    ]


def test_a_conflict_changes_nothing_and_a_repetition_writes_nothing(both: Office) -> None:
    fresh = both.propose()
    with pytest.raises(Conflict), both.store.writing() as tx:
        tx.releases.advance(fresh.digest, PublicationAuthorized(), NOW)
    assert both.release(fresh.digest) == fresh
    with both.store.writing() as tx:
        tx.releases.advance(fresh.digest, Cancelled("no"), NOW)
        tx.releases.advance(fresh.digest, Cancelled("again"), LATER)
    with both.store.reading() as tx:
        assert [line.what for line in tx.history.of_agreement(fresh.digest)] == ["proposed", "cancelled: no"]


def test_a_final_state_is_final_in_the_database_itself(both: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = both.propose()
    with both.store.writing() as tx:
        ended = tx.releases.advance(fresh.digest, Cancelled("no"), NOW)
    # A faulty state machine that would revive it:
    monkeypatch.setattr("coordinator.store.agreements.advance", lambda *_: fresh.record)
    with both.store.writing() as tx, pytest.raises(Conflict, match="changed in the meantime"):
        tx.releases.advance(fresh.digest, Tick(), LATER)
    assert both.release(fresh.digest) == ended


def test_deadlines_are_kept_by_the_store(both: Office) -> None:
    early, late = both.propose(expires_hours=1), both.propose(expires_hours=2)
    both.store.tick(NOW + timedelta(minutes=59))
    assert both.release(early.digest) == early
    both.store.tick(LATER)
    assert both.release(early.digest).record.state is Stage.EXPIRED
    assert both.release(late.digest) == late
    with both.store.reading() as tx:
        assert [line.what for line in tx.history.of_agreement(early.digest)] == ["proposed", "the deadline passed"]


def test_revoking_ends_the_partys_open_releases_and_no_other(both: Office) -> None:
    shared, alone = both.propose(), both.propose(parties={"south": "*"})
    assert both.store.revoke("north", LATER) == (shared.digest,)
    assert both.release(shared.digest).record.state is Stage.CANCELLED
    assert both.release(alone.digest) == alone


def test_an_ambiguous_beginning_is_refused(both: Office) -> None:
    digest = both.propose().digest
    twin = digest[:10] + ("0" if digest[10] != "0" else "1") + digest[11:]
    with both.store._database.writing() as connection:  # no second spec with this beginning can be searched for
        row = connection.execute(agreements.select()).one()._mapping
        connection.execute(agreements.insert().values({**row, "digest": twin}))
        connection.execute(
            text(f"INSERT INTO consents (agreement, party, position) VALUES ('{twin}', 'north', 0)")  # noqa: S608
        )
    with both.store.reading() as tx:
        with pytest.raises(InvalidInput, match="2 releases begin with"):
            tx.releases.find(digest[:6])
        assert tx.releases.find(digest[:11]).digest == digest


def test_only_a_release_that_all_approved_can_have_cost_anything(both: Office) -> None:
    fresh = both.propose()
    with both.store.writing() as tx:
        tx.releases.advance(fresh.digest, Approved("north"), NOW, b"one")
        assert not tx.releases.may_have_spent("north")
        tx.releases.advance(fresh.digest, Approved("south"), NOW, b"two")
        assert tx.releases.may_have_spent("north")
        tx.releases.advance(fresh.digest, Cancelled("too late for the ledgers"), NOW)
        assert tx.releases.may_have_spent("north")
        assert not tx.releases.may_have_spent("stranger")


def test_many_parties_may_write_at_once(both: Office) -> None:
    parties = [f"p{number}" for number in range(5)]
    both.enrol(*parties, share=Fraction(1, 100))
    both.report(
        *(
            catalogue(name, columns=(catalogue("south").columns[0].model_copy(update={"name": name}),))
            for name in parties
        )
    )
    fresh = both.propose(parties=dict.fromkeys(parties, "*"), epsilon=0.01)

    def approve(party: str) -> None:
        with both.store.writing() as tx:
            tx.releases.advance(fresh.digest, Approved(party), NOW, party.encode())

    together(approve, parties)
    after = both.release(fresh.digest)
    assert after.record.state is Stage.APPROVED
    assert after.consents == tuple(party.encode() for party in parties)


def test_nobody_else_reads_the_database_nor_what_stands_beside_it(tmp_path: Path) -> None:
    folder, before = tmp_path / "office", os.umask(0)
    folder.mkdir()
    url = f"sqlite:///{folder / 'coordinator.sqlite'}"
    try:
        for _ in range(2):
            store = Store.open(url) if any(folder.iterdir()) else Store.create(url, "Trio", epsilon=3.0, delta=1e-6)
            with store.writing():
                found = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
            store.close()
            assert {"coordinator.sqlite", "coordinator.sqlite-wal"} <= found.keys()
            assert set(found.values()) == {0o600}
            (folder / "coordinator.sqlite").chmod(0o644)
    finally:
        os.umask(before)


def test_a_folder_that_is_away_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(PeerUnavailable, match="the database cannot be used now: No such file"):
        Store.create(f"sqlite:///{tmp_path / 'away' / 'coordinator.sqlite'}", "Trio", epsilon=3.0, delta=1e-6)
