"""Alignment runs at the office: from catalogues to a task, consent, progress, and every way in which a run ends."""

import json
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from coordinator.cli.main import main
from coordinator.lifecycle import Approved, Cancelled, Stage
from coordinator.proposals.proposals import create, propose_run
from coordinator.service.recovery import take_into_use
from coordinator.store.agreements import Agreement
from coordinator.store.store import Store
from coordinator.store.upkeep import back_up
from dprelease.agreement import accept
from dprelease.errors import AccessDenied, Conflict, DpReleaseError, IntegrityError, InvalidInput, NotFound
from dprelease.wire.boundary import VERSION, translated
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1 import release_pb2
from dprelease.wire.v1.coordination_pb2_grpc import AlignmentServiceStub
from tests.coordinator.office import NOW, RUN_TIME, STUDY, Office, catalogue, request
from tests.coordinator.world import SECONDS, World, report
from tests.hostile.faults import Fault, Kind

HOURS = timedelta(hours=72)
RUN = "5e" * 32


def begun(office: Office) -> Agreement:
    return propose_run(office.store, "cohort", ("north", "south"), HOURS, RUN_TIME, NOW)


@pytest.mark.parametrize(
    ("changed", "parties", "roster", "words"),
    [
        ({}, ("north",), "cohort", "of 2 to 10 different hospitals"),
        ({}, ("north", "north"), "cohort", "different hospitals"),
        ({}, ("north", "west"), "cohort", "no party called 'west' takes part"),
        ({}, ("north", "south"), "trial", "these hospitals have another one: north cohort, south cohort"),
        ({"roster": "other"}, ("north", "south"), "cohort", "another one: south other"),
        ({"identifiers": '{"case":"upper"}'}, ("north", "south"), "cohort", "north: as they stand | south: "),
    ],
)
def test_what_cannot_begin_is_refused(
    office: Office, changed: dict[str, object], parties: tuple[str, ...], roster: str, words: str
) -> None:
    office.report(catalogue("south", **changed))
    with pytest.raises(InvalidInput) as refused:
        propose_run(office.store, roster, parties, HOURS, RUN_TIME, NOW)
    assert words in refused.value.message
    with office.store.reading() as tx:
        assert tx.alignments.all() == ()


def test_one_run_of_a_hospital_at_a_time(office: Office) -> None:
    first = begun(office)
    with pytest.raises(Conflict, match=f"alignment run {first.digest[:12]} of north, south is open: waits for north"):
        begun(office)
    with office.store.writing() as tx:
        tx.alignments.advance(first.digest, Cancelled("again"), NOW)
    assert begun(office).digest != first.digest


def test_clock_revocation_and_restore_end_runs(office: Office) -> None:
    ends = []
    for end in (lambda: office.store.tick(NOW + HOURS), lambda: office.store.revoke("south", NOW)):
        run = begun(office)
        end()
        with office.store.reading() as tx:
            ends.append(str(tx.alignments.get(run.digest).record.state))
    assert ends == ["EXPIRED", "CANCELLED"]


def test_a_restored_office_ends_what_was_open(office: Office, tmp_path: Path) -> None:
    run = begun(office)
    back_up(f"sqlite:///{tmp_path / 'coordinator.sqlite'}", tmp_path / "copy.sqlite", NOW)
    with closing(Store.open(f"sqlite:///{tmp_path / 'copy.sqlite'}", copy=True)) as copied:
        take_into_use(copied, NOW)
        with copied.reading() as tx:
            assert tx.alignments.get(run.digest).record.state is Stage.CANCELLED


@pytest.mark.parametrize(
    ("aligned", "words"),
    [
        ({"south": RUN}, f"not aligned by one run: north: never | south: run {RUN[:12]}"),
        ({"north": "77" * 32, "south": RUN}, f"north: run 777777777777 | south: run {RUN[:12]}"),
    ],
)
def test_a_release_never_mixes_versions(office: Office, aligned: dict[str, str], words: str) -> None:
    office.report(*(catalogue(party, rows=900, aligned=run) for party, run in aligned.items()))
    with pytest.raises(InvalidInput) as refused:
        create(office.store, request(), RUN_TIME, NOW)
    assert words in refused.value.message
    office.report(*(catalogue(party, rows=900, aligned=RUN) for party in ("north", "south")))
    assert create(office.store, request(), RUN_TIME, NOW).proposal.spec.aligned == RUN


def stub(world: World, party: str) -> AlignmentServiceStub:
    return AlignmentServiceStub(world.channel(world.hub if party == "hub" else world.credentials(party)))


def ask(method: object, request_: object) -> object:
    with translated("the coordinator"):
        return method(request_, timeout=SECONDS, metadata=VERSION)  # type: ignore[operator]


CONSENTED = "nothing is kept; the hospitals accept, compute and report as before"


def misused(what: str, error: type[DpReleaseError], act: Callable[..., object]) -> Fault:
    return Fault(what, "coordinator", Kind.ANSWERED, error, CONSENTED, act)


EARLY = misused(
    "a hospital says that it has the result of an alignment run before the hub has carried all that it sends",
    Conflict,
    lambda north, south, west, hub, signed, run: ask(north.FinishRun, pb.FinishRunRequest(run=run)),
)
MISUSED = [
    misused(
        "a hospital accepts an alignment run for another",
        AccessDenied,
        lambda north, south, west, hub, signed, run: ask(south.AcceptRun, signed("north")),
    ),
    misused(
        "a hospital accepts an alignment run with another's key",
        IntegrityError,
        lambda north, south, west, hub, signed, run: ask(north.AcceptRun, signed("north", "south")),
    ),
    misused(
        "a hospital accepts an alignment run that it is no party of",
        IntegrityError,
        lambda north, south, west, hub, signed, run: ask(west.AcceptRun, signed("west")),
    ),
    misused(
        "a hospital accepts an alignment run with garbage",
        InvalidInput,
        lambda north, south, west, hub, signed, run: ask(north.AcceptRun, pb.ApproveRequest(signed_consent=b"{}")),
    ),
    misused(
        "a hospital accepts an alignment run with 128 KiB",
        InvalidInput,
        lambda north, south, west, hub, signed, run: ask(
            north.AcceptRun, pb.ApproveRequest(signed_consent=bytes(1 << 17))
        ),
    ),
    misused(
        "a hospital declines others' alignment run",
        AccessDenied,
        lambda north, south, west, hub, signed, run: ask(west.DeclineRun, pb.DeclineRequest(digest=run)),
    ),
    misused(
        "a hospital says that it has the result of others' alignment run",
        AccessDenied,
        lambda north, south, west, hub, signed, run: ask(west.FinishRun, pb.FinishRunRequest(run=run)),
    ),
    misused(
        "a hospital says that it has the result of an alignment run that not all accepted",
        Conflict,
        lambda north, south, west, hub, signed, run: ask(north.FinishRun, pb.FinishRunRequest(run=run)),
    ),
    misused(
        "a hospital names an alignment run by one byte",
        InvalidInput,
        lambda north, south, west, hub, signed, run: ask(north.FinishRun, pb.FinishRunRequest(run=b"1")),
    ),
    misused(
        "a hospital asks for an alignment run as only the hub may",
        AccessDenied,
        lambda north, south, west, hub, signed, run: ask(north.GetRun, pb.GetAgreementRequest(digest=run)),
    ),
    misused(
        "the hub asks for alignment runs as only hospitals may",
        AccessDenied,
        lambda north, south, west, hub, signed, run: ask(hub.ListRuns, pb.ListAgreementsRequest()),
    ),
    misused(
        "the hub asks for an alignment run that there is not",
        NotFound,
        lambda north, south, west, hub, signed, run: ask(hub.GetRun, pb.GetAgreementRequest(digest=bytes(32))),
    ),
]


FAULTS = [*MISUSED, EARLY]


def test_hospitals_consent_and_report_over_the_wire(world: World) -> None:
    for party in ("north", "south", "west"):
        report(world.join(party), party)
    store = world.store()
    run = propose_run(store, "cohort", ("north", "south"), HOURS, RUN_TIME, world.clock())
    digest, task = bytes.fromhex(run.digest), run.read_task()

    def signed(party: str, key: str = "") -> pb.ApproveRequest:
        made = accept(task, party, world.keys[key or party], world.certificates[key or party], world.clock())
        return pb.ApproveRequest(signed_consent=made.to_bytes())

    north, south, west, hub = (stub(world, name) for name in ("north", "south", "west", "hub"))
    for fault in MISUSED:
        with fault.refused() as caught:
            fault.act(north, south, west, hub, signed, digest)
        fault.check_answer(caught)
    assert ask(west.ListRuns, pb.ListAgreementsRequest()) == pb.ListAgreementsResponse()
    for _ in range(2):
        ask(north.AcceptRun, signed("north"))
    (shown,) = ask(south.ListRuns, pb.ListAgreementsRequest()).agreements  # type: ignore[attr-defined]
    assert (shown.proposal, shown.state, len(shown.consents)) == (run.proposal, release_pb2.RUN_STATE_PROPOSED, 1)
    ask(south.AcceptRun, signed("south"))
    for _ in range(2):
        with EARLY.refused() as caught:
            EARLY.act(north, south, west, hub, signed, digest)
        EARLY.check_answer(caught)
        ask(hub.GetRun, pb.GetAgreementRequest(digest=digest, reports=True))
    ask(world.as_hub().ReportIntake, pb.ReportIntakeRequest(spec_digest=digest, received=["north"]))
    ask(north.FinishRun, pb.FinishRunRequest(run=digest))
    with pytest.raises(Conflict):
        ask(south.FinishRun, pb.FinishRunRequest(run=digest))
    # A hub of before reports nothing: whoever asks it has carried all.
    found = ask(hub.GetRun, pb.GetAgreementRequest(digest=digest)).agreement  # type: ignore[attr-defined]
    assert (found.state, len(found.consents)) == (release_pb2.RUN_STATE_RUNNING, 2)
    ask(south.FinishRun, pb.FinishRunRequest(run=digest))
    (shown,) = ask(south.ListRuns, pb.ListAgreementsRequest()).agreements  # type: ignore[attr-defined]
    assert shown.state == release_pb2.RUN_STATE_DONE


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_office_starts_shows_and_cancels(opened: Office) -> None:
    made = json.loads(invoke("align", "start", "--roster", "cohort", "north", "south", "--json"))
    assert (made["state"], made["patients"]) == ("PROPOSED", {"north": 1000, "south": 1000})
    assert made["digest"][:12] in invoke("release", "list")
    assert "north: 1,000 patients" in invoke("release", "show", made["digest"][:6])
    invoke("release", "cancel", made["digest"][:6], "--reason", "a newer export")
    shown = json.loads(invoke("release", "show", made["digest"], "--json"))
    assert [line["what"] for line in shown["history"]] == ["proposed", "cancelled: a newer export"]
    assert json.loads(invoke("release", "list", "--json"))[0]["state"] == "CANCELLED"


def test_a_release_that_leaves_a_hospital_of_the_run_out_is_warned_of(opened: Office, study: Path) -> None:
    opened.enrol("west", now=datetime.now(UTC))
    opened.report(catalogue("west"), now=datetime.now(UTC))
    run = json.loads(invoke("align", "start", "--roster", "cohort", "north", "south", "west", "--json"))["digest"]
    opened.report(*(catalogue(party, aligned=run) for party in ("north", "south", "west")))
    made = CliRunner().invoke(main, ["release", "create", str(study)])
    assert f"warning: west takes no part, and alignment run {run[:12]} is its own as well" in made.stderr
    study.write_text(STUDY.replace("[parties]", '[parties]\nwest = "*"').replace('north = "*"', 'north = ["sex"]'))
    assert "takes no part" not in CliRunner().invoke(main, ["release", "create", str(study)]).stderr


def test_both_kinds_of_database_keep_runs(any_store: Store) -> None:
    office = Office(any_store)
    office.enrol("north", "south")
    office.report(catalogue("north"), catalogue("south"))
    run = begun(office)
    with any_store.writing() as tx:
        tx.alignments.advance(run.digest, Approved("south"), NOW, b"consent")
    with any_store.reading() as tx:
        found = [each for _, each in tx.alignments.of_party("north", NOW)]
        assert [(each.digest, each.consents, each.record.approved) for each in found] == [
            (run.digest, (b"consent",), frozenset({"south"}))
        ]
        assert [*tx.releases.of_party("north", NOW)] == []
        assert not tx.releases.may_have_spent("south")
