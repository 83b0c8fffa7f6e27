"""Numbers without bounds, each role its own process: ranges that find bounds, moments or mixtures in those of a first round."""

import json

import numpy as np
import pytest
from scipy.stats import chi2

from demo.consortium import CommandFailed, Consortium
from tests.end_to_end.hospitals import Hospital, final_state, found, propose, published, trust
from tests.end_to_end.test_ranges import clipped_gram, hospitals, moments_layout
from tests.support.rounds import in_published_ranges

pytestmark = pytest.mark.end_to_end

UNKNOWN = 'kind = "numeric"\nbounds = "unknown"'


def without_bounds() -> list[Hospital]:
    """The hospitals whose age and dose nobody knows the bounds of; one age is a slip of the keyboard, one is missing."""
    clinic, ward, lab = hospitals()
    clinic.columns["age"], ward.columns["dose"] = f'{UNKNOWN}\nunit = "years"', UNKNOWN
    clinic.cells["age"][:2] = [1e12, float("nan")]
    return [clinic, ward, lab]


def test_ranges_find_bounds_and_moments_use_them(consortium: Consortium) -> None:
    parties = without_bounds()
    found(consortium, parties)
    with pytest.raises(
        CommandFailed, match='age, dose has unknown bounds; ask for ranges = "first" with mechanism mixed'
    ):
        propose(consortium, parties, mechanism="moments")
    first = propose(consortium, parties, mechanism="ranges", epsilon=3.0)
    assert final_state(consortium, first) == "PUBLISHED"
    ranges = published(consortium, first).ranges()
    assert (ranges.of("age").column.lower, ranges.of("age").column.upper) in {(18, 100), (32, 100), (18, 56), (32, 56)}
    assert ranges.of("dose").deviation < 8
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


def test_a_first_round_finds_bounds_and_fits_are_in_the_unit_of_the_data(consortium: Consortium) -> None:
    parties = without_bounds()
    found(consortium, parties)
    release = propose(consortium, parties, mechanism="moments", ranges="first", clip=2, epsilon=10.0)
    assert final_state(consortium, release) == "PUBLISHED"
    opened = published(consortium, release)
    assert {party: len(blocks) for party, blocks in opened.blocks.items()} == {"clinic": 3, "ward": 3, "lab": 3}
    known = in_published_ranges(opened.spec, {party: blocks[:-1] for party, blocks in opened.blocks.items()})
    moments, truth = opened.moments(), clipped_gram(known, moments_layout(opened), parties)
    entries = moments.layout.rows, moments.layout.cols
    square = float((((moments.gram - truth)[entries] / moments.noise_sd[entries]) ** 2).sum())
    assert chi2.ppf(1e-9, len(entries[0])) < square < chi2.isf(1e-9, len(entries[0]))

    learner, home = trust(consortium)
    consortium.run("learner", *home, "fetch", release[:10])
    fit, report = learner / "fit.json", learner / "fit.html"
    consortium.run("learner", *home, "fit", release[:10], "--target", "pressure", "--output", str(fit))
    consortium.run("learner", *home, "report", release[:10], "--target", "pressure", "--output", str(report))
    assert "bounds unknown" in report.read_text()
    described = json.loads(consortium.run("learner", *home, "describe", release[:10], "--json"))
    means = {column["name"]: column["mean"]["estimate"] for column in described["columns"]}
    assert abs(means["age"] - 50) < 5
    fitted = json.loads(fit.read_text())
    slopes = {row["feature"]: row["value"] for row in fitted["predictor"]}
    assert abs(slopes["age"] - 0.8) < 0.3
    assert abs(slopes["dose"] - 1.5) < 0.7
    lower, upper = np.array(fitted["feature_ends"], float)[:, fitted["features"].index("age")]
    assert 0 < lower < 50 < upper < 100


def test_mixtures_in_ranges_of_numbers_without_bounds_are_fitted_in_the_unit_of_the_data(
    consortium: Consortium,
) -> None:
    parties = without_bounds()[:2]
    found(consortium, parties, epsilon=300.0)
    release = propose(consortium, parties, mechanism="mixed", ranges="first", epsilon=200.0)
    assert final_state(consortium, release) == "PUBLISHED"
    opened = published(consortium, release)
    assert {party: len(blocks) for party, blocks in opened.blocks.items()} == {"clinic": 3, "ward": 3}
    assert opened.ranged.keys() == {"age", "dose", "pressure"}
    learner, home = trust(consortium)
    consortium.run("learner", *home, "fetch", release[:10])
    verified = " ".join(consortium.run("learner", *home, "verify", release[:10]).split())
    assert "then mixtures of rows as coded in these ranges" in verified
    assert "Mixtures are of numbers as clipped" in verified
    described = json.loads(consortium.run("learner", *home, "describe", release[:10], "--json"))
    assert [each["name"] for each in described["ranges"]] == ["age", "dose", "pressure"]
    fit = learner / "fit.json"
    consortium.run("learner", *home, "fit", release[:10], "--target", "pressure", "--output", str(fit))
    fitted = json.loads(fit.read_text())
    told = {row["feature"]: row["coefficient"] for row in fitted["coefficients"]}
    for name, slope in (("age", 0.8), ("dose", 1.5), ("smoker=yes", 6.0)):
        assert abs(told[name]["estimate"] - slope) < 5 * told[name]["standard_error"] < 5 * abs(slope) / 2
    lower, upper = np.array(fitted["feature_ends"], float)[:, fitted["features"].index("age")]
    assert opened.earlier.left is not None
    (age,) = (column for column in opened.earlier.left.columns if column.name == "age")
    assert (lower, upper) == (
        age.lower,
        age.upper,
    )  # those that the first round published: noise decides how far they reach
    assert lower < 50 < upper
