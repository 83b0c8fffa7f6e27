"""Pages of a hub in headless Chromium: on a phone and on a wide screen, light and dark, and without a stranger's script.

`make check-pages` installs axe-core, and then this file also asks it what would keep somebody from reading a page.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from dprelease.about import About
from dprelease.release.folder import PAGE, ReleaseFolder
from learner.hub.pages import write_beside, write_list
from learner.hub.storage import Storage
from tests.learner.pages import LEVELS, TITLE, UNIT
from tests.learner.streams import PublishedStream
from tests.learner.world import World, publish_to
from tests.support.browser import CHROMIUM, WANTED, WIDTHS, chromium, measured
from tests.support.specs import categorical, numeric

AXE = os.environ.get("AXE", "")
"""The script of axe-core."""
LONG = tuple(numeric(f"a_long_name_of_a_laboratory_value_{number}", 0.0, 10.0, unit="mmol/l") for number in range(6))
MANY = tuple(f"level {number} of {'x' * 40}" for number in range(6))
COLUMNS = {
    "north": (numeric("age", 0.0, 120.0, unit=UNIT), categorical("stage", *LEVELS, *MANY), *LONG),
    "south": (numeric("glucose", 2.0, 30.0, unit="mmol/l"),),
}
ABOUT = About.model_validate(
    {
        "description": f"A text of two hospitals. {'a_word_without_an_end' * 10}",
        "licence": "LicenseRef-Own-1.0",
        "creators": [{"name": "A. Author", "orcid": "0000-0002-1825-0097"}],
        "budget": 30.0,
    }
)
LARGEST = 300_000
VECTORS = Path(__file__).parents[2] / "docs" / "vectors"

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
    write_beside(folder, folder.verify((VECTORS / "root.pem").read_text()))
    return {"stream": checkpoint.path / PAGE, "in ranges": folder.path / PAGE}


def texts(pages: Mapping[str, Path]) -> dict[str, str]:
    return {name: path.read_text() for name, path in pages.items()}


MEASURE = """
const style = getComputedStyle(document.body);
return {width: innerWidth, needed: document.documentElement.scrollWidth, ground: style.backgroundColor, ink: style.color};
"""


def test_pages_fit_every_screen_in_the_light_and_in_the_dark(pages: Mapping[str, Path], tmp_path: Path) -> None:
    """Nothing is wider than the screen: what is, scrolls within itself."""
    colours = []
    for dark in (False, True):
        folder = tmp_path / str(dark)
        folder.mkdir()
        found = measured(folder, texts(pages), MEASURE, dark=dark)
        assert len(found) == len(pages) * len(WIDTHS)
        for frame, each in found.items():
            assert f"{frame}: {each['needed']}" == f"{frame}: {each['width']}"
            assert frame.endswith(f" {each['width']}")
        (colour,) = {(each["ground"], each["ink"]) for each in found.values()}
        colours.append(colour)
    assert colours == [("rgb(255, 255, 255)", "rgb(28, 36, 48)"), ("rgb(18, 22, 28)", "rgb(229, 233, 238)")]


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
    pages: Mapping[str, Path], more: Mapping[str, Path], tmp_path: Path, dark: bool
) -> None:
    asked = texts({**pages, **more})
    asked["broken"] = asked["all"].replace("</body>", BROKEN)
    found = measured(tmp_path, asked, FINDINGS, dark=dark, sources=[Path(AXE).resolve()])
    broken = [found.pop(f"broken {width}") for width in WIDTHS]
    assert all("image-alt: " in "\n".join(each) for each in broken)
    assert {frame: each for frame, each in found.items() if each} == {}
