"""Alignment runs through the whole daemon, over real TLS: every cycle is a fresh process that goes on from its disk."""

import json
import logging
import stat
from datetime import UTC, datetime, timedelta

import pytest

from dprelease.errors import Conflict, DataRefused, DpReleaseError, Irreparable, PolicyRefused, SpecRefused
from dprelease.intersection import curve
from dprelease.mpc.messages import sign_message
from dprelease.spec_base import instant
from party_node.outgoing.relay import RelayCalls
from party_node.state.journal import Status
from party_node.state.session import Outgoing
from tests.hostile.faults import Fault, Kind, each
from tests.party_node.aligning import SHARED, accepted, common, go, noted, overlap, propose, status, task, words_of
from tests.party_node.world import ROWS, World


def test_two_hospitals_find_the_patients_that_both_have(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    before = world.spec()
    run = accepted(overlap(world))
    assert status(world.north, run) == "approved"
    go(world, run)
    for hospital in (world.north, world.south):
        entry = hospital.hospital_state().journal.find(run)
        assert (entry.status, entry.version, entry.common) == (Status.IN_FORCE, 1, SHARED)
        assert hospital.hospital_state().journal.roster(run) == common()
        assert noted(hospital) == [(run, "0")]
        file = hospital.folder / "state" / "rosters" / run
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert not (hospital.folder / "state" / "aligning" / run).exists()
        told = hospital.hospital_state().make_catalogue()
        assert (told.rows, told.patients, told.aligned) == (SHARED, ROWS if hospital is world.north else 36, run)
        assert hospital.hospital_state().read().alignment.rows == SHARED
    digests = {hospital.hospital_state().catalogue().alignment for hospital in (world.north, world.south)}
    assert len(digests) == 1
    assert digests != {before.alignment}
    heard = [*world.relay.posts[run].record(), *(data for _, data in world.coordinator.received)]
    heard += [request.SerializeToString() for _, _, request in world.alignments.heard]
    names = [common()[at : at + 32] for at in range(0, len(common()), 32)]
    assert not any(name in data or name.hex().encode() in data for name in names for data in heard)
    assert "is held" not in caplog.text


def test_a_release_names_the_run_and_reads_its_patients(world: World) -> None:
    run = accepted(overlap(world))
    go(world, run)
    release = world.propose(rows=SHARED, aligned=run, alignment=world.south.hospital_state().catalogue().alignment)
    deliver = [hospital for _ in range(3) for hospital in (world.north, world.south)]
    for hospital in deliver:
        hospital.cycle()
    assert [world.north.status(release), world.south.status(release)] == ["delivered", "delivered"]
    for other in ({"aligned": None}, {"aligned": "77" * 32}):
        refused = world.propose(
            "another",
            rows=SHARED,
            alignment=world.south.hospital_state().catalogue().alignment,
            columns=("age",),
            **other,
        )
        world.north.cycle()
        assert world.north.status(refused) == "declined"


def test_a_release_from_before_goes_on_with_the_patients_it_was_proposed_for(world: World) -> None:
    release = world.approved()
    run = accepted(world)
    go(world, run)
    world.north.cycle()
    assert world.north.hospital_state().catalogue().aligned == run
    assert world.north.status(release) == "delivered"


def test_nothing_leaves_before_a_person_here_and_all_others_accepted(world: World) -> None:
    run = propose(overlap(world))
    world.north.cycle(2)
    assert (status(world.north, run), world.alignments.heard) == ("waiting", [])
    world.alignments.move(run, "RUNNING")  # it is not
    world.north.cycle(2)
    assert status(world.north, run) == "waiting"
    world.alignments.move(run, "PROPOSED")
    assert world.north.run("review", "approve", run, "--yes").exit_code == 0
    world.north.cycle()
    world.alignments.move(run, "RUNNING")
    world.north.cycle(2)
    assert "no approval by south" in world.north.hospital_state().journal.find(run).note
    assert world.relay.posts == {}
    assert noted(world.north) == []


def test_a_pin_that_was_taken_back_stops_a_run(world: World) -> None:
    run = accepted(overlap(world))
    world.north.hospital_state().identity.forget("south")
    world.north.cycle(2)
    assert "not the one pinned here" in world.north.hospital_state().journal.find(run).note
    assert world.relay.posts == {}
    assert noted(world.north) == []


def test_an_unpinned_key_has_to_be_compared_first(world: World) -> None:
    world.north.hospital_state().identity.forget("south")
    run = propose(overlap(world))
    world.north.cycle()
    refused = world.north.run("review", "approve", run, "--yes")
    assert refused.exit_code != 0
    assert "what its party-node fingerprint prints" in words_of(refused)
    shown = json.loads(world.north.run("review", "show", run, "--json").stdout)
    assert shown["other_hospitals"] == {"south": "36 patients, key not pinned"}
    assert "peers pin south FINGERPRINT" in shown["to_do_here_first"][0]
    assert world.members["south"].fingerprint not in json.dumps(shown)
    world.north.hospital_state().identity.pin("south", "ab" * 32)
    assert "another key for south" in words_of(world.north.run("review", "approve", run, "--yes"))
    assert status(world.north, run) == "waiting"


def members(world: World, **sizes: int) -> list[dict[str, object]]:
    return [
        member.model_dump() | {"patients": sizes.get(member.party, member.patients)} for member in task(world).members
    ]


def refused_run(what: str, error: type[DpReleaseError], words: str, **changes: object) -> Fault:
    """A run that the hospital declines; what its log says, and how it differs from an honest one."""
    return Fault(f"an alignment run {what}", "hospital", Kind.DECLINED, error, UNCOUNTED, lambda: (changes, words))


UNCOUNTED = "nothing of it leaves, and it does not count"

DECLINED = [
    refused_run("of another roster", SpecRefused, "says roster = other, and here it is cohort", roster="other"),
    refused_run("of another consortium", SpecRefused, "says consortium = Quartet", consortium="Quartet"),
    refused_run(
        "with another normal form of identifiers",
        SpecRefused,
        'normal form of identifiers = {"case":"upper"}, and here it is as they stand',
        identifiers='{"case":"upper"}',
    ),
    refused_run(
        "over another number of our patients",
        SpecRefused,
        f"says number of our patients = {ROWS + 1}, and here it is {ROWS}",
        north=ROWS + 1,
    ),
    refused_run(
        "that has expired",
        SpecRefused,
        "the alignment run has expired",
        expires="2020-01-02T00:00:00Z",
        created="2020-01-01T00:00:00Z",
    ),
    refused_run(
        "more than allowed",
        PolicyRefused,
        "aligned 1 times, and alignments = 1 under [policy] allows no more",
        attempts=1,
    ),
    refused_run("where none is allowed", PolicyRefused, "alignments = 0 under [policy] allows no more", attempts=0),
]


@each(DECLINED)
def test_what_does_not_fit_is_declined(world: World, fault: Fault, caplog: pytest.LogCaptureFixture) -> None:
    changes, words = dict(fault.act()[0]), fault.act()[1]
    if "attempts" in changes:
        most = changes.pop("attempts")
        world.north.edit(r"^\[policy\.auto_approve\]", f"[policy]\nalignments = {most}\n[policy.auto_approve]")
        assert isinstance(most, int)
        for number in range(most):
            world.north.hospital_state().ledger.align("cohort", f"{number:064}", 5, {})
    if "north" in changes:
        changes = {"members": members(world, north=ROWS + 1)}
    run = propose(world, **changes)
    world.north.cycle(2)
    assert words in caplog.text
    assert status(world.north, run) == "declined"
    ((party, request),) = world.alignments.said("DeclineRun")
    assert party == "north"
    assert request.reason == world.north.hospital_state().journal.find(run).note == fault.sentence
    assert str(ROWS) not in request.reason
    assert noted(world.north) == [(f"{number:064}", "0") for number in range(len(noted(world.north)))]


CHANGED = Fault(
    "a table with other patients than were announced for an alignment run", "hospital", Kind.DECLINED, DataRefused,
    UNCOUNTED, lambda lines: lines[:-1],
)  # fmt: skip


@each([CHANGED])
def test_a_table_that_changed_after_a_person_accepted_is_declined(
    world: World, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    run = propose(world)
    world.north.cycle()
    assert world.north.run("review", "approve", run, "--yes").exit_code == 0
    lines = world.north.source.read_text().splitlines()
    world.north.source.write_text("\n".join(fault.act(lines)) + "\n")
    daemon = world.north.daemon()
    with world.north.dialled() as coordinator:
        daemon._round(coordinator, *daemon._works[0])  # before the table is reported again
    assert f"the table has {ROWS - 1} patients now, and {ROWS} were announced" in caplog.text
    assert status(world.north, run) == "declined"
    assert [request.reason for _, request in world.alignments.said("DeclineRun")] == [fault.sentence]
    assert world.alignments.said("AcceptRun") == []
    assert noted(world.north) == []


def test_a_table_that_changes_afterwards_is_the_next_runs(world: World) -> None:
    run = accepted(overlap(world))
    lines = world.north.source.read_text().splitlines()
    world.north.source.write_text("\n".join(line for line in lines if not line.startswith("subject-0003,")) + "\n")
    go(world, run)
    assert world.north.hospital_state().journal.roster(run) == common()
    said = f"1 of its {SHARED} patients are in the table no more"
    assert said in words_of(world.north.run("check"))
    assert f"its {SHARED} patients are read, of 36 in the table" in words_of(world.south.run("check"))


@pytest.mark.parametrize(("state", "cycles"), [("EXPIRED", 0), ("CANCELLED", 2), ("FAILED", 12)])
def test_a_run_that_ends_leaves_nothing(world: World, state: str, cycles: int) -> None:
    run = accepted(overlap(world))
    world.alignments.ends = False
    for _ in range(cycles):
        for hospital in (world.north, world.south):
            if status(world.south, run) != "finished":
                hospital.cycle()
    world.alignments.move(run, state)
    go(world, run)
    for hospital in (world.north, world.south):
        assert status(hospital, run) == "ended"
        assert not list((hospital.folder / "state" / "aligning").glob("*"))
        assert not list((hospital.folder / "state" / "rosters").glob("*"))
        assert hospital.hospital_state().make_catalogue().aligned is None
        assert len(noted(hospital)) == (cycles > 0)


def test_a_run_that_ends_between_the_looks_at_office_and_relay_is_no_trouble(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    run = accepted(overlap(world))
    world.alignments.ends = False
    while status(world.south, run) != "finished":
        for hospital in (world.north, world.south):
            hospital.cycle()
    world.relay.raises = Conflict("it is over")
    world.south.cycle()
    assert "is held" not in caplog.text
    world.alignments.move(run, "DONE")
    go(world, run)
    assert status(world.south, run) == "in force"


def test_a_person_may_decline_while_it_is_computed(world: World) -> None:
    run = accepted(overlap(world))
    for hospital in (world.north, world.south):
        hospital.cycle()
    assert world.south.run("review", "decline", run, "--reason", "a newer export").exit_code == 0
    go(world, run)
    assert (status(world.south, run), status(world.north, run)) == ("declined", "ended")
    assert [request.reason for _, request in world.alignments.said("DeclineRun")] == ["a newer export"]
    assert not list((world.south.folder / "state" / "aligning").glob("*"))
    assert world.south.run("review", "approve", run, "--yes").exit_code != 0


@pytest.mark.parametrize("kind", ["hello", "points", "transcript"])
def test_nothing_leaves_after_a_person_declined_in_the_middle_of_a_step(
    world: World, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, sent = accepted(overlap(world)), RelayCalls.send

    def and_declined(relay: RelayCalls, outgoing: Outgoing) -> None:
        sent(relay, outgoing)
        header = outgoing.message.header
        if (header.sender, header.kind, status(world.south, run)) == ("south", kind, "approved"):
            assert world.south.run("review", "decline", run, "--reason", "a newer export").exit_code == 0

    monkeypatch.setattr(RelayCalls, "send", and_declined)
    go(world, run)
    assert (status(world.south, run), status(world.north, run)) == ("declined", "ended")
    ours = [each.header for each in world.relay.posts[run].messages.values() if each.header.sender == "south"]
    assert {header.round for header in ours} == {1}
    assert ours[-1].kind == kind
    assert not list((world.south.folder / "state" / "aligning").glob("*"))


def other_key(world: World) -> None:
    (world.south.folder / "state" / "identity" / "alignment.key").write_bytes(bytes(32))


def other_patients(world: World) -> None:
    world.south.source.write_text(world.south.source.read_text().replace("subject-", "other-"))


AS_BEFORE = "nobody is common to all; tables are read as before, and every hospital's log says what to compare"

NOBODY = [
    Fault(f"an alignment run of hospitals, one of which has {what}", "hospital", Kind.HARMLESS, None, AS_BEFORE, act)
    for what, act in (("another alignment key", other_key), ("none of the others' patients", other_patients))
]


@each(NOBODY)
def test_no_common_patient_or_another_key_is_no_version(
    world: World, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    fault.act(world)
    world.south.hospital_state().make_catalogue()
    run = accepted(world)
    go(world, run)
    words = "no patient is common to all hospitals: compare the key check that party-node check prints"
    for hospital in (world.north, world.south):
        entry = hospital.hospital_state().journal.find(run)
        assert (entry.status, entry.common) == (Status.ENDED, 0)
        assert entry.note.startswith(words)
        assert hospital.hospital_state().make_catalogue().aligned is None
    warned = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert len([each for each in warned if words in each]) == 2


def test_versions_follow_one_another_and_attempts_are_counted(world: World) -> None:
    overlap(world)
    runs = []
    for _ in range(2):
        runs.append(accepted(world))
        go(world, runs[-1])
    assert [entry.version for entry in world.north.hospital_state().journal.runs()] == [1, 2]
    assert [run for run, _ in noted(world.north)] == runs
    assert world.north.hospital_state().catalogue().patients == ROWS
    shown = json.loads(world.north.run("review", "list", "--json").stdout)
    versions = [(line["version"], line["common_patients_seen_here_only"]) for line in shown if "run" in line]
    assert versions == [(1, SHARED), (2, SHARED)]
    assert "alignment run" in words_of(world.north.run("ledger", "show"))
    third = propose(world)
    world.north.cycle()
    shown = json.loads(world.north.run("review", "show", third, "--json").stdout)
    assert (shown["runs_before"], shown["runs_left"]) == (2, "2 after this one, of 5")


def test_an_office_that_tells_of_ends_in_another_order_takes_no_version_back(world: World) -> None:
    overlap(world)
    world.alignments.ends = False
    first, second = accepted(world, created=instant(datetime.now(UTC) - timedelta(minutes=1))), accepted(world)
    for _ in range(12):
        world.north.cycle()
        world.south.cycle()
    for run in (second, first):
        assert (status(world.north, run), status(world.south, run)) == ("finished", "finished")
        world.alignments.move(run, "DONE")
        go(world, run, 1)
    entry = world.north.hospital_state().journal.find(first)
    assert (entry.status, entry.note, entry.version) == (Status.ENDED, "a later run is in force", None)
    assert world.north.hospital_state().make_catalogue().aligned == second


def test_a_ledger_from_an_older_backup_does_not_give_attempts_back(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = world.north.folder / "state" / "ledger.sqlite"
    older = ledger.read_bytes()
    go(world, accepted(world))
    ledger.write_bytes(older)
    assert noted(world.north) == []
    world.north.edit(r"^\[policy\.auto_approve\]", "[policy]\nalignments = 1\n[policy.auto_approve]")
    run = propose(world)
    world.north.cycle()
    assert status(world.north, run) == "declined"
    assert "was aligned 1 times" in caplog.text


def test_a_version_in_force_serves_its_roster_under_its_rules_while_its_file_is_whole(world: World) -> None:
    run, north = accepted(overlap(world)), world.north
    go(world, run)
    ended = north.hospital_state().journal.offer(task(world), Status.ENDED).digest  # as the power went
    folder = north.folder / "state" / "rosters"
    (folder / ended).write_bytes(b"x" * 32)
    north.daemon().sweep(datetime.now(UTC))
    assert [path.name for path in folder.glob("*")] == [run]

    north.edit(r'^roster = "cohort"', 'roster = "another"')
    told = north.hospital_state().make_catalogue()
    assert (told.roster, told.rows, told.aligned) == ("another", ROWS, None)
    north.edit(r'^roster = "another"', 'roster = "cohort"')
    assert north.hospital_state().make_catalogue().aligned == run

    north.edit(r'^subject = "patient"', 'subject = "patient"\nidentifiers = { case = "upper" }')
    assert "identifiers] changed after alignment run" in words_of(north.run("check"))
    north.edit(r"^identifiers = .*\n", "")
    assert north.hospital_state().make_catalogue().aligned == run
    file = folder / run
    file.write_bytes(file.read_bytes()[32:])
    assert "is gone or was altered" in words_of(north.run("check"))


def points_of_small_order(world: World, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The south's daemon hides no patient of its own, and everybody would tell the same of each."""
    small = bytes([1, *bytes(31)])
    with monkeypatch.context() as patch:
        patch.setattr(curve, "blinded", lambda elements, **_: small * (len(elements) // 32))
        for _ in range(4):
            world.north.cycle()
            world.south.cycle()


def two_offers(world: World, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The south signs another session key in the same place."""
    world.south.cycle()
    (hello,) = [each.header for each in world.relay.posts[run].messages.values() if each.header.kind == "hello"]
    other = sign_message(world.members["south"].key, hello.model_copy(update={"payload": "ab" * 32}))
    world.relay.posts[run].messages[other.header.digest()] = other


MISCONDUCT = [
    Fault(f"another hospital of an alignment run {what}", "hospital", Kind.DECLINED, Irreparable,
          "the run ends at the office, which sees who is said to have sent it; the next one may begin", (act, words),  # type: ignore[arg-type]
          "a decline: The bytes do not match what was signed. NAME sent them.")
    for what, act, words in (
        ("sends points of small order", points_of_small_order, "south sent, for patients of south: a point of small order"),
        ("signs two offers", two_offers, "south sent two different messages of kind hello in one round"),
    )
]  # fmt: skip


@each(MISCONDUCT)
def test_what_a_hospital_signed_against_the_rules_ends_the_run_and_is_told(
    world: World, fault: Fault, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    act, words = fault.act  # type: ignore[misc]
    run = accepted(overlap(world))
    act(world, run, monkeypatch)
    world.north.cycle()
    assert words in caplog.text
    assert status(world.north, run) == "declined"
    assert [(party, request.reason) for party, request in world.alignments.said("DeclineRun")] == [
        ("north", f"{fault.sentence} south sent them.")
    ]
    go(world, run)
    assert status(world.south, run) == "ended"
    again = accepted(world)
    go(world, again)
    assert status(world.north, again) == "in force"


FAULTS = [*DECLINED, CHANGED, *NOBODY, *MISCONDUCT]
