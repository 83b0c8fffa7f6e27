"""`party-node check`: what is in order, what is not, and how to mend it; seen from inside."""

import json
import resource
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from datetime import timedelta

import pytest

from dprelease.errors import DataRefused
from dprelease.files.durable import write_durably
from dprelease.wire.boundary import exit_code
from party_node.cli.check import Finding, check_state, of_source
from party_node.source.first_look import look_at
from tests.party_node.world import Hospital, World


def found(world: World, *, connectivity: bool = False) -> dict[str, Finding]:
    return {finding.what: finding for finding in checked(world.north, connectivity=connectivity)}


def checked(hospital: Hospital, *, connectivity: bool = False) -> list[Finding]:
    hospital_state = hospital.hospital_state()
    return check_state(
        hospital_state, of_source(hospital_state.settings, look_at(hospital_state.settings)), connectivity=connectivity
    )


def test_everything_in_order(world: World) -> None:
    findings = found(world, connectivity=True)
    assert all(finding.ok for finding in findings.values()), findings
    names = ["settings", "source", "column age", "column sex", "state", "alignment key", "patients", "enrolment"]
    assert list(findings) == [*names, "ledger", "books", "peers", "coordinator", "hub"]
    assert "party north, roster cohort" in findings["settings"].words
    assert "40 rows, no identifier twice, 2 columns" in findings["source"].words
    assert "0 missing, 0 unreadable, 0 outside" in findings["column age"].words
    assert "certificate expires in 29 days" in findings["enrolment"].words
    assert "chain whole" in findings["ledger"].words
    assert "1 keys pinned: south" in findings["peers"].words
    assert world.office.address in findings["coordinator"].words


def test_batches_are_shown_the_latest_first(world: World) -> None:
    world.north.edit('subject = "patient"', 'subject = "patient"\nbatch_rows = 15')
    assert found(world)["batches"].words == (
        "2 (15 rows), 1 (15 rows), the latest first; the office is not told of 1, 2: not complete, or fewer than 20 patients"
    )
    world.north.edit("batch_rows = 15", "batch_rows = 20")
    assert found(world)["batches"].words == "2 (20 rows), 1 (20 rows), the latest first"
    world.north.edit("batch_rows = 20", "batch_rows = 41")
    assert found(world)["batches"].words == "none is complete yet"


def test_a_state_that_takes_no_file_is_found(world: World) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        findings = found(world)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    words = f"{world.north.folder / 'state'} takes no file: File too large"
    assert [(each.what, each.words) for each in findings.values() if not each.ok] == [("state", words)]


def no_source(world: World) -> None:
    world.north.source.unlink()


def no_alignment_key(world: World) -> None:
    (world.north.folder / "state" / "identity" / "alignment.key").unlink()


def no_enrolment(world: World) -> None:
    (world.north.folder / "state" / "identity" / "enrolment.json").unlink()


def certificate_for(days: float) -> Callable[[World], None]:
    def renew(world: World) -> None:
        identity = world.north.hospital_state().identity
        key, lasting = identity.key().public_key(), timedelta(days=days)
        certificate = world.authority.issue("north", "party", key, lasting=lasting)
        renewed = identity.enrolment().model_copy(update={"certificate": certificate})
        write_durably(world.north.folder / "state" / "identity" / "enrolment.json", renewed.to_bytes())

    return renew


def broken_ledger(world: World) -> None:
    with closing(sqlite3.connect(world.north.folder / "state" / "ledger.sqlite")) as db:
        db.execute("DROP TRIGGER no_update")
        db.execute("UPDATE entries SET mu2 = '1000'")
        db.commit()


def no_ledger(world: World) -> None:
    (world.north.folder / "state" / "ledger.sqlite").unlink()


def no_peers(world: World) -> None:
    world.north.hospital_state().identity.forget("south")


def wrong_unit(world: World) -> None:
    world.north.edit("upper = 120", "upper = 12")


def half_missing(world: World) -> None:
    header, *lines = world.north.source.read_text().splitlines()
    lines = [",".join(line.split(",")[:2]) + "," if i < 21 else line for i, line in enumerate(lines)]
    world.north.source.write_text("\n".join([header, *lines]))


def no_coordinator(world: World) -> None:
    world.office.stop()


def hub_cannot_serve(world: World) -> None:
    world.shelf.serving = False


@pytest.mark.parametrize(
    ("trouble", "what", "words"),
    [
        (no_source, "source", "No such file"),
        (no_alignment_key, "alignment key", "party-node alignment-key new"),
        (no_enrolment, "enrolment", "party-node enrol TOKEN"),
        (certificate_for(5.5), "enrolment", "the certificate expires in 5 days"),
        (broken_ledger, "ledger", "chain is broken at entry 1"),
        (no_ledger, "ledger", "no roster cohort"),
        (
            no_peers,
            "peers",
            "0 keys pinned: compare the digest of the file of keys by telephone, then run `party-node peers pin",
        ),
        (wrong_unit, "column age", "40 outside bounds or levels; look at its declaration"),
        (half_missing, "column sex", "look at its declaration, or say mostly_replaced = true"),
        (no_coordinator, "coordinator", "nothing listens there"),
        (hub_cannot_serve, "hub", "cannot serve now"),
    ],
)
def test_each_trouble_is_found_and_says_how_to_mend_it(
    world: World, trouble: Callable[[World], None], what: str, words: str
) -> None:
    trouble(world)
    finding = found(world, connectivity=True)[what]
    assert not finding.ok
    assert words in finding.words
    result = world.north.run("check", "--json")
    assert result.exit_code == exit_code(DataRefused(""))
    assert json.loads(result.stdout) == [asdict(finding) for finding in found(world, connectivity=True).values()]
    assert f"not in order: {what}" in result.stderr or f", {what}" in result.stderr


def test_checking_changes_nothing_and_sends_nothing(world: World) -> None:
    state = world.north.folder / "state"
    before = {path: path.read_bytes() for path in sorted(state.rglob("*")) if path.is_file()}
    world.north.run("check")
    assert {path: path.read_bytes() for path in sorted(state.rglob("*")) if path.is_file()} == before
    assert world.coordinator.received == []
