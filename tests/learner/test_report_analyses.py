"""Saved analyses on the page of a report and in a model card: the documents of `learner analyze`, and no numbers of a file."""

import json
import math
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dprelease
from dprelease.analyses import survival
from dprelease.data.exits import Exits
from dprelease.errors import InvalidInput
from learner.client.library import Opened
from tests.learner.commands import EXIT, Run, runner
from tests.learner.moments import opened
from tests.learner.pages import LEVELS, parsed
from tests.learner.test_report import TAGS, part, words
from tests.learner.world import World
from tests.support.exits import exit_columns
from tests.support.specs import categorical, numeric

LINES = {
    "survival": ("exit", "--by", "ward"),
    "hazards": ("exit", "--on", "ward"),
    "logistic": (f"stage={LEVELS[2]}", "--on", "ward"),
    "effect": ("ward=a", f"stage={LEVELS[1]}", "--adjust", "sex"),
    "missing": (f"stage={LEVELS[0]}", "ward=b"),
}
"""Analyses of a release whose levels are what an attacker would write."""
FIT = ("--target", "glucose", "--features", "ward,sex")


@pytest.fixture(scope="module")
def release(place: Path) -> Opened:
    exits = exit_columns(Exits((0.5, 1.0)), {})
    two = [categorical(name, "a", "b", exhaustive=True, fill="a") for name in ("ward", "sex")]
    columns = {"north": (categorical("stage", *LEVELS), *exits), "south": (numeric("glucose", 2.0, 30.0), *two)}
    return opened(World(place, columns), place, rows=20_000, epsilon=3.0)


@pytest.fixture(scope="module")
def run(release: Opened, place: Path) -> Run:
    return runner(place / "home")


@pytest.fixture(scope="module")
def saved(run: Run, release: Opened, place: Path) -> dict[str, dict[str, Any]]:
    """Name to what is saved of each analysis, in the folder of the test."""
    for name, asked in LINES.items():
        made = run("analyze", name, release.folder.path, *asked, "--output", place / f"{name}.json")
        assert made.exit_code == 0, made.output
    return {name: json.loads((place / f"{name}.json").read_text()) for name in LINES}


def files(place: Path) -> list[Any]:
    return [word for name in LINES for word in ("--analysis", place / f"{name}.json")]


def test_a_page_has_the_documents_of_its_analyses(
    run: Run, release: Opened, place: Path, saved: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    made = run("report", release.folder.path, *files(place), "--output", tmp_path / "page.html", "--json")
    assert made.exit_code == 0, made.output
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    tree, card = parsed(text), json.loads(made.output)
    assert {node.tag for node in tree.iter()} <= TAGS | {"polygon", "polyline"}
    assert [each["title"] for each in saved.values()] == ["".join(node.itertext()) for node in tree.iter("h2")][
        : len(LINES)
    ]
    for number, (name, each) in enumerate(saved.items(), 1):
        said = words(part(tree, f"analysis-{number}"))
        printed = run("analyze", name, release.folder.path, *LINES[name], "--explain").output
        assert [note for note in each["notes"] if note not in said] == []
        for row in (*each["tables"], *each.get("tests", ())):
            assert [row[key] for key in ("table", "name", "law") if key in row and row[key] not in said] == []
        cells = [words(cell) for cell in part(tree, f"analysis-{number}").iter("td")]
        assert [cell for cell in cells if cell not in printed] == []
        told = card["analyses"][number - 1]
        assert told == {"command": told["command"], **{key: each[key] for key in told if key != "command"}}
        assert each.keys() - told.keys() == {"guarantee", "trust"}
    assert (card["fit"], card["findings"]) == (None, [])
    roles = {column["name"]: column["used_as"] for column in card["data"]}
    assert roles == {
        "stage": ["analysis"],
        "exit": ["analysis"],
        "glucose": [],
        "ward": ["analysis"],
        "sex": ["analysis"],
    }
    assert [node.get("id") for node in next(tree.iter("main"))][len(LINES) :] == [
        "caveats",
        "release",
        "again",
        "promises",
    ]


def test_curves_of_survival_are_those_of_the_analysis(
    run: Run, release: Opened, place: Path, saved: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    run("report", release.folder.path, "--analysis", place / "survival.json", "--output", tmp_path / "page.html")
    picture, _ = parsed((tmp_path / "page.html").read_text(encoding="utf-8")).iter("svg")
    found = survival(release.release, "exit", "ward")
    curves = list(picture.iter("polyline"))[: len(found.at_risk)]
    ticks = [node for node in picture.iter("text") if node.get("class") == "tick end"]
    heights = {float(node.text or ""): float(node.get("y", "")) - 4 for node in ticks}
    for drawn, (_, middle, _) in zip(curves, found.panels()["Survival"].values(), strict=True):
        at = [float(each.split(",")[1]) for each in drawn.get("points", "").split()]
        shares = [(heights[0] - y) / (heights[0] - heights[1]) for y in at]
        assert shares == pytest.approx(middle.tolist(), abs=1e-3)


@pytest.mark.parametrize("name", ["survival", "hazards", "logistic"])
def test_ratios_are_drawn_as_they_stand_in_the_table(
    name: str, run: Run, release: Opened, place: Path, saved: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    run("report", release.folder.path, "--analysis", place / f"{name}.json", "--output", tmp_path / "page.html")
    picture = list(parsed((tmp_path / "page.html").read_text(encoding="utf-8")).iter("svg"))[-1]
    numbers = [(node.text, node.get("x")) for node in picture.iter("text") if node.get("class") == "tick middle"]
    (low, start), (high, end) = (
        (math.log(float(text or "")), float(at or "")) for text, at in (numbers[0], numbers[-1])
    )
    drawn = [float(node.get("cx", "")) for node in picture.iter("circle")]
    rows = [row for row in saved[name]["tables"] if row["table"].endswith("ratios")]
    assert rows
    ratios = [math.exp(low + (at - start) * (high - low) / (end - start)) for at in drawn]
    assert ratios == pytest.approx([row["value"]["estimate"] for row in rows], rel=2e-3)
    clear = [not row["value"]["lower"] <= 1 <= row["value"]["upper"] for row in rows]
    assert [node.get("class") == "point clear" for node in picture.iter("circle")] == clear


def test_printed_commands_make_the_page_again_beside_a_fit(
    run: Run,
    release: Opened,
    place: Path,
    saved: dict[str, dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run("report", release.folder.path, *FIT, *files(place), "--output", tmp_path / "first.html").exit_code == 0
    tree = parsed((tmp_path / "first.html").read_text(encoding="utf-8"))
    assert [node.get("id") for node in next(tree.iter("main"))][:2] == ["findings", "coefficients"]
    fetch, *lines = words(next(part(tree, "again").iter("pre"))).splitlines()
    assert fetch.startswith("learner fetch ")
    monkeypatch.chdir(tmp_path)
    for line in lines:
        _, *again = shlex.split(line)
        done = run(*(str(release.folder.path) if each == release.release.digest else each for each in again))
        assert done.exit_code == 0, done.output
    assert (tmp_path / "report.html").read_bytes() == (tmp_path / "first.html").read_bytes()


def test_no_number_of_a_file_gets_into_a_page(
    run: Run, release: Opened, place: Path, saved: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    asked = {key: saved["logistic"][key] for key in ("release", "analysis", "arguments")}
    (tmp_path / "altered.json").write_text(json.dumps({**asked, "title": "<b>cured</b>", "tables": []}))
    pages = [tmp_path / "honest.html", tmp_path / "altered.html"]
    for path, page in zip((place / "logistic.json", tmp_path / "altered.json"), pages, strict=True):
        assert run("report", release.folder.path, "--analysis", path, "--output", page).exit_code == 0
    assert pages[0].read_bytes() == pages[1].read_bytes()


@pytest.mark.parametrize(
    ("altered", "says"),
    [
        ({"release": "ab" * 32}, "is an analysis of release abababababab, and this is release"),
        ({"release": "\x1b[31m"}, "is no analysis; save one: learner analyze ... --output"),
        ({"analysis": "system"}, "is no analysis"),
        ({"arguments": {"outcome": "ward=a", "on": "sex"}}, "is no analysis"),
        ({"arguments": {"outcome": "ward=a", "on": ["sex"], "release": 1}}, "is no analysis"),
        ({"arguments": {"outcome": "ward=a", "on": ["weight"]}}, "not in this release: weight"),
        ({"arguments": {"outcome": "<b>" * 10**5, "on": ["sex"]}}, "[... 300,000 characters ...]"),
        ({"arguments": {"outcome": "\x1b[31m", "on": ["sex"]}}, r"not in this release: \x1b[31m"),
        ({"arguments": {"outcome": "ward=a", "on": [[]] * 10**5}}, "is no analysis"),
        ({"arguments": {"outcome": "ward=a", "on": {"sex": 1}}}, "is no analysis"),
        ({"arguments": []}, "is no analysis"),
        ("[" * 10**6, "is no analysis"),
        ({"padding": " " * 2_000_000}, "is no analysis"),
        (None, "is no analysis"),
    ],
)
def test_what_is_no_analysis_of_the_release_is_refused(
    altered: dict[str, Any] | str | None,
    says: str,
    run: Run,
    release: Opened,
    saved: dict[str, dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "altered.json"
    whole = json.dumps(saved["logistic"] | altered) if isinstance(altered, dict) else altered or "not JSON"
    path.write_text(whole)
    monkeypatch.setattr("learner.cli.kept.LARGEST", 1_500_000)
    refused = run("report", release.folder.path, "--analysis", path, "--output", tmp_path / "page.html")
    assert (refused.exit_code, refused.stdout) == (EXIT["InvalidInput"], "")
    assert refused.stderr.startswith("error: ")
    assert says in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert len(refused.stderr) < 1000
    assert not (tmp_path / "page.html").exists()


def test_python_writes_the_same_page_and_card(
    run: Run, release: Opened, place: Path, saved: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    loaded = dprelease.load(release.folder.path, root=pem(release, tmp_path))
    results = [getattr(loaded.analyze, each["analysis"])(**each["arguments"]) for each in saved.values()]
    fitted = loaded.fit("glucose", ["ward", "sex"])
    for some, options in ((results, ()), ([fitted, *results], FIT)):
        made = run("report", release.folder.path, *options, *files(place), "--output", tmp_path / "cli.html", "--json")
        assert made.exit_code == 0, made.output
        assert loaded.report(*some, output=tmp_path / "python.html") == (tmp_path / "python.html").read_text()
        assert (tmp_path / "python.html").read_bytes() == (tmp_path / "cli.html").read_bytes()
        assert json.loads(json.dumps(loaded.card(*some))) == json.loads(made.output)


def test_python_refuses_results_of_another_release_and_a_second_fit(release: Opened, tmp_path: Path) -> None:
    loaded = dprelease.load(release.folder.path, root=pem(release, tmp_path))
    fitted = loaded.fit("glucose", ["ward"])
    with pytest.raises(InvalidInput, match="takes one fit"):
        loaded.report(fitted, fitted)
    with pytest.raises(InvalidInput, match="takes one fit"):
        loaded.report("glucose")  # type: ignore[arg-type]
    for other in (replace(fitted, release="ab" * 32), replace(fitted, patients=3)):
        with pytest.raises(InvalidInput, match="another release or checkpoint"):
            loaded.card(other)
    with pytest.raises(InvalidInput, match="name at least one target"):
        loaded.report()
    with pytest.raises(InvalidInput, match="that was verified"):
        replace(loaded, verified=None).report(fitted)


def pem(release: Opened, folder: Path) -> Path:
    """The root certificate as a file."""
    path = folder / "root.pem"
    path.write_text(release.consortium.root)
    return path
