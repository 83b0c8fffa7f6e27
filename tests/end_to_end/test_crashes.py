"""kill -9 of every role at every step of a release: afterwards exactly one release, with the bytes sealed first.

The crash points are reached by name (tests/support/faulty.py), never by sleeping. All of them share one consortium, so
that each also meets what the crashes before it left behind.
"""

import json
import signal
from collections.abc import Iterator
from fractions import Fraction
from itertools import count

import numpy as np
import pytest

from audit import audit
from demo.consortium import Consortium, wait_for
from dprelease.release.accounting import guarantee
from dprelease.release.manifest import Manifest
from tests.end_to_end.hospitals import Hospital, final_state, found, numeric, other_columns, propose
from tests.end_to_end.points import crash_points
from tests.support.faulty import FULL
from tests.support.forked import ForkedConsortium

pytestmark = pytest.mark.end_to_end

ROWS = 300
NUMBERS = count(1)
"""Of each release in turn, for columns of its own."""
COLUMNS = 6

SMALL_CHUNKS = "set@dprelease.wire.chunks:CHUNK_BYTES=100"

PARTY = {
    "before the reservation": "kill-before@party_node.state.ledger:Ledger.reserve",
    "after the reservation": "kill-after@party_node.state.ledger:Ledger.reserve",
    "approval signed, not sent": "kill-after@party_node.state.journal:Journal.sign",
    "before the noise": "kill-before@party_node.computation.releases:privatize",
    "noise drawn, nothing sealed": "kill-after@party_node.computation.releases:privatize",
    "block written, not sealed": "kill-after@party_node.state.vault:write_secret",
    "sealed, not charged": "kill-before@party_node.state.ledger:Ledger.charge",
    "charged, not noted": "kill-after@party_node.state.ledger:Ledger.charge",
    "before the first byte": "kill-before@party_node.state.ledger:Ledger.send",
    "allowed to send, nothing sent": "kill-after@party_node.state.ledger:Ledger.send",
    "in the middle of the upload": "kill-before@dprelease.wire.retry:ProgressDeadline.moved#3",
    "acknowledged, not noted": "kill-after@party_node.outgoing.hub:upload",
}
HUB = {
    "first chunk": "kill-before@learner.hub.storage:Storage.put",
    "in the middle of the upload": "kill-after@learner.hub.storage:Storage.put#2",
    "all bytes held, not verified": "kill-before@learner.hub.intake:Intake._finish",
    "verified, not acknowledged": "kill-after@learner.hub.intake:Intake._finish",
    "second block held": "kill-after@learner.hub.intake:Intake._finish#2",
    "before the manifest": "kill-before@learner.hub.publish:prepare",
    "between manifest and publication": "kill-before@learner.hub.storage:Storage.reveal",
    "public, not listed": "kill-before@learner.hub.storage:PublishedIndex.add",
    "public, not reported": "kill-after@learner.hub.storage:Storage.reveal",
}
_CALLS = {
    "approve": "approve",
    "report_intake": "CoordinationService.ReportIntake",
    "authorize_publication": "CoordinationService.AuthorizePublication",
    "report_publication": "CoordinationService.ReportPublication",
}
COORDINATOR = {
    **{f"before {call}": f"kill-before@coordinator.service.coordination:{place}" for call, place in _CALLS.items()},
    **{
        f"after {call}, not answered": f"kill-after@coordinator.service.coordination:{place}"
        for call, place in _CALLS.items()
    },
    "one approved, one did not": "kill-after@coordinator.service.coordination:approve#2",
    "within a transaction": "kill-after@coordinator.store.agreements:AgreementTable.advance",
}

USUAL = {
    "party": {"sealed, not charged", "in the middle of the upload"},
    "hub": {
        "verified, not acknowledged",
        "between manifest and publication",
        "public, not listed",
        "public, not reported",
    },
    "coordinator": {
        "one approved, one did not",
        "before authorize_publication",
        "after report_publication, not answered",
    },
}
"""What every run tries; `make test-slow` tries the others. A cut at every step of a hospital, without processes, is tried every
time in `tests/party_node/test_restart.py`."""

FULL_DISKS = {
    "offer noted": ("clinic", "party_node.state.journal:Journal.offer"),
    "ledger": ("clinic", "party_node.state.ledger:_append"),
    "approval": ("clinic", "party_node.state.journal:Journal.sign"),
    "block": ("clinic", "party_node.state.vault:write_secret"),
    "seal": ("clinic", "party_node.state.vault:write_secret#2"),
    "status": ("clinic", "party_node.state.journal:Journal.move#2"),
    "hub's record": ("hub", "learner.hub.storage:write_durably"),
    "hub's blocks": ("hub", "learner.hub.storage:Storage.put"),
    "hub's publication": ("hub", "learner.hub.storage:rename_durably"),
    "hub's list": ("hub", "learner.hub.storage:write_durably"),
    "coordinator": ("coordinator", "coordinator.store.agreements:AgreementTable.advance"),
}
USUAL_DISKS = {"ledger", "block", "hub's publication"}


def _hospitals() -> list[Hospital]:
    random = np.random.default_rng(5)
    ages, doses = random.uniform(20, 90, (COLUMNS, ROWS)), random.uniform(0, 10, (COLUMNS, ROWS))
    age = {f"age_{place}": [*map(float, cells)] for place, cells in enumerate(ages)}
    dose = {f"dose_{place}": [*map(float, cells)] for place, cells in enumerate(doses)}
    return [
        Hospital("clinic", dict.fromkeys(age, numeric(18, 100)), age),
        Hospital("ward", dict.fromkeys(dose, numeric(0, 10)), dose, parquet=True),
    ]


def _propose(consortium: Consortium, title: str) -> str:
    hospitals = _hospitals()
    return propose(consortium, hospitals, other_columns(hospitals, next(NUMBERS)), title=title)


@pytest.fixture(scope="module")
def consortium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with ForkedConsortium(tmp_path_factory.mktemp("crashes") / "consortium") as started:
        found(started, _hospitals(), epsilon=2000.0)
        yield started
        assert audit(started.folder) == []


def _crash(consortium: Consortium, name: str, *faults: str) -> str:
    """Run a role with faults until it dies of them in the middle of a release; start it again; the release's digest."""
    consortium.halt(name)
    consortium.restart(name, launcher=("-m", "tests.support.faulty", *faults, "--"))
    release = _propose(consortium, f"{name}: {faults[-1]}")
    assert consortium.died(name) == -signal.SIGKILL
    consortium.restart(name)
    return release


def _exactly_one_release(consortium: Consortium, release: str) -> None:
    assert final_state(consortium, release) == "PUBLISHED"
    (path,) = (consortium.hub / "storage" / "published" / release).glob("manifest.json")
    manifest = Manifest.from_bytes(path.read_bytes())
    assert manifest.spec.digest() == release
    listed = json.loads((path.parents[1] / "index.json").read_bytes())["releases"]
    assert [line["digest"] for line in listed].count(release) == 1
    charges = guarantee(manifest.spec)
    for entry in manifest.blocks:
        party = entry.sealed.party
        home = consortium.hospital(party)
        published = (path.parent / "blocks" / f"{party}.0.block").read_bytes()
        assert published == (home / "state" / "sealed" / f"{release}.0.block").read_bytes()
        shown = json.loads(consortium.run("party-node", "ledger", "show", "--json", home=home))
        entries = [line for line in shown["entries"] if line["release"] == release]
        assert [line["kind"] for line in entries] == ["reserve", "made", "charge", "send"]
        assert {Fraction(line["mu2"]) for line in entries if line["kind"] != "made"} == {charges.party(party).mu2}


@pytest.mark.parametrize("fault", crash_points(PARTY, USUAL["party"]))
def test_a_party_is_killed(consortium: Consortium, fault: str) -> None:
    _exactly_one_release(consortium, _crash(consortium, "clinic", SMALL_CHUNKS, fault))


@pytest.fixture(scope="module")
def small_chunks(consortium: Consortium) -> None:
    """The clinic uploads in several chunks from now on."""
    consortium.halt("clinic")
    consortium.restart("clinic", launcher=("-m", "tests.support.faulty", SMALL_CHUNKS, "--"))


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("fault", crash_points(HUB, USUAL["hub"]))
def test_the_hub_is_killed(consortium: Consortium, fault: str) -> None:
    _exactly_one_release(consortium, _crash(consortium, "hub", fault))


@pytest.mark.parametrize("fault", crash_points(COORDINATOR, USUAL["coordinator"]))
def test_the_coordinator_is_killed(consortium: Consortium, fault: str) -> None:
    _exactly_one_release(consortium, _crash(consortium, "coordinator", fault))


@pytest.mark.parametrize("place", crash_points(FULL_DISKS, USUAL_DISKS))
def test_a_full_disk_delays_and_loses_nothing(consortium: Consortium, place: tuple[str, str]) -> None:
    name, fault = place
    consortium.halt(name)
    since = consortium.log(name).stat().st_size
    consortium.restart(name, launcher=("-m", "tests.support.faulty", f"full@{fault}", "--"))
    release = _propose(consortium, f"full disk at {fault}")
    log = consortium.log(name)
    wait_for(lambda: FULL in log.read_bytes()[since:].decode(), 60, f"{name} to meet the full disk")
    consortium.halt(name)
    consortium.restart(name)
    _exactly_one_release(consortium, release)


def test_a_party_that_never_comes_back_ends_the_release_and_frees_the_others(consortium: Consortium) -> None:
    consortium.kill("ward")
    release = propose(consortium, _hospitals(), title="nobody at the ward", expires_hours=0.001)
    assert final_state(consortium, release) == "EXPIRED"
    shown = json.loads(consortium.run("coordinator", "release", "show", release, "--json", home=consortium.office))
    assert "ward" in shown["explanation"]
    home = consortium.hospital("clinic")

    def freed() -> bool:
        ledger = json.loads(consortium.run("party-node", "ledger", "show", "--json", home=home))
        kinds = [line["kind"] for line in ledger["entries"] if line["release"] == release]
        return kinds in ([], ["reserve", "refund"])

    wait_for(freed, 60, "the clinic to give its reservation back")
    consortium.restart("ward")
