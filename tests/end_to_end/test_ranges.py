"""Ranges first, then moments of clipped rows in them, each role its own process: in two releases, the second at its own price
only, and in the two rounds of one.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import chi2

from demo.consortium import CommandFailed, Consortium
from dprelease.data.bounding import BoundedRows, bound
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.privatize import coded
from dprelease.mechanisms.moments.terms import joint_moments
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from tests.end_to_end.hospitals import Hospital, final_state, found, numeric, propose, published, trust
from tests.support.plans import way
from tests.support.rounds import in_published_ranges

pytestmark = pytest.mark.end_to_end

ROWS = 3000
POLICY = '[policy.auto_approve]\nmechanisms = ["ranges", "moments", "mixed"]\n'


def hospitals() -> list[Hospital]:
    """Numbers that fill a small part of their declared bounds, a binary and a category."""
    random = np.random.default_rng(5)
    age, dose = random.normal(50, 10, ROWS), random.normal(40, 4, ROWS)
    smokes = random.random(ROWS) < 0.3
    pressure = 60 + 0.8 * age + 1.5 * dose + 6 * smokes + random.normal(0, 5, ROWS)
    return [
        Hospital(
            "clinic",
            {"age": numeric(0, 300), "smoker": 'kind = "categorical"\nlevels = ["yes"]'},
            {"age": [*map(float, age)], "smoker": ["yes" if each else "no" for each in smokes]},
            policy=POLICY,
        ),
        Hospital(
            "ward",
            {"dose": numeric(0, 1000), "pressure": numeric(0, 2000)},
            {"dose": [*map(float, dose)], "pressure": [*map(float, pressure)]},
            policy=POLICY,
        ),
        Hospital(
            "lab", {"weight": numeric(0, 400)}, {"weight": [*map(float, random.normal(70, 8, ROWS))]}, policy=POLICY
        ),
    ]


def test_moments_in_ranges_that_were_published_before(consortium: Consortium) -> None:
    parties = hospitals()
    found(consortium, parties)
    with pytest.raises(CommandFailed, match="holds no release"):
        propose(consortium, parties, mechanism="moments", ranges=str(consortium.folder))
    first = propose(consortium, parties, mechanism="ranges", epsilon=3.0)
    assert final_state(consortium, first) == "PUBLISHED"
    ranges = published(consortium, first).ranges()
    assert ranges.names == ("age", "dose", "pressure", "weight")
    for name, deviation in (("age", 10), ("dose", 4), ("pressure", 12), ("weight", 8)):
        assert deviation / 2 < ranges.of(name).deviation < 2 * deviation

    second = propose(consortium, parties, mechanism="moments", clip=2)
    assert final_state(consortium, second) == "PUBLISHED"
    opened = published(consortium, second)
    clipping = joint_moments(opened.spec).clipping
    assert clipping is not None
    assert clipping.source == first
    planned = json.loads(consortium.run("coordinator", "plan", "request.toml", "--json", home=consortium.office))
    shown = json.loads(consortium.run("coordinator", "release", "show", second, "--json", home=consortium.office))
    assert way(planned, "moments in ranges")["charged_mu2"] == shown["charged_mu2"]
    assert shown["ranges"] == first
    assert {each.name: (each.centre, each.half_width) for each in clipping.ranges} == {
        each.name: (each.centre, each.half_width) for each in ranges.ranges
    }
    moments, truth = opened.moments(), clipped_gram(opened.spec, moments_layout(opened), parties)
    entries = moments.layout.rows, moments.layout.cols
    square = float((((moments.gram - truth)[entries] / moments.noise_sd[entries]) ** 2).sum())
    assert chi2.ppf(1e-9, len(entries[0])) < square < chi2.isf(1e-9, len(entries[0]))

    learner, home = trust(consortium)
    consortium.run("learner", *home, "fetch", second[:10])
    assert "Moments are of rows as clipped" in " ".join(consortium.run("learner", *home, "verify", second[:10]).split())
    report = learner / "fit.json"
    consortium.run("learner", *home, "fit", second[:10], "--target", "pressure", "--output", str(report))
    fitted = json.loads(report.read_text())
    slopes = {row["feature"]: row["value"] for row in fitted["predictor"]}
    assert abs(slopes["age"] - 0.8) < 0.2
    assert abs(slopes["dose"] - 1.5) < 0.5
    assert np.shape(fitted["feature_ends"]) == (2, len(fitted["features"]))


def check_charged_once(consortium: Consortium, parties: list[Hospital], release: str) -> None:
    """One charge for both rounds, each of which made one block."""
    for hospital in parties:
        home = consortium.hospital(hospital.name)
        shown = json.loads(consortium.run("party-node", "ledger", "show", "--json", home=home))
        kinds = [line["kind"] for line in shown["entries"] if line["release"] == release]
        assert sorted(kinds) == ["charge", "made", "made", "reserve", "send"]


def test_moments_in_ranges_of_their_own_first_round_which_serve_a_later_release(consortium: Consortium) -> None:
    parties = hospitals()
    found(consortium, parties)
    release = propose(consortium, parties, mechanism="moments", ranges="first", clip=2, epsilon=10.0)
    assert final_state(consortium, release) == "PUBLISHED"
    opened = published(consortium, release)
    assert {party: len(blocks) for party, blocks in opened.blocks.items()} == {"clinic": 2, "ward": 2, "lab": 2}
    known = in_published_ranges(opened.spec, {party: blocks[:1] for party, blocks in opened.blocks.items()})
    moments, truth = opened.moments(), clipped_gram(known, moments_layout(opened), parties)
    entries = moments.layout.rows, moments.layout.cols
    square = float((((moments.gram - truth)[entries] / moments.noise_sd[entries]) ** 2).sum())
    assert chi2.ppf(1e-9, len(entries[0])) < square < chi2.isf(1e-9, len(entries[0]))

    check_charged_once(consortium, parties, release)
    learner, home = trust(consortium)
    consortium.run("learner", *home, "fetch", release[:10])
    verified = " ".join(consortium.run("learner", *home, "verify", release[:10]).split())
    assert "Two rounds are in it" in verified
    assert "Checked by range proofs" in verified  # of rows in the ranges of the first round
    assert "ranges recomputed" in verified
    described = json.loads(consortium.run("learner", *home, "describe", release[:10], "--json"))
    assert {each["name"]: each["range"] for each in described["ranges"]} == {
        each.name: each.model_dump()
        for each in joint_moments(known).clipping.ranges  # type: ignore[union-attr]
    }
    consortium.run("learner", *home, "fit", release[:10], "--target", "pressure", "--output", str(learner / "fit.json"))
    fitted = json.loads((learner / "fit.json").read_text())
    slopes = {row["feature"]: row["value"] for row in fitted["predictor"]}
    assert abs(slopes["age"] - 0.8) < 0.3
    assert abs(slopes["dose"] - 1.5) < 0.7

    # Other columns, of two hospitals: no policy approves the same content twice.
    later = propose(consortium, parties[:2], {"clinic": ["age"], "ward": ["dose"]}, mechanism="moments")
    assert final_state(consortium, later) == "PUBLISHED"
    clipping, first = joint_moments(published(consortium, later).spec).clipping, opened.first_ranges
    assert clipping is not None
    assert first is not None
    assert clipping.source == release
    assert clipping.ranges == tuple(each for each in first.ranges if each.name in {"age", "dose"})


def moments_layout(release: Release) -> Layout:
    return release.moments().layout


def clipped_gram(spec: ReleaseSpec, layout: Layout, parties: list[Hospital]) -> np.ndarray:
    """What a release in known ranges hides, in scaled units."""
    cells = {hospital.name: hospital.cells for hospital in parties}
    clipping = joint_moments(spec).clipping
    assert clipping is not None
    whole = [np.full((spec.rows, 1), clipping.constant)]
    for part in spec.parties:
        raw = {name: np.array(own) if isinstance(own[0], float) else own for name, own in cells[part.party].items()}
        rows = BoundedRows(bound(raw, part.columns, spec.grid_bits), part.columns, spec.grid_bits)  # type: ignore[arg-type]
        whole.append(coded(rows, spec))
    units = clipping.units(layout)
    x = np.hstack(whole) / units
    return np.asarray(x.T @ x)
