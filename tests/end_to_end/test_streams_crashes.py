"""kill -9 of every role at a later checkpoint of a stream: one block of each party, on the blocks before, and no second charge.

All faults share one stream of three hospitals; each has a checkpoint of its own. What a session itself survives is in
`test_moments_crashes`; crash points are reached by name (tests/support/faulty.py).
"""

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import chi2

from audit import audit
from demo.consortium import Consortium, wait_for
from tests.end_to_end.growing import MONTH, grow, hospitals, propose_next, whole_gram
from tests.end_to_end.hospitals import Hospital, final_state, found, propose, published
from tests.end_to_end.points import crash_points
from tests.support.faulty import FULL
from tests.support.forked import ForkedConsortium

pytestmark = pytest.mark.end_to_end

PARTY = {
    "approved, not signed": "kill-before@party_node.state.journal:Journal.sign",
    "charged, nothing masked": "kill-after@party_node.computation.sessions:JointWork._charge",
    "masked columns on their way": "kill-before@party_node.outgoing.relay:RelayCalls.send#3",
    "transcript signed, not sent": "kill-after@party_node.state.session:SessionFolder.freeze#5",
    "multiplied, nothing kept": "kill-before@party_node.state.streams:Streams.keep",
    "kept, no noise drawn": "kill-after@party_node.state.streams:Streams.keep",
    "noise drawn, nothing sealed": "kill-after@party_node.computation.sessions:privatize",
    "noted, not sent": "kill-after@party_node.state.ledger:Ledger.make",
    "sent, not known to be": "kill-after@party_node.outgoing.hub:upload",
}
HUB = {
    "masked columns are fetched": "kill-after@learner.hub.relay:Relay.body#8",
    "before the manifest": "kill-before@learner.hub.publish:prepare",
    "public, not reported": "kill-after@learner.hub.storage:Storage.reveal",
}
COORDINATOR = {
    "all but one approved": "kill-after@coordinator.service.coordination:approve#2",
    "before the publication": "kill-before@coordinator.service.coordination:CoordinationService.AuthorizePublication",
}
USUAL = {
    "party": {"noise drawn, nothing sealed"},
    "hub": {"public, not reported"},
    "coordinator": {"all but one approved"},
}
"""What every run tries; `make test-slow` tries the others. A cut after the increments are kept, without processes, is tried every
time in `tests/party_node/test_streams_crashes.py`, and one after the seal by processes in `test_moments_crashes.py`."""

MONTHS = 1 + len(PARTY) + len(HUB) + len(COORDINATOR) + 1


@dataclass
class Stream:
    """The stream of this module.

    Attributes:
        consortium: where it is.
        parties: its hospitals.
        releases: its published checkpoints.
    """

    consortium: Consortium
    parties: list[Hospital]
    releases: list[str]

    def propose(self) -> str:
        return propose_next(self.consortium, self.releases[0])

    def crash(self, name: str, fault: str) -> str:
        """Run a role with a fault until it dies of it at the next checkpoint; start it again; the release's digest."""
        grow(self.consortium, self.parties, len(self.releases) + 1)
        self.consortium.halt(name)
        self.consortium.restart(name, launcher=("-m", "tests.support.faulty", fault, "--"))
        release = self.propose()
        assert self.consortium.died(name) == -signal.SIGKILL
        self.consortium.restart(name)
        return release

    def goes_on_with(self, release: str) -> None:
        """It is published, of everybody so far, as blocks that were made once and begin with those of the checkpoint before."""
        assert final_state(self.consortium, release) == "PUBLISHED"
        opened, before = published(self.consortium, release), published(self.consortium, self.releases[-1])
        self.releases.append(release)
        months = [*range(1, len(self.releases) + 1)]
        for party in self.parties:
            home = self.consortium.hospital(party.name)
            sent, sent_before = (each.blocks[party.name][0].values for each in (opened, before))
            assert np.array_equal(sent[: len(sent_before)], sent_before)
            shown = json.loads(self.consortium.run("party-node", "ledger", "show", "--json", home=home))
            lines = [line for line in shown["entries"] if line["release"] == release]
            assert [line["kind"] for line in lines] == ["reserve", "charge", "send", "made"]
            assert {line["mu2"] for line in lines} == {"0"}
        moments, truth = opened.moments(), whole_gram(opened.spec, self.parties, months)
        assert moments.rows == MONTH * len(months)
        entries = moments.layout.rows, moments.layout.cols
        square = float((((moments.gram - truth)[entries] / moments.noise_sd[entries]) ** 2).sum())
        assert chi2.ppf(1e-9, len(entries[0])) < square < chi2.isf(1e-9, len(entries[0]))


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stream]:
    with ForkedConsortium(tmp_path_factory.mktemp("stream-crashes") / "consortium") as started:
        parties = hospitals(3, MONTHS)
        found(started, parties)
        first = propose(
            started,
            parties,
            mechanism="stream",
            of="moments",
            checkpoints=MONTHS,
            most_rows=MONTH * MONTHS,
            epsilon=20.0,
        )
        assert final_state(started, first) == "PUBLISHED"
        yield Stream(started, parties, [first])
        assert audit(started.folder) == []


@pytest.mark.parametrize("fault", crash_points(PARTY, USUAL["party"]))
def test_a_party_is_killed(stream: Stream, fault: str) -> None:
    stream.goes_on_with(stream.crash("clinic", fault))


@pytest.mark.parametrize("fault", crash_points(HUB, USUAL["hub"]))
def test_the_hub_is_killed(stream: Stream, fault: str) -> None:
    stream.goes_on_with(stream.crash("hub", fault))


@pytest.mark.parametrize("fault", crash_points(COORDINATOR, USUAL["coordinator"]))
def test_the_coordinator_is_killed(stream: Stream, fault: str) -> None:
    stream.goes_on_with(stream.crash("coordinator", fault))


@pytest.mark.slow
def test_a_full_disk_where_increments_are_kept(stream: Stream) -> None:
    grow(stream.consortium, stream.parties, len(stream.releases) + 1)
    stream.consortium.halt("clinic")
    fault = "full@party_node.state.streams:write_secret"
    stream.consortium.restart("clinic", launcher=("-m", "tests.support.faulty", fault, "--"))
    release, log = stream.propose(), stream.consortium.log("clinic")
    wait_for(lambda: FULL.encode() in log.read_bytes(), 60, "the disk to be full")
    stream.consortium.halt("clinic")
    stream.consortium.restart("clinic")
    stream.goes_on_with(release)
