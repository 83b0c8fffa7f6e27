"""Ranges first, then moments or mixtures of rows in them, each role its own process, of numbers with bounds and without: in two
releases, the second at its own price only, and in the rounds of one.
"""

from __future__ import annotations

import json
from typing import Any

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
UNKNOWN = 'kind = "numeric"\nbounds = "unknown"'
POLICY = '[policy.auto_approve]\nmechanisms = ["ranges", "moments", "mixed"]\n'


def hospitals() -> list[Hospital]:
    """Numbers that fill a small part of their bounds, or that nobody knows bounds of, and a binary.

    One age is a slip of the keyboard, one is missing.
    """
    random = np.random.default_rng(5)
    age, dose = random.normal(50, 10, ROWS), random.normal(40, 4, ROWS)
    smokes = random.random(ROWS) < 0.3
    pressure = 60 + 0.8 * age + 1.5 * dose + 6 * smokes + random.normal(0, 5, ROWS)
    ages: list[object] = [1e12, float("nan"), *map(float, age[2:])]
    return [
        Hospital(
            "clinic",
            {"age": f'{UNKNOWN}\nunit = "years"', "smoker": 'kind = "categorical"\nlevels = ["yes"]'},
            {"age": ages, "smoker": ["yes" if each else "no" for each in smokes]},
            policy=POLICY,
        ),
        Hospital(
            "ward",
            {"dose": UNKNOWN, "pressure": numeric(0, 2000)},
            {"dose": [*map(float, dose)], "pressure": [*map(float, pressure)]},
            policy=POLICY,
        ),
        Hospital(
            "lab", {"weight": numeric(0, 400)}, {"weight": [*map(float, random.normal(70, 8, ROWS))]}, policy=POLICY
        ),
    ]


def test_ranges_find_bounds_and_moments_use_them(consortium: Consortium) -> None:
    parties = hospitals()
    found(consortium, parties)
    with pytest.raises(CommandFailed, match="holds no release"):
        propose(consortium, parties, mechanism="moments", ranges=str(consortium.folder))
    with pytest.raises(
        CommandFailed, match='age, dose has unknown bounds; ask for ranges = "first" with mechanism mixed'
    ):
        propose(consortium, parties, mechanism="moments")
    first = propose(consortium, parties, mechanism="ranges", epsilon=3.0)
    assert final_state(consortium, first) == "PUBLISHED"
    ranges = published(consortium, first).ranges()
    assert ranges.names == ("age", "dose", "pressure", "weight")
    for name, deviation in (("age", 10), ("dose", 4), ("pressure", 12), ("weight", 8)):
        assert deviation / 2 < ranges.of(name).deviation < 2 * deviation
    assert (ranges.of("age").column.lower, ranges.of("age").column.upper) in {(18, 100), (32, 100), (18, 56), (32, 56)}
    learner, home = trust(consortium)
    consortium.run("learner", *home, "fetch", first[:10])
    assert "every box follows" in consortium.run("learner", *home, "verify", first[:10])
    told = " ".join(consortium.run("learner", *home, "describe", first[:10]).split())
    assert "age was declared without bounds; its box, found from noisy counts, is" in told
    shown = json.loads(consortium.run("learner", *home, "describe", first[:10], "--json"))
    assert [column["name"] for column in shown["columns"] if column["found"]] == ["age", "dose"]
    consortium.run("learner", *home, "report", first[:10], "--output", str(learner / "ranges.html"))
    assert "age was declared without bounds" in (learner / "ranges.html").read_text()

    folder = str(consortium.hub / "storage" / "published" / first)
    second = propose(consortium, parties, mechanism="moments", ranges=folder, clip=2)
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
    check_noise(opened, opened.spec, parties)
    consortium.run("learner", *home, "fetch", second[:10])
    assert "Moments are of rows as clipped" in " ".join(consortium.run("learner", *home, "verify", second[:10]).split())
    check_fit(consortium, second, *home)


def test_a_first_round_finds_bounds_and_serves_later_releases(consortium: Consortium) -> None:
    """Fits are in the unit of the data. Hospitals whose bounds are all known make one block less, in `test_moments_crashes`."""
    parties = hospitals()
    found(consortium, parties, epsilon=600.0)
    release = propose(consortium, parties, mechanism="moments", ranges="first", clip=2, epsilon=10.0)
    assert final_state(consortium, release) == "PUBLISHED"
    opened = published(consortium, release)
    assert {party: len(blocks) for party, blocks in opened.blocks.items()} == {"clinic": 3, "ward": 3, "lab": 3}
    known = in_published_ranges(opened.spec, {party: blocks[:-1] for party, blocks in opened.blocks.items()})
    check_noise(opened, known, parties)
    for hospital in parties:  # one charge for both rounds, each of which was made once
        home = consortium.hospital(hospital.name)
        ledger = json.loads(consortium.run("party-node", "ledger", "show", "--json", home=home))
        kinds = [line["kind"] for line in ledger["entries"] if line["release"] == release]
        assert sorted(kinds) == ["charge", "made", "made", "reserve", "send"]

    learner, options = trust(consortium)
    consortium.run("learner", *options, "fetch", release[:10])
    verified = " ".join(consortium.run("learner", *options, "verify", release[:10]).split())
    assert "Checked by range proofs" in verified  # of rows in the ranges of the first round
    assert "ranges recomputed" in verified
    described = json.loads(consortium.run("learner", *options, "describe", release[:10], "--json"))
    assert {each["name"]: each["range"] for each in described["ranges"]} == {
        each.name: each.model_dump()
        for each in joint_moments(known).clipping.ranges  # type: ignore[union-attr]
    }
    means = {column["name"]: column["mean"]["estimate"] for column in described["columns"]}
    assert abs(means["age"] - 50) < 5
    consortium.run(
        "learner", *options, "report", release[:10], "--target", "pressure", "--output", str(learner / "fit.html")
    )
    assert "bounds unknown" in (learner / "fit.html").read_text()
    fitted = check_fit(consortium, release, *options)
    lower, upper = np.array(fitted["feature_ends"], float)[:, fitted["features"].index("age")]
    assert 0 < lower < 50 < upper < 100

    # Other columns, of two hospitals: no policy approves the same content twice.
    later = propose(consortium, parties[:2], {"clinic": ["age"], "ward": ["dose"]}, mechanism="moments")
    assert final_state(consortium, later) == "PUBLISHED"
    clipping, first = joint_moments(published(consortium, later).spec).clipping, opened.first_ranges
    assert clipping is not None
    assert first is not None
    assert clipping.source == release
    assert clipping.ranges == tuple(each for each in first.ranges if each.name in {"age", "dose"})
    check_mixtures(consortium, parties[:2], options)


def check_mixtures(consortium: Consortium, parties: list[Hospital], options: tuple[str, str]) -> None:
    """Mixtures in ranges of a first round of their own are fitted in the unit of the data."""
    release = propose(consortium, parties, mechanism="mixed", ranges="first", epsilon=200.0)
    assert final_state(consortium, release) == "PUBLISHED"
    opened = published(consortium, release)
    assert {party: len(blocks) for party, blocks in opened.blocks.items()} == {"clinic": 3, "ward": 3}
    assert opened.ranged.keys() == {"age", "dose", "pressure"}
    consortium.run("learner", *options, "fetch", release[:10])
    verified = " ".join(consortium.run("learner", *options, "verify", release[:10]).split())
    assert "then mixtures of rows as coded in these ranges" in verified
    assert "Mixtures are of numbers as clipped" in verified
    described = json.loads(consortium.run("learner", *options, "describe", release[:10], "--json"))
    assert [each["name"] for each in described["ranges"]] == ["age", "dose", "pressure"]
    fitted = fit(consortium, release, *options)
    told = {row["feature"]: row["coefficient"] for row in fitted["coefficients"]}
    for name, slope in (("age", 0.8), ("dose", 1.5), ("smoker=yes", 6.0)):
        assert abs(told[name]["estimate"] - slope) < 5 * told[name]["standard_error"] < 5 * abs(slope) / 2
    assert opened.earlier.left is not None
    (age,) = (column for column in opened.earlier.left.columns if column.name == "age")
    ends = np.array(fitted["feature_ends"], float)[:, fitted["features"].index("age")]
    # They are those that the first round published: noise decides how far they reach.
    assert ends.tolist() == [age.lower, age.upper]
    assert age.lower < 50 < age.upper


def fit(consortium: Consortium, release: str, *options: str) -> dict[str, Any]:
    """What `learner fit` writes of the blood pressure."""
    report = consortium.folder / "fit.json"
    consortium.run("learner", *options, "fit", release[:10], "--target", "pressure", "--output", str(report))
    return dict(json.loads(report.read_text()))


def check_fit(consortium: Consortium, release: str, *options: str) -> dict[str, Any]:
    """Slopes of a fit on moments are those of the data, in their units; what was written."""
    fitted = fit(consortium, release, *options)
    slopes = {row["feature"]: row["value"] for row in fitted["predictor"]}
    assert abs(slopes["age"] - 0.8) < 0.3
    assert abs(slopes["dose"] - 1.5) < 0.7
    assert np.shape(fitted["feature_ends"]) == (2, len(fitted["features"]))
    return fitted


def check_noise(release: Release, known: ReleaseSpec, parties: list[Hospital]) -> None:
    """Sums of rows that were clipped into known ranges are off by the stated noise."""
    moments, truth = release.moments(), clipped_gram(known, release.moments().layout, parties)
    entries = moments.layout.rows, moments.layout.cols
    square = float((((moments.gram - truth)[entries] / moments.noise_sd[entries]) ** 2).sum())
    assert chi2.ppf(1e-9, len(entries[0])) < square < chi2.isf(1e-9, len(entries[0]))


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
