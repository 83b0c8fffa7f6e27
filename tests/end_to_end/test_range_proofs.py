"""The range attack through real processes: a hospital whose software shows a cell of 2^40 gets no release, and reads nothing."""

import json

import pytest

from demo.consortium import Consortium
from dprelease.errors import ProofRefused
from dprelease.mpc.session import MOST_REFUSED
from dprelease.wire.boundary import row_for
from tests.end_to_end.hospitals import final_state, found, propose
from tests.end_to_end.test_moments import hospitals

pytestmark = pytest.mark.end_to_end

ALTERED = ("-m", "tests.support.faulty", "outlier@dprelease.mpc.exchange:masked", "--")


@pytest.mark.slow  # five rounds of three hospitals; without processes, `tests/party_node/test_joint_proof_crashes.py` tries it
def test_a_cell_beyond_its_bounds_ends_the_release(consortium: Consortium) -> None:
    parties = hospitals(3)
    found(consortium, parties)
    consortium.halt("ward")
    consortium.restart("ward", launcher=ALTERED)
    release = propose(consortium, parties, mechanism="moments")
    assert final_state(consortium, release) == "FAILED"
    shown = json.loads(consortium.run("coordinator", "release", "show", release, "--json", home=consortium.office))
    assert "withdrew after approving" in shown["explanation"]
    assert row_for(ProofRefused("")).sentence.encode() in consortium.log("coordinator").read_bytes()
    assert not (consortium.hub / "storage" / "published" / release).exists()
    for party in parties:  # nobody made a block, so nobody can read anything
        assert not [*(consortium.hospital(party.name) / "state" / "sealed").glob(f"{release}*")]
    logs = b"".join(consortium.log(name).read_bytes() for name in ("clinic", "lab"))
    said = f"is declined: the proof that masked columns lie in their bounds failed in {MOST_REFUSED} rounds"
    assert said.encode() in logs
    assert b"Nobody can tell whose software is at fault; docs/faults.md says what to do" in logs
