"""kill -9 of a hospital and the hub between the rounds of a release: one release, the same bytes, one charge.

What a session itself survives is in `test_moments_crashes`; crash points are reached by name (tests/support/faulty.py).
"""

import json
import signal
from collections.abc import Iterator
from itertools import count

import numpy as np
import pytest

from audit import audit
from demo.consortium import Consortium
from dprelease.release.manifest import Manifest
from tests.end_to_end.hospitals import Hospital, final_state, found, numeric, other_columns, propose
from tests.end_to_end.points import crash_points
from tests.support.forked import ForkedConsortium

pytestmark = pytest.mark.end_to_end

ROWS = 200
NUMBERS = count(1)
"""Of each release in turn, for columns of its own."""

PARTY = {
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
HUB = {
    "a first block arrives": "kill-before@learner.hub.intake:Intake.begin",
    "the first round is whole": "kill-after@learner.hub.storage:Storage.complete#3",
    "first blocks are asked for": "kill-after@learner.hub.intake:Intake.earlier_blocks",
    "a first block is fetched": "kill-after@learner.hub.intake:Intake.earlier_block",
    "the last block is here": "kill-after@learner.hub.storage:Storage.complete#6",
}
USUAL = {
    "party": {"ranges sealed, not noted"},
    "hub": {"a first block is fetched"},
}
"""What every run tries; `make test-slow` tries the others. A hospital's other steps are cut without processes in
`tests/party_node/test_rounds.py`, a third of them every time."""


def _hospitals() -> list[Hospital]:
    random = np.random.default_rng(6)
    cells = {name: [*map(float, random.normal(0, 0.1, ROWS))] for name in "abcde"}
    return [
        Hospital(
            name,
            {f"{name}_{column}": numeric(-1, 1) for column in cells},
            {f"{name}_{column}": values for column, values in cells.items()},
        )
        for name in ("clinic", "ward", "lab")
    ]


@pytest.fixture(scope="module")
def consortium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with ForkedConsortium(tmp_path_factory.mktemp("round-crashes") / "consortium") as started:
        found(started, _hospitals(), epsilon=4000.0)
        yield started
        assert audit(started.folder) == []


def _crash(consortium: Consortium, name: str, fault: str) -> str:
    """Run a role with a fault until it dies of it; start it again; the release's digest."""
    hospitals = _hospitals()
    columns = other_columns(hospitals, next(NUMBERS))
    consortium.halt(name)
    consortium.restart(name, launcher=("-m", "tests.support.faulty", fault, "--"))
    release = propose(
        consortium, hospitals, columns, title=f"{name}: {fault}", mechanism="moments", ranges="first", epsilon=2.0
    )
    assert consortium.died(name) == -signal.SIGKILL
    consortium.restart(name)
    return release


def _exactly_one_release(consortium: Consortium, release: str) -> None:
    assert final_state(consortium, release) == "PUBLISHED"
    folder = consortium.hub / "storage" / "published" / release
    manifest = Manifest.from_bytes((folder / "manifest.json").read_bytes())
    assert len(manifest.blocks) == 6
    for entry in manifest.blocks:
        home, name = consortium.hospital(entry.sealed.party), f"{entry.sealed.sequence}.block"
        sealed = (home / "state" / "sealed" / f"{release}.{name}").read_bytes()
        assert (folder / "blocks" / f"{entry.sealed.party}.{name}").read_bytes() == sealed
        shown = json.loads(consortium.run("party-node", "ledger", "show", "--json", home=home))
        kinds = [line["kind"] for line in shown["entries"] if line["release"] == release]
        assert sorted(kinds) == ["charge", "made", "made", "reserve", "send"]


@pytest.mark.parametrize("fault", crash_points(PARTY, USUAL["party"]))
def test_a_party_is_killed(consortium: Consortium, fault: str) -> None:
    _exactly_one_release(consortium, _crash(consortium, "clinic", fault))


@pytest.mark.parametrize("fault", crash_points(HUB, USUAL["hub"]))
def test_the_hub_is_killed(consortium: Consortium, fault: str) -> None:
    _exactly_one_release(consortium, _crash(consortium, "hub", fault))
