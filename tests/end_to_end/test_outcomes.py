"""Releases with outcome-only columns, with every role its own process: in full privacy, and with public features."""

import json
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from demo.consortium import Consortium, wait_for
from dprelease.mechanisms.moments.released import OutcomeMoments
from dprelease.mechanisms.moments.terms import layout_of
from dprelease.release.accounting import guarantee
from dprelease.release.release import Release
from tests.end_to_end.hospitals import Hospital, final_state, found, numeric, propose, published, scaled_gram, trust
from tests.end_to_end.test_public import knows_of

pytestmark = pytest.mark.end_to_end

ROWS = 300
POLICY = '[policy.auto_approve]\nmechanisms = ["moments"]\nguarantees = ["DP", "label-DP"]\n'
OUTCOMES = ["glucose", "pressure"]


def hospitals() -> list[Hospital]:
    """Two hospitals with features, and a laboratory with outcomes alone."""
    random = np.random.default_rng(14)
    age, dose = random.uniform(20, 90, ROWS), random.uniform(0, 10, ROWS)
    glucose, pressure = 4 + 0.05 * age + random.normal(0, 1, ROWS), 90 + 0.5 * age + 2 * dose
    return [
        Hospital("clinic", {"age": numeric(18, 100)}, {"age": [*map(float, age)]}, policy=POLICY),
        Hospital("ward", {"dose": numeric(0, 10)}, {"dose": [*map(float, dose)]}, policy=POLICY),
        Hospital(
            "lab",
            {"glucose": numeric(2, 30), "pressure": numeric(60, 200)},
            {"glucose": [*map(float, glucose)], "pressure": [*map(float, pressure)]},
            policy=POLICY,
        ),
    ]


def entries(release: Release) -> tuple[OutcomeMoments, np.ndarray, np.ndarray]:
    """What was released, and its noisy entries with the standard deviations of their noise."""
    moments, layout = release.products, layout_of(release.spec)
    assert isinstance(moments, OutcomeMoments)
    places = list(zip(layout.rows.tolist(), layout.cols.tolist(), strict=True))
    values = [moments.own([i])[0] if i == j else moments.between([i], [j])[0, 0] for i, j in places]
    sds = [moments.noise_own([i])[0] if i == j else moments.noise_between([i], [j])[0, 0] for i, j in places]
    return moments, np.array(values), np.array(sds)


def check_noise(release: Release, parties: list[Hospital]) -> OutcomeMoments:
    """Every noisy entry is off by what the spec says, and nothing else is off."""
    moments, values, sds = entries(release)
    truth, layout = scaled_gram(release.spec, parties), layout_of(release.spec)
    square = float((((values - truth[layout.rows, layout.cols]) / sds) ** 2).sum())
    assert chi2.ppf(1e-9, len(values)) < square < chi2.isf(1e-9, len(values))
    return moments


def test_outcomes_from_end_to_end(consortium: Consortium) -> None:
    parties = hospitals()
    found(consortium, parties)
    release = propose(consortium, parties, mechanism="moments", outcomes=OUTCOMES)
    assert final_state(consortium, release) == "PUBLISHED"
    opened = published(consortium, release)
    assert opened.spec.terms is not None
    assert (opened.spec.guarantee, opened.spec.terms.dealer) == ("DP", "rotating")
    check_noise(opened, parties)
    for party in parties:  # charged once, its part
        ledger = json.loads(
            consortium.run("party-node", "ledger", "show", "--json", home=consortium.hospital(party.name))
        )
        lines = [line for line in ledger["entries"] if line["release"] == release]
        assert [line["kind"] for line in lines] == ["reserve", "charge", "send", "made"]
        assert {Fraction(line["mu2"]) for line in lines} == {0, guarantee(opened.spec).party(party.name).mu2}

    folder, home = trust(consortium)
    consortium.run("learner", *home, "fetch", release[:10])
    report = folder / "fit.json"
    consortium.run("learner", *home, "fit", release[:10], "--output", str(report))
    made = json.loads(report.read_text())
    assert (made["targets"], made["features"]) == (OUTCOMES, ["age", "dose"])
    assert "glucose" in consortium.run("learner", *home, "describe", release[:10])

    consortium.run("party-node", "public", "declare", "age", "--irrevocable", home=consortium.hospital("clinic"))
    wait_for(lambda: knows_of(consortium, "age"), 60, "the clinic to report its public column")
    two, columns = [parties[0], parties[2]], {"lab": ["glucose"]}  # all of the lab's again would wait for a person
    asked = {"mechanism": "moments", "outcomes": ["glucose"], "public_side": "features"}
    release = propose(consortium, two, columns, **asked)
    assert final_state(consortium, release) == "PUBLISHED"
    opened = published(consortium, release)
    assert opened.spec.guarantee == "label-DP"
    moments = check_noise(opened, two)
    assert not moments.across_sd[:, :2].any()
    assert "label-DP" in consortium.run("learner", *home, "fetch", release[:10])
    consortium.run("learner", *home, "fit", release[:10], "--output", str(report))
    assert json.loads(report.read_text())["targets"] == ["glucose"]
