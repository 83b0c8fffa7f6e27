"""A mechanism that exists in tests alone goes the whole way through real processes; the product only has its table longer."""

import os
from pathlib import Path

import numpy as np
import pytest

from demo.consortium import Consortium, wait_for
from dprelease.mechanisms import registry
from tests import mechanisms
from tests.end_to_end.hospitals import final_state, found, propose, trust
from tests.end_to_end.test_release import hospitals
from tests.mechanisms.toy import SUMS

pytestmark = pytest.mark.end_to_end

FOLDER = Path(mechanisms.__file__).parent
POLICY = '[policy.auto_approve]\nmechanisms = ["sums"]\n'


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here and in every process that is started from here."""
    monkeypatch.setitem(registry._TABLE, SUMS.name, SUMS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FOLDER / "site"), str(FOLDER.parent.parent)]))
    return


def test_it_is_requested_reviewed_charged_sealed_published_verified_and_described(
    known: None, consortium: Consortium
) -> None:
    parties = hospitals(2)
    by_policy, by_hand = parties
    object.__setattr__(by_policy, "policy", POLICY)
    object.__setattr__(by_hand, "policy", "")  # a person decides
    found(consortium, parties)
    release = propose(consortium, parties, mechanism="sums", doubled=["ward"])
    ward = consortium.hospital("ward")
    wait_for(
        lambda: release in consortium.run("party-node", "review", "list", "--json", home=ward), 60, "the ward to see it"
    )
    card = consortium.run("party-node", "review", "show", release[:10], home=ward)
    assert "2 noisy sums of each of" in card
    consortium.run("party-node", "review", "approve", release[:10], "--yes", home=ward)
    assert final_state(consortium, release) == "PUBLISHED"
    for party in parties:
        ledger = consortium.run("party-node", "ledger", "show", "--json", home=consortium.hospital(party.name))
        assert release in ledger

    _, home = trust(consortium)
    consortium.run("learner", *home, "fetch", release[:10])
    verified = consortium.run("learner", *home, "verify", release[:10])
    assert "sums of" in verified
    assert "for the sums of every hospital, twice" in " ".join(verified.split())
    described = consortium.run("learner", *home, "describe", release[:10])
    age = next(line for line in described.splitlines() if line.startswith("age "))
    mean = float(age.split()[1])
    assert abs(mean - np.mean(by_policy.cells["age"])) < 5  # type: ignore[arg-type]
