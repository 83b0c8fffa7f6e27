"""What the page of a report says, that everybody can read it, and that strangers' names are only ever text in it."""

import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np
import pytest

from dprelease.document.cells import Estimate, figure
from dprelease.estimators.intervals.inference import EQUAL_SPREAD
from dprelease.estimators.result import intercept, slope
from dprelease.one_line import one_line
from dprelease.release.folder import ReleaseFolder
from dprelease.release.verification import checks
from dprelease.report import page
from dprelease.report.content import CAVEATS, Report
from dprelease.report.fit_page import MOST_LINES, MOST_TARGETS
from learner.client.library import Opened
from tests.learner.moments import ROWS, opened
from tests.learner.pages import FEATURES, LEVELS, TARGETS, TITLE, UNIT, hostile, parsed, report
from tests.learner.world import World, verified
from tests.support.browser import CHROMIUM, WANTED, WIDTHS, measured
from tests.support.specs import numeric

TAGS = {
    *("html", "head", "meta", "title", "style", "body", "header", "nav", "main", "section", "footer", "div", "span"),
    *("h1", "h2", "h3", "p", "a", "ul", "li", "pre", "code", "details", "summary", "figure", "figcaption"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "wbr"),
    *("svg", "desc", "text", "line", "rect", "circle"),
}


QUALITY = "Predictions on the private rows, standard errors in brackets"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """Joint moments with names that attack; age and glucose go together in it."""
    return hostile(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def made(release: Opened) -> Report:
    """A report with shares that can be told: glucose is explained nearly whole, which noise may make more than that."""
    found = report(release, TARGETS, FEATURES)
    quality, less = found.fit.quality, 0.15 * found.fit.quality.constant_mse
    quality = replace(quality, gain=quality.gain - less, mse=quality.mse + less)
    return replace(found, fit=replace(found.fit, quality=quality))


@pytest.fixture(scope="module")
def text(made: Report) -> str:
    return page(made)


@pytest.fixture(scope="module")
def tree(text: str) -> Element:
    return parsed(text)


@pytest.fixture(scope="module")
def rows(world: World, folder: ReleaseFolder, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """Eight mixing rows, from which nothing can be learned."""
    return verified(folder, world, tmp_path_factory.mktemp("home"))


def words(node: Element) -> str:
    return "".join(node.itertext())


def shown(tree: Element, caption: str) -> dict[str, list[str]]:
    """Cells of a table, line by line, without its heads."""
    table = next(table for table in tree.iter("table") if words(table[0]) == caption)
    return {words(line[0]): [words(cell) for cell in line[1:]] for line in table[2]}


def part(tree: Element, name: str) -> Element:
    return next(node for node in tree.iter("section") if node.get("id") == name)


def test_strangers_names_are_text_and_nothing_else(text: str, tree: Element) -> None:
    assert {node.tag for node in tree.iter()} <= TAGS
    assert {attribute for node in tree.iter() for attribute in node.attrib if attribute.startswith("on")} == set()
    assert text.count("<script") == text.count("<img") == 0
    whole = words(tree)
    assert words(next(tree.iter("h1"))) == one_line(TITLE)
    assert one_line(UNIT) in whole
    for level in LEVELS:
        assert level in whole
    assert all(letter.isprintable() or letter == "\n" for letter in text)


def test_the_page_needs_nothing_but_itself(text: str, tree: Element) -> None:
    ids = [node.get("id") for node in tree.iter() if node.get("id")]
    for node in tree.iter():
        assert not {"src", "srcset", "style", "xlink:href", "action"} & node.attrib.keys()
        assert node.get("href", "#")[0] == "#"
        assert node.get("href", "#")[1:] in {"", *ids}
    style = words(next(tree.iter("style")))
    assert not re.search(r"url\(|@import|http|[<&]", style)
    policy = next(node for node in tree.iter("meta") if node.get("http-equiv") == "Content-Security-Policy")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    assert (
        policy.get("content") == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert "http://" not in text
    assert "https://" not in text


def test_everybody_can_find_their_way(tree: Element) -> None:
    ids = [node.get("id") for node in tree.iter() if node.get("id")]
    assert len(ids) == len(set(ids))
    assert tree.get("lang") == "en"
    for node in tree.iter():
        assert set(node.get("aria-labelledby", "").split()) <= set(ids)
    assert [part.get("aria-labelledby") for part in next(tree.iter("main"))] == [
        f"{part.get('id')}-heading" for part in next(tree.iter("main"))
    ]
    levels = [int(node.tag[1]) for node in tree.iter() if node.tag in {"h1", "h2", "h3"}]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert max(after - before for before, after in pairwise(levels)) == 1
    for table in tree.iter("table"):
        assert [child.tag for child in table] == ["caption", "thead", "tbody"]
        assert words(table[0])
        widths = {len(line) for line in table.iter("tr")}
        assert len(widths) == 1
        assert {cell.get("scope") for cell in table[1].iter("th")} == {"col"}
        assert all([cell.tag for cell in line].count("th") == 1 for line in table[2])
    pictures = list(tree.iter("svg"))
    assert len(pictures) == 5  # fits, two targets, eigenvalues, correlations
    for picture in pictures:
        assert picture.get("role") == "img"
        assert [child.tag for child in picture][:2] == ["title", "desc"]
        assert all(words(child) for child in picture[:2])


def test_results_come_first_and_the_guarantee_in_a_line_and_at_the_end_whole(tree: Element, release: Opened) -> None:
    main = next(tree.iter("main"))
    assert [each.get("id") for each in main][:3] == ["findings", "coefficients", "fit"]
    assert release.release.promise.line in words(next(tree.iter("header")))
    assert main[-1].get("id") == "promises"
    said = [words(item) for item in main[-1].iter("li")]
    assert said == [*release.release.guarantee, *release.manifest.trust]


def test_the_release_is_described_as_verify_does(tree: Element, release: Opened) -> None:
    said, spec = words(part(tree, "release")), release.release.spec
    for fact in (
        spec.digest(),
        release.consortium.fingerprint,
        f"{ROWS:,}",
        release.manifest.published,
        "north, south",
    ):
        assert fact in said
    listed = [words(item) for item in part(tree, "release").iter("li")]
    assert listed == [f"ok: {sentence}" for sentence in checks(spec)]
    declared = {words(line[0]): words(line) for line in part(tree, "release").findall(".//tbody")[1]}
    assert "2 to 30" in declared["glucose"]
    assert declared["glucose"].endswith("with noisetarget")
    assert ", ".join(LEVELS) in declared["stage"]
    assert declared["stage"].endswith("with noisefeature")


def test_the_numbers_are_those_of_the_fit(tree: Element, made: Report) -> None:
    fit = made.fit
    parts = ("estimate", "standard_error", "ratio", "p_value", "lower", "upper", "unit")
    for row, target in enumerate(fit.targets):
        predictor = shown(tree, f"The model that predicts {one_line(target)}")
        assert [line[0] for line in predictor.values()] == [
            f"{value:.6g}" for value in (fit.intercept[row], *fit.coef[row])
        ]
        told = shown(tree, f"Coefficients for {one_line(fit.document().tables[row].title)}")
        expected = {name: slope(fit, row, column) for column, name in enumerate(fit.features)}
        for name, one in {"intercept": intercept(fit, row), **expected}.items():
            assert told[one_line(name)] == [one.part(each) for each in parts]
    quality = shown(tree, QUALITY)
    for row, cells in enumerate(quality.values()):
        share = Estimate(fit.quality.explained[row], fit.quality.explained_se[row])
        assert cells[0] == share.text
        error = Estimate(fit.quality.mse[row] + fit.quality.optimism[row], fit.quality.mse_se[row])
        assert cells[1] == error.text
    described = made.described
    means = shown(tree, described.document().table("columns").title)
    for place, cells in enumerate(means.values()):
        assert cells[0] == Estimate(described.mean[place], described.mean_noise_sd[place]).text
        assert cells[1] == Estimate(described.deviation[place], described.deviation_noise_sd[place]).text
    assert made.spectrum is not None
    assert [line[0] for line in shown(tree, "Eigenvalues").values()] == [f"{each:.4g}" for each in made.spectrum.values]
    pairs = shown(tree, "Correlations, the strongest first, errors in brackets")
    assert made.described.correlation is not None
    assert made.described.correlation_noise_sd is not None
    both = Estimate(made.described.correlation[2, 0], made.described.correlation_noise_sd[2, 0])
    assert pairs["age and glucose"] == [both.text]


def test_plotted_coefficients_stand_where_their_numbers_are(tree: Element, made: Report) -> None:
    """In the target's units, for one standard deviation of a number, and from 0 to 1 for an indicator."""
    picture = next(node for node in tree.iter("svg") if "coefficients-1" in node.get("aria-labelledby", ""))
    marks = [node for node in picture.iter("text") if node.get("class") == "tick middle"]
    values = [float(words(mark).replace("\N{MINUS SIGN}", "-")) for mark in marks]
    scale = np.polyfit([float(mark.get("x", "")) for mark in marks], values, 1)
    shown = np.polyval(scale, [float(node.get("cx", "")) for node in picture.iter("circle")])
    reach = np.array([made.described.deviation[made.described.names.index("age")], 1.0, 1.0])
    assert shown == pytest.approx(reach * made.fit.inference.estimate[0], abs=0.01 * (values[-1] - values[0]))


def test_intervals_without_an_end_say_so(made: Report) -> None:
    inference = made.fit.inference
    profiled = replace(inference.profiled, bend=np.ones_like(inference.profiled.bend))
    found = replace(made, fit=replace(made.fit, infer=lambda: replace(inference, profiled=profiled)))
    assert ">none</td>" not in page(made)
    assert ">none</td>" in page(found)
    assert "this release sets no bound on that side" in page(found)


def test_what_was_learned_is_said_in_words(tree: Element, made: Report) -> None:
    assert made.better(0)
    said = [words(item) for item in part(tree, "findings").iter("li")]
    assert said[:2] == [one_line(made.finding(row)) for row in range(2)]
    share, error = (100 * float(each[0]) for each in (made.fit.quality.explained, made.fit.quality.explained_se))
    assert f"explains an estimated {figure(share, error)} % of the variance of glucose" in said[0]
    cautions = [words(item) for item in part(tree, "caveats").iter("li")]
    assert cautions[-len(CAVEATS) :] == list(CAVEATS)
    assert cautions.count(EQUAL_SPREAD) == 1


def test_where_nothing_was_learned_nothing_is_claimed(rows: Opened) -> None:
    found = report(rows, ["glucose"])
    assert not found.identified(0)
    assert not found.better(0)
    tree = parsed(page(found))
    said = [words(item) for item in part(tree, "findings").iter("li")]
    assert said[0] == "Nothing was learned about glucose: noise hides even its mean."  # 12 mmol/l in a range of 28
    seen = replace(found, fit=replace(found.fit, constant_noise_sd=np.array([0.1])))
    assert seen.finding(0).startswith(
        "Nothing was learned about glucose: the best guess from this release is the constant "
    )
    assert seen.finding(0).endswith(" mmol/l.")
    assert f"Warning: {found.fit.inference.statement}" in said
    assert found.fit.inference.statement in found.caveats
    assert "Correlations need a release of joint moments" in words(part(tree, "columns"))
    told = shown(tree, "The model that predicts glucose")
    assert [line[0] for line in told.values()] == [
        f"{each:.6g}" for each in (found.fit.intercept[0], *found.fit.coef[0])
    ]
    assert len(part(tree, "coefficients").findall(".//svg")) == 0
    assert len(part(tree, "coefficients").findall(".//details")) == 1
    weak = replace(
        found, fit=replace(found.fit, infer=lambda: replace(found.fit.inference, identified=np.array([True])))
    )
    assert weak.finding(0).startswith("No prediction of glucose was learned")


def test_public_columns_are_called_so(tmp_path: Path) -> None:
    columns = {"north": (numeric("age", 0.0, 120.0, public=True),), "south": (numeric("weight"), numeric("glucose"))}
    release = opened(World(tmp_path, columns), tmp_path, mechanism="mixed", rows=500, outputs=50)
    tree = parsed(page(report(release, ["glucose"])))
    assert words(next(tree.iter("header"))[0]) == "Report on a release under feature-DP: some columns are public"
    declared = {words(line[0]): words(line) for line in part(tree, "release").findall(".//tbody")[1]}
    assert declared["age"].endswith("exactly: publicfeature")
    assert declared["weight"].endswith("with noisefeature")
    assert "of 1 directions" in words(part(tree, "noise"))
    bare = parsed(page(report(release, ["glucose"], ["age"])))
    assert "carry no noise" in words(part(bare, "noise"))


def test_without_an_intercept_the_page_says_where_the_model_passes(rows: Opened) -> None:
    tree = parsed(page(report(rows, ["glucose"], ["age"], "rmgm")))
    said = words(part(tree, "coefficients"))
    assert "No intercept: through the midpoints of the public ranges" in said
    assert "Linear models of glucose on age by method rmgm" in words(next(tree.iter("header")))


def test_many_targets_and_features(tmp_path: Path) -> None:
    count = MOST_TARGETS + 3
    features = tuple(f"x{place}" for place in range(MOST_LINES + 2))
    columns = {"north": tuple(numeric(f"y{place}") for place in range(count)), "south": tuple(map(numeric, features))}
    release = opened(World(tmp_path, columns), tmp_path, mechanism="rows", rows=2000, epsilon=2000.0)
    found = report(release, [f"y{place}" for place in range(count)], features)
    tree = parsed(page(found))
    headings = [words(node) for node in part(tree, "coefficients").iter("h3")]
    assert headings == [*(f"y{place}" for place in range(MOST_TARGETS)), "Other targets"]
    others = shown(tree, "The strongest feature of each other target")
    assert list(others) == [f"y{place}" for place in range(MOST_TARGETS, count)]
    for row, (feature, estimate, *_) in enumerate(others.values(), MOST_TARGETS):
        best = int(np.abs(found.fit.inference.z[row]).argmax())
        assert (feature, estimate) == (features[best], slope(found.fit, row, best).part("estimate"))
    better = sum(verdict.startswith("better") for verdict in found.fit.verdicts)
    assert words(part(tree, "findings")).count(f"{better} of {count} targets have a model better than a constant.") == 1
    assert len(shown(tree, QUALITY)) == count
    assert "y0, y1, y2 and 8 more on 42 features" in words(next(tree.iter("header")))
    assert found.identified(0)
    assert f"{MOST_LINES} of {len(features)} features are shown" in words(part(tree, "coefficients"))


SEEN = """
return [...document.querySelectorAll("*")].map(each => each.localName).filter(each => each !== "script");
"""


@pytest.mark.skipif(CHROMIUM is None, reason=WANTED)
def test_a_browser_sees_the_same_page(text: str, tree: Element, tmp_path: Path) -> None:
    elements = [node.tag for node in tree.iter() if node.get("http-equiv") is None]
    assert measured(tmp_path, {"report": text}, SEEN) == {f"report {width}": elements for width in WIDTHS}
