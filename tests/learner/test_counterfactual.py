"""The commands on releases of a synthetic control: path, effect and placebos, of one hospital and of two."""

import json
from pathlib import Path

import pytest

from coordinator.dry_run.simulate import Signers, SimulatedSigner, Stopwatch, simulate
from dprelease.description.counterfactual import describe_counterfactual
from dprelease.document.cells import figure
from dprelease.estimators.counterfactual import counterfactual
from dprelease.release.fake import fake_spec, marked
from dprelease.release.folder import ReleaseFolder
from learner.client.library import Opened, open_verified
from learner.client.pinned_roots import TrustStore
from tests.learner.commands import Run
from tests.learner.pages import UNIT, parsed
from tests.learner.test_report import TAGS, words
from tests.learner.test_report import shown as cells
from tests.support.certificates import NOW
from tests.support.noise import SeededNoise
from tests.support.panels import panel_spec
from tests.support.specs import new_consortium, numeric

COLUMNS = tuple(numeric(f"y{2015 + at}", 0.0, 50.0, unit=UNIT) for at in range(5))
SERIES = [20.0, 30.0, 35.0, 12.0, 11.0]
CONSORTIUM = marked("trial")


@pytest.fixture(scope="module")
def releases(place: Path) -> list[Opened]:
    """Of two hospitals against one target, of one against another, and of the first again, at another price."""
    names = ("north", "south", "east", "north")
    consortium = new_consortium(*map(marked, names[:3]))
    trust, found = TrustStore(place / "home"), []
    trust.add(CONSORTIUM, consortium.root.certificate, "h:1")
    for at, (party, series) in enumerate(zip(names, (SERIES, SERIES, [*SERIES[:4], 10.0], SERIES), strict=True)):
        spec = panel_spec(series, "y2018", columns=COLUMNS, donors=30, epsilon=400.0 + at // 3, delta=1e-3, party=party)
        made = fake_spec(spec, consortium.keys, spec.rows)
        folder, member = ReleaseFolder(place / f"{at}-{party}"), consortium.parties[marked(party)]
        hub = SimulatedSigner(consortium.hub.key, consortium.hub.certificate)
        own = {marked(party): SimulatedSigner(member.key, member.certificate)}
        signers = Signers(consortium.root.certificate, hub, own)
        simulate(made, "y2018", signers, SeededNoise(len(party)), folder, NOW, Stopwatch())
        found.append(open_verified(folder, trust))
    return found


def test_path_effect_and_placebo(run: Run, releases: list[Opened]) -> None:
    path = releases[0].folder.path
    shown = run("counterfactual", path)
    assert shown.exit_code == 0, shown.output
    found = counterfactual([releases[0].release.panel()])
    (line,) = [line for line in shown.output.splitlines() if line.startswith("y2018 ")]
    for value in (12.0, found.path[0], found.path_sd[0], found.effect[0]):
        assert f" {figure(value, found.path_sd[0])} " in line
    for said in ("mean effect", "placebo p", "Guarantee: ", "The band covers privacy noise only."):
        assert said in shown.output
    explained = run("counterfactual", path, "--explain").output
    assert "one donor's whole series" in explained
    assert "\nTrust\n" in explained
    assert "\x1b" not in shown.output
    data = json.loads(run("counterfactual", path, "--level", "0.5", "--json").output)
    assert [each["counterfactual"]["estimate"] for each in data["path"]] == found.path.tolist()
    assert [each["target"] for each in data["before"]] == SERIES[:3]
    for each in data["path"]:
        effect = each["effect"]
        assert effect["estimate"] == each["target"] - each["counterfactual"]["estimate"]
        assert effect["lower"] < effect["estimate"] < effect["upper"]
        assert effect["level"] == 0.5
    assert data["placebo"]["donors"] == 30
    assert data["level"] == 0.5
    assert run("describe", path).output == shown.output


def test_two_hospitals_are_combined_once_each(run: Run, releases: list[Opened], tmp_path: Path) -> None:
    north, south, *_ = (each.folder.path for each in releases)
    page = tmp_path / "effect.html"
    shown = run("counterfactual", north, south, north, "--output", page, "--json")
    assert shown.exit_code == 0, shown.output
    data = json.loads(shown.output)
    both = counterfactual([each.release.panel() for each in releases[:2]])
    assert data["releases"] == [each.release.digest for each in releases[:2]]
    assert [each["counterfactual"]["estimate"] for each in data["path"]] == both.path.tolist()
    assert "no person is a donor of two" in data["notes"][-1]
    assert releases[1].release.digest in page.read_text()


def test_releases_against_other_targets_are_refused(run: Run, releases: list[Opened]) -> None:
    refused = run("counterfactual", releases[0].folder.path, releases[2].folder.path)
    assert refused.exit_code
    assert "not against the same target" in refused.output


def test_the_same_donors_twice_are_refused(run: Run, releases: list[Opened]) -> None:
    refused = run("counterfactual", releases[0].folder.path, releases[3].folder.path)
    assert refused.exit_code
    assert "have the same donors, of one hospital; name one release of each" in refused.output


def test_the_page_draws_target_path_and_band(run: Run, releases: list[Opened], tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    shown = run("report", releases[0].folder.path, "--output", page)
    assert shown.exit_code == 0, shown.output
    assert "a counterfactual of 30 donors" in shown.output
    text = page.read_text()
    tree = parsed(text)
    assert {node.tag for node in tree.iter()} <= TAGS
    assert [words(next(plot.iter("title"))) for plot in tree.iter("svg")] == ["Target and counterfactual"]
    assert len(list(tree.iter("circle"))) == 2
    found = describe_counterfactual([releases[0].release], 0.95)
    assert list(cells(tree, f"Effect at each time, {UNIT}")) == ["y2018", "y2019"]
    _, target, path, path_sd, effect, low, high = found.lines[1]
    told = [figure(each, path_sd) for each in (target, path, path_sd, effect, low, high)]
    assert cells(tree, f"Effect at each time, {UNIT}")["y2019"] == told
    ids = [node.get("id") for node in tree.iter() if node.get("id")]
    assert len(ids) == len(set(ids))
    assert {node.get("href", "#")[1:] for node in tree.iter("a")} <= set(ids)
    again = tmp_path / "again.html"
    run("counterfactual", releases[0].folder.path, "--out", again)  # as it was called before
    assert again.read_bytes() == page.read_bytes()


@pytest.mark.parametrize(
    "command",
    [
        ("describe", "--columns", "y2018"),
        ("fit", "--target", "y2018"),
        ("card", "--target", "y2018"),
        ("report", "--target", "y2018", "--output", "page.html"),
        ("export", "--format", "csv", "--output", "release.csv"),
    ],
)
def test_nothing_else_is_made_of_it(run: Run, releases: list[Opened], command: tuple[str, ...], tmp_path: Path) -> None:
    name, *options = command
    asked = [str(tmp_path / each) if "." in each else each for each in options]
    refused = run(name, releases[0].folder.path, *asked)
    assert refused.exit_code
    assert "has weights and donors' series for one target" in refused.output
    assert not list(tmp_path.iterdir())
