"""Whole releases, every role its own process: from hospitals' files to a stranger's fits."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from demo.consortium import CommandFailed, Consortium, wait_for
from dprelease.release.accounting import guarantee
from dprelease.release.manifest import Manifest
from tests.end_to_end.hospitals import Hospital, final_state, found, numeric, other_columns, propose, trust

pytestmark = pytest.mark.end_to_end

ROWS = 400


def _table() -> dict[str, list[object]]:
    random = np.random.default_rng(11)
    age = random.uniform(20, 90, ROWS)
    sex = np.where(random.random(ROWS) < 0.5, "f", "m")
    dose = random.uniform(0, 10, ROWS)
    pressure = 90 + 0.5 * age + 2 * dose + random.normal(0, 5, ROWS)
    return {
        "age": [*map(float, age)],
        "sex": [*map(str, sex)],
        "dose": [*map(float, dose)],
        "pressure": [*map(float, pressure)],
        "weight": [*map(float, random.uniform(50, 110, ROWS))],
    }


def hospitals(count: int) -> list[Hospital]:
    """Two or three hospitals over one table."""
    table = _table()
    clinic = Hospital(
        "clinic",
        {"age": numeric(18, 100), "sex": 'kind = "categorical"\nlevels = ["f", "m"]'},
        {"age": table["age"], "sex": table["sex"]},
    )
    ward = Hospital(
        "ward",
        {"dose": numeric(0, 10), "pressure": numeric(60, 200)},
        {"dose": table["dose"], "pressure": table["pressure"]},
        parquet=True,
    )
    lab = Hospital("lab", {"weight": numeric(30, 200)}, {"weight": table["weight"]})
    return [clinic, ward, lab][:count]


@pytest.mark.slow  # two hospitals and a mix go the whole way below, every time
@pytest.mark.parametrize(("mechanism", "method"), [("mixed", "rmgm"), ("rows", "dgm")])
def test_a_release_of_three_hospitals(consortium: Consortium, mechanism: str, method: str) -> None:
    parties = hospitals(3)
    found(consortium, parties)
    release = propose(consortium, parties, mechanism=mechanism)
    assert final_state(consortium, release) == "PUBLISHED"
    _learned_and_charged(consortium, *trust(consortium), release, method)


def _learned_and_charged(
    consortium: Consortium, folder: Path, home: tuple[str, str], release: str, method: str
) -> Manifest:
    """A stranger fits on it, and every ledger says what its manifest states."""
    consortium.run("learner", *home, "fetch", release[:10])
    assert "epsilon" in consortium.run("learner", *home, "verify", release[:10])
    report = folder / "fit.json"
    targets = ("--target", "pressure", "--target", "age")
    printed = consortium.run(
        "learner", *home, "fit", release[:10], *targets, "--method", method, "--output", str(report)
    )
    assert "constant" in printed
    fitted = json.loads(report.read_text())
    assert fitted["targets"] == ["pressure", "age"]
    assert {row["target"] for row in fitted["predictor"]} == {"pressure", "age"}

    (path,) = consortium.hub.rglob("manifest.json")
    manifest = Manifest.from_bytes(path.read_bytes())
    assert manifest.spec.digest() == release
    charged, total = guarantee(manifest.spec), Fraction(0)
    for entry in manifest.blocks:
        party = entry.sealed.party
        shown = json.loads(consortium.run("party-node", "ledger", "show", "--json", home=consortium.hospital(party)))
        lines = [line for line in shown["entries"] if line["release"] == release]
        assert [line["kind"] for line in lines] == ["reserve", "made", "charge", "send"]
        assert Fraction(lines[-1]["mu2"]) == charged.party(party).mu2
        total += charged.party(party).mu2
        assert "whole" in consortium.run("party-node", "ledger", "verify", home=consortium.hospital(party))
    assert total == charged.joint_mu2
    return manifest


def test_a_person_declines_one_release_and_approves_another_after_every_role_restarted(consortium: Consortium) -> None:
    parties = hospitals(2)
    policy = "[policy]\nallow_large_delta = false\n"  # leaves every proposal to a person
    parties[1] = Hospital("ward", parties[1].columns, parties[1].cells, parquet=True, policy=policy)
    found(consortium, parties)
    ward = consortium.hospital("ward")

    def offered(release: str) -> None:
        """Wait until the ward's person can see it."""
        review = ("party-node", "review", "list", "--json")
        wait_for(lambda: release in consortium.run(*review, home=ward), 60, "the ward to see it")

    def freed() -> bool:
        shown = json.loads(consortium.run("party-node", "ledger", "show", "--json", home=consortium.hospital("clinic")))
        return bool(shown["cap"] == shown["left"])

    declined = propose(consortium, parties, other_columns(parties, 1))
    offered(declined)
    consortium.run("party-node", "review", "decline", declined[:8], "--reason", "not this year", home=ward)
    assert final_state(consortium, declined) == "REJECTED"
    wait_for(freed, 60, "the clinic to free its reservation")
    folder, home = trust(consortium)
    with pytest.raises(CommandFailed):
        consortium.run("learner", *home, "fetch", declined[:10])

    release = propose(consortium, parties, mechanism="mixed", **{"weights.pressure": 2})
    offered(release)
    for name in ("coordinator", "hub", "clinic"):
        consortium.kill(name)
        consortium.restart(name)
    card = json.loads(consortium.run("party-node", "review", "show", release[:8], "--json", home=ward))
    assert card["this_release"]["epsilon"] == pytest.approx(10.0, rel=1e-6)
    consortium.run("party-node", "review", "approve", release[:8], "--yes", home=ward)
    assert final_state(consortium, release) == "PUBLISHED"
    assert _learned_and_charged(consortium, folder, home, release, "ols").spec.weights == {"pressure": 2}
