"""Pages of a hub and reports in headless Chromium: on phones and wide screens, light and dark, and without a stranger's script.

`make check-pages` installs axe-core, and then this file also asks it what would keep somebody from reading a page. It also keeps
screenshots, in the folder that SCREENSHOTS names.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dprelease.about import About
from dprelease.analyses import Analysis, contingency_table, hazards, logistic, survival
from dprelease.analyses.synthetic import synthesize
from dprelease.data.exits import Exits
from dprelease.release.folder import PAGE, ReleaseFolder
from dprelease.release.release import Release
from dprelease.report import page, reported
from dprelease.report.synthetic_page import synthetic_page
from learner.client.library import open_verified
from learner.client.pinned_roots import TrustStore
from learner.hub.pages import write_beside, write_list
from learner.hub.storage import Storage
from tests.learner.moments import opened
from tests.learner.pages import FEATURES, LEVELS, TARGETS, TITLE, UNIT, hostile, report
from tests.learner.streams import PublishedStream
from tests.learner.world import World, publish_to
from tests.support.browser import CHROMIUM, LAYOUT, WANTED, WIDTHS, chromium, measured, pictured
from tests.support.exits import exit_columns
from tests.support.specs import categorical, numeric
from tests.vectors import LIST, ROOT, VECTORS

AXE = os.environ.get("AXE", "")
"""The script of axe-core."""
LONG = tuple(numeric(f"a_long_name_of_a_laboratory_value_{number}", 0.0, 10.0, unit="mmol/l") for number in range(6))
MANY = tuple(f"level {number} of {'x' * 40}" for number in range(6))
COLUMNS = {
    "north": (numeric("age", 0.0, 120.0, unit=UNIT), categorical("stage", *LEVELS, *MANY), *LONG),
    "south": (numeric("glucose", 2.0, 30.0, unit="mmol/l"),),
}
NAMED = (
    categorical("ward", "a", "b", exhaustive=True, fill="a"),
    categorical("stage", *LEVELS),
    categorical("site", *(f"site {number}" for number in range(45))),
)
EXITS = exit_columns(Exits((0.5, 1.0)), {})
ABOUT = About.model_validate(
    {
        "description": f"A text of two hospitals. {'a_word_without_an_end' * 10}",
        "licence": "LicenseRef-Own-1.0",
        "creators": [{"name": "A. Author", "orcid": "0000-0002-1825-0097"}],
        "budget": 30.0,
    }
)
LARGEST = 300_000
SCREENSHOTS = os.environ.get("SCREENSHOTS", "")
"""A folder for screenshots."""
SMALLEST = 100_000
"""Bytes of a screenshot that shows something."""
NAMES = (
    *("moments", "mixed", "ranges", "all", "stream", "in ranges"),
    *("fit", "fit of an attacker", "distributions", "counterfactual", "made-up rows", "analyses"),
)
"""All pages."""

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=WANTED)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Path]]:
    """Mechanism to the page of its release, and the page of all; names, units and levels are an attacker's."""
    world = World(tmp_path_factory.mktemp("world"), COLUMNS)
    with closing(Storage(tmp_path_factory.mktemp("hub"), 1 << 30)) as storage:
        found = {}
        for mechanism, title, about in (
            ("moments", TITLE, ABOUT),
            ("mixed", "x" * 200, ABOUT),
            ("ranges", "ranges", None),
        ):
            sealed = world.sealed(title, mechanism=mechanism, rows=400, about=about)
            found[mechanism] = publish_to(storage, world, sealed).path / PAGE
        write_list(storage)
        yield {**found, "all": found["ranges"].parent.parent / PAGE}


@pytest.fixture(scope="module")
def more(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Pages of a stream's second checkpoint and of moments in ranges."""
    world = World(tmp_path_factory.mktemp("stream"), COLUMNS)
    with closing(Storage(tmp_path_factory.mktemp("streams"), 1 << 30)) as storage:
        stream = PublishedStream(world)
        checkpoint = [stream.publish(storage) for _ in range(2)][-1]
    folder = ReleaseFolder(tmp_path_factory.mktemp("vector") / "release")
    shutil.copytree(VECTORS / "good" / "moments-unknown-bounds", folder.path)
    write_beside(folder, folder.verify((VECTORS / ROOT).read_text()))
    return {"stream": checkpoint.path / PAGE, "in ranges": folder.path / PAGE}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """What a learner writes of test vectors, and of a release whose names are an attacker's."""
    trust = TrustStore(tmp_path_factory.mktemp("home"))
    trust.add(json.loads((VECTORS / LIST).read_text())["consortium"], (VECTORS / ROOT).read_text(), "h:1")
    fitted, ranges, panel = (
        open_verified(ReleaseFolder(VECTORS / "good" / name), trust)
        for name in ("moments-ranges-first", "ranges", "synthetic-control")
    )
    attacked, place = hostile(tmp_path_factory.mktemp("hostile")), tmp_path_factory.mktemp("exits")
    many = opened(World(place, {"south": COLUMNS["south"], "north": (*NAMED, *EXITS)}), place, rows=20_000, epsilon=3.0)
    return {
        "fit": page(report(fitted, ["systolic"])),
        "fit of an attacker": page(report(attacked, TARGETS, FEATURES)),
        "distributions": page(reported(ranges.release, ())),
        "counterfactual": page(reported(panel.release, ())),
        "analyses": page(reported(many.release, _analyses(many.release))),
        "made-up rows": synthetic_page(attacked.release, synthesize(attacked.release, 100), "learner synthesize"),
    }


def _analyses(release: Release) -> list[Analysis]:
    """Curves of survival, ratios on logarithmic axes and tables; one of them has more ratios than a plot."""
    return [
        survival(release, "exit", "ward"),
        hazards(release, "exit", ["ward", "stage"]),
        logistic(release, "ward=b", ["stage", "site"]),
        contingency_table(release, "ward", "stage"),
    ]


def texts(pages: Mapping[str, Path]) -> dict[str, str]:
    return {name: path.read_text() for name, path in pages.items()}


MEASURE = """
const style = getComputedStyle(document.body), whole = document.documentElement;
return {needed: whole.scrollWidth, high: whole.scrollHeight, ground: style.backgroundColor, ink: style.color, faults: layout()};
"""


@pytest.fixture(scope="module")
def every(pages: Mapping[str, Path], more: Mapping[str, Path], reports: Mapping[str, str]) -> Mapping[str, str]:
    """All pages by name."""
    return {**texts({**pages, **more}), **reports}


@pytest.fixture(scope="module", params=[False, True], ids=["light", "dark"])
def seen(
    request: pytest.FixtureRequest, every: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[bool, Mapping[str, Any]]:
    """Whether the reader prefers dark pages, and what is measured on all of them."""
    folder = tmp_path_factory.mktemp("measured")
    return request.param, measured(folder, every, MEASURE, dark=request.param, sources=[LAYOUT])


def test_pages_are_legible_on_every_screen(seen: tuple[bool, Mapping[str, Any]], every: Mapping[str, str]) -> None:
    """Nothing is wider than the screen but what scrolls within itself, and nothing is cut, pale or upon something else."""
    dark, found = seen
    faults = "\n".join(f"{frame}: {fault}" for frame, each in found.items() for fault in each["faults"])
    assert not faults, faults
    wanted = {f"{name} {width}": width for name in every for width in WIDTHS}
    assert {frame: each["needed"] for frame, each in found.items()} == wanted
    colours = ("rgb(18, 22, 28)", "rgb(229, 233, 238)") if dark else ("rgb(255, 255, 255)", "rgb(28, 36, 48)")
    assert {(each["ground"], each["ink"]) for each in found.values()} == {colours}


@pytest.mark.skipif(not SCREENSHOTS, reason="run by `make check-pages`, which keeps screenshots")
@pytest.mark.parametrize("name", NAMES)
def test_screenshots_are_kept(seen: tuple[bool, Mapping[str, Any]], every: Mapping[str, str], name: str) -> None:
    """One for each page, with all widths beside one another."""
    assert every.keys() == set(NAMES)
    dark, found = seen
    heights = [found[f"{name} {width}"]["high"] for width in WIDTHS]
    assert pictured(Path(SCREENSHOTS).resolve(), name, every[name], heights, dark=dark).stat().st_size > SMALLEST


def test_the_longest_names_and_units_are_legible(tmp_path: Path) -> None:
    longest = "p" * 63
    north, south = (numeric(longest, 0.0, 1.0), numeric("age")), (numeric("glucose", 2.0, 30.0, unit="W" * 30),)
    world = World(tmp_path, {"north": north, "south": south})
    with closing(Storage(tmp_path / "hub", 1 << 30)) as storage:
        sealed = world.sealed(mechanism="moments", rows=400)
        made = {"moments": publish_to(storage, world, sealed).path / PAGE}
    fitted = report(opened(world, tmp_path / "learner"), ["glucose", longest])
    for frame, found in measured(
        tmp_path, {**texts(made), "fit": page(fitted)}, "return layout();", sources=[LAYOUT]
    ).items():
        assert found == [], (frame, *found)


SPOILT = """
const late = document.createElement("p"), dot = document.querySelector(".point"), said = document.querySelector("svg .tick");
late.textContent = "late".repeat(400);
late.style = "white-space: nowrap; overflow: hidden; margin-top: -2em; color: #999999; background: #888888";
document.querySelector("main > section > p").after(late);
dot.setAttribute("cx", -3);
said.setAttribute("x", -3);
return layout();
"""


def test_a_page_that_is_not_legible_is_found(reports: Mapping[str, str], tmp_path: Path) -> None:
    """Planted: a box that cuts what is in it, upon the text before it and too pale; a mark and a number beside their plot."""
    for frame, found in measured(tmp_path, {"fit": reports["fit"]}, SPOILT, sources=[LAYOUT]).items():
        told = "\n".join(found)
        for fault in (
            "wider than its box",
            'lies on "late',
            "has a contrast of 1.2",
            "is outside of every frame",
            "is cut",
        ):
            assert fault in told, f"{frame}: {fault}: {told}"


PLANTED = """<script>document.documentElement.dataset.ran = "1"</script><p style="color: red">red</p>
<img src="data:," onerror="document.documentElement.dataset.ran = '2'"/></body>"""


def test_a_page_says_nothing_to_the_console_and_no_planted_script_runs(
    pages: Mapping[str, Path], tmp_path: Path
) -> None:
    for name in ("moments", "all"):
        path, folder = pages[name], tmp_path / name
        folder.mkdir()
        copy = folder / PAGE
        text = path.read_text()
        assert len(text) < LARGEST
        copy.write_text(text)
        opened = chromium(copy)
        assert opened.console == ()
        assert "<h1>" in opened.elements
    assert 'class="limit"' in text  # the last one pictures the budget
    assert MANY[2] not in pages["ranges"].read_text().partition("<main>")[2].replace(f"stage={MANY[2]}", "")
    copy.write_text(text.replace("</body>", PLANTED))
    opened = chromium(copy)
    assert 'data-ran="' not in opened.elements
    refused = "\n".join(opened.console)
    assert all(each in refused for each in ("script-src", "style-src", "img-src"))
    copy.write_text(text.replace("</body>", PLANTED).replace("Content-Security-Policy", "x"))
    assert 'data-ran="' in chromium(copy).elements


FINDINGS = """
const found = await axe.run(document);
return found.violations.concat(found.incomplete.filter(each => each.id !== "color-contrast")).map(
  each => `${each.id}: ${each.help}: ${each.nodes[0].html.slice(0, 300)}`);
"""
BROKEN = '<p style="color: #cccccc">hardly to be seen</p><p><img src="x"/></p></body>'


@pytest.mark.skipif(not AXE, reason="run by `make check-pages`, which installs axe-core")
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_that_keeps_somebody_from_reading(
    every: Mapping[str, str], tmp_path: Path, dark: bool
) -> None:
    asked = dict(every)
    asked["broken"] = asked["all"].replace("</body>", BROKEN)
    found = measured(tmp_path, asked, FINDINGS, dark=dark, sources=[Path(AXE).resolve()])
    broken = [found.pop(f"broken {width}") for width in WIDTHS]
    assert all("image-alt: " in "\n".join(each) for each in broken)
    assert {frame: each for frame, each in found.items() if each} == {}
