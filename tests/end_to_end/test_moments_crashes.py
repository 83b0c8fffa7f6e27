"""kill -9 of every role at every step of a joint computation, and between rounds: one release, the same blocks, one charge.

The crash points are reached by name (tests/support/faulty.py). All of them share one consortium of three hospitals, in
which each deals for the other two.
"""

import json
import signal
from collections.abc import Iterator
from itertools import count

import numpy as np
import pytest

from audit import audit
from demo.consortium import Consortium, wait_for
from dprelease.release.manifest import Manifest
from tests.end_to_end.hospitals import Hospital, final_state, found, numeric, other_columns, propose
from tests.end_to_end.points import crash_points
from tests.support.faulty import FULL
from tests.support.forked import ForkedConsortium

pytestmark = pytest.mark.end_to_end

ROWS = 200
NUMBERS = count(1)
"""Of each release in turn, for columns of its own."""

PARTY = {
    "before it joins": "kill-before@party_node.state.session:SessionFolder.begin",
    "joined, key not sent": "kill-after@party_node.state.session:SessionFolder.begin",
    "key sent": "kill-after@party_node.outgoing.relay:RelayCalls.send",
    "dealing": "kill-before@dprelease.mpc.exchange:deal",
    "dealt, nothing frozen": "kill-after@dprelease.mpc.exchange:deal",
    "deals sent": "kill-after@party_node.outgoing.relay:RelayCalls.send#2",
    "seeds noted, deal not kept": "kill-after@party_node.state.session:UsedSeeds.use",
    "charged, nothing masked": "kill-after@party_node.computation.sessions:JointWork._charge",
    "masked, not frozen": "kill-before@party_node.state.session:SessionFolder.freeze#3",
    "masked columns on their way": "kill-before@party_node.outgoing.relay:RelayCalls.send#3",
    "columns and their keys sent": "kill-after@party_node.outgoing.relay:RelayCalls.send#3",
    "transcript signed, not sent": "kill-after@party_node.state.session:SessionFolder.freeze#5",
    "challenges on their way": "kill-before@party_node.outgoing.relay:RelayCalls.send#6",
    "challenge frozen, not sent": "kill-after@dprelease.mpc.proofs:Proofs._asked",
    "matrices proved, not frozen": "kill-after@dprelease.mpc.proof.parts:RangeProver.first",
    "before it answers as a dealer": "kill-before@dprelease.mpc.schedule:DealtSeeds.answer",
    "answered as a dealer, nothing frozen": "kill-after@dprelease.mpc.schedule:DealtSeeds.answer",
    "before the first product": "kill-before@dprelease.mpc.exchange:Exchange.share",
    "between two products": "kill-after@dprelease.mpc.exchange:Exchange.share",
    "all proofs accepted, not sent": "kill-after@dprelease.mpc.proofs:Proofs._confirm",
    "all checked, before its block": "kill-before@dprelease.mpc.proofs:Proofs.share",
    "noise drawn, nothing sealed": "kill-after@party_node.computation.sessions:privatize",
    "sealed, not noted": "kill-after@party_node.state.vault:Vault.seal",
    "sealed, others still multiply": "kill-before@party_node.outgoing.hub:upload",
}
HUB = {
    "a key arrives": "kill-before@learner.hub.relay:Relay.open_parcels",
    "deals arrive": "kill-after@learner.hub.relay:Relay.open_parcels#4",
    "masked columns arrive": "kill-before@learner.hub.relay:Relay.open_parcels#7",
    "masked columns are fetched": "kill-after@learner.hub.relay:Relay.body#8",
    "before the manifest": "kill-before@learner.hub.publish:prepare",
    "public, not reported": "kill-after@learner.hub.storage:Storage.reveal",
}
COORDINATOR = {
    "a block is reported": "kill-before@coordinator.service.coordination:CoordinationService.ReportIntake",
    "before the publication": "kill-before@coordinator.service.coordination:CoordinationService.AuthorizePublication",
}
DEALER = {
    "before it deals": "kill-before@coordinator.service.dealer:deal",
    "dealt, not kept": "kill-after@coordinator.service.dealer:deal",
}
ROUNDS_AT_A_PARTY = {
    "ranges drawn, nothing sealed": "kill-after@party_node.computation.releases:privatize",
    "ranges sealed, not noted": "kill-after@party_node.state.vault:Vault.seal",
    "ranges noted, not charged": "kill-after@party_node.state.ledger:Ledger.make",
    "charged, not sent": "kill-before@party_node.outgoing.hub:upload",
    "ranges sent": "kill-after@party_node.outgoing.hub:upload",
    "a peer's ranges fetched": "kill-after@party_node.computation.rounds:fetch_block",
    "peers' ranges checked, not kept": "kill-before@party_node.state.vault:RoundFolder.keep",
    "peers' ranges kept": "kill-after@party_node.state.vault:RoundFolder.keep",
    "before it joins the session": "kill-before@party_node.state.session:SessionFolder.begin",
    "moments drawn, nothing sealed": "kill-after@party_node.computation.sessions:privatize",
    "moments sealed, not noted": "kill-after@party_node.state.vault:Vault.seal#2",
}
ROUNDS_AT_THE_HUB = {
    "a first block arrives": "kill-before@learner.hub.intake:Intake.begin",
    "the first round is whole": "kill-after@learner.hub.storage:Storage.complete#3",
    "first blocks are asked for": "kill-after@learner.hub.intake:Intake.earlier_blocks",
    "a first block is fetched": "kill-after@learner.hub.intake:Intake.earlier_block",
    "the last block is here": "kill-after@learner.hub.storage:Storage.complete#6",
}
USUAL = {
    "party": {"dealt, nothing frozen"},
    "hub": {"masked columns arrive"},
    "coordinator": set(),
    "dealer": {"dealt, not kept"},
    "disk": {"masking"},
    "rounds at a party": {"ranges sealed, not noted"},
    "rounds at the hub": {"a first block is fetched"},
}
"""What every run tries; `make test-slow` tries the others. A cut before every step of one of two hospitals, without processes, is
tried every time in `tests/party_node/test_joint_crashes.py`, between rounds a third of them in `test_rounds.py` there;
`test_streams_crashes.py` kills one that drew noise, and the coordinator between approvals."""

FULL_DISKS = {
    "session": "full@party_node.state.session:write_secret",
    "masking": "full@dprelease.mpc.exchange:Exchange.mask",
}


def _hospitals(number: int) -> list[Hospital]:
    random = np.random.default_rng(6)
    cells = {name: [*map(float, random.uniform(-1, 1, ROWS))] for name in "abcdef"}
    return [
        Hospital(
            name,
            {f"{name}_{column}": numeric(-1, 1) for column in cells},
            {f"{name}_{column}": values for column, values in cells.items()},
        )
        for name in ("clinic", "ward", "lab")[:number]
    ]


@pytest.fixture(scope="module")
def consortium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with ForkedConsortium(tmp_path_factory.mktemp("joint-crashes") / "consortium") as started:
        found(started, _hospitals(3), epsilon=4000.0)
        yield started
        assert audit(started.folder) == []


def _crash(consortium: Consortium, name: str, fault: str, parties: int = 3, **request: object) -> str:
    """Run a role with a fault until it dies of it in the middle of a computation; start it again; the release's digest."""
    consortium.halt(name)
    consortium.restart(name, launcher=("-m", "tests.support.faulty", fault, "--"))
    release = _propose(consortium, f"{name}: {fault}", parties, **request)
    assert consortium.died(name) == -signal.SIGKILL
    consortium.restart(name)
    return release


def _propose(consortium: Consortium, title: str, parties: int = 3, **request: object) -> str:
    hospitals = _hospitals(parties)
    columns = other_columns(hospitals, next(NUMBERS))
    return propose(consortium, hospitals, columns, title=title, mechanism="moments", epsilon=2.0, **request)


def _exactly_one_release(consortium: Consortium, release: str, rounds: int = 1) -> None:
    assert final_state(consortium, release) == "PUBLISHED"
    folder = consortium.hub / "storage" / "published" / release
    manifest = Manifest.from_bytes((folder / "manifest.json").read_bytes())
    assert len(manifest.blocks) == rounds * len(manifest.spec.parties)
    for entry in manifest.blocks:
        home, name = consortium.hospital(entry.sealed.party), f"{entry.sealed.sequence}.block"
        sealed = (home / "state" / "sealed" / f"{release}.{name}").read_bytes()
        assert (folder / "blocks" / f"{entry.sealed.party}.{name}").read_bytes() == sealed
        shown = json.loads(consortium.run("party-node", "ledger", "show", "--json", home=home))
        kinds = [line["kind"] for line in shown["entries"] if line["release"] == release]
        if rounds == 1:
            assert kinds == ["reserve", "charge", "send", "made"]
        else:
            assert sorted(kinds) == ["charge", "made", "made", "reserve", "send"]


@pytest.mark.parametrize("fault", crash_points(PARTY, USUAL["party"]))
def test_a_party_is_killed(consortium: Consortium, fault: str) -> None:
    _exactly_one_release(consortium, _crash(consortium, "clinic", fault))


@pytest.mark.parametrize("fault", crash_points(HUB, USUAL["hub"]))
def test_the_hub_is_killed(consortium: Consortium, fault: str) -> None:
    _exactly_one_release(consortium, _crash(consortium, "hub", fault))


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        pytest.param(name, *point.values, id=point.id, marks=point.marks)
        for name, table, usual in (
            ("clinic", ROUNDS_AT_A_PARTY, "rounds at a party"),
            ("hub", ROUNDS_AT_THE_HUB, "rounds at the hub"),
        )
        for point in crash_points(table, USUAL[usual])
    ],
)
def test_a_role_is_killed_between_the_rounds_of_a_release(consortium: Consortium, name: str, fault: str) -> None:
    _exactly_one_release(consortium, _crash(consortium, name, fault, ranges="first"), rounds=2)


@pytest.mark.parametrize("fault", crash_points(COORDINATOR, USUAL["coordinator"]))
def test_the_coordinator_is_killed(consortium: Consortium, fault: str) -> None:
    _exactly_one_release(consortium, _crash(consortium, "coordinator", fault))


@pytest.mark.parametrize("fault", crash_points(DEALER, USUAL["dealer"]))
def test_the_coordinator_is_killed_as_dealer(consortium: Consortium, fault: str) -> None:
    _exactly_one_release(consortium, _crash(consortium, "coordinator", fault, parties=2))


@pytest.mark.parametrize("fault", crash_points(FULL_DISKS, USUAL["disk"]))
def test_a_full_disk_delays_and_loses_nothing(consortium: Consortium, fault: str) -> None:
    consortium.halt("clinic")
    since = consortium.log("clinic").stat().st_size
    consortium.restart("clinic", launcher=("-m", "tests.support.faulty", fault, "--"))
    release = _propose(consortium, f"full disk at {fault}")
    log = consortium.log("clinic")
    wait_for(lambda: FULL in log.read_bytes()[since:].decode(), 60, "the clinic to meet the full disk")
    consortium.halt("clinic")
    consortium.restart("clinic")
    _exactly_one_release(consortium, release)


def test_a_party_that_lost_its_session_begins_the_next_round(consortium: Consortium) -> None:
    """Its disk lost the session after the keys were exchanged: everybody follows into a second round."""
    consortium.halt("lab")
    fault = "kill-before@dprelease.mpc.exchange:Exchange.mask"
    consortium.restart("lab", launcher=("-m", "tests.support.faulty", fault, "--"))
    release = _propose(consortium, "a lost session")
    assert consortium.died("lab") == -signal.SIGKILL
    session = consortium.hospital("lab") / "state" / "joint" / release
    for path in sorted(session.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    session.rmdir()
    consortium.restart("lab")
    _exactly_one_release(consortium, release)
    assert b"joins round 2" in consortium.log("clinic").read_bytes()


def test_a_party_that_is_lost_after_a_block_exists_ends_the_release_and_the_charge_stands(
    consortium: Consortium,
) -> None:
    consortium.halt("lab")
    fault = "kill-before@dprelease.mpc.proofs:Proofs.share"
    consortium.restart("lab", launcher=("-m", "tests.support.faulty", fault, "--"))
    release = _propose(consortium, "lost for good")
    assert consortium.died("lab") == -signal.SIGKILL
    wait_for(
        lambda: (consortium.hospital("clinic") / "state" / "sealed" / f"{release}.0.block").exists(),
        60,
        "the clinic's block",
    )
    consortium.run("coordinator", "release", "cancel", release, "--reason", "lab burnt down", home=consortium.office)
    assert final_state(consortium, release) == "CANCELLED"
    home = consortium.hospital("clinic")

    def over() -> bool:
        shown = json.loads(consortium.run("party-node", "review", "show", release, "--json", home=home))
        return bool(shown["status"] == "ended")

    wait_for(over, 60, "the clinic to hear of it")
    ledger = json.loads(consortium.run("party-node", "ledger", "show", "--json", home=home))
    kinds = [line["kind"] for line in ledger["entries"] if line["release"] == release]
    assert kinds == ["reserve", "charge", "send", "made"]
    assert not (home / "state" / "joint" / release).exists()
    consortium.restart("lab")
