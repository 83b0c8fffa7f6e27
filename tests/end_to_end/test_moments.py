"""Joint moments with every role its own process: from hospitals' files to a stranger's fits, and nobody sees a row."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from demo.consortium import Consortium, wait_for
from dprelease.release.accounting import guarantee
from tests.end_to_end.hospitals import Hospital, final_state, found, numeric, propose, published, scaled_gram, trust

pytestmark = pytest.mark.end_to_end

ROWS = 500


def hospitals(count: int) -> list[Hospital]:
    """Up to four hospitals over one table with a number, a binary, a category and an ordered one among their columns."""
    random = np.random.default_rng(12)
    age = random.uniform(20, 90, ROWS)
    smoker = random.random(ROWS) < 0.3
    scores = {"none": 0.0, "low": 2.0, "high": 10.0}
    doses = random.choice([*scores], ROWS).tolist()
    dose = np.array([scores[level] for level in doses])
    pressure = 90 + 0.5 * age + 2 * dose + 8 * smoker + random.normal(0, 5, ROWS)
    weight = random.uniform(50, 110, ROWS)
    return [
        Hospital(
            "clinic",
            {"age": numeric(18, 100), "smoker": 'kind = "categorical"\nlevels = ["yes"]'},
            {"age": [*map(float, age)], "smoker": ["yes" if each else "no" for each in smoker]},
        ),
        Hospital(
            "ward",
            {
                "dose": f'kind = "ordered"\nlevels = {[*scores]}\nscores = {[*scores.values()]}\nfill = "none"\nunit = "mg"',
                "pressure": numeric(60, 200),
            },
            {"dose": doses, "pressure": [*map(float, pressure)]},
            parquet=True,
        ),
        Hospital(
            "lab",
            {"weight": numeric(30, 200), "blood": 'kind = "categorical"\nlevels = ["A", "B"]'},
            {"weight": [*map(float, weight)], "blood": [str(each) for each in random.choice(["A", "B", "0"], ROWS)]},
        ),
        Hospital("post", {"distance": numeric(0, 40)}, {"distance": [*map(float, random.uniform(0, 40, ROWS))]}),
    ][:count]


@pytest.mark.parametrize(
    ("count", "options", "dealer"),
    [
        pytest.param(1, {}, "none", marks=pytest.mark.slow),
        pytest.param(2, {}, "coordinator", marks=pytest.mark.slow),
        (3, {"collusion_threshold": 2}, "coordinator"),
        pytest.param(4, {"collusion_threshold": 2}, "coordinator", marks=pytest.mark.slow),
    ],
)
def test_moments_from_end_to_end(consortium: Consortium, count: int, options: dict[str, object], dealer: str) -> None:
    """Hospitals look once an hour by themselves, so that all goes on because they are told, also after the servers died.

    Two hospitals to which the coordinator deals get through every time in `test_moments_crashes`, and three that deal for one
    another in `test_outcomes`.
    """
    parties = [replace(each, poll_seconds=3600.0) for each in hospitals(count)]
    found(consortium, parties)
    release = propose(consortium, parties, mechanism="moments", **options)
    assert final_state(consortium, release) == "PUBLISHED"

    opened = published(consortium, release)
    assert opened.spec.terms is not None
    assert opened.spec.terms.dealer == dealer
    moments, truth = opened.moments(), scaled_gram(opened.spec, parties)
    noisy = moments.noise_sd > 0
    assert (moments.gram[~noisy] == truth[~noisy].round(9)).all()
    entries = moments.layout.rows, moments.layout.cols  # independent of one another
    square = float((((moments.gram - truth)[entries] / moments.noise_sd[entries]) ** 2).sum())
    assert chi2.ppf(1e-9, len(entries[0])) < square < chi2.isf(1e-9, len(entries[0]))

    for party in parties:  # charged once, its part, and nothing of the session is left
        home = consortium.hospital(party.name)
        ledger = json.loads(consortium.run("party-node", "ledger", "show", "--json", home=home))
        entries = [line for line in ledger["entries"] if line["release"] == release]
        assert (
            [line["kind"] for line in entries] == ["reserve", "charge", "send", "made"]
            if count > 1
            else ["reserve", "made", "charge", "send"]
        )
        assert {Fraction(line["mu2"]) for line in entries} == {0, guarantee(opened.spec).party(party.name).mu2}
        wait_for(lambda folder=home / "state" / "joint": not any(folder.glob("*")), 30, "the session to be erased")

    folder, home = trust(consortium)
    consortium.run("learner", *home, "fetch", release[:10])
    verified = consortium.run("learner", *home, "verify", release[:10])
    assert "epsilon" in verified
    assert ("altered software" in verified.replace("\n", " ")) == (count > 1)
    target = "pressure" if count > 1 else "age"
    report = folder / "fit.json"
    consortium.run("learner", *home, "fit", release[:10], "--target", target, "--output", str(report))
    assert json.loads(report.read_text())["targets"] == [target]
    described = consortium.run("learner", *home, "describe", release[:10])
    assert target in described
    assert ("dose" in described) == (count > 1)
    rows = folder / "rows.csv"
    consortium.run("learner", *home, "synthesize", release[:10], "--rows", "50", "--output", str(rows))
    assert rows.read_text().count("\n") == 51
    assert json.loads(rows.with_name("rows.csv.json").read_text())["release"] == release

    for role in ("coordinator", "hub"):  # everybody waits at both when they die
        consortium.kill(role)
        consortium.restart(role)
    assert final_state(consortium, propose(consortium, parties, k=21)) == "PUBLISHED"


def test_a_garbage_block_is_not_published(consortium: Consortium) -> None:
    """A party whose block does not belong to the computation: the sum is refused, nothing is public, nobody is fooled."""
    parties = hospitals(2)
    found(consortium, parties)
    consortium.halt("ward")
    consortium.restart(
        "ward", launcher=("-m", "tests.support.faulty", "garble@dprelease.mpc.encryption:shared_seed", "--")
    )
    release = propose(consortium, parties, mechanism="moments")
    log = consortium.log("hub")
    wait_for(lambda: b"do not add up to moments" in log.read_bytes(), 60, "the hub to refuse the sum")
    assert not (consortium.hub / "storage" / "published" / release).exists()
    consortium.run("coordinator", "release", "cancel", release, "--reason", "garbage", home=consortium.office)
    assert final_state(consortium, release) == "CANCELLED"
